//! The particularity of DNS at `DigitalOcean`: one call per change.

use super::dns_support::{WWW, changes, create, delete, digitalocean, update};
use super::server::{Server, json};
use super::{Calls, Leadership, account, client, config};
use flipop::permit::PermitEnded;
use flipop::provider::digitalocean::DigitalOcean;
use flipop::provider::dns::{DnsProvider, Unfinished};
use flipop::provider::observe::Call;
use flipop::provider::{Account as _, CallContext, CallError};
use flipop_cloud::{Fault, Injection, Op, RecordView, Refusal, Target};
use flipop_core::model::FaultKind;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn requests_are_as_the_api_documents_them() {
    let server = Server::start(|request| {
        if request.line.starts_with("GET") {
            return json(200, r#"{"domain_records": [], "links": {}, "meta": {"total": 0}}"#);
        }
        if request.line.starts_with("DELETE") {
            return json(204, "");
        }
        json(
            201,
            r#"{"domain_record": {"id": 7, "type": "A", "name": "www", "data": "192.0.2.1", "ttl": 60}}"#,
        )
    })
    .await;
    let (client, context, leadership) = (client(&server.url()), account(), Leadership::held());
    let zone = client.find_zone(&context, "example.com").await.unwrap();
    assert_eq!(client.read_records(&context, &zone, WWW).await, Ok(Vec::new()));
    let set = changes([update("5", "192.0.2.1"), create("192.0.2.1"), delete("6")]);
    client.apply(&context, &leadership.permit, &zone, WWW, &set).await.unwrap();
    let apex = changes([create("192.0.2.1")]);
    client.apply(&context, &leadership.permit, &zone, "example.com", &apex).await.unwrap();
    let lines: Vec<(String, String)> = server.received().into_iter().map(|r| (r.line, r.body)).collect();
    let body = r#"{"data":"192.0.2.1","name":"www","ttl":60,"type":"A"}"#;
    let expected = [
        ("GET /v2/domains/example.com/records?name=www.example.com&per_page=200&page=1 HTTP/1.1", ""),
        ("PUT /v2/domains/example.com/records/5 HTTP/1.1", body),
        ("POST /v2/domains/example.com/records HTTP/1.1", body),
        ("DELETE /v2/domains/example.com/records/6 HTTP/1.1", ""),
        (
            "POST /v2/domains/example.com/records HTTP/1.1",
            r#"{"data":"192.0.2.1","name":"@","ttl":60,"type":"A"}"#,
        ),
    ];
    assert_eq!(lines, expected.map(|(line, body)| (line.to_owned(), body.to_owned())));
    let delete = server.received().into_iter().find(|request| request.line.starts_with("DELETE")).unwrap();
    assert_eq!((delete.header("content-length"), delete.header("transfer-encoding")), (None, None));
}

/// The result of reading a name whose list has these records on these pages, each with its total, and the number of
/// requests.
async fn listed(pages: Vec<(Vec<u8>, u64)>) -> (Result<usize, FaultKind>, usize) {
    let server = Server::start(move |request| {
        let number: usize = request.query("page").unwrap().parse().unwrap();
        let (records, total) = &pages[number - 1];
        let record = |n: &u8| format!(r#"{{"id": {n}, "type": "A", "name": "www", "data": "192.0.2.{n}"}}"#);
        let records: Vec<String> = records.iter().map(record).collect();
        let next = if number < pages.len() { format!("?page={}", number + 1) } else { String::new() };
        let (records, links) = (records.join(","), format!(r#"{{"pages": {{"next": "{next}"}}}}"#));
        json(
            200,
            &format!(r#"{{"domain_records": [{records}], "links": {links}, "meta": {{"total": {total}}}}}"#),
        )
    })
    .await;
    let client = client(&server.url());
    let zone = client.find_zone(&account(), "example.com").await.unwrap();
    let read = client.read_records(&account(), &zone, WWW).await;
    (read.map(|records| records.len()).map_err(|fault| fault.kind), server.received().len())
}

#[tokio::test]
async fn a_name_is_read_whole_whether_totals_count_its_records_or_those_of_the_zone() {
    let changes = (Err(FaultKind::Transient), 6);
    for (pages, expected) in [
        (vec![(vec![1, 2], 2)], (Ok(2), 1)),
        (vec![(vec![1, 2], 17)], (Ok(2), 1)),
        (vec![(vec![], 17)], (Ok(0), 1)),
        (vec![(vec![1, 2], 3), (vec![3], 3)], (Ok(3), 2)),
        (vec![(vec![1, 2], 17), (vec![3], 17)], (Ok(3), 2)),
        // A change during the read shows in a total, or as a record on two pages.
        (vec![(vec![1, 2], 17), (vec![3], 16)], changes),
        (vec![(vec![1, 2], 17), (vec![2, 3], 17)], changes),
    ] {
        let about = format!("{pages:?}");
        assert_eq!(listed(pages).await, expected, "{about}");
    }
}

#[tokio::test]
async fn the_first_failure_ends_it_and_says_how_far_it_came() {
    let world = digitalocean(&["*"]).await;
    let (a, b) = (world.add("192.0.2.1"), world.add("192.0.2.2"));
    let set = changes([update(&a, "192.0.2.3"), create("192.0.2.4"), create("192.0.2.5"), delete(&b)]);
    let second = Target::op(Op::CreateRecord).containing("192.0.2.5");
    let _id = world.cloud().inject(Injection::once(second, Fault::status(422)));
    let (done, fault) = world.apply_fault(&set).await;
    assert_eq!((done, fault.kind, fault.outcome_unknown), (2, FaultKind::Invalid, false));
    assert_eq!(world.addresses(), ["192.0.2.2", "192.0.2.3", "192.0.2.4"], "nothing after it was tried");
}

#[tokio::test]
async fn a_record_with_the_zone_doubled_is_of_another_name() {
    let world = digitalocean(&["*"]).await;
    world.add_record(&RecordView::new("www.example.com.example.com", "A", "192.0.2.1", 60));
    assert_eq!(world.read().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_token_without_the_scopes_is_told_which() {
    let world = digitalocean(&["domain:read"]).await;
    world.add("192.0.2.1");
    assert_eq!(world.read().await.unwrap().len(), 1);
    let (_, fault) = world.apply_fault(&changes([create("192.0.2.2")])).await;
    assert_eq!(fault.kind, FaultKind::Unauthorized);
    let scopes = "DNS needs the scopes domain:read, domain:create, domain:update and domain:delete";
    assert!(fault.message.contains(scopes), "{fault}");
    let world = digitalocean(&["reserved_ip:*"]).await;
    let fault = world.read().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unauthorized);
    assert!(fault.message.contains("domain:read"), "{fault}");
}

#[tokio::test]
async fn a_record_that_is_not_accepted_for_another_reason_is_told_with_its_fields() {
    let world = digitalocean(&["*"]).await;
    world.next(Op::CreateRecord, Fault::Refuse(Refusal::Status(422, "Name is odd.".to_owned())));
    let (_, fault) = world.apply_fault(&changes([create("192.0.2.1")])).await;
    assert_eq!(fault.kind, FaultKind::Invalid);
    assert!(
        fault.message.contains("www.example.com is not accepted: check dnsRecordSet.recordName and ttl"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_deletion_whose_permit_ends_while_the_connection_comes_up_is_not_sent() {
    // Accepts TCP, but never answers the TLS handshake.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let leadership = Leadership::held();
    let (client, context) = (client(&format!("https://{}", listener.local_addr().unwrap())), account());
    let (zone, set) = (client.find_zone(&context, "example.com").await.unwrap(), changes([delete("1")]));
    let call = client.apply(&context, &leadership.permit, &zone, WWW, &set);
    let ending = async {
        let connection = listener.accept().await.unwrap();
        leadership.source.revoke();
        connection
    };
    let (result, _connection) = tokio::join!(call, ending);
    assert_eq!(result, Err(Unfinished { done: 0, cause: CallError::NotSent(PermitEnded) }));
}

#[tokio::test]
async fn a_deletion_in_flight_ends_with_its_permit_and_its_outcome_is_unknown() {
    let server = Server::start(|_| super::server::Reply::Hang).await;
    let leadership = Leadership::held();
    let (client, context) = (client(&server.url()), account());
    let (zone, set) = (client.find_zone(&context, "example.com").await.unwrap(), changes([delete("1")]));
    let call = client.apply(&context, &leadership.permit, &zone, WWW, &set);
    let ending = async {
        server.has_received(1).await;
        leadership.source.revoke();
    };
    let (result, ()) = tokio::join!(call, ending);
    let Err(Unfinished { done: 0, cause: CallError::Fault(fault) }) = result else { panic!("{result:?}") };
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Transient, true));
}

#[tokio::test]
async fn a_round_is_one_operation_and_its_reading_another() {
    let world = digitalocean(&["*"]).await;
    let calls = Arc::new(Calls::default());
    let mut config = config(&world.server.digitalocean_url());
    config.observer = Arc::<Calls>::clone(&calls);
    let client = DigitalOcean::new(config).unwrap();
    let context = CallContext::object("NodeDNSRecordSet", "prod", "web");
    let set = changes([create("192.0.2.1"), create("192.0.2.2")]);
    let round = async {
        let zone = client.find_zone(&context, "example.com").await?;
        client.read_records(&context, &zone, WWW).await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let applied = client.apply(&context, &world.leadership.permit, &zone, WWW, &set).await;
        applied.map_err(|unfinished| unfinished.cause)
    };
    client.api().operation(Call::EnsureDnsARecordSet, &context, round).await.unwrap();
    let expected = [
        "digitalocean ListRecords success [NodeDNSRecordSet|prod|web]",
        "digitalocean EnsureDNSARecordSet success [NodeDNSRecordSet|prod|web]",
    ];
    assert_eq!(*calls.0.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_round_that_is_refused_counts_as_an_error_and_one_that_is_not_sent_as_nothing() {
    let world = digitalocean(&["*"]).await;
    let calls = Arc::new(Calls::default());
    let mut config = config(&world.server.digitalocean_url());
    config.observer = Arc::<Calls>::clone(&calls);
    let client = DigitalOcean::new(config).unwrap();
    let context = CallContext::object("NodeDNSRecordSet", "prod", "web");
    let round = || {
        let work = async { world.apply(&changes([create("192.0.2.1")])).await };
        client.api().operation(Call::EnsureDnsARecordSet, &context, work)
    };
    world.next(Op::CreateRecord, Fault::Refuse(Refusal::Forbidden));
    round().await.unwrap_err();
    world.leadership.source.revoke();
    round().await.unwrap_err();
    assert_eq!(
        *calls.0.lock().unwrap(),
        ["digitalocean EnsureDNSARecordSet error [NodeDNSRecordSet|prod|web]"]
    );
}

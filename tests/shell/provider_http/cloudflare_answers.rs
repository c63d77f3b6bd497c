//! How Cloudflare's refusals and senseless answers are interpreted, and what is sent next.

use super::dns_support::{WWW, ZONE, address, changes, cloudflare, create, delete};
use super::server::{Server, answer, json};
use super::{account, config};
use flipop::clock::Clock;
use flipop::provider::Account;
use flipop::provider::cloudflare::Cloudflare;
use flipop::provider::dns::DnsProvider;
use flipop_cloud::{Fault, Op, Plan};
use flipop_core::model::FaultKind;
use flipop_core::records::dns::{ChangeSet, Zone};

/// A code alone, or the status alone, can mean "too many requests". Code 0 means nothing.
#[tokio::test]
async fn a_code_or_a_status_tells_what_a_refusal_is_and_what_to_mend() {
    let table = [
        (429, "0", FaultKind::Throttled, "cloudflare answered 429: no"),
        (400, "971", FaultKind::Throttled, "cloudflare answered 400 (971): no"),
        (403, "10429", FaultKind::Throttled, "cloudflare answered 403 (10429): no"),
        (401, "10000", FaultKind::Unauthorized, "the token is refused: set CLOUDFLARE_TOKEN"),
        (403, "10000", FaultKind::Unauthorized, "the token may not do this"),
        (400, "9999", FaultKind::Invalid, "cloudflare answered 400 (9999): no"),
        (
            400,
            "9003",
            FaultKind::Invalid,
            "the record is proxied, which Cloudflare refuses for it: turn proxying off",
        ),
        (302, "0", FaultKind::Permanent, "FLIPOP does not follow redirects: check the API URL"),
        (405, "0", FaultKind::Permanent, "cloudflare answered 405: no"),
    ];
    for (status, code, kind, said) in table {
        let body = format!(r#"{{"success": false, "errors": [{{"code": {code}, "message": "no"}}]}}"#);
        let server = Server::start(move |_| json(status, &body)).await;
        let client = Cloudflare::new(config(&server.url())).unwrap();
        let fault = client.find_zone(&account(), ZONE).await.unwrap_err();
        assert_eq!(fault.kind, kind, "{status} {code}: {fault}");
        assert!(fault.message.starts_with(said), "{status} {code}: {fault}");
    }
}

#[tokio::test]
async fn a_filter_of_addresses_is_named_with_the_address_that_cloudflare_saw() {
    const ID: &str = "023e105f4ecef8ad9ca31a8372d0c353";
    for seen in ["203.0.113.7", "2001:db8::7"] {
        let body = format!(
            r#"{{"success": false, "errors": [{{"code": 9109,
               "message": "Cannot use the access token from location: {seen}"}}]}}"#
        );
        let server = Server::start(move |_| json(403, &body)).await;
        let client = Cloudflare::new(config(&server.url())).unwrap();
        let zone = Zone { id: ID.to_owned(), name: Some(ZONE.to_owned()), shown: None, ttl_floor: 30 };
        for fault in [
            client.find_zone(&account(), ID).await.unwrap_err(),
            client.find_zone(&account(), ZONE).await.unwrap_err(),
            client.read_records(&account(), &zone, WWW).await.unwrap_err(),
        ] {
            assert_eq!(fault.kind, FaultKind::Unauthorized, "{fault}");
            assert!(
                fault
                    .message
                    .starts_with(&format!("the token's filter of client IP addresses refuses {seen}:"))
            );
            assert!(!fault.message.contains("CLOUDFLARE_TOKEN"), "{fault}");
        }
    }
}

/// With any status: the whole token is blocked, and a given time counts.
#[tokio::test]
async fn a_refusal_for_excess_that_only_a_code_tells_blocks_the_token_as_a_429_does() {
    let asked = Some(("retry-after", "20"));
    let (none_left, some_left) =
        (Some(("ratelimit", "\"default\";r=0")), Some(("ratelimit", "\"default\";r=9")));
    let table = [
        (429, 0, None, Some(300_000)),
        // Nothing is left, and there is no time for the reset.
        (429, 0, none_left, Some(300_000)),
        (429, 0, some_left, Some(1_000)),
        (403, 10_429, None, Some(300_000)),
        (400, 971, None, Some(300_000)),
        (400, 971, asked, Some(20_000)),
        (403, 10_000, None, None),
        (503, 971, None, None),
    ];
    for (status, code, header, blocked_ms) in table {
        let body = format!(r#"{{"success": false, "errors": [{{"code": {code}, "message": "no"}}]}}"#);
        let server = Server::start(move |_| answer(status, header.as_slice(), &body)).await;
        let client = Cloudflare::new(config(&server.url())).unwrap();
        let before = Clock::system().now();
        let fault = client.find_zone(&account(), ZONE).await.unwrap_err();
        let after = Clock::system().now();
        let end = client.api().rate().borrow().blocked_until;
        assert_eq!(end.is_some(), blocked_ms.is_some(), "{status} {code}");
        if let (Some(end), Some(ms)) = (end, blocked_ms) {
            assert!(
                end >= before.plus_millis(ms) && end <= after.plus_millis(ms),
                "{status} {code}: {end:?}"
            );
            assert_eq!(fault.retry_after_ms, (header == asked).then_some(ms), "{status} {code}");
        }
    }
}

/// Another record than the one to delete is no reason to repeat the deletion. It would be refused, and with it the rest
/// of the batch.
#[tokio::test]
async fn of_a_batch_that_was_held_up_a_deletion_that_is_true_already_is_not_sent_again() {
    let world = cloudflare(&["*"], Plan::Free).await;
    world.add("192.0.2.1");
    let exists = br#"{"success": false, "errors": [{"code": 81058, "message": "It exists already."}]}"#;
    world.next(Op::BatchRecords, Fault::Answer { status: 400, headers: Vec::new(), body: exists.to_vec() });
    let wanted = changes([create("192.0.2.1"), create("192.0.2.2"), delete("gone")]);
    let applied = world.apply(&ChangeSet { survivor: true, ..wanted }).await.unwrap();
    assert_eq!((applied.done, world.addresses()), (3, vec!["192.0.2.1".to_owned(), "192.0.2.2".to_owned()]));
    assert!(applied.records.iter().any(|record| record.address() == Some(address("192.0.2.2").into())));
    assert!(!world.calls(Op::BatchRecords)[1].body.contains("gone"));
}

#[tokio::test]
async fn a_page_that_says_to_have_no_room_for_records_is_read_once() {
    let body = r#"{"success": true, "result_info": {"per_page": 0, "total_count": 4711, "page": 1}, "result": [
        {"id": "1", "type": "A", "name": "www.example.com", "content": "192.0.2.1", "ttl": 60}]}"#;
    let server = Server::start(|_| json(200, body)).await;
    let client = Cloudflare::new(config(&server.url())).unwrap();
    let zone = Zone { id: "1".to_owned(), name: None, shown: None, ttl_floor: 60 };
    let records = client.read_records(&account(), &zone, WWW).await.unwrap();
    assert_eq!((records.len(), server.received().len()), (1, 1));
}

/// The lowest TTL of a plan: <https://developers.cloudflare.com/dns/manage-dns-records/reference/ttl/>.
#[tokio::test]
async fn only_a_zone_of_the_enterprise_plan_has_the_lower_floor_of_ttls() {
    for (plan, floor_s) in [(Plan::Free, 60), (Plan::Enterprise, 30)] {
        assert_eq!(cloudflare(&["*"], plan).await.zone.ttl_floor, floor_s);
    }
}

#[tokio::test]
async fn the_name_of_a_zone_that_showed_is_remembered_beside_that_of_another() {
    let world = cloudflare(&["dns:edit"], Plan::Free).await;
    let other = world.cloud().add_zone("example.net", Plan::Free);
    let other = world.client.find_zone(&account(), &other).await.unwrap();
    for zone in [&world.zone, &other] {
        let (permit, set) = (&world.leadership.permit, changes([create("192.0.2.1")]));
        world.client.apply(&account(), permit, zone, "www.example.org", &set).await.unwrap_err();
    }
    for (zone, name) in [(&world.zone, ZONE), (&other, "example.net")] {
        assert_eq!(world.client.find_zone(&account(), &zone.id).await.unwrap().shown.as_deref(), Some(name));
    }
}

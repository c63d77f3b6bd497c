//! Refusals from other sources than the API: pages of an edge, a filter or a proxy.

use super::dns_support::{WWW, ZONE, changes, create};
use super::server::{Server, answer};
use super::{Leadership, account, client, config, ip};
use flipop::provider::cloudflare::Cloudflare;
use flipop::provider::digitalocean::droplet;
use flipop::provider::dns::DnsProvider;
use flipop::provider::{CallError, FirewallProvider, IpProvider};
use flipop_core::model::{ActionId, Fault, FaultKind};
use flipop_core::records::dns::Zone;

const PAGE: &str = "<!DOCTYPE html><html><head><title>Access denied</title></head><body><h1>One more step</h1>\
                    <p>Please complete the security check to access this site.</p></body></html>";

/// Its sender, as a content type, and a body with its words.
const REFUSALS: [(&str, &str, &str); 3] = [
    ("text/html; charset=UTF-8", PAGE, "Access denied One more step Please complete"),
    ("application/json", r#"{"error": "blocked"}"#, r#"{"error": "blocked"}"#),
    ("text/plain", "", "may have sent it"),
];

async fn edge(kind: &'static str, body: &'static str) -> Server {
    Server::start(move |_| answer(403, &[("content-type", kind)], body)).await
}

fn check(fault: &Fault, writes: bool) {
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Permanent, writes), "{fault}");
    let said = |(kind, _, words): &(&str, &str, &str)| {
        ["403", kind, "not in the API's format", words].iter().all(|said| fault.message.contains(said))
    };
    assert!(REFUSALS.iter().any(said), "{fault}");
    for unsaid in ["scope", "token", "permission", "<"] {
        assert!(!fault.message.contains(unsaid), "{unsaid}: {fault}");
    }
}

fn check_write<T: std::fmt::Debug>(result: Result<T, CallError>) {
    match result {
        Err(CallError::Fault(fault)) => check(&fault, true),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_of_an_edge_says_nothing_of_the_token_and_leaves_open_what_became_of_an_address() {
    for (kind, body, _) in REFUSALS {
        let server = edge(kind, body).await;
        let (client, leadership) = (client(&server.url()), Leadership::held());
        let (context, ip, permit) = (account(), ip("45.55.0.1"), &leadership.permit);
        check(&client.list_reserved_ips(&context).await.unwrap_err(), false);
        check(&client.get_reserved_ip(&context, ip.into()).await.unwrap_err(), false);
        check(&client.get_action(&context, ip.into(), ActionId(1)).await.unwrap_err(), false);
        // A 403 from the API itself would mean that the scope is missing.
        check(&client.prove_machine_read(&context).await.unwrap_err(), false);
        check(&client.look(&context, true).await.unwrap_err(), false);
        check_write(client.create_reserved_ip(&context, permit, "nyc3").await);
        check_write(client.assign(&context, permit, ip.into(), droplet(1)).await);
        check_write(client.unassign(&context, permit, ip.into()).await);
    }
}

#[tokio::test]
async fn a_page_of_an_edge_says_nothing_of_the_token_and_leaves_open_what_became_of_records() {
    for (kind, body, _) in REFUSALS {
        let server = edge(kind, body).await;
        records(&server).await;
    }
}

async fn records(server: &Server) {
    let clients: [Box<dyn DnsProvider>; 2] =
        [Box::new(client(&server.url())), Box::new(Cloudflare::new(config(&server.url())).unwrap())];
    let ids = ["example.com", "023e105f4ecef8ad9ca31a8372d0c353"];
    for (client, id) in clients.iter().zip(ids) {
        let leadership = Leadership::held();
        let zone = Zone { id: id.to_owned(), name: Some(ZONE.to_owned()), shown: None, ttl_floor: 30 };
        // DigitalOcean's zones are found without a call.
        if id != ZONE {
            check(&client.find_zone(&account(), id).await.unwrap_err(), false);
        }
        check(&client.read_records(&account(), &zone, WWW).await.unwrap_err(), false);
        let set = changes([create("192.0.2.1")]);
        let unfinished = client.apply(&account(), &leadership.permit, &zone, WWW, &set).await.unwrap_err();
        check_write::<()>(Err(unfinished.cause));
    }
}

//! Nothing is written without a permit.

use super::server::{Reply, Server, json};
use super::{Leadership, account, client, ip};
use flipop::permit::PermitEnded;
use flipop::provider::digitalocean::droplet;
use flipop::provider::{CallError, IpProvider};
use flipop_core::model::FaultKind;
use std::time::{Duration, Instant};

#[tokio::test]
async fn without_a_permit_no_connection_is_made() {
    let server = Server::start(|_| json(201, "{}")).await;
    let leadership = Leadership::held();
    leadership.source.revoke();
    let (client, context, permit) = (client(&server.url()), account(), &leadership.permit);
    let not_sent = CallError::NotSent(PermitEnded);
    assert_eq!(client.create_reserved_ip(&context, permit, "nyc3").await, Err(not_sent.clone()));
    assert_eq!(
        client.assign(&context, permit, ip("45.55.0.1").into(), droplet(1)).await,
        Err(not_sent.clone())
    );
    assert_eq!(client.unassign(&context, permit, ip("45.55.0.1").into()).await, Err(not_sent));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_call_in_flight_ends_with_its_permit_and_its_outcome_is_unknown() {
    let server = Server::start(|_| Reply::Hang).await;
    let leadership = Leadership::held();
    let (client, context) = (client(&server.url()), account());
    let call = client.assign(&context, &leadership.permit, ip("45.55.0.1").into(), droplet(1));
    let ending = async {
        server.has_received(1).await;
        leadership.source.revoke();
        Instant::now()
    };
    let (result, ended_at) = tokio::join!(call, ending);
    assert!(ended_at.elapsed() < Duration::from_secs(1), "{:?}", ended_at.elapsed());
    let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Transient, true));
}

#[tokio::test]
async fn reads_need_no_permit() {
    let server = Server::start(|_| json(200, r#"{"reserved_ips": [], "meta": {"total": 0}}"#)).await;
    let leadership = Leadership::held();
    leadership.source.revoke();
    assert!(client(&server.url()).list_reserved_ips(&account()).await.is_ok());
}

#[tokio::test]
async fn a_permit_that_ends_while_the_connection_comes_up_leaves_nothing_unknown() {
    // Accepts TCP, but never answers the TLS handshake.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let leadership = Leadership::held();
    let (client, context) = (client(&format!("https://{}", listener.local_addr().unwrap())), account());
    let call = client.create_reserved_ip(&context, &leadership.permit, "nyc3");
    let ending = async {
        let connection = listener.accept().await.unwrap();
        leadership.source.revoke();
        connection
    };
    let (result, _connection) = tokio::join!(call, ending);
    assert_eq!(result, Err(CallError::NotSent(PermitEnded)));
}

//! Mutating calls: what was sent, and what is known of the outcome.

use super::server::{Reply, Server, answer, closed_port, json};
use super::{Leadership, account, client, ip};
use flipop::provider::digitalocean::droplet;
use flipop::provider::{Action, ActionStatus, CallError, IpProvider};
use flipop_core::model::{ActionId, Fault, FaultKind};
use std::time::{Duration, Instant};

/// The fault of an assignment with this answer, after exactly one request.
async fn assign_fault(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Fault {
    let server = Server::start(move |_| reply()).await;
    let leadership = Leadership::held();
    let result = client(&server.url())
        .assign(&account(), &leadership.permit, ip("45.55.0.1").into(), droplet(7))
        .await;
    assert_eq!(server.received().len(), 1, "a change is never sent twice: {result:?}");
    match result {
        Err(CallError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn changes_are_posted_as_the_api_documents_them() {
    let server = Server::start(|request| {
        if request.line.starts_with("POST /v2/reserved_ips HTTP") {
            return json(202, r#"{"reserved_ip": {"ip": "45.55.0.9", "region": null}, "links": {}}"#);
        }
        json(201, r#"{"action": {"id": 68212728, "status": "in-progress", "type": "assign_ip", "completed_at": null}}"#)
    })
    .await;
    let (client, context, leadership) = (client(&server.url()), account(), Leadership::held());
    let permit = &leadership.permit;
    let begun = Action { id: ActionId(68_212_728), status: ActionStatus::InProgress };
    assert_eq!(client.assign(&context, permit, ip("45.55.0.1").into(), droplet(7)).await, Ok(begun));
    assert_eq!(client.unassign(&context, permit, ip("45.55.0.1").into()).await, Ok(begun));
    assert_eq!(client.create_reserved_ip(&context, permit, "nyc3").await, Ok(ip("45.55.0.9").into()));
    assert_eq!(client.get_action(&context, ip("45.55.0.1").into(), begun.id).await, Ok(begun));
    let sent: Vec<(String, String)> = server.received().into_iter().map(|r| (r.line, r.body)).collect();
    let expected = [
        ("POST /v2/reserved_ips/45.55.0.1/actions HTTP/1.1", r#"{"droplet_id":7,"type":"assign"}"#),
        ("POST /v2/reserved_ips/45.55.0.1/actions HTTP/1.1", r#"{"type":"unassign"}"#),
        ("POST /v2/reserved_ips HTTP/1.1", r#"{"region":"nyc3"}"#),
        ("GET /v2/reserved_ips/45.55.0.1/actions/68212728 HTTP/1.1", ""),
    ];
    assert_eq!(sent, expected.map(|(line, body)| (line.to_owned(), body.to_owned())));
    assert_eq!(server.connections(), 1, "the connection is used again");
}

#[tokio::test]
async fn a_clear_refusal_leaves_nothing_unknown() {
    let message = "The droplet already has a reserved IP.";
    for (status, message, kind) in [
        (422, message, FaultKind::NodeInUse),
        (422, "The reserved IP already has a pending event.", FaultKind::InProgress),
        (422, "must be in the same datacenter", FaultKind::Invalid),
        (404, "The resource you were accessing could not be found.", FaultKind::NotFound),
        (401, "Unable to authenticate you", FaultKind::Unauthorized),
        (429, "Too many requests", FaultKind::Throttled),
    ] {
        let body = format!(r#"{{"id": "some_id", "message": "{message}", "request_id": "4d9d8375"}}"#);
        let fault = assign_fault(move || json(status, &body)).await;
        let words = format!("digitalocean answered {status} (some_id): {message}");
        assert_eq!((fault.kind, fault.outcome_unknown), (kind, false));
        assert!(fault.message.ends_with(&words), "{}", fault.message);
    }
}

#[tokio::test]
async fn what_the_request_may_have_done_is_unknown_when_its_answer_is_lost() {
    let lost: [fn() -> Reply; 7] = [
        || Reply::Close(Vec::new()),
        || Reply::Close(b"HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{".to_vec()),
        || json(500, r#"{"id": "server_error", "message": "Unexpected server-side error"}"#),
        || answer(504, &[], "<html>gateway time-out</html>"),
        || json(201, r#"{"action": {"id": null}}"#),
        || json(201, r#"{"action": {"id": 1, "status": "cancelled"}}"#),
        || answer(302, &[("location", "/login")], ""),
    ];
    for reply in lost {
        let fault = assign_fault(reply).await;
        assert!(fault.outcome_unknown, "{fault}");
    }
}

#[tokio::test]
async fn a_hung_assignment_times_out_with_its_outcome_unknown() {
    let begun = Instant::now();
    let fault = assign_fault(|| Reply::Hang).await;
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Transient, true));
    assert!((10..13).contains(&begun.elapsed().as_secs()));
}

#[tokio::test]
async fn nothing_is_unknown_when_no_connection_came_up() {
    let leadership = Leadership::held();
    let url = format!("http://{}", closed_port().await);
    let result = client(&url).create_reserved_ip(&account(), &leadership.permit, "nyc3").await;
    let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Transient, false));
}

#[tokio::test]
async fn a_connection_that_stalls_before_anything_is_sent_ends_after_five_seconds() {
    // Accepts TCP, but never answers the TLS handshake.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let leadership = Leadership::held();
    let begun = Instant::now();
    let result = client(&url).create_reserved_ip(&account(), &leadership.permit, "nyc3").await;
    let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Transient, false));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn refused_creations_tell_quota_from_the_rest() {
    for (status, message, kind) in [
        (422, "creating this reserved IP will exceed your reserved IP limit", FaultKind::Quota),
        (403, "You have reached your reserved IP quota", FaultKind::Quota),
        (403, "You do not have permission to perform this action.", FaultKind::Unauthorized),
        (422, "region is not available", FaultKind::Invalid),
    ] {
        let body = format!(r#"{{"id": "x", "message": "{message}"}}"#);
        let server = Server::start(move |_| json(status, &body)).await;
        let leadership = Leadership::held();
        let result = client(&server.url()).create_reserved_ip(&account(), &leadership.permit, "nyc3").await;
        let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
        assert_eq!((fault.kind, fault.outcome_unknown), (kind, false), "{message}");
    }
}

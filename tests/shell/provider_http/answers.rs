//! Invalid answers: each becomes a typed fault, in bounded time and memory.

use super::server::{Reply, Server, answer, closed_port, json};
use super::{TOKEN, account, client, config, ip};
use flipop::provider::digitalocean::{DigitalOcean, droplet};
use flipop::provider::{CallContext, IpProvider};
use flipop_core::model::{Fault, FaultKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn list_fault(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Fault {
    let server = Server::start(move |_| reply()).await;
    let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
    assert_eq!(server.received().len(), 1, "nothing is repeated: {fault}");
    assert!(!fault.outcome_unknown, "a read changes nothing");
    fault
}

#[tokio::test]
async fn a_good_answer_is_read_with_null_and_unknown_fields() {
    let body = r#"{"reserved_ip": {"ip": "45.55.96.47", "droplet": {"id": 3164444, "kernel": null},
        "region": {"slug": "nyc3", "sizes": null}, "locked": null, "project_id": null, "new": {}}}"#;
    let server = Server::start(move |_| json(200, body)).await;
    let found = client(&server.url()).get_reserved_ip(&account(), ip("45.55.96.47").into()).await.unwrap();
    assert_eq!(
        (found.region.as_str(), found.machine, found.locked),
        ("nyc3", Some(droplet(3_164_444)), false)
    );
    let request = server.received().remove(0);
    assert_eq!(request.line, "GET /v2/reserved_ips/45.55.96.47 HTTP/1.1");
    assert_eq!(request.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(request.header("user-agent"), Some(concat!("flipop/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(request.header("accept-encoding"), None);
}

#[tokio::test]
async fn the_path_of_the_base_url_is_kept_and_the_user_agent_is_the_configured_one() {
    let server = Server::start(|_| json(200, r#"{"droplets": []}"#)).await;
    let mut config = config(&format!("{}proxy/do", server.url()));
    config.user_agent = Some("my-cluster/1".to_owned());
    let client = DigitalOcean::new(config).unwrap();
    assert_eq!(client.prove_machine_read(&account()).await, Ok(true));
    let request = server.received().remove(0);
    assert_eq!(request.line, "GET /proxy/do/v2/droplets?per_page=1 HTTP/1.1");
    assert_eq!(request.header("user-agent"), Some("my-cluster/1"));
}

#[tokio::test]
async fn an_answer_about_something_else_is_malformed() {
    let server = Server::start(|_| json(200, r#"{"reserved_ip": {"ip": "45.55.96.48"}}"#)).await;
    let fault =
        client(&server.url()).get_reserved_ip(&account(), ip("45.55.96.47").into()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Transient);
    assert!(fault.message.contains("45.55.96.48"), "{fault}");
    let server = Server::start(|_| json(200, r#"{"droplet": {"id": 8, "status": "off"}}"#)).await;
    let fault = client(&server.url()).is_switched_off(&account(), &droplet(7)).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Transient);
    assert!(fault.message.contains("droplet 8"), "{fault}");
}

#[tokio::test]
async fn only_the_status_off_says_that_a_droplet_is_switched_off() {
    for (status, off) in [
        (r#", "status": "off""#, true),
        (r#", "status": "active""#, false),
        (r#", "status": "new""#, false),
        (r#", "status": "archive""#, false),
        (r#", "status": null"#, false),
        ("", false),
    ] {
        let body = format!(r#"{{"droplet": {{"id": 7{status}, "locked": false}}}}"#);
        let server = Server::start(move |_| json(200, &body)).await;
        assert_eq!(client(&server.url()).is_switched_off(&account(), &droplet(7)).await, Ok(off), "{status}");
        assert_eq!(server.received().remove(0).line, "GET /v2/droplets/7 HTTP/1.1");
    }
}

#[tokio::test]
async fn html_truncated_json_wrong_types_and_nothing_at_all_are_transient() {
    for body in
        ["<html>captive portal</html>", r#"{"reserved_ips": [{"ip": "45.5"#, "[]", "null", "7", "", "\u{0}"]
    {
        let fault = list_fault(move || answer(200, &[("content-type", "text/html")], body)).await;
        assert_eq!(fault.kind, FaultKind::Transient, "{body}");
        assert!(fault.message.contains("failed to read the answer"), "{fault}");
    }
}

#[tokio::test]
async fn a_page_of_html_proves_no_scope() {
    let server =
        Server::start(|_| answer(200, &[("content-type", "text/html")], "<html>log in</html>")).await;
    let fault = client(&server.url()).prove_machine_read(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Transient);
}

#[tokio::test]
async fn the_proof_of_a_scope_tells_a_missing_one_from_a_refused_token() {
    let refusing = |status| Server::start(move |_| json(status, r#"{"id": "x", "message": "no"}"#));
    let missing = refusing(403).await;
    assert_eq!(client(&missing.url()).prove_machine_read(&account()).await, Ok(false));
    let refused = refusing(401).await;
    let fault = client(&refused.url()).prove_machine_read(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unauthorized);
}

#[tokio::test]
async fn a_connection_that_breaks_before_or_within_the_answer_is_transient() {
    let cuts: [&[u8]; 4] = [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"reserved_ips\": []}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\n{\"res",
    ];
    for cut in cuts {
        let fault = list_fault(move || Reply::Close(cut.to_vec())).await;
        assert_eq!(fault.kind, FaultKind::Transient, "{fault}");
        assert!(fault.message.starts_with("no answer from 127.0.0.1"), "{fault}");
    }
    let fault = list_fault(|| Reply::Close(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())).await;
    assert_eq!(fault.kind, FaultKind::Transient, "{fault}");
}

#[tokio::test]
async fn a_closed_port_is_transient_and_says_so() {
    let url = format!("http://{}", closed_port().await);
    let fault = client(&url).list_reserved_ips(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Transient);
    assert!(fault.message.contains("failed to connect"), "{fault}");
}

#[tokio::test]
async fn a_body_of_fifty_megabytes_is_not_read_to_its_end() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 52428800\r\n\r\n",
        // Without a length, only reading shows the size.
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
    ] {
        let begun = Instant::now();
        let fault = list_fault(move || Reply::Flood(head)).await;
        assert_eq!(fault.kind, FaultKind::Transient);
        assert!(fault.message.contains("longer than 4 MiB"), "{fault}");
        assert!(begun.elapsed() < Duration::from_secs(8), "it was cut off, not timed out");
    }
}

#[tokio::test]
async fn a_body_of_just_four_mebibytes_is_read() {
    let server = Server::start(|_| {
        let list = r#"{"reserved_ips": [], "meta": {"total": 0}}"#;
        json(200, &format!("{list}{}", " ".repeat((4 << 20) - list.len())))
    })
    .await;
    let list = client(&server.url()).list_reserved_ips(&account()).await.unwrap();
    assert!(list.ips.is_empty());
}

#[tokio::test]
async fn a_compressed_body_is_refused_and_never_expanded() {
    let fault = list_fault(|| answer(200, &[("content-encoding", "gzip")], "\u{1f}\u{8b}")).await;
    assert_eq!(fault.kind, FaultKind::Transient);
    assert!(fault.message.contains("compressed"), "{fault}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_token_stays_home() {
    let other = Server::start(|_| json(200, r#"{"reserved_ips": [], "meta": {"total": 0}}"#)).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("{}v2/reserved_ips", other.url());
        let fault = list_fault(move || answer(status, &[("location", &location)], "")).await;
        assert_eq!(fault.kind, FaultKind::Permanent);
        assert!(fault.message.contains("redirect"), "{fault}");
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn an_error_page_without_json_is_judged_by_its_status() {
    let page = "<html>\u{1b}[31mBad Gateway</html>";
    let fault = list_fault(move || answer(502, &[], page)).await;
    assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Transient, "digitalocean answered 502"));
    let fault = list_fault(move || answer(418, &[], page)).await;
    assert_eq!(fault.kind, FaultKind::Permanent);
    let harmless = fault.message.ends_with("[31mBad Gateway") && !fault.message.contains(char::is_control);
    assert!(harmless, "{fault}");
}

#[tokio::test]
async fn a_refusal_says_whether_the_token_or_one_of_its_scopes_is_what_to_mend() {
    for (status, remedy, other) in
        [(401, "DIGITALOCEAN_ACCESS_TOKEN", "reserved_ip:read"), (403, "reserved_ip:read", "ACCESS_TOKEN")]
    {
        let fault = list_fault(move || json(status, r#"{"id": "", "message": ""}"#)).await;
        assert_eq!(fault.kind, FaultKind::Unauthorized);
        let message = fault.message;
        assert!(message.contains(remedy) && !message.contains(other), "{message}");
        assert!(message.ends_with(&format!("digitalocean answered {status}")), "{message}");
    }
}

#[tokio::test]
async fn a_refusal_that_cannot_be_read_is_still_a_refusal() {
    let cut = b"HTTP/1.1 404 Not Found\r\ncontent-length: 100\r\n\r\n{\"id\":";
    let fault = list_fault(|| Reply::Close(cut.to_vec())).await;
    assert_eq!(fault.kind, FaultKind::NotFound);
}

#[tokio::test]
async fn an_error_that_echoes_the_token_is_scrubbed() {
    let body =
        format!(r#"{{"id": "{TOKEN}", "message": "bad header: Bearer {TOKEN}", "request_id": "{TOKEN}"}}"#);
    let fault = list_fault(move || json(401, &body)).await;
    assert_eq!(fault.kind, FaultKind::Unauthorized);
    assert!(!fault.message.contains(TOKEN), "{fault}");
    assert!(fault.message.contains("bad header"), "{fault}");
    let body = format!(r#"{{"reserved_ips": "{TOKEN}"}}"#);
    let fault = list_fault(move || json(200, &body)).await;
    assert!(!format!("{fault:?}").contains(TOKEN), "{fault}");
}

#[tokio::test]
async fn a_body_that_drips_and_a_server_that_hangs_end_after_ten_seconds() {
    let timed = |reply: fn() -> Reply| async move {
        let begun = Instant::now();
        let fault = list_fault(reply).await;
        assert_eq!(fault.kind, FaultKind::Transient);
        assert!(fault.message.contains("timed out after 10 s"), "{fault}");
        begun.elapsed()
    };
    let drips = timed(|| Reply::Drip("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"));
    let hangs = timed(|| Reply::Hang);
    let (drips, hangs) = tokio::join!(drips, hangs);
    for took in [drips, hangs] {
        assert!((10..13).contains(&took.as_secs()), "{took:?}");
    }
}

#[tokio::test]
async fn a_hung_call_holds_up_no_other() {
    let server = Server::start(|request| {
        if request.line.contains("45.55.0.1 ") {
            return Reply::Hang;
        }
        json(200, r#"{"reserved_ip": {"ip": "45.55.0.2"}}"#)
    })
    .await;
    let client = client(&server.url());
    let context = account();
    let hung = client.get_reserved_ip(&context, ip("45.55.0.1").into());
    let others = async {
        server.has_received(1).await;
        for _ in 0..20 {
            client.get_reserved_ip(&context, ip("45.55.0.2").into()).await.unwrap();
        }
    };
    tokio::select! {
        result = hung => panic!("the hung call ended first: {result:?}"),
        () = others => {}
    }
}

#[tokio::test]
async fn calls_are_recorded_by_operation_with_their_object_and_outcome() {
    let server = Server::start(|request| match request.line.split(' ').next() {
        Some("POST") => json(
            422,
            r#"{"id": "unprocessable_entity", "message": "The reserved IP already has a pending event."}"#,
        ),
        _ => json(404, r#"{"id": "not_found", "message": "gone"}"#),
    })
    .await;
    let calls = Arc::new(super::Calls::default());
    let mut config = config(&server.url());
    config.observer = calls.clone();
    let client = DigitalOcean::new(config).unwrap();
    let leadership = super::Leadership::held();
    let pool = CallContext::object("FloatingIPPool", "default", "web");
    client.assign(&pool, &leadership.permit, ip("45.55.0.1").into(), droplet(1)).await.unwrap_err();
    client.get_reserved_ip(&pool, ip("45.55.0.1").into()).await.unwrap_err();
    client.list_reserved_ips(&account()).await.unwrap_err();
    leadership.source.revoke();
    client.assign(&pool, &leadership.permit, ip("45.55.0.1").into(), droplet(1)).await.unwrap_err();
    let expected = [
        "digitalocean AssignIP success [FloatingIPPool|default|web]",
        "digitalocean GetIP error [FloatingIPPool|default|web]",
        "digitalocean ListIPs error [||]",
    ];
    assert_eq!(
        *calls.0.lock().unwrap(),
        expected,
        "what is in progress is no error; what was not sent is no call"
    );
}

//! The faults of the simulated providers, over real connections.

use std::time::Duration;

use crate::support::{CF_TOKEN, DO_TOKEN, cloudflare, digitalocean, send, start};
use flipop_cloud::{Cloud, Fault, Garble, Injection, Op, Options, Provider, Refusal, Request, Target, When};
use serde_json::{Value, json};

const CREATE: Target = Target {
    provider: None,
    op: Some(Op::CreateReservedIp),
    mutating: false,
    path_prefix: None,
    contains: None,
    token: None,
};

#[tokio::test]
async fn a_reset_is_a_reset_and_the_next_connection_is_fine() {
    let server = start().await;
    server.cloud().inject(Injection::once(Target::any(), Fault::Reset(When::Before)));
    let url = format!("{}v2/account", server.digitalocean_url());
    let error = send("GET", &url, Some(DO_TOKEN), None).await.unwrap_err();
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    let mut kinds = Vec::new();
    while let Some(error) = source {
        kinds.extend(error.downcast_ref::<std::io::Error>().map(std::io::Error::kind));
        source = error.source();
    }
    assert_eq!(kinds, [std::io::ErrorKind::ConnectionReset]);
    assert_eq!(send("GET", &url, Some(DO_TOKEN), None).await.unwrap().status, 200);
    server.stop().await;
}

#[tokio::test]
async fn spoilt_answers_are_spoilt_in_the_way_that_was_asked_for() {
    let server = start().await;
    let spoilt = |garble| {
        server.cloud().inject(Injection::once(Target::any(), Fault::Garble(garble)));
        digitalocean(&server, "GET", "v2/account", None)
    };
    let malformed = spoilt(Garble::MalformedJson).await;
    assert_eq!(malformed.status, 200);
    assert!(serde_json::from_slice::<Value>(&malformed.body).is_err());
    let html = spoilt(Garble::Html).await;
    assert_eq!((html.status, html.header("content-type")), (200, Some("text/html")));
    let oversized = spoilt(Garble::Oversized(5_000_000)).await;
    assert!(oversized.body.len() > 5_000_000);
    assert_eq!(oversized.json()["account"]["status"], "active");
    assert_eq!(spoilt(Garble::Empty).await.body.len(), 0);
    assert_eq!(spoilt(Garble::Null).await.json(), Value::Null);
    let unknown = spoilt(Garble::UnknownFields).await.json();
    assert!(unknown["account"]["team"]["x_unknown"].is_object());
    server.stop().await;
}

/// An in-process call. Without a socket, a paused clock is the only clock.
fn request(method: &str, path: &str, body: &Value) -> Request {
    Request {
        provider: Provider::DigitalOcean,
        method: method.parse().unwrap(),
        path: path.to_owned(),
        query: String::new(),
        authorization: Some(format!("Bearer {DO_TOKEN}")),
        content_type: Some("application/json".to_owned()),
        base: "http://sim".to_owned(),
        body: body.to_string().into(),
    }
}

fn in_process(seed: u64) -> Cloud {
    let cloud = Cloud::new(Options { seed, epoch_ms: Some(1_800_000_000_000) });
    cloud.add_token(Provider::DigitalOcean, "do", DO_TOKEN, &["*"]);
    cloud
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_effect_although_its_client_has_gone() {
    let cloud = in_process(1);
    cloud.inject(Injection::once(CREATE, Fault::Delay { before_ms: 150, after_ms: 0 }));
    let call = cloud.call(request("POST", "/v2/reserved_ips", &json!({"region": "nyc3"})));
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    assert_eq!(cloud.ips().len(), 0);
    tokio::time::sleep(Duration::from_millis(101)).await;
    assert_eq!(cloud.ips().len(), 1);
    cloud.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_before_its_effect_has_none_and_after_it_has_one() {
    let cloud = in_process(1);
    for (when, made) in [(When::Before, 0), (When::After, 1)] {
        cloud.inject(Injection::once(CREATE, Fault::Hang(when)));
        let call = cloud.call(request("POST", "/v2/reserved_ips", &json!({"region": "nyc3"})));
        assert!(tokio::time::timeout(Duration::from_hours(1), call).await.is_err());
        assert_eq!(cloud.ips().len(), made);
    }
    assert_eq!(cloud.calls(0).iter().filter_map(|call| call.ended_ms).count(), 0);
}

/// Over a connection: other calls continue, and stopping the server ends the hanging one.
#[tokio::test]
async fn a_hanging_connection_holds_up_neither_others_nor_the_end() {
    let server = start().await;
    server.cloud().inject(Injection::once(CREATE, Fault::Hang(When::After)));
    let mut changes = server.cloud().changes();
    let url = format!("{}v2/reserved_ips", server.digitalocean_url());
    let body = json!({"region": "nyc3"});
    let hanging = send("POST", &url, Some(DO_TOKEN), Some(&body));
    let others = async {
        changes.recv().await.unwrap();
        assert_eq!(digitalocean(&server, "GET", "v2/account", None).await.status, 200);
        server.stop().await;
    };
    let (hung, ()) = tokio::join!(hanging, others);
    assert!(hung.is_err());
}

#[tokio::test]
async fn refusals_have_the_providers_own_status_and_no_effect() {
    let server = start().await;
    let cloud = server.cloud();
    for (refusal, status) in [
        (Refusal::PendingEventOnIp, 422),
        (Refusal::PendingEventOnDroplet, 422),
        (Refusal::NodeInUse, 422),
        (Refusal::WrongDatacenter, 422),
        (Refusal::NotFound, 404),
        (Refusal::Unauthorized, 401),
        (Refusal::Forbidden, 403),
        (Refusal::Quota, 422),
        (Refusal::Status(503, "down".to_owned()), 503),
    ] {
        cloud.inject(Injection::once(CREATE, Fault::Refuse(refusal.clone())));
        let answer = digitalocean(&server, "POST", "v2/reserved_ips", Some(json!({"region": "nyc3"}))).await;
        assert_eq!(answer.status, status, "{refusal:?}");
        assert!(answer.json()["message"].is_string());
    }
    assert_eq!(cloud.mutations(), 0);
    let id = cloud.inject(Injection::always(Target::provider(Provider::Cloudflare), Fault::status(502)));
    for _ in 0..3 {
        assert_eq!(cloudflare(&server, "GET", "/zones", None).await.status, 502);
    }
    assert_eq!(digitalocean(&server, "GET", "v2/account", None).await.status, 200);
    cloud.withdraw(id);
    assert_eq!(cloudflare(&server, "GET", "/zones", None).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_throttled_call_says_when_to_come_back_only_if_told_to() {
    let server = start().await;
    for seconds in [Some(7), None] {
        server.cloud().inject(Injection::times(Target::any(), 2, Fault::Throttle { retry_after_s: seconds }));
        let expected = seconds.map(|seconds: u64| seconds.to_string());
        for answer in [
            digitalocean(&server, "GET", "v2/account", None).await,
            cloudflare(&server, "GET", "/zones", None).await,
        ] {
            assert_eq!(answer.status, 429);
            assert_eq!(answer.header("retry-after"), expected.as_deref());
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn the_trap_tells_who_carried_a_token_to_it() {
    let server = start().await;
    let cloud = server.cloud();
    cloud.inject(Injection::once(Target::any(), Fault::redirect(307, &server.trap_url())));
    let redirect = digitalocean(&server, "GET", "v2/account", None).await;
    assert_eq!(redirect.header("location"), Some(server.trap_url().as_str()));
    cloud.add_ip(None, "nyc3");
    cloud.add_ip(None, "nyc3");
    let base = server.trap_url();
    cloud.inject(Injection::once(Target::op(Op::ListReservedIps), Fault::ForeignNext { base: base.clone() }));
    let page = digitalocean(&server, "GET", "v2/reserved_ips?per_page=1", None).await.json();
    let next = page["links"]["pages"]["next"].as_str().unwrap();
    assert!(next.starts_with(&base), "{next}");

    assert_eq!(server.trapped(), []);
    send("GET", &base, None, None).await.unwrap();
    send("GET", &base, Some(CF_TOKEN), None).await.unwrap();
    send("POST", &base, None, Some(&json!({"token": DO_TOKEN}))).await.unwrap();
    send("GET", &format!("{base}?t={DO_TOKEN}"), None, None).await.unwrap();
    let seen: Vec<(bool, bool)> =
        server.trapped().iter().map(|request| (request.carried_token, request.authorization)).collect();
    assert_eq!(seen, [(false, false), (true, true), (true, false), (true, false)]);
    assert!(!format!("{:?}", server.trapped()).contains(DO_TOKEN));
    server.stop().await;
}

/// On tokio's paused clock, without a socket.
#[tokio::test(start_paused = true)]
async fn the_same_seed_and_the_same_calls_give_the_same_answers_and_times() {
    async fn story(seed: u64) -> Vec<String> {
        let cloud = in_process(seed);
        cloud.tune(|knobs| {
            knobs.latency_ms = 50;
            knobs.action_ms = 3_000;
        });
        let droplet = cloud.add_droplet("a", "nyc3");
        let mut told = Vec::new();
        let made = cloud.call(request("POST", "/v2/reserved_ips", &json!({"region": "nyc3"}))).await.unwrap();
        let ip = made.value()["reserved_ip"]["ip"].as_str().unwrap().to_owned();
        told.push(format!("{made:?}"));
        let assign = json!({"type": "assign", "droplet_id": droplet});
        let path = format!("/v2/reserved_ips/{ip}/actions");
        told.push(format!("{:?}", cloud.call(request("POST", &path, &assign)).await.unwrap()));
        tokio::time::sleep(Duration::from_millis(2_949)).await;
        assert!(cloud.ips()[0].locked);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(cloud.ips()[0].droplet, Some(droplet));
        told.push(format!("{:?}", cloud.calls(0)));
        told
    }
    let (first, second, other) = (story(11).await, story(11).await, story(12).await);
    assert_eq!(first, second);
    assert_ne!(first, other);
    assert!(!first.concat().contains(DO_TOKEN));
}

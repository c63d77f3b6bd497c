//! Reserved IPs at the simulated `DigitalOcean`, over real connections.

use crate::support::{DO_TOKEN, digitalocean, send, start};
use flipop_cloud::{
    ActionOutcome, ActionPlan, ChangeKind, CloudServer, Fault, Garble, Injection, Op, Provider, Request,
    Target, When,
};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

async fn assign(server: &CloudServer, ip: Ipv4Addr, droplet: u64) -> crate::support::Answer {
    let body = json!({"type": "assign", "droplet_id": droplet});
    digitalocean(server, "POST", &format!("v2/reserved_ips/{ip}/actions"), Some(body)).await
}

#[tokio::test]
async fn an_address_is_created_assigned_moved_unassigned_and_deleted() {
    let server = start().await;
    let cloud = server.cloud();
    let (a, b) = (cloud.add_droplet("a", "nyc3"), cloud.add_droplet("b", "nyc3"));
    let made = digitalocean(&server, "POST", "v2/reserved_ips", Some(json!({"region": "nyc3"}))).await;
    assert_eq!(made.status, 202);
    let body = made.json();
    assert_eq!(body["links"], json!({}));
    assert_eq!(body["reserved_ip"]["droplet"], Value::Null);
    assert_eq!(body["reserved_ip"]["region"]["slug"], "nyc3");
    assert_eq!(body["reserved_ip"]["locked"], false);
    let ip: Ipv4Addr = body["reserved_ip"]["ip"].as_str().unwrap().parse().unwrap();

    let action = assign(&server, ip, a).await;
    assert_eq!(action.status, 201);
    assert_eq!(action.json()["action"]["status"], "in-progress");
    assert_eq!(action.json()["action"]["type"], "assign_ip");
    let path = format!("v2/reserved_ips/{ip}/actions/{}", action.json()["action"]["id"]);
    let ended = digitalocean(&server, "GET", &path, None).await;
    assert_eq!(ended.json()["action"]["status"], "completed");
    assert_eq!(cloud.ip(ip).unwrap().droplet, Some(a));

    assert_eq!(assign(&server, ip, b).await.status, 201);
    let read = digitalocean(&server, "GET", &format!("v2/reserved_ips/{ip}"), None).await.json();
    assert_eq!(read["reserved_ip"]["droplet"]["id"], b);

    let path = format!("v2/reserved_ips/{ip}/actions");
    let off = digitalocean(&server, "POST", &path, Some(json!({"type": "unassign"}))).await;
    assert_eq!(off.json()["action"]["type"], "unassign_ip");
    assert_eq!(cloud.ip(ip).unwrap().droplet, None);
    let actions = digitalocean(&server, "GET", &path, None).await.json();
    assert_eq!(actions["meta"]["total"], 4);

    assert_eq!(digitalocean(&server, "DELETE", &format!("v2/reserved_ips/{ip}"), None).await.status, 204);
    assert_eq!(digitalocean(&server, "GET", &format!("v2/reserved_ips/{ip}"), None).await.status, 404);
    assert_eq!(cloud.mutations(), 5);
    server.stop().await;
}

#[tokio::test]
async fn a_lost_answer_does_not_undo_what_the_call_did() {
    let server = start().await;
    let cloud = server.cloud();
    let create = || {
        let url = format!("{}v2/reserved_ips", server.digitalocean_url());
        async move { send("POST", &url, Some(DO_TOKEN), Some(&json!({"region": "nyc3"}))).await }
    };
    cloud.inject(Injection::once(Target::op(Op::CreateReservedIp), Fault::Reset(When::Before)));
    assert!(create().await.is_err());
    assert_eq!(cloud.ips().len(), 0);
    cloud.inject(Injection::once(Target::op(Op::CreateReservedIp), Fault::Reset(When::After)));
    assert!(create().await.is_err());
    assert_eq!(cloud.ips().len(), 1);
    cloud.inject(Injection::once(Target::any(), Fault::Garble(Garble::Truncated)));
    assert!(create().await.is_err());
    assert_eq!(cloud.ips().len(), 2);
    let calls = cloud.calls(0);
    assert_eq!(calls.iter().map(|call| call.effect).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(calls[0].status, None);
    assert_eq!(calls[2].status, Some(202));
    assert_eq!(cloud.mutations(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_lacks_or_mistypes_something_is_refused_without_effect() {
    let server = start().await;
    let cloud = server.cloud();
    let droplet = cloud.add_droplet("a", "nyc3");
    let ip = cloud.add_ip(None, "nyc3");
    let actions = format!("v2/reserved_ips/{ip}/actions");
    for (path, body, status) in [
        ("v2/reserved_ips", json!({}), 422),
        ("v2/reserved_ips", json!({"region": 3}), 422),
        ("v2/reserved_ips", json!({"region": "nyc9"}), 422),
        ("v2/reserved_ips", json!({"region": "nyc3", "droplet_id": droplet}), 422),
        ("v2/reserved_ips", json!({"droplet_id": droplet.to_string()}), 422),
        ("v2/reserved_ips", json!(["region"]), 400),
        (&actions, json!({}), 422),
        (&actions, json!({"type": "attach", "droplet_id": droplet}), 422),
        (&actions, json!({"type": "assign"}), 422),
        (&actions, json!({"type": "assign", "droplet_id": droplet.to_string()}), 422),
        (&actions, json!({"type": "assign", "droplet_id": 1}), 404),
        (&actions, json!({"type": "unassign"}), 422),
        ("v2/reserved_ips/192.0.2.1/actions", json!({"type": "assign", "droplet_id": droplet}), 404),
        ("v2/floating_ips", json!({"region": "nyc3"}), 404),
    ] {
        let answer = digitalocean(&server, "POST", path, Some(body.clone())).await;
        assert_eq!(answer.status, status, "{path} {body}");
        let error = answer.json();
        let fields: Vec<&String> = error.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["id", "message", "request_id"], "{path} {body}");
    }
    assert_eq!(cloud.mutations(), 0);
    assert_eq!(cloud.ips().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_counts_as_none() {
    let server = start().await;
    let request = Request {
        provider: Provider::DigitalOcean,
        method: http::Method::POST,
        path: "/v2/reserved_ips".to_owned(),
        query: String::new(),
        authorization: Some(format!("Bearer {DO_TOKEN}")),
        content_type: None,
        base: "http://sim".to_owned(),
        body: json!({"region": "nyc3"}).to_string().into(),
    };
    let declared = Request { content_type: Some("application/json".to_owned()), ..request.clone() };
    assert_eq!(server.cloud().call(request).await.unwrap().status, 422);
    assert_eq!(server.cloud().call(declared).await.unwrap().status, 202);
    server.stop().await;
}

#[tokio::test]
async fn tokens_do_what_their_scopes_say_and_only_that() {
    let server = start().await;
    let cloud = server.cloud();
    cloud.add_token(Provider::DigitalOcean, "blind", "t-blind", &["reserved_ip:*"]);
    cloud.add_token(Provider::DigitalOcean, "reader", "t-reader", &["reserved_ip:read", "droplet:read"]);
    let droplet = cloud.add_droplet("a", "nyc3");
    let ip = cloud.add_ip(None, "nyc3");
    cloud.move_ip(ip, Some(droplet)).unwrap();
    let base = server.digitalocean_url();
    let list = format!("{base}v2/reserved_ips");
    let droplets = format!("{base}v2/droplets?per_page=1");

    let blind = send("GET", &list, Some("t-blind"), None).await.unwrap().json();
    assert_eq!(blind["reserved_ips"][0]["droplet"], Value::Null);
    assert_eq!(blind["reserved_ips"][0].get("project_id"), None);
    assert_eq!(send("GET", &droplets, Some("t-blind"), None).await.unwrap().status, 403);

    let reader = send("GET", &list, Some("t-reader"), None).await.unwrap().json();
    assert_eq!(reader["reserved_ips"][0]["droplet"]["id"], droplet);
    assert_eq!(send("GET", &droplets, Some("t-reader"), None).await.unwrap().status, 200);
    let create = send("POST", &list, Some("t-reader"), Some(&json!({"region": "nyc3"}))).await.unwrap();
    assert_eq!(create.status, 403);
    assert_eq!(create.json()["message"], "You are missing the required permission reserved_ip:create");

    let unknown = send("GET", &list, Some("nobody"), None).await.unwrap();
    assert_eq!((unknown.status, unknown.json()["id"].clone()), (401, json!("unauthorized")));
    assert_eq!(send("GET", &list, None, None).await.unwrap().status, 401);
    cloud.revoke_token("reader", true);
    assert_eq!(send("GET", &list, Some("t-reader"), None).await.unwrap().status, 401);
    cloud.revoke_token("reader", false);
    assert_eq!(send("GET", &list, Some("t-reader"), None).await.unwrap().status, 200);
    let names: Vec<String> = cloud.calls(0).into_iter().map(|call| call.token).collect();
    assert_eq!(names, ["blind", "blind", "reader", "reader", "reader", "", "", "", "reader"]);
    server.stop().await;
}

#[tokio::test]
async fn a_list_is_cut_into_pages_with_absolute_links() {
    for (total, sizes) in
        [(0, vec![0]), (1, vec![1]), (199, vec![199]), (200, vec![200]), (201, vec![200, 1])]
    {
        let server = start().await;
        for _ in 0..total {
            server.cloud().add_ip(None, "nyc3");
        }
        let mut url = format!("{}v2/reserved_ips?per_page=200", server.digitalocean_url());
        let (mut found, mut pages) = (Vec::new(), Vec::new());
        loop {
            let page = send("GET", &url, Some(DO_TOKEN), None).await.unwrap().json();
            assert_eq!(page["meta"]["total"], total);
            let ips = page["reserved_ips"].as_array().unwrap();
            pages.push(ips.len());
            found.extend(ips.iter().map(|ip| ip["ip"].as_str().unwrap().to_owned()));
            let Some(next) = page["links"]["pages"]["next"].as_str() else {
                assert_eq!(page["links"]["pages"].get("last"), None);
                break;
            };
            assert!(next.starts_with(&server.digitalocean_url()), "{next}");
            next.clone_into(&mut url);
        }
        assert_eq!(pages, sizes);
        let expected: Vec<String> = server.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
        assert_eq!(found, expected);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_page_that_is_out_of_range_is_refused() {
    let server = start().await;
    for query in ["per_page=0", "per_page=201", "page=0", "page=x"] {
        let answer = digitalocean(&server, "GET", &format!("v2/reserved_ips?{query}"), None).await;
        assert_eq!(answer.status, 400, "{query}");
    }
    let beyond = digitalocean(&server, "GET", "v2/reserved_ips?page=7", None).await;
    assert_eq!((beyond.status, beyond.json()["reserved_ips"].clone()), (200, json!([])));
    server.stop().await;
}

#[tokio::test]
async fn one_droplet_holds_one_address_of_its_own_region() {
    let server = start().await;
    let cloud = server.cloud();
    let (here, far) = (cloud.add_droplet("here", "nyc3"), cloud.add_droplet("far", "fra1"));
    let (first, second) = (cloud.add_ip(None, "nyc3"), cloud.add_ip(None, "nyc3"));
    assert_eq!(assign(&server, first, here).await.status, 201);
    for (ip, droplet, message) in [
        (second, here, "The Droplet already has a reserved IP."),
        (first, here, "The Droplet already has a reserved IP."),
        (second, far, "The reserved IP and the Droplet must be in the same datacenter."),
    ] {
        let answer = assign(&server, ip, droplet).await;
        assert_eq!((answer.status, answer.json()["message"].clone()), (422, json!(message)));
    }
    cloud.destroy_droplet(here);
    assert_eq!(cloud.ip(first).unwrap().droplet, None);
    assert_eq!(assign(&server, first, here).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn while_an_action_runs_address_and_droplet_are_locked() {
    let server = start().await;
    let cloud = server.cloud();
    cloud.tune(|knobs| knobs.action_ms = 3_600_000);
    let (a, b) = (cloud.add_droplet("a", "nyc3"), cloud.add_droplet("b", "nyc3"));
    let (first, second) = (cloud.add_ip(None, "nyc3"), cloud.add_ip(None, "nyc3"));
    assert_eq!(assign(&server, first, a).await.status, 201);
    assert!(cloud.ip(first).unwrap().locked);
    for (ip, droplet, message) in [
        (first, b, "The reserved IP already has a pending event."),
        (second, a, "Droplet already has a pending event."),
    ] {
        let answer = assign(&server, ip, droplet).await;
        assert_eq!((answer.status, answer.json()["message"].clone()), (422, json!(message)));
    }
    assert_eq!(digitalocean(&server, "DELETE", &format!("v2/reserved_ips/{first}"), None).await.status, 422);
    assert_eq!(cloud.ip(first).unwrap().droplet, None);
    cloud.end_action(first);
    assert!(!cloud.ip(first).unwrap().locked);
    assert_eq!(cloud.ip(first).unwrap().droplet, Some(a));
    server.stop().await;
}

#[tokio::test]
async fn an_action_ends_as_its_plan_says_and_is_seen_without_a_call() {
    let server = start().await;
    let cloud = server.cloud();
    let droplet = cloud.add_droplet("a", "nyc3");
    let ip = cloud.add_ip(None, "nyc3");
    let mut changes = cloud.changes();
    let plan = ActionPlan { outcome: ActionOutcome::Errored, duration_ms: Some(40) };
    cloud.inject(Injection::once(Target::op(Op::AssignIp), Fault::Action(plan)));
    let answer = assign(&server, ip, droplet).await.json();
    assert_eq!(answer["action"]["status"], "in-progress");
    assert_eq!(changes.recv().await.unwrap().kind, ChangeKind::AssignStarted { ip, droplet });
    assert_eq!(changes.recv().await.unwrap().kind, ChangeKind::ActionErrored(ip));
    let path = format!("v2/reserved_ips/{ip}/actions/{}", answer["action"]["id"]);
    assert_eq!(digitalocean(&server, "GET", &path, None).await.json()["action"]["status"], "errored");
    assert_eq!(cloud.ip(ip).unwrap().droplet, None);

    assert_eq!(assign(&server, ip, droplet).await.status, 201);
    assert_eq!(changes.recv().await.unwrap().kind, ChangeKind::AssignStarted { ip, droplet });
    assert_eq!(changes.recv().await.unwrap().kind, ChangeKind::Assigned { ip, droplet, from: None });
    server.stop().await;
}

#[tokio::test]
async fn creations_stop_at_the_quota_and_at_twelve_a_minute() {
    let server = start().await;
    let create = || digitalocean(&server, "POST", "v2/reserved_ips", Some(json!({"region": "nyc3"})));
    for _ in 0..12 {
        assert_eq!(create().await.status, 202);
    }
    assert_eq!(create().await.status, 429);
    server.cloud().tune(|knobs| knobs.reserved_ip_quota = 12);
    let refused = create().await;
    assert_eq!(refused.status, 422);
    assert!(refused.json()["message"].as_str().unwrap().contains("limit"));
    assert_eq!(server.cloud().ips().len(), 12);
    server.stop().await;
}

#[tokio::test]
async fn the_headers_tell_what_is_left_and_the_rest_is_refused() {
    let server = start().await;
    let first = digitalocean(&server, "GET", "v2/account", None).await;
    assert_eq!(first.header("ratelimit-limit"), Some("5000"));
    assert_eq!(first.header("ratelimit-remaining"), Some("4999"));
    let reset: u64 = first.header("ratelimit-reset").unwrap().parse().unwrap();
    assert!((1_800_003_600..1_800_003_660).contains(&reset), "{reset}");

    for _ in 1..250 {
        assert_eq!(digitalocean(&server, "GET", "v2/account", None).await.status, 200);
    }
    let burst = digitalocean(&server, "GET", "v2/account", None).await;
    assert_eq!((burst.status, burst.header("ratelimit-limit")), (429, Some("250")));
    assert_eq!(burst.header("ratelimit-remaining"), Some("0"));
    assert!(burst.header("retry-after").unwrap().parse::<u64>().unwrap() <= 60);

    server.cloud().exhaust(Provider::DigitalOcean, "do", 0);
    server.cloud().tune(|knobs| knobs.retry_after = false);
    let hour = digitalocean(&server, "GET", "v2/account", None).await;
    assert_eq!((hour.status, hour.header("ratelimit-limit")), (429, Some("5000")));
    assert_eq!(hour.header("retry-after"), None);
    server.stop().await;
}

#[tokio::test]
async fn a_lagging_list_misses_what_a_read_already_shows() {
    let server = start().await;
    server.cloud().tune(|knobs| knobs.list_lag_ms = 60_000);
    let ip = server.cloud().add_ip(None, "nyc3");
    let list = digitalocean(&server, "GET", "v2/reserved_ips", None).await.json();
    assert_eq!(list["meta"]["total"], 0);
    assert_eq!(digitalocean(&server, "GET", &format!("v2/reserved_ips/{ip}"), None).await.status, 200);
    server.cloud().tune(|knobs| knobs.list_lag_ms = 0);
    let list = digitalocean(&server, "GET", "v2/reserved_ips", None).await.json();
    assert_eq!(list["meta"]["total"], 1);
    server.stop().await;
}

//! Firewalls and tags of the simulated `DigitalOcean`: limits, what a token is not shown, how changes arrive.

use crate::support::{digitalocean, send, start};
use flipop_cloud::{CloudServer, Provider};
use serde_json::{Value, json};
use std::time::Duration;

fn rule(ports: &str) -> Value {
    json!({"protocol": "tcp", "ports": ports, "sources": {"addresses": ["0.0.0.0/0"]}})
}

async fn make(server: &CloudServer, name: &str, droplets: &[u64]) -> String {
    let body = json!({"name": name, "inbound_rules": [rule("443")], "droplet_ids": droplets});
    let made = digitalocean(server, "POST", "/v2/firewalls", Some(body)).await;
    assert_eq!(made.status, 202, "{:?}", made.json());
    made.json()["firewall"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_firewall_has_a_name_of_its_own_a_rule_ten_droplets_and_fifty_rules_at_most() {
    let server = start().await;
    let droplets: Vec<u64> = (0..11).map(|n| server.cloud().add_droplet(&format!("d{n}"), "nyc3")).collect();
    let id = make(&server, "flipop-1", &droplets[..10]).await;
    let refused = |body: Value, status: u16| {
        let server = &server;
        async move {
            let answer = digitalocean(server, "POST", "/v2/firewalls", Some(body.clone())).await;
            assert_eq!(answer.status, status, "{body}: {:?}", answer.json());
        }
    };
    refused(json!({"name": "flipop-1", "inbound_rules": [rule("1")]}), 409).await;
    refused(json!({"name": "bad name", "inbound_rules": [rule("1")]}), 400).await;
    refused(json!({"name": "none"}), 400).await;
    refused(json!({"name": "tag", "inbound_rules": [rule("1")], "tags": ["unknown"]}), 400).await;
    refused(json!({"name": "many", "inbound_rules": [rule("1")], "droplet_ids": droplets}), 400).await;
    refused(json!({"name": "gone", "inbound_rules": [rule("1")], "droplet_ids": [1]}), 400).await;
    let rules: Vec<Value> = (1..=51).map(|port| rule(&port.to_string())).collect();
    refused(json!({"name": "rules", "inbound_rules": rules}), 400).await;
    let path = format!("/v2/firewalls/{id}/droplets");
    let eleventh = digitalocean(&server, "POST", &path, Some(json!({"droplet_ids": [droplets[10]]}))).await;
    assert_eq!(eleventh.status, 400);
    let gone = digitalocean(&server, "DELETE", &path, Some(json!({"droplet_ids": [droplets[0]]}))).await;
    assert_eq!(gone.status, 204);
    let tenth = digitalocean(&server, "POST", &path, Some(json!({"droplet_ids": [droplets[10]]}))).await;
    assert_eq!(tenth.status, 204);
    server.stop().await;
}

#[tokio::test]
async fn a_put_resets_what_it_leaves_out_and_the_small_endpoints_do_not() {
    let server = start().await;
    let droplet = server.cloud().add_droplet("d", "nyc3");
    let id = make(&server, "web", &[droplet]).await;
    let path = format!("/v2/firewalls/{id}/rules");
    for _ in 0..2 {
        let body = json!({"inbound_rules": [rule("80")]});
        assert_eq!(digitalocean(&server, "POST", &path, Some(body)).await.status, 204);
    }
    let view = &server.cloud().firewalls()[0];
    assert_eq!(view.inbound, ["tcp/443/0.0.0.0/0", "tcp/80/0.0.0.0/0"].map(str::to_owned).into());
    assert_eq!(view.droplets, [droplet].into());
    let body = json!({"inbound_rules": [rule("443")]});
    assert_eq!(digitalocean(&server, "DELETE", &path, Some(body)).await.status, 204);
    let body = json!({"inbound_rules": [rule("80")]});
    let last = digitalocean(&server, "DELETE", &path, Some(body)).await;
    assert_eq!(last.status, 400, "the last rule stays");
    let body = json!({"name": "web", "inbound_rules": [rule("81")]});
    let put = digitalocean(&server, "PUT", &format!("/v2/firewalls/{id}"), Some(body)).await;
    assert_eq!((put.status, put.json()["firewall"]["droplet_ids"].clone()), (200, json!([])));
    server.stop().await;
}

#[tokio::test]
async fn what_a_token_may_not_read_is_left_out_without_a_word() {
    let server = start().await;
    let cloud = server.cloud();
    let droplet = cloud.add_droplet("d", "nyc3");
    cloud.add_firewall("base", &[droplet], &["k8s"]).unwrap();
    for (scopes, droplets, tags) in [
        (&["firewall:read"][..], json!([]), json!([])),
        (&["firewall:read", "droplet:read"], json!([droplet]), json!([])),
        (&["firewall:read", "tag:read"], json!([]), json!(["k8s"])),
    ] {
        cloud.add_token(Provider::DigitalOcean, "reader", "reader", scopes);
        let get = async |path: &str| {
            let url = format!("{}{path}", server.digitalocean_url());
            send("GET", &url, Some("reader"), None).await.unwrap()
        };
        let found = get("v2/firewalls").await.json()["firewalls"][0].clone();
        assert_eq!((&found["droplet_ids"], &found["tags"]), (&droplets, &tags), "{scopes:?}");
        let listed = get("v2/droplets").await;
        if listed.status == 200 {
            assert_eq!(listed.json()["droplets"][0]["tags"], json!([]), "{scopes:?}");
        }
        let allowed = if scopes.contains(&"tag:read") { 200 } else { 403 };
        assert_eq!(get("v2/tags").await.status, allowed);
        let body = json!({"name": "base", "inbound_rules": [rule("1")]});
        let url = format!("{}v2/firewalls/{}", server.digitalocean_url(), cloud.firewalls()[0].id);
        assert_eq!(send("PUT", &url, Some("reader"), Some(&body)).await.unwrap().status, 403);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_change_is_pending_for_each_droplet_until_it_has_arrived() {
    let server = start().await;
    let cloud = server.cloud();
    cloud.tune(|knobs| knobs.firewall_ms = 40);
    let (a, b) = (cloud.add_droplet("a", "nyc3"), cloud.add_droplet("b", "nyc3"));
    assert_eq!(cloud.lets_in(a), None, "no firewall: everything");
    let id = make(&server, "web", &[a]).await;
    let read = async || {
        let found = digitalocean(&server, "GET", &format!("/v2/firewalls/{id}"), None).await.json();
        (found["firewall"]["status"].clone(), found["firewall"]["pending_changes"].clone())
    };
    let pending = |id, removing| json!([{"droplet_id": id, "removing": removing, "status": "waiting"}]);
    assert_eq!(read().await, (json!("waiting"), pending(a, false)));
    assert_eq!(cloud.lets_in(a), Some([].into()), "nothing yet");
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(read().await, (json!("succeeded"), json!([])));
    assert_eq!(cloud.lets_in(a), Some(["tcp/443/0.0.0.0/0".to_owned()].into()));
    let path = format!("/v2/firewalls/{id}/droplets");
    digitalocean(&server, "POST", &path, Some(json!({"droplet_ids": [b]}))).await;
    assert_eq!(read().await.1, pending(b, false), "the other one is not touched");
    tokio::time::sleep(Duration::from_millis(60)).await;
    digitalocean(&server, "DELETE", &path, Some(json!({"droplet_ids": [b]}))).await;
    assert_eq!(read().await.1, pending(b, true));
    assert_eq!(digitalocean(&server, "DELETE", &format!("/v2/firewalls/{id}"), None).await.status, 204);
    assert_eq!(digitalocean(&server, "DELETE", &format!("/v2/firewalls/{id}"), None).await.status, 404);
    server.stop().await;
}

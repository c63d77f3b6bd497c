//! The simulated `DigitalOcean`, part reserved IPs, over real connections.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test fails by panicking, and its support module is shared by several test crates"
)]

mod cloud_support;

use cloud_support::{DO_TOKEN, digitalocean, send, start};
use flipop_sandbox::cloud::{CloudServer, Fault, Garble, Injection, Op, Target, When};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

async fn assign(server: &CloudServer, ip: Ipv4Addr, droplet: u64) -> cloud_support::Answer {
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
    let _ = cloud.inject(Injection::once(Target::op(Op::CreateReservedIp), Fault::Reset(When::Before)));
    assert!(create().await.is_err());
    assert_eq!(cloud.ips().len(), 0);
    let _ = cloud.inject(Injection::once(Target::op(Op::CreateReservedIp), Fault::Reset(When::After)));
    assert!(create().await.is_err());
    assert_eq!(cloud.ips().len(), 1);
    let _ = cloud.inject(Injection::once(Target::any(), Fault::Garble(Garble::Truncated)));
    assert!(create().await.is_err());
    assert_eq!(cloud.ips().len(), 2);
    let calls = cloud.calls(0);
    assert_eq!(calls.iter().map(|call| call.effect).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(calls[0].status, None);
    assert_eq!(calls[2].status, Some(202));
    assert_eq!(cloud.mutations(), 2);
    server.stop().await;
}

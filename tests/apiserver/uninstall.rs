//! `flipop check --uninstall`: each kind of thing that an uninstallation leaves.

use crate::commands::{call, ended, text, user};
use crate::dns::{Name, ZONE, externals, set_spec, sorted};
use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, Object, SOON, World, ip, plain_spec, same};
use flipop_cloud::Provider;
use flipop_core::model::node_labels::LabelKey;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed: each_kind_of_thing_that_an_uninstallation_would_leave_is_listed]
}

/// A thing that stays: its place, what it is, and how to remove it.
type Left = (String, String, String);

/// A pool with an address of its own and one that is bought, with all that a pool can have; a pool whose address is on
/// no node; and a record set of the nodes' own addresses. Returns the first pool's addresses and their nodes.
async fn everything(world: &World) -> Outcome<(Operator, BTreeMap<String, String>)> {
    world.reserve(&[10, 12]);
    let operator = world.dns_operator().await?;
    let mut spec = plain_spec(&[10]);
    spec["desiredIPs"] = json!(2);
    spec["reclaimPolicy"] = json!("Delete");
    spec["nodeLabels"] = json!({ "enabled": true });
    spec["firewall"] = json!({ "ports": [{ "protocol": "tcp", "port": "443" }], "sources": ["0.0.0.0/0"] });
    spec["dnsRecordSet"] = json!({ "zone": ZONE, "recordName": "www" });
    world.pool("p", &spec).await?;
    let mut spare = plain_spec(&[12]);
    spare["match"]["nodeLabel"] = json!("pool=none");
    world.pool("spare", &spare).await?;
    world.record_set("nodes", &set_spec(Provider::Cloudflare, "nodes")).await?;
    let both = |pool: &Object| {
        let active = pool.active();
        if active.len() == 2 { Ok(active) } else { Err(format!("active are {active:?}")) }
    };
    let active = world.pool_shows("p", "both addresses serve", SOON, both).await?;
    let published = sorted(active.keys().filter_map(|address| address.parse().ok()));
    world.pool_publishes("p", &Name::new(Provider::DigitalOcean, "www"), &published).await?;
    world.set_settles("nodes", &Name::new(Provider::Cloudflare, "nodes"), &externals(&[1, 2])).await?;
    Ok((operator, active))
}

/// The things that stay, according to the account, the zones and the nodes' droplets.
fn left_of(
    world: &World,
    active: &BTreeMap<String, String>,
    droplets: &BTreeMap<&str, u64>,
) -> BTreeSet<Left> {
    let pool = "FloatingIPPool default/p";
    let record = "FLIPOP leaves records in place: delete it at the provider if you do not need it";
    let address = "it stays in the account and is billed: delete it there if you do not need it";
    let mut all = BTreeSet::new();
    let mut left = |place: &str, what: String, remedy: &str| {
        all.insert((place.to_owned(), what, remedy.to_owned()));
    };
    for (ip_text, node) in active {
        let own = *ip_text == ip(10).to_string();
        let by = if own { "" } else { ", created by FLIPOP" };
        let remedy =
            if own { address } else { "FLIPOP deletes it with its pool while the operator still runs" };
        let droplet = droplets[node.as_str()];
        left(pool, format!("address {ip_text} on digitalocean://{droplet}{by}"), remedy);
        left(pool, format!("record www.{ZONE} A {ip_text} at digitalocean"), record);
        let place = format!("node {node}");
        let remove = format!("kubectl annotate node {node} {ANNOTATION}-");
        left(&place, format!("annotation {ANNOTATION}={ip_text}"), &remove);
        for (key, value) in [(LabelKey::Active, "true"), (LabelKey::Ip, ip_text.as_str())] {
            let key = key.as_str();
            left(&place, format!("label {key}={value}"), &format!("kubectl label node {node} {key}-"));
        }
    }
    for wall in world.cloud().firewalls().iter().filter(|wall| wall.name != "base") {
        let remove = "remove spec.firewall while the operator still runs, or delete the firewall there";
        left(pool, format!("firewall {} at digitalocean", wall.name), remove);
    }
    let remove = "delete the object while the operator still runs: kubectl delete fipool p -n default";
    left(pool, "finalizer flipop.digitalocean.com/reclaim".to_owned(), remove);
    left("FloatingIPPool default/spare", format!("address {} on no droplet", ip(12)), address);
    for ip_text in externals(&[1, 2]) {
        let place = "NodeDNSRecordSet default/nodes";
        left(place, format!("record nodes.{ZONE} A {ip_text} at cloudflare"), record);
    }
    all
}

async fn each_kind_of_thing_that_an_uninstallation_would_leave_is_listed(world: &mut World) -> Outcome {
    let world = &*world;
    let remover = user(world, "remover", &["flipop-status"]).await?;
    let nothing = call(remover.path(), &["check", "--uninstall"]).await?;
    ended(&nothing, 0)?;
    assert_eq!(text(&nothing), "ok nothing would stay behind\n");
    world.zones();
    let droplets = BTreeMap::from([
        ("alpha", world.public_node("alpha", 1).await?),
        ("beta", world.public_node("beta", 2).await?),
    ]);
    assert!(world.cloud().add_firewall("base", &[], &["k8s"]).is_some());
    let (mut operator, active) = everything(world).await?;
    let left = left_of(world, &active, &droplets);
    assert!(left.iter().any(|(_, what, _)| what.starts_with("firewall ")), "{left:#?}");
    let shown = |(place, what, remedy): &Left| json!({ "place": place, "what": what, "remedy": remedy });
    let listed = Value::Array(left.iter().map(shown).collect());
    eventually("everything is listed, and nothing else", SOON, || async {
        let told = ended(&call(remover.path(), &["check", "--uninstall", "-o", "json"]).await?, 0)?;
        same(&told, &listed).map_err(Failure::new)
    })
    .await?;
    // Each command does what its line says.
    assert!(operator.terminate().await?.success());
    for (_, what, remedy) in left.iter().filter(|(place, ..)| place.starts_with("node ")) {
        let words: Vec<&str> = remedy.split_whitespace().collect();
        assert_eq!(words.first(), Some(&"kubectl"), "{what}");
        world.kubectl.run(&words[1..]).await?;
    }
    let told = text(&call(remover.path(), &["check", "--uninstall"]).await?);
    assert!(!told.contains("! node ") && told.contains("! FloatingIPPool default/p: finalizer "), "{told}");
    Ok(())
}

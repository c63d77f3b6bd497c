//! The objects of `examples/`, and those of former READMEs, applied unchanged in the cloud and the cluster that they
//! assume.

use crate::dns::{Name, externals, named};
use crate::suite::{Case, cases};
use crate::world::{REGION, SOON, World, path, same};
use flipop_cloud::{Plan, Provider};
use flipop_envtest::nodes::{NewNode, NewPod};
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::net::Ipv4Addr;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        the_example_of_a_pool_publishes_its_addresses_and_that_of_a_record_set_follows_its_annotations,
        the_example_of_created_addresses_publishes_what_was_bought,
        the_objects_of_the_first_published_readme_converge,
        the_objects_of_the_older_readme_converge,
        the_pool_of_the_oldest_readme_converges_without_dns,
    ]
}

/// The warning about a record set from the Go operator's time.
const WHEN_EMPTY: Option<&str> = Some("spec.dnsRecordSet.whenEmpty is missing");

/// The labels in the examples and in former READMEs.
const POOL_LABELS: [&str; 2] = ["pool", "doks.digitalocean.com/node-pool"];

/// Nodes named a, b, … of a node pool, each on its own droplet with a Ready pod. The first node is cordoned. Returns
/// the droplets.
async fn nodes(world: &World, pool: &str, app: Option<&str>, count: u8) -> Outcome<Vec<u64>> {
    world.cluster.namespace("ingress", None).await?;
    let mut droplets = Vec::new();
    for number in 1..=count {
        let name = node_name(number);
        let droplet = world.cloud().add_droplet(&name, REGION);
        let node = NewNode::new(&name).droplet(droplet);
        let node = POOL_LABELS.into_iter().fold(node, |node, label| node.label(label, pool));
        let node = node.address("ExternalIP", &crate::dns::external(number).to_string());
        let cordoned = app.is_some() && number == 1;
        let node = if cordoned { node.taint("node.kubernetes.io/unschedulable", "NoSchedule") } else { node };
        world.nodes.create(&node).await?;
        if let Some(app) = app {
            let pod = NewPod::new("ingress", &name, &name).label("app", app);
            world.nodes.create_pod(&pod.label("component", "controller")).await?;
        }
        droplets.push(droplet);
    }
    Ok(droplets)
}

fn node_name(number: u8) -> String {
    char::from(b'a' + number - 1).to_string()
}

/// Reserves an address and puts it on a droplet.
pub(crate) fn placed(world: &World, address: &str, droplet: Option<u64>) -> Outcome {
    let address: Ipv4Addr = address.parse()?;
    world.cloud().add_ip(Some(address), REGION);
    Ok(world.cloud().move_ip(address, droplet)?)
}

/// Applies a file. It must warn exactly if a warning is expected.
async fn apply_warned(world: &World, file: &str, expected: Option<&str>) -> Outcome {
    let applied = world.kubectl.run(&["apply", "-f", &path(file)]).await?;
    let warnings = applied.warnings();
    assert_eq!(warnings.len(), expected.iter().count(), "{file}: {}", applied.stderr);
    assert!(expected.is_none_or(|text| warnings[0].contains(text)), "{file}: {warnings:?}");
    Ok(())
}

pub(crate) async fn apply(world: &World, file: &str) -> Outcome {
    apply_warned(world, file, None).await
}

/// A name's records with their TTL.
fn records(addresses: &[&str], ttl: u64) -> Outcome<Vec<(Ipv4Addr, u64)>> {
    let mut records = Vec::new();
    for address in addresses {
        records.push((address.parse()?, ttl));
    }
    records.sort_unstable();
    Ok(records)
}

/// Waits until all addresses of a pool are active and published, without any reported trouble.
pub(crate) async fn pool_converges(
    world: &World,
    pool: &str,
    name: &Name,
    addresses: &[&str],
    ttl: u64,
) -> Outcome {
    let wanted = records(addresses, ttl)?;
    let published: Vec<String> = wanted.iter().map(|(address, _)| address.to_string()).collect();
    world
        .pool_shows(pool, "its addresses are active and published", SOON, |pool| {
            same(name.records(world), wanted.clone())?;
            same(pool.error(), "")?;
            pool.is_current()?;
            let mut active: Vec<String> = pool.active().into_keys().collect();
            let mut expected = published.clone();
            active.sort();
            expected.sort();
            same(active, expected)?;
            same(&pool.status()["dnsRecordSet"]["fqdn"], &json!(name.fqdn))?;
            same(&pool.status()["dnsRecordSet"]["addresses"], &json!(published))?;
            pool.has("Ready", "True", "Assigned", &[])?;
            pool.has("SpecValid", "True", "Valid", &[])?;
            pool.has("RecordSetReady", "True", "Published", &[&published[0]])
        })
        .await?;
    world.event_says(pool, "RecordsChanged", &[&name.fqdn]).await
}

/// Waits until a record set publishes these addresses, without any reported trouble.
pub(crate) async fn set_converges(
    world: &World,
    set: &str,
    name: &Name,
    addresses: &[&str],
    ttl: u64,
) -> Outcome {
    let wanted = records(addresses, ttl)?;
    let published: Vec<String> = wanted.iter().map(|(address, _)| address.to_string()).collect();
    world.set_settles(set, name, &published).await?;
    assert_eq!(name.records(world), wanted);
    world.event_says(set, "RecordsChanged", &[&name.fqdn]).await
}

/// Waits until a metric has this value for exactly these labels.
async fn measured(operator: &Operator, metric: &str, labels: &[(&str, &str)], value: f64) -> Outcome {
    eventually(&format!("{metric}{labels:?} is {value}"), SOON, || async {
        let found = operator.scrape().await?.sum(metric, labels);
        same(found, Some(value)).map_err(Failure::new)
    })
    .await
}

async fn pool_is_measured(operator: &Operator, name: &str, dns: &str, assigned: f64) -> Outcome {
    let labels = [("namespace", "default"), ("name", name), ("provider", "digitalocean"), ("dns", dns)];
    let status = [&labels[..], &[("status", "assigned")]].concat();
    measured(operator, "flipop_floatingippoolcontroller_node_status", &status, assigned).await?;
    for metric in ["ip_state", "ip_node"] {
        let metric = format!("flipop_floatingippoolcontroller_{metric}");
        measured(operator, &metric, &labels, assigned).await?;
    }
    measured(operator, "flipop_floatingippoolcontroller_unfulfilled_ips", &labels, 0.0).await
}

async fn set_is_measured(operator: &Operator, name: &str, on: &Name, records: f64) -> Outcome {
    let labels =
        [("namespace", "default"), ("name", name), ("provider", named(on.provider)), ("dns", &on.fqdn)];
    measured(operator, "flipop_nodednsrecordset_records", &labels, records).await?;
    let call = [
        ("provider", named(on.provider)),
        ("call", "EnsureDNSARecordSet"),
        ("outcome", "success"),
        ("kind", "NodeDNSRecordSet"),
        ("namespace", "default"),
        ("name", name),
    ];
    let calls = operator.scrape().await?.sum("flipop_providers_calls_total", &call);
    assert!(calls.is_some_and(|calls| calls >= 1.0), "{calls:?}");
    Ok(())
}

async fn the_example_of_a_pool_publishes_its_addresses_and_that_of_a_record_set_follows_its_annotations(
    world: &mut World,
) -> Outcome {
    world.zones();
    let other = "example.net";
    let _id = world.cloud().add_zone(other, Plan::Free);
    let droplets = nodes(world, "edge", Some("nginx-ingress"), 2).await?;
    world.reserve(&[10]);
    // One address is already assigned, so nothing waits for the cool-off.
    placed(world, "203.0.113.11", Some(droplets[0]))?;
    let operator = world.dns_operator().await?;
    apply(world, "examples/floatingippool.yaml").await?;
    apply(world, "examples/nodednsrecordset.yaml").await?;
    let addresses = ["203.0.113.10", "203.0.113.11"];
    let ingress = Name::new(Provider::DigitalOcean, "ingress");
    let (zone, fqdn) = (other.to_owned(), format!("nodes.{other}"));
    let nodes = Name { provider: Provider::Cloudflare, zone, fqdn };
    pool_converges(world, "ingress-pool", &ingress, &addresses, 30).await?;
    set_converges(world, "ingress-nodes", &nodes, &addresses, 120).await?;
    pool_is_measured(&operator, "ingress-pool", "ingress.example.com", 2.0).await?;
    set_is_measured(&operator, "ingress-nodes", &nodes, 2.0).await?;
    // A DigitalOcean domain has its own SOA and NS records. Nothing else was created.
    assert_eq!(world.cloud().records(Provider::DigitalOcean, crate::dns::ZONE).len(), 4 + 2);
    assert_eq!(world.cloud().records(Provider::Cloudflare, other).len(), 2);
    Ok(())
}

async fn the_example_of_created_addresses_publishes_what_was_bought(world: &mut World) -> Outcome {
    world.zones();
    nodes(world, "games", None, 3).await?;
    let operator = world.dns_operator().await?;
    apply(world, "examples/floatingippool-created.yaml").await?;
    world.pool_shows("game-servers", "it has three", SOON, |pool| same(pool.active().len(), 3)).await?;
    let bought: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
    let bought: Vec<&str> = bought.iter().map(String::as_str).collect();
    assert_eq!(bought.len(), 3);
    let play = Name::new(Provider::DigitalOcean, "play");
    pool_converges(world, "game-servers", &play, &bought, 60).await?;
    pool_is_measured(&operator, "game-servers", "play.example.com", 3.0).await
}

async fn the_objects_of_the_first_published_readme_converge(world: &mut World) -> Outcome {
    world.zones();
    let droplets = nodes(world, "work", Some("nginx"), 3).await?;
    placed(world, "192.168.1.1", Some(droplets[0]))?;
    placed(world, "192.168.2.1", Some(droplets[1]))?;
    let operator = world.dns_operator().await?;
    apply(world, "tests/apiserver/fixtures/readme-pool.yaml").await?;
    apply_warned(world, "tests/apiserver/fixtures/readme-record-set.yaml", WHEN_EMPTY).await?;
    world.pool_shows("ingress-pool", "it has three", SOON, |pool| same(pool.active().len(), 3)).await?;
    let addresses: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    assert_eq!(addresses.len(), 3);
    let (hello, nodes) =
        (Name::new(Provider::DigitalOcean, "hello"), Name::new(Provider::DigitalOcean, "nodes"));
    pool_converges(world, "ingress-pool", &hello, &addresses, 30).await?;
    set_converges(world, "ingress-nodes", &nodes, &addresses, 120).await?;
    pool_is_measured(&operator, "ingress-pool", "hello.example.com", 3.0).await?;
    set_is_measured(&operator, "ingress-nodes", &nodes, 3.0).await
}

async fn the_objects_of_the_older_readme_converge(world: &mut World) -> Outcome {
    world.cloud().add_domain(crate::dns::ZONE);
    world.cloud().add_zone_with_id("abcdefghijklmnopqrstuvwxyz012345", crate::dns::ZONE, Plan::Free);
    let droplets = nodes(world, "work", Some("nginx-ingress"), 3).await?;
    placed(world, "192.168.1.1", Some(droplets[0]))?;
    placed(world, "192.168.2.1", Some(droplets[1]))?;
    let operator = world.dns_operator().await?;
    let ttl = Some("spec.dnsRecordSet.ttl 30 ");
    apply_warned(world, "tests/apiserver/fixtures/older-readme-pool.yaml", ttl).await?;
    apply_warned(world, "tests/apiserver/fixtures/older-readme-record-set.yaml", WHEN_EMPTY).await?;
    world.pool_shows("ingress-pool", "it has three", SOON, |pool| same(pool.active().len(), 3)).await?;
    let addresses: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let (hello, nodes) =
        (Name::new(Provider::Cloudflare, "hello-world"), Name::new(Provider::DigitalOcean, "nodes"));
    // 30 s is below this zone's minimum. That is reported, but is no error.
    pool_converges(world, "ingress-pool", &hello, &addresses, 60).await?;
    world
        .pool_shows("ingress-pool", "the TTL was raised", SOON, |pool| {
            pool.has("RecordSetTTLRaised", "True", "BelowFloor", &["30", "60"])
        })
        .await?;
    let externals = externals(&[1, 2, 3]);
    let externals: Vec<&str> = externals.iter().map(String::as_str).collect();
    set_converges(world, "ingress-nodes", &nodes, &externals, 120).await?;
    pool_is_measured(&operator, "ingress-pool", "hello-world.example.com", 3.0).await?;
    set_is_measured(&operator, "ingress-nodes", &nodes, 3.0).await
}

async fn the_pool_of_the_oldest_readme_converges_without_dns(world: &mut World) -> Outcome {
    let droplets = nodes(world, "ingress", Some("nginx-ingress"), 3).await?;
    placed(world, "1.2.3.4", None)?;
    placed(world, "5.6.7.8", Some(droplets[2]))?;
    let operator = world.dns_operator().await?;
    apply(world, "tests/apiserver/fixtures/oldest-readme-pool.yaml").await?;
    world
        .pool_shows("ingress-pool", "both addresses are active", SOON, |pool| {
            // The first node is cordoned, which this README did not tolerate yet.
            let active: Vec<(String, String)> = pool.active().into_iter().collect();
            let wanted = [("1.2.3.4", "b"), ("5.6.7.8", "c")];
            same(active, wanted.map(|(ip, node)| (ip.to_owned(), node.to_owned())).into())?;
            same(pool.status()["dnsRecordSet"].is_null(), true)?;
            same(pool.conditions_with("RecordSet"), vec![])
        })
        .await?;
    pool_is_measured(&operator, "ingress-pool", "", 2.0).await?;
    assert_eq!(world.dns_calls(Provider::DigitalOcean, 0), []);
    Ok(())
}

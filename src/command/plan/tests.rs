//! Rehearsals over small clusters.

use super::account::Account;
use super::changes::with_new_things_named;
use super::report::{self, Report};
use super::walls::Walls;
use super::world::World;
use super::{copy, files, rehearsal};
use crate::api::{FloatingIPPool, NodeDNSRecordSet};
use crate::clock::Clock;
use crate::command::copy::{Lists, Objects};
use crate::command::output::Output;
use crate::config::cli_args::Format;
use crate::config::{DecisionFlags, ProviderVariables};
use crate::exit::Exit;
use crate::kube::objects::NodeSlim;
use crate::proxy::ProxySettings;
use flipop_cloud::{CloudServer, Options, Provider};
use flipop_core::model::{NodeFacts, WatchKey};
use flipop_core::records::name::Zones;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PLAIN: Output = Output { format: Format::Table, coloured: false, width: None };

fn node(number: usize, ready: bool) -> NodeFacts {
    let status = if ready { "True" } else { "False" };
    let node: NodeSlim = serde_json::from_value(json!({
        "metadata": {
            "name": format!("node-{number}"), "uid": format!("uid-{number}"),
            "labels": {"topology.kubernetes.io/region": "nyc3"},
        },
        "spec": {"providerID": format!("digitalocean://{number}")},
        "status": {"conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]},
    }))
    .unwrap();
    node.into_facts()
}

fn pool(name: &str, spec: &Value, status: &Value) -> FloatingIPPool {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec, "status": status,
    }))
    .unwrap()
}

/// A pool of two addresses, which are on the first two nodes.
fn settled_pool(more: &Value) -> FloatingIPPool {
    let entry = |number: usize| json!({"state": "active", "nodeName": format!("node-{number}"), "providerID": format!("digitalocean://{number}")});
    let mut spec = json!({
        "provider": "digitalocean", "ips": ["192.0.2.1", "192.0.2.2"], "match": {},
        "dnsRecordSet": {"zone": "example.com", "recordName": "www", "ttl": 30},
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let status = json!({
        "ips": {"192.0.2.1": entry(1), "192.0.2.2": entry(2)},
        "dnsRecordSet": {"fqdn": "www.example.com", "addresses": ["192.0.2.1", "192.0.2.2"]},
        "observedGeneration": 1,
    });
    pool("web", &spec, &status)
}

/// The plan for these objects and nodes. Nodes that hold an address carry its annotation.
async fn planned(objects: &Objects, text: &str, nodes: Vec<NodeFacts>) -> Report {
    planned_with(objects, text, nodes, DecisionFlags::default(), |_| Lists::default()).await
}

/// The same, with flags of the operator and extra lists of some of the nodes.
async fn planned_with(
    objects: &Objects,
    text: &str,
    mut nodes: Vec<NodeFacts>,
    flags: DecisionFlags,
    lists: impl Fn(&[NodeFacts]) -> Lists,
) -> Report {
    for (number, node) in nodes.iter_mut().enumerate().take(2) {
        node.annotation = Some(format!("192.0.2.{}", number + 1));
        node.annotation_ours = true;
    }
    let now: jiff::Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let documents = files::read(&[file.path().to_owned()], Some("ns")).unwrap();
    let wanted = documents.applied_to(objects, now);
    let providers = copy::every_provider(false);
    let mut lists = lists(&nodes);
    lists.nodes.insert(WatchKey::Nodes { selector: String::new() }, nodes);
    let mut world = World::new(wanted.plain(), lists, (Account::default(), Walls::default()));
    world.assume(&objects.plain(), &providers, &mut Vec::new());
    let outcome = rehearsal::run(&mut world, &providers, flags, now).await.unwrap();
    report::make(&world, &outcome, &providers, (&documents.names, documents.notes.clone()))
}

fn installed(pools: Vec<FloatingIPPool>) -> Objects {
    Objects { pools: pools.into_iter().map(Ok).collect(), ..Objects::default() }
}

fn changes(report: &Report) -> Vec<String> {
    let text = report.text(PLAIN);
    text.lines().take_while(|line| line.starts_with(['+', '-', '~'])).map(str::to_owned).collect()
}

#[tokio::test]
async fn where_everything_is_right_there_is_nothing_to_do() {
    let report =
        planned(&installed(vec![settled_pool(&json!({}))]), "", vec![node(1, true), node(2, true)]).await;
    assert_eq!(report.exit(), Exit::Success, "{}", report.text(PLAIN));
    assert!(report.text(PLAIN).starts_with("Nothing to do. Nothing was written.\n"));
}

#[tokio::test]
async fn a_node_that_failed_loses_its_address_at_once_or_at_the_end_of_its_grace() {
    for (grace, seconds) in [(json!({}), 0..=3), (json!({"nodeSeconds": 600}), 600..=603)] {
        let objects = installed(vec![settled_pool(&json!({"grace": grace}))]);
        let report = planned(&objects, "", vec![node(1, true), node(2, false), node(3, true)]).await;
        let pool = "(FloatingIPPool ns/web)";
        let annotation = "annotation flipop.digitalocean.com/ipv4-reserved-ip=192.0.2.2 on";
        let expected = [
            format!("~ move 192.0.2.2 from node-2 to node-3   {pool}"),
            format!("- {annotation} node-2"),
            format!("+ {annotation} node-3"),
        ];
        assert_eq!(changes(&report), expected, "{}", report.text(PLAIN));
        assert_eq!(report.exit(), Exit::Changes);
        let json = serde_json::to_value(&report).unwrap();
        let last = json["lastChangeSeconds"].as_u64().unwrap();
        assert!(seconds.contains(&last), "{last} of {seconds:?}");
        assert_eq!(json["objects"][0]["leftOut"][0], json!({"reason": "is not Ready", "nodes": ["node-2"]}));
    }
}

#[tokio::test]
async fn a_file_counts_in_place_of_what_is_installed_and_a_purchase_is_told_with_its_bill() {
    let more = "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\nmetadata: {name: web}\n\
                spec: {provider: digitalocean, region: nyc3, desiredIPs: 3, ips: [192.0.2.1, 192.0.2.2]}\n";
    let objects = installed(vec![settled_pool(&json!({}))]);
    let report = planned(&objects, more, vec![node(1, true), node(2, true), node(3, true)]).await;
    let pool = "(FloatingIPPool ns/web)";
    let expected = [
        format!("+ create 1 address in nyc3, which costs money   {pool}"),
        format!("+ assign new address 1 to node-3   {pool}"),
        format!("+ spec.ips: new address 1   {pool}"),
        "+ annotation flipop.digitalocean.com/ipv4-reserved-ip=new address 1 on node-3".to_owned(),
    ];
    assert_eq!(changes(&report), expected, "{}", report.text(PLAIN));
    let idle = planned(&objects, more, vec![node(1, true), node(2, true)]).await;
    let bill =
        format!("+ create 1 address in nyc3, which costs money although no node can use it now   {pool}");
    assert!(changes(&idle).contains(&bill), "{}", idle.text(PLAIN));
    let change = &serde_json::to_value(&report).unwrap()["changes"][1];
    let fields = json!({
        "sign": "add", "kind": "address", "text": "assign new address 1 to node-3", "object": "FloatingIPPool ns/web",
        "address": "new address 1", "to": "node-3",
    });
    assert_eq!(*change, fields);
}

#[test]
fn what_is_told_of_a_new_address_has_the_name_that_the_changes_give_it() {
    let mut account = Account::default();
    for _ in 0..12 {
        account.buy(&"digitalocean".into(), "nyc3").unwrap();
    }
    let world = World::new((Vec::new(), Vec::new()), Lists::default(), (account, Walls::default()));
    let text = with_new_things_named(&world, "created 240.0.0.12 and 240.0.0.1, not 192.0.2.1");
    assert_eq!(text, "created new address 12 and new address 1, not 192.0.2.1");
}

#[tokio::test]
async fn an_object_that_changes_nothing_because_others_own_all_that_it_asks_for_is_told() {
    let pool =
        "kind: FloatingIPPool\nmetadata: {name: younger}\nspec: {provider: digitalocean, ips: [192.0.2.1]}\n";
    let set = "kind: NodeDNSRecordSet\nmetadata: {name: younger}\nspec: {addressType: ExternalIP, \
               dnsRecordSet: {zone: example.com, recordName: www}}\n";
    for (kind, spec, owned) in [
        ("FloatingIPPool", pool, "192.0.2.1 is claimed by the older pool ns/web"),
        ("NodeDNSRecordSet", set, "ns/web"),
    ] {
        let more = format!("apiVersion: flipop.digitalocean.com/v1alpha1\n{spec}");
        let objects = installed(vec![settled_pool(&json!({}))]);
        let nodes = vec![node(1, true), node(2, true), node(3, true)];
        let report = planned(&objects, &more, nodes).await;
        let text = report.text(PLAIN);
        assert_eq!(report.exit(), Exit::Claimed, "{text}");
        let line = format!("x {kind} ns/younger changes nothing, because others own what it asks for: ");
        assert!(text.starts_with(&line) && text.contains(owned), "{text}");
        assert_eq!(serde_json::to_value(&report).unwrap()["objects"][1]["claimed"], json!(true));
    }
}

#[tokio::test]
async fn the_flags_of_the_operator_limit_purchases_and_zones() {
    let more = "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\nmetadata: {name: web}\n\
                spec: {provider: digitalocean, region: nyc3, desiredIPs: 3, ips: [192.0.2.1, 192.0.2.2], \
                dnsRecordSet: {zone: example.com, recordName: other}}\n";
    let objects = installed(vec![settled_pool(&json!({}))]);
    let plan = async |flags: DecisionFlags| {
        let nodes = vec![node(1, true), node(2, true), node(3, true)];
        let report = planned_with(&objects, more, nodes, flags, |_| Lists::default()).await;
        ["+ create 1 address", "+ record other.example.com"]
            .map(|change| changes(&report).iter().any(|line| line.starts_with(change)))
    };
    let zones = |text| Zones::parse(text).unwrap();
    assert_eq!(plan(DecisionFlags::default()).await, [true, true]);
    assert_eq!(
        plan(DecisionFlags { max_addresses: Some(2), ..DecisionFlags::default() }).await,
        [false, true]
    );
    assert_eq!(
        plan(DecisionFlags { zones: zones("example.org"), ..DecisionFlags::default() }).await,
        [true, false]
    );
    assert_eq!(
        plan(DecisionFlags { zones: zones("example.com"), ..DecisionFlags::default() }).await,
        [true, true]
    );
}

#[tokio::test]
async fn a_purchase_that_will_be_given_back_sets_the_finalizer() {
    let more = "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\nmetadata: {name: web}\n\
                spec: {provider: digitalocean, region: nyc3, desiredIPs: 3, ips: [192.0.2.1, 192.0.2.2], \
                reclaimPolicy: Delete}\n";
    let objects = installed(vec![settled_pool(&json!({}))]);
    let report = planned(&objects, more, vec![node(1, true), node(2, true), node(3, true)]).await;
    let finalizer = "+ finalizer flipop.digitalocean.com/reclaim   (FloatingIPPool ns/web)".to_owned();
    assert!(changes(&report).contains(&finalizer), "{}", report.text(PLAIN));
}

#[tokio::test]
async fn a_new_record_set_publishes_what_it_matches() {
    let more = "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: NodeDNSRecordSet\nmetadata: {name: nodes}\n\
                spec: {addressType: flipop.digitalocean.com/ipv4-reserved-ip, \
                dnsRecordSet: {zone: example.com, recordName: nodes}}\n";
    let objects = installed(vec![settled_pool(&json!({}))]);
    let report = planned(&objects, more, vec![node(1, true), node(2, true)]).await;
    let set = "(NodeDNSRecordSet ns/nodes)";
    let expected =
        [1, 2].map(|n| format!("+ record nodes.example.com A 192.0.2.{n} at digitalocean   {set}"));
    assert_eq!(changes(&report), expected, "{}", report.text(PLAIN));
    assert_eq!(report.exit(), Exit::Changes);
}

#[tokio::test]
async fn an_object_that_is_invalid_wins_over_changes() {
    let kind = "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\nmetadata: {name: bad}\n";
    for (spec, problem) in [
        ("spec: {provider: digitalocean, match: {nodeLabel: 'a in'}}", "spec.match.nodeLabel: "),
        (
            "spec: {provider: digitalocean, nodelabel: a, ipz: []}",
            "unknown field spec.ipz (did you mean spec.ips?), unknown field spec.nodelabel (did you mean \
             spec.match.nodeLabel?)",
        ),
        ("spec: {provider: 7}", "spec.provider must be of type string"),
        (
            "spec: {match: {tolerations: [{key: true}]}}",
            "spec.match.tolerations[0].key must be of type string",
        ),
    ] {
        let objects = installed(vec![settled_pool(&json!({}))]);
        let nodes = vec![node(1, true), node(2, false), node(3, true)];
        let report = planned(&objects, &format!("{kind}{spec}\n"), nodes).await;
        let text = report.text(PLAIN);
        assert_eq!(report.exit(), Exit::Invalid, "{text}");
        assert!(text.contains("FloatingIPPool ns/bad is invalid: ") && text.contains(problem), "{text}");
        assert!(text.contains("~ move 192.0.2.2"), "the others are planned all the same: {text}");
    }
}

#[tokio::test]
async fn what_does_not_come_to_rest_in_its_time_is_told() {
    let ips: Vec<String> = (1..=9).map(|n| format!("192.0.2.{n}")).collect();
    let spec =
        json!({"provider": "digitalocean", "region": "nyc3", "ips": ips, "assignmentCoolOffSeconds": 600});
    let objects = installed(vec![pool("web", &spec, &Value::Null)]);
    let report = planned(&objects, "", (1..=9).map(|n| node(n, true)).collect()).await;
    let text = report.text(PLAIN);
    assert_eq!(report.exit(), Exit::Unsettled, "{text}");
    assert!(text.contains("; it did not settle within 1200 s of simulated time. Nothing"), "{text}");
}

#[tokio::test]
async fn a_move_by_hand_is_rehearsed_and_one_that_would_be_refused_is_told() {
    for (node_name, moved) in [("node-3", true), ("node-2", false)] {
        let mut pool = settled_pool(&json!({}));
        let request = format!("192.0.2.1={node_name}#1");
        pool.metadata.annotations = Some([("flipop.digitalocean.com/move".to_owned(), request)].into());
        let nodes = vec![node(1, true), node(2, true), node(3, true)];
        let report = planned(&installed(vec![pool]), "", nodes).await;
        let text = report.text(PLAIN);
        assert_eq!(text.contains("~ move 192.0.2.1 from node-1 to node-3"), moved, "{text}");
        assert_eq!(text.contains("would be Refused: "), !moved, "{text}");
    }
}

#[test]
fn files_are_read_as_kubectl_reads_them() {
    let read = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        files::read(&[file.path().to_owned()], None)
    };
    let list = r#"{"kind": "List", "apiVersion": "v1", "items": [
        {"apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "NodeDNSRecordSet", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}]}"#;
    let documents = read(list).unwrap();
    let wanted = documents.applied_to(&Objects::default(), jiff::Timestamp::UNIX_EPOCH);
    let set: &NodeDNSRecordSet = wanted.record_sets[0].as_ref().unwrap();
    assert_eq!(set.metadata.namespace.as_deref(), Some("default"));
    assert!(documents.notes[0].ends_with("ConfigMap c is ignored: it is not one of FLIPOP's kinds"));
    assert!(read("---\n---\n").unwrap().notes.is_empty());
    let directory = tempfile::tempdir().unwrap();
    let whole = || files::read(&[directory.path().to_owned()], None);
    std::fs::write(directory.path().join("README.md"), "a: [").unwrap();
    assert!(whole().is_err(), "it has no object");
    std::fs::write(directory.path().join("objects.json"), list).unwrap();
    assert_eq!(whole().unwrap().names, documents.names);
    assert_eq!(documents.names.len(), 1);
    let nameless = "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\n";
    for refused in ["a: [", nameless] {
        assert!(read(refused).is_err(), "{refused}");
    }
}

/// A hundred objects and a thousand nodes, or a fifth of that in a debug build. The time is printed and not
/// asserted, since machines differ.
#[tokio::test]
async fn a_large_cluster_is_planned_whole() {
    let entry = |n: usize| json!({"state": "active", "nodeName": format!("node-{n}"), "providerID": format!("digitalocean://{n}")});
    let count = if cfg!(debug_assertions) { 20 } else { 100 };
    let pools = (0..count).map(|p| {
        let ips: Vec<usize> = (p * 10 + 1..=p * 10 + 5).collect();
        let address = |n: &usize| format!("10.0.{}.{}", n / 250, n % 250);
        let status: serde_json::Map<String, Value> = ips.iter().map(|n| (address(n), entry(*n))).collect();
        let matching = json!({"nodeLabel": format!("pool=p{p}")});
        let ips: Vec<String> = ips.iter().map(address).collect();
        let spec = json!({"provider": "digitalocean", "ips": ips, "match": matching});
        pool(&format!("pool-{p:03}"), &spec, &json!({"ips": status, "observedGeneration": 1}))
    });
    let objects = installed(pools.collect());
    // One node of every tenth pool fails.
    let nodes = (1..=count * 10).map(|n| node(n, n % 100 != 1)).collect();
    let lists = |nodes: &[NodeFacts]| {
        let of_pool = |(p, nodes): (usize, &[NodeFacts])| {
            (WatchKey::Nodes { selector: format!("pool=p{p}") }, nodes.to_vec())
        };
        Lists { nodes: nodes.chunks(10).enumerate().map(of_pool).collect(), ..Lists::default() }
    };
    let begun = Clock::system().now();
    let report = planned_with(&objects, "", nodes, DecisionFlags::default(), lists).await;
    let took = Clock::system().now().millis_since(begun);
    println!("a plan for {} nodes and {count} pools took {took} ms", count * 10);
    let moves = changes(&report).iter().filter(|line| line.starts_with("~ move")).count();
    assert_eq!((moves, report.exit()), (count / 10, Exit::Changes), "{}", changes(&report).join("\n"));
}

#[tokio::test]
async fn a_firewall_that_stands_gets_the_members_and_ports_that_it_lacks() {
    crate::provider::install_tls();
    let server = CloudServer::start(Options::default()).await.unwrap();
    let cloud = server.cloud();
    cloud.add_token(Provider::DigitalOcean, "t", "t", &["*"]);
    let droplets = ["node-1", "node-2"].map(|name| cloud.add_droplet(name, "nyc3"));
    cloud.add_firewall("base", &[], &["k8s"]).unwrap();
    // The name contains the pool's uid.
    let own = cloud.add_firewall("flipop-uid-wall-1", &[droplets[0]], &[]).unwrap();
    assert!(cloud.open_port(&own, "tcp", "443", "0.0.0.0/0"));
    let address = cloud.add_ip(Some([192, 0, 2, 1].into()), "nyc3");
    cloud.move_ip(address, Some(droplets[0])).unwrap();
    let nodes: Vec<NodeFacts> = droplets.map(|id| node(usize::try_from(id).unwrap(), true)).into();
    let spec = json!({
        "provider": "digitalocean", "ips": ["192.0.2.1"], "match": {},
        "firewall": {"ports": [{"protocol": "tcp", "port": "80"}], "sources": ["0.0.0.0/0"]},
    });
    let status = json!({
        "ips": {"192.0.2.1": {
            "state": "active", "nodeName": nodes[0].name, "providerID": nodes[0].provider_id,
        }},
        "firewalls": [{"name": "flipop-uid-wall-1", "id": own, "provider": "digitalocean"}],
        "observedGeneration": 1,
    });
    let objects = installed(vec![pool("wall", &spec, &status)]);
    let url = server.digitalocean_url();
    let variables =
        ProviderVariables::from_lines(&format!("DIGITALOCEAN_ACCESS_TOKEN=t\nDIGITALOCEAN_API_URL={url}\n"));
    let clients =
        crate::command::session::clients(&variables, &ProxySettings::default(), &Clock::system()).unwrap();
    let lists = Lists {
        nodes: [(WatchKey::Nodes { selector: String::new() }, nodes.clone())].into(),
        ..Lists::default()
    };
    let account = (Account::read(clients.clone(), &mut Vec::new()), Walls::read(clients));
    let mut world = World::new(objects.plain(), lists, account);
    let providers = copy::every_provider(false);
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    let outcome = rehearsal::run(&mut world, &providers, DecisionFlags::default(), now).await.unwrap();
    let report = report::make(&world, &outcome, &providers, (&BTreeSet::new(), Vec::new()));
    let place = "in firewall flipop-uid-wall-1   (FloatingIPPool ns/wall)";
    let expected = [
        format!("+ annotation flipop.digitalocean.com/ipv4-reserved-ip=192.0.2.1 on {}", nodes[0].name),
        format!("+ member {} {place}", nodes[1].name),
        format!("+ rule tcp/80 from 0.0.0.0/0 {place}"),
        // Nothing stays open that the pool does not ask for, in either direction.
        format!("- rule icmp to 0.0.0.0/0, ::/0 {place}"),
        format!("- rule tcp to 0.0.0.0/0, ::/0 {place}"),
        format!("- rule tcp/22 from 0.0.0.0/0, ::/0 {place}"),
        format!("- rule tcp/443 from 0.0.0.0/0 {place}"),
        format!("- rule udp to 0.0.0.0/0, ::/0 {place}"),
    ];
    assert_eq!(changes(&report), expected, "{}", report.text(PLAIN));
    assert_eq!(cloud.mutations(), 0, "nothing was changed in the account");
    server.stop().await;
}

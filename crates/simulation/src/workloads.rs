//! Small undisturbed plans, one for each thing that users and machines do. Sweeps disturb them at every call and event.

use super::plan::{Act, Machines, Plan, REST_MS, Step};
use super::scene::{CLOUDFLARE_ZONE, POOL, PROMPT_MS, RECORD_SET, REGION, ZONE};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// A step.
pub(super) fn at(at_ms: u64, act: Act) -> Step {
    Step { at_ms, act }
}

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

/// The spec of a pool on nodes of role `edge`.
pub(super) fn pool_spec(ips: &[Ipv4Addr], desired: Option<u64>) -> Value {
    let criteria = json!({ "nodeLabel": "role=edge" });
    let spec = json!({ "provider": "digitalocean", "region": REGION, "ips": ips, "match": criteria });
    match desired {
        Some(desired) => with(spec, &json!({ "desiredIPs": desired })),
        None => spec,
    }
}

fn create(name: &str, spec: Value) -> Act {
    Act::create(POOL, name, spec)
}

fn edit(name: &str, spec: Value) -> Act {
    Act::edit(POOL, name, spec)
}

fn ready(at_ms: u64, number: u64, ready: bool) -> Step {
    at(at_ms, Act::SetReady { node: node(number), ready })
}

fn drain(at_ms: u64, number: u64, drained: bool) -> Step {
    at(at_ms, Act::Drain { node: node(number), drained })
}

/// Records of this name, of a pool.
fn dns(name: &str) -> Value {
    json!({ "provider": "digitalocean", "zone": ZONE, "recordName": name })
}

/// A pool that creates this many addresses and gives them back.
fn buys(name: &str, desired: u64, record: &str) -> Act {
    let dns = with(dns(record), &json!({ "ttl": 30 }));
    let more = json!({ "reclaimPolicy": "Delete", "dnsRecordSet": dns });
    create(name, with(pool_spec(&[], Some(desired)), &more))
}

/// The spec of a record set of addresses of nodes.
fn node_set(address_type: &str) -> Value {
    json!({
        "match": { "nodeLabel": "role=edge" },
        "addressType": address_type,
        "dnsRecordSet": { "provider": "cloudflare", "zone": CLOUDFLARE_ZONE, "recordName": "nodes" },
    })
}

fn ask(last: u8, to: u64) -> Act {
    Act::Ask { name: "pool".to_owned(), ip: ip(last), node: node(to), nonce: 1 }
}

fn node(number: u64) -> String {
    format!("node-{number}")
}

/// This many nodes and addresses, from the beginning.
fn scene(nodes: u64, ips: u8) -> Vec<Step> {
    let nodes = (1..=nodes).map(|number| at(0, Act::AddNode { node: node(number) }));
    let ips = (1..=ips).map(|last| at(0, Act::AddIp { ip: ip(last) }));
    nodes.chain(ips).collect()
}

fn pool(ips: u8) -> Step {
    let ips: Vec<Ipv4Addr> = (1..=ips).map(ip).collect();
    at(1_000, create("pool", pool_spec(&ips, None)))
}

pub(super) fn plan(name: &str, scene: Vec<Step>, then: Vec<Step>) -> Plan {
    let mut steps = scene;
    steps.extend(then);
    steps.sort_by_key(|step| step.at_ms);
    let end_ms = steps.last().map_or(0, |step| step.at_ms) + 25_000;
    Plan {
        name: name.to_owned(),
        seed: 1,
        replicas: 1,
        steps,
        weather: Vec::new(),
        triggers: Vec::new(),
        end_ms,
        staleness_ms: PROMPT_MS,
        rest_ms: REST_MS,
        skew_s: 0,
        machines: Machines::default(),
    }
}

/// The plans in which an address is moved by hand, with one replica and with two.
pub fn by_hand() -> Vec<Plan> {
    let alone = plan("move an address by hand", scene(3, 2), vec![pool(2), at(8_000, ask(1, 3))]);
    let mut watched = alone.clone();
    "move an address by hand while another replica watches".clone_into(&mut watched.name);
    watched.replicas = 2;
    vec![alone, watched]
}

/// The plans in which objects are paused and resumed.
pub fn pauses() -> Vec<Plan> {
    vec![paused(), paused_while_buying()]
}

/// The plans in which addresses are given back.
pub fn given_back() -> Vec<Plan> {
    let release = || Act::Release { name: "pool".to_owned() };
    let last = |steps| {
        let mut plan = plan("give an address back", scene(3, 1), steps);
        // Time for clients to forget the records, and for one more look at everything.
        plan.end_ms += 60_000;
        plan
    };
    let other = pool_spec(&[ip(1)], None);
    let alone = last(vec![at(1_000, buys("pool", 2, "edge")), at(25_000, release())]);
    let mut again = last(vec![
        at(1_000, buys("pool", 2, "edge")),
        at(25_000, release()),
        at(26_000, edit("pool", json!({ "desiredIPs": 2 }))),
        at(27_000, create("other", other)),
    ]);
    "give an address back, and buy another".clone_into(&mut again.name);
    let delete = Act::Delete { kind: POOL.to_owned(), name: "pool".to_owned() };
    let mut all = last(vec![at(1_000, buys("pool", 1, "edge")), at(25_000, delete)]);
    "delete a pool that gives everything back".clone_into(&mut all.name);
    vec![alone, again, all]
}

/// Two pools that give back what they bought exchange their addresses, and nothing is deleted.
pub fn traded() -> Plan {
    let trade = Act::Trade { one: "pool".to_owned(), other: "other".to_owned() };
    let (first, second) = (buys("pool", 1, "edge"), buys("other", 1, "inner"));
    let steps = vec![at(1_000, first), at(10_000, second), at(25_000, trade)];
    let mut plan = plan("two pools exchange what they bought", scene(3, 0), steps);
    // Time enough to delete an address by mistake.
    plan.end_ms += 90_000;
    plan
}

/// Somebody registers a node on the droplet of another one, whose node goes later.
fn shared() -> Plan {
    let share = Act::ShareDroplet { node: node(0), of: node(1) };
    let steps = vec![pool(2), at(10_000, share), at(100_000, Act::DeleteNode { node: node(1) })];
    plan("two nodes name one droplet", scene(3, 2), steps)
}

/// The plans in which users ask for nothing unusual.
pub fn all() -> Vec<Plan> {
    vec![
        plan("create a pool of given addresses", scene(3, 3), vec![pool(3)]),
        plan(
            "create a pool that buys its addresses",
            scene(3, 0),
            vec![at(1_000, create("pool", pool_spec(&[], Some(3))))],
        ),
        plan(
            "scale a pool up and down",
            scene(5, 3),
            vec![
                at(1_000, create("pool", pool_spec(&[ip(1), ip(2), ip(3)], Some(3)))),
                at(20_000, edit("pool", json!({ "desiredIPs": 5 }))),
                // Late enough to resolve a creation whose reply was lost: a lease expires, and two lists follow.
                at(150_000, edit("pool", json!({ "desiredIPs": 1 }))),
            ],
        ),
        plan("a node is added", scene(1, 2), vec![pool(2), at(20_000, Act::AddNode { node: node(2) })]),
        plan(
            "a node is drained and comes back",
            scene(3, 2),
            vec![pool(2), drain(20_000, 1, true), drain(40_000, 1, false)],
        ),
        plan("a node is lost", scene(3, 2), vec![pool(2), at(20_000, Act::DestroyDroplet { node: node(1) })]),
        pod_moves(),
        plan(
            "the criteria are edited",
            scene(4, 2),
            vec![
                at(0, Act::SetRole { node: node(3), role: Some("inner".to_owned()) }),
                at(0, Act::SetRole { node: node(4), role: Some("inner".to_owned()) }),
                pool(2),
                at(20_000, edit("pool", json!({ "match": { "nodeLabel": "role=inner" } }))),
            ],
        ),
        plan(
            "a pool is deleted",
            scene(2, 2),
            // Late enough for a watch that was silent when the pool was created.
            vec![pool(2), at(100_000, Act::Delete { kind: POOL.to_owned(), name: "pool".to_owned() })],
        ),
        pool_dns(),
        node_dns(),
        two_pools(),
        shared(),
    ]
}

fn pod_moves() -> Plan {
    let pod = |at_ms, number| {
        at(at_ms, Act::AddPod { pod: "web-1".to_owned(), app: "web".to_owned(), node: node(number) })
    };
    let criteria = json!({ "nodeLabel": "role=edge", "podLabel": "app=web" });
    let spec = with(pool_spec(&[ip(1)], None), &json!({ "match": criteria }));
    plan("a pod moves", scene(3, 1), vec![pod(0, 1), at(1_000, create("pool", spec)), pod(20_000, 2)])
}

fn pool_dns() -> Plan {
    let dns = |name: &str| json!({ "dnsRecordSet": dns(name) });
    plan(
        "DNS of a pool is attached, changed and removed",
        scene(2, 2),
        vec![
            pool(2),
            at(15_000, edit("pool", dns("edge"))),
            // Late enough for a successor to finish another process's work, and early enough for the later steps.
            at(60_000, edit("pool", dns("other"))),
            at(75_000, edit("pool", json!({ "dnsRecordSet": null }))),
            at(90_000, edit("pool", dns("last"))),
        ],
    )
}

fn node_dns() -> Plan {
    let edit = |at_ms, address_type: &str| at(at_ms, Act::edit(RECORD_SET, "nodes", node_set(address_type)));
    plan(
        "the addresses of nodes are published, of each type",
        scene(4, 2),
        vec![
            pool(2),
            at(10_000, Act::create(RECORD_SET, "nodes", node_set("ExternalIP"))),
            edit(25_000, "InternalIP"),
            edit(40_000, "flipop.digitalocean.com/ipv4-reserved-ip"),
            ready(55_000, 1, false),
        ],
    )
}

fn two_pools() -> Plan {
    plan(
        "two pools contend for nodes and an address",
        scene(3, 3),
        vec![
            at(1_000, create("first", pool_spec(&[ip(1), ip(2)], None))),
            at(3_000, create("second", pool_spec(&[ip(2), ip(3)], None))),
            ready(20_000, 1, false),
            ready(40_000, 1, true),
        ],
    )
}

/// A pause that begins while an address moves, and another that ends before the node is back.
fn paused() -> Plan {
    let pause = |at_ms, kind: &str, name: &str, for_ms| {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        at(at_ms, Act::PauseObject { kind, name, text: "incident 7".to_owned(), for_ms })
    };
    let spec = with(pool_spec(&[ip(1), ip(2)], None), &json!({ "dnsRecordSet": dns("edge") }));
    plan(
        "objects are paused and resumed",
        scene(4, 2),
        vec![
            at(1_000, create("pool", spec)),
            at(1_500, Act::create(RECORD_SET, "nodes", node_set("ExternalIP"))),
            ready(20_000, 1, false),
            pause(20_300, POOL, "pool", 30_000),
            pause(20_400, RECORD_SET, "nodes", 35_000),
            ready(30_000, 2, false),
            ready(40_000, 1, true),
        ],
    )
}

/// A pause in which a purchase is finished. No other purchase follows before the end of the pause.
fn paused_while_buying() -> Plan {
    let (kind, name) = (POOL.to_owned(), "pool".to_owned());
    plan(
        "a pool is paused while it buys",
        scene(3, 0),
        vec![
            at(1_000, create("pool", pool_spec(&[], Some(3)))),
            at(1_400, Act::PauseObject { kind, name, text: String::new(), for_ms: 20_000 }),
        ],
    )
}

/// A grace that starts, runs, and ends in each possible way, for a pool and for a record set.
pub fn grace() -> Vec<Plan> {
    let bearing = |pod_s: u64, node_s: u64, pods: bool| {
        let criteria = if pods {
            json!({ "nodeLabel": "role=edge", "podLabel": "app=web" })
        } else {
            json!({ "nodeLabel": "role=edge" })
        };
        let grace = json!({ "podSeconds": pod_s, "nodeSeconds": node_s });
        let more = json!({ "match": criteria, "grace": grace });
        at(1_000, create("pool", with(pool_spec(&[ip(1)], None), &more)))
    };
    let pod = |number| {
        at(0, Act::AddPod { pod: format!("web-{number}"), app: "web".to_owned(), node: node(number) })
    };
    let pod_ready = |at_ms, ready| at(at_ms, Act::SetPodReady { pod: "web-1".to_owned(), ready });
    let cordon = |at_ms, on| {
        at(at_ms, Act::SetTaint { node: node(1), key: "node.kubernetes.io/unschedulable".to_owned(), on })
    };
    let set = json!({
        "match": { "nodeLabel": "role=edge" },
        "dnsRecordSet": { "provider": "cloudflare", "zone": CLOUDFLARE_ZONE, "recordName": "nodes" },
        "grace": { "nodeSeconds": 15 },
    });
    vec![
        plan(
            "a pod restarts within its grace",
            scene(2, 1),
            vec![bearing(30, 0, true), pod(1), pod(2), pod_ready(20_000, false), pod_ready(35_000, true)],
        ),
        plan(
            "a node fails for longer than its grace",
            scene(2, 1),
            vec![bearing(0, 15, false), ready(20_000, 1, false)],
        ),
        plan(
            "a node that fails is cordoned within its grace",
            scene(2, 1),
            vec![bearing(0, 60, false), ready(20_000, 1, false), cordon(30_000, true)],
        ),
        plan(
            "the nodes of a record set fail, for longer than their grace and for less",
            scene(2, 0),
            vec![
                at(1_000, Act::create(RECORD_SET, "nodes", set)),
                ready(15_000, 1, false),
                ready(40_000, 2, false),
                ready(50_000, 2, true),
            ],
        ),
    ]
}

/// Sets a field of an object.
pub(super) fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

/// A pool's spec with these fields beside the usual ones.
pub(super) fn with(mut spec: Value, more: &Value) -> Value {
    if let (Some(fields), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        fields.extend(more.clone());
    }
    spec
}

/// Labels follow an address, which moves off a healthy node, off a failing one, and back. Then the pool gives the
/// labels up. In the other plan the labels of the older tool also mark nodes without an address, and the pool is
/// deleted.
pub fn labels() -> Vec<Plan> {
    let labelled = |legacy| {
        let labels = json!({ "nodeLabels": { "enabled": true, "legacy": legacy } });
        create("pool", with(pool_spec(&[ip(1)], None), &labels))
    };
    let gone = Act::Delete { kind: POOL.to_owned(), name: "pool".to_owned() };
    vec![
        plan(
            "labels follow an address",
            scene(2, 1),
            vec![
                at(1_000, labelled(false)),
                drain(20_000, 1, true),
                ready(30_000, 2, false),
                drain(31_000, 1, false),
                // Late enough for the retry of a write that was refused.
                at(60_000, edit("pool", json!({ "nodeLabels": null }))),
            ],
        ),
        plan(
            "labels of the older tool follow an address",
            scene(3, 1),
            vec![at(1_000, labelled(true)), drain(20_000, 1, true), at(60_000, gone)],
        ),
    ]
}

/// Firewalls of a pool: the pool opens its ports, its address moves, a node joins, and the pool asks for other ports.
/// In the other plan the user's firewall is deleted and made again, and then the pool asks for no ports.
pub fn firewalls() -> Vec<Plan> {
    let opens = |port: &str| {
        let ports =
            json!([{ "protocol": "tcp", "port": port }, { "protocol": "udp", "port": "30000-30100" }]);
        json!({ "firewall": { "ports": ports, "sources": ["0.0.0.0/0", "::/0"] } })
    };
    let pool = || at(1_000, create("pool", with(pool_spec(&[ip(1)], None), &opens("443"))));
    let base = || Act::AddFirewall { name: "base".to_owned(), nodes: Vec::new(), tagged: true };
    vec![
        plan(
            "a pool opens its ports and then others",
            scene(2, 1),
            vec![
                at(0, base()),
                pool(),
                drain(20_000, 1, true),
                at(30_000, Act::AddNode { node: node(3) }),
                at(50_000, edit("pool", opens("8443"))),
            ],
        ),
        plan(
            "the last other firewall goes and comes back",
            scene(2, 1),
            vec![
                at(0, base()),
                pool(),
                at(20_000, Act::DropFirewall { name: "base".to_owned() }),
                at(90_000, base()),
                // Late enough to see the other firewall again.
                at(160_000, edit("pool", json!({ "firewall": null }))),
            ],
        ),
    ]
}

/// The plans in which a machine dies and its provider says at once that it is off or gone. Kubernetes notices later.
pub fn witnessed() -> Vec<Plan> {
    let off = ("a machine is switched off", Act::ShowOff { node: node(1), off: true });
    let gone = ("a machine is destroyed", Act::LoseDroplet { node: node(1) });
    let played = |(name, told)| {
        let spec = with(pool_spec(&[ip(1), ip(2)], None), &json!({ "nodeCheck": {} }));
        let dies = at(30_000, Act::Die { node: node(1), dead: true });
        let unready = at(75_000, Act::LoseContact { node: node(1) });
        let steps = vec![at(1_000, create("pool", spec)), dies, at(30_000, told), unready];
        let machines = Machines { kubelets: true, ..Machines::default() };
        Plan { machines, ..plan(name, scene(3, 2), steps) }
    };
    [off, gone].map(played).into()
}

/// Many hours, each with a failure and a recovery, as seen by a process that is never restarted.
pub fn hours(hours: u64) -> Plan {
    const HOUR_MS: u64 = 3_600_000;
    let more = json!({ "dnsRecordSet": dns("edge") });
    let spec = with(pool_spec(&[ip(1), ip(2), ip(3)], None), &more);
    let mut then = vec![at(1_000, create("pool", spec))];
    for hour in 0..hours {
        let (from_ms, number) = (30_000 + hour * HOUR_MS, hour % 4 + 1);
        then.push(ready(from_ms, number, false));
        then.push(ready(from_ms + HOUR_MS / 6, number, true));
        then.push(at(from_ms + HOUR_MS / 3, Act::CutWatches { replica: 0 }));
        if hour % 6 == 5 {
            then.push(at(from_ms + HOUR_MS / 2, Act::AddNode { node: node(number) }));
            then.push(at(from_ms + HOUR_MS / 2 + 60_000, Act::Compact));
        }
    }
    Plan { replicas: 2, ..plan("days without a restart", scene(4, 3), then) }
}

//! The cost of decoding and parsing one object, however large it is: counted by the allocator of this program.
//!
//! One test alone, since the counts are those of the whole process.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

use flipop::api::translate::{pool, record_set};
use flipop::api::{FloatingIPPool, NodeDNSRecordSet};
use flipop::provider::descriptors;
use flipop::random::Random;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::model::provider::Providers;
use flipop_core::records::spec::NodeSetSpec;
use flipop_envtest::cluster::Kind;
use flipop_envtest::large::{self, Large, MOST_BYTES};
use peak_alloc::PeakAlloc;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The most at any time, beyond the body.
const PEAK: usize = 4 << 20;

/// The most that a frozen object may keep.
const OF_FROZEN: usize = 64 << 10;

/// The most that any object may keep.
const OF_ANY: usize = 2 << 20;

/// Objects with random content.
const RANDOM: u64 = 48;

/// The lists of a spec, and its texts.
const LISTS: [&str; 5] = ["ips", "releasedIPs", "match/tolerations", "firewall/ports", "firewall/sources"];
const TEXTS: [&str; 8] = [
    "provider",
    "region",
    "reclaimPolicy",
    "match/nodeLabel",
    "match/podLabel",
    "match/podNamespace",
    "dnsRecordSet/zone",
    "dnsRecordSet/recordName",
];

/// Bytes that were allocated at the peak of some work, and that are still allocated after it.
struct Cost {
    peak: usize,
    kept: usize,
}

/// The result of some work is kept until its cost is known.
fn cost<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let result = work();
    let beyond = |usage: usize| usage.saturating_sub(before);
    let cost = Cost { peak: beyond(ALLOCATED.peak_usage()), kept: beyond(ALLOCATED.current_usage()) };
    (result, cost)
}

/// Decodes a body, and parses it into what the operator keeps. `None` if it cannot be decoded.
fn taken_in<K: DeserializeOwned, T>(body: &str, parse: impl FnOnce(K) -> T) -> (Option<T>, Cost) {
    cost(|| serde_json::from_str::<K>(body).ok().map(parse))
}

/// Whether the object is decoded and has a mistake that stops it as a whole, and what it costs.
fn tried(kind: Kind, body: &str, providers: &Providers) -> (Option<bool>, Cost) {
    match kind {
        Kind::Pool => {
            let (kept, cost) = taken_in(body, |read: FloatingIPPool| {
                let seen = pool::pool_object(&Ok(read));
                let spec = PoolSpec::parse(seen.spec.as_ref().unwrap(), providers);
                (seen, spec)
            });
            (kept.map(|(_, spec)| spec.is_frozen()), cost)
        }
        Kind::RecordSet => {
            let (kept, cost) = taken_in(body, |read: NodeDNSRecordSet| {
                let seen = record_set::record_set_object(&Ok(read));
                let spec = NodeSetSpec::parse(seen.spec.as_ref().unwrap(), providers);
                (seen, spec)
            });
            (kept.map(|(_, spec)| spec.obstacles().next().is_some()), cost)
        }
    }
}

fn body(spec: &Value) -> String {
    let entry = |number: usize| (format!("f:{number}"), json!({}));
    let managed: Map<String, Value> = (0..100).map(entry).collect();
    let metadata = json!({
        "name": "large", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 3,
        "managedFields": [{ "manager": "kubectl", "fieldsV1": managed }],
    });
    json!({ "metadata": metadata, "spec": spec, "status": { "observedGeneration": 2 } }).to_string()
}

/// Puts a value into a spec, at a path of one or two names.
fn put(spec: &mut Value, path: &str, value: Value) {
    let place = path.split('/').fold(spec, |place, name| {
        if !place.is_object() {
            *place = json!({});
        }
        place.as_object_mut().unwrap().entry(name).or_insert(Value::Null)
    });
    *place = value;
}

fn one_of(random: &Random, all: &[&'static str]) -> &'static str {
    let number = random.below(u64::try_from(all.len()).unwrap());
    all.get(usize::try_from(number).unwrap()).copied().unwrap()
}

/// An entry of a list, of any sort and mostly short.
fn entry(random: &Random) -> Value {
    let length = 1 + usize::try_from(random.below(1 << random.below(11))).unwrap();
    match random.below(8) {
        0 => json!(null),
        1 => json!({}),
        2 => json!("x".repeat(length)),
        3 => json!("\u{e4}\n".repeat(length)),
        4 => json!({ "key": "x".repeat(length), "operator": "Exists", "protocol": "tcp", "port": "443" }),
        5 => json!([[["x"], []], {}]),
        6 => json!(random.below(u64::MAX)),
        _ => json!(std::net::Ipv4Addr::from_bits(u32::try_from(random.below(1 << 32)).unwrap())),
    }
}

/// A spec of at most this many bytes, with one large field. Most lists have entries of one sort, which can be decoded.
fn random_spec(random: &Random, most: usize) -> Value {
    let mut spec = json!({ "provider": "digitalocean", "ips": ["192.0.2.1"], "match": { "nodeLabel": "a" } });
    if random.below(3) == 0 {
        let letter = one_of(random, &["x", "\n", "\u{20ac}", ","]);
        let bytes = serde_json::to_string(letter).unwrap().len() - 2;
        put(&mut spec, one_of(random, &TEXTS), json!(letter.repeat(most / bytes)));
        return spec;
    }
    let (sort, mixed) = (entry(random), random.below(4) == 0);
    let (mut list, mut bytes) = (Vec::new(), 0);
    loop {
        let next = if mixed { entry(random) } else { sort.clone() };
        bytes += next.to_string().len() + 1;
        if bytes > most {
            break;
        }
        list.push(next);
    }
    put(&mut spec, one_of(random, &LISTS), json!(list));
    spec
}

/// A pool whose fields are all at their bounds, with the status of as many addresses. All its ports are alike.
fn at_every_bound() -> String {
    let address = |number: u32| std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
    let text = |bytes: usize| "x".repeat(bytes);
    let toleration =
        json!({ "key": text(317), "value": text(253), "effect": "NoSchedule", "operator": "Equal" });
    let spec = json!({
        "provider": "digitalocean", "region": text(253), "desiredIPs": 1_000,
        "ips": (0..1_000).map(address).collect::<Vec<_>>(),
        "releasedIPs": (2_000..2_500).map(address).collect::<Vec<_>>(),
        "match": {
            "nodeLabel": format!("a in ({})", vec!["x".repeat(63); 63].join(",")),
            "podNamespace": text(63), "tolerations": vec![toleration; 64],
        },
        "dnsRecordSet": { "provider": "digitalocean", "zone": text(253), "recordName": text(253) },
        "firewall": {
            "ports": vec![json!({ "protocol": "tcp", "port": "30000-30100" }); 50],
            "sources": (0..1_000).map(|number| format!("{}/32", address(number))).collect::<Vec<_>>(),
        },
    });
    let entry = |number: u32| {
        let place =
            json!({ "state": "active", "nodeName": text(63), "providerID": "digitalocean://123456789" });
        (address(number), place)
    };
    let ips: Map<String, Value> = (0..1_000).map(entry).collect();
    let created: Vec<Value> =
        (0..1_000).map(|number| json!({ "ip": address(number), "written": true })).collect();
    let nodes = vec![text(63); 500];
    let status = json!({
        "ips": ips, "createdIPs": created, "assignableNodes": nodes, "nodeErrors": nodes, "observedGeneration": 1,
    });
    json!({ "metadata": { "name": "bound" }, "spec": spec, "status": status }).to_string()
}

#[test]
fn no_object_takes_more_than_its_share_of_memory_however_large_it_is() {
    let known = descriptors().map(|descriptor| (descriptor, descriptor.machines.is_some()));
    let providers = Providers::new(known, false);
    // A value made once for all objects is no object's.
    for kind in Kind::ALL {
        tried(kind, &body(&json!({ "provider": "x", "ips": ["x"] })), &providers);
    }
    let mut wrong = Vec::new();
    let mut judge =
        |name: &str, body: &str, (frozen, Cost { peak, kept }): (Option<bool>, Cost), most: usize| {
            assert!(body.len() <= MOST_BYTES, "{name}: {} bytes", body.len());
            let told =
                format!("{name}: {} bytes, {peak} at the peak, {kept} kept, frozen {frozen:?}", body.len());
            println!("{told}");
            if peak > PEAK || kept > most {
                wrong.push(told);
            }
            frozen
        };
    for Large { name, kind, spec } in large::all(1) {
        let body = body(&spec);
        let stopped = judge(name, &body, tried(kind, &body, &providers), OF_FROZEN);
        assert_eq!(stopped, Some(true), "{name}");
    }
    let body_at_bounds = at_every_bound();
    let cost = tried(Kind::Pool, &body_at_bounds, &providers);
    assert_eq!(judge("at every bound", &body_at_bounds, cost, OF_ANY), Some(false));
    let mut decoded = 0;
    for seed in 0..RANDOM {
        let random = Random::seeded(seed);
        let most = MOST_BYTES / 8 * usize::try_from(1 + random.below(7)).unwrap();
        let body = body(&random_spec(&random, most));
        for kind in Kind::ALL {
            let found = tried(kind, &body, &providers);
            let most = if kind == Kind::Pool && found.0 == Some(true) { OF_FROZEN } else { OF_ANY };
            decoded += usize::from(judge(&format!("{kind:?} of seed {seed}"), &body, found, most).is_some());
        }
    }
    assert!(decoded > 20, "only {decoded} of them can be decoded");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

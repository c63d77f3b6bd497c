//! `spec.nodeCheck` in numbers: how soon the address of a dead machine moves, and which troubles never move one.
//!
//! A plain run plays 6 min of each trouble, a landing (`SIMULATION_SWEEP`) an hour, and `SIMULATION_CHECKED_DAYS=30` a
//! month.

use crate::support::{play, setting, text, with_all};
use flipop_cloud::ChangeKind;
use flipop_simulation::news::{News, What};
use flipop_simulation::plan::{
    Act, Ail, Ailment, Fault, Machines, Plan, REST_MS, Side, Step, Weather, Which,
};
use flipop_simulation::{Outcome, watch};
use serde_json::json;
use std::io::Write as _;
use std::net::Ipv4Addr;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;

/// By this time nodes and objects exist and the addresses are assigned.
const QUIET_MS: u64 = 60 * SECOND_MS;

/// Kubernetes calls a dead machine Unknown after this long.
const KUBERNETES_MS: u64 = 45 * SECOND_MS;

const ALWAYS: u64 = 86_400_000;

fn at(at_ms: u64, act: Act) -> Step {
    Step { at_ms, act }
}

fn node(number: u64) -> String {
    format!("node-{number}")
}

fn ail(from_ms: u64, to_ms: u64, ail: Ail) -> Ailment {
    Ailment { from_ms, to_ms, node: None, replica: None, ail }
}

fn of_node(number: u64, from_ms: u64, to_ms: u64, what: Ail) -> Ailment {
    Ailment { node: Some(node(number)), ..ail(from_ms, to_ms, what) }
}

/// Nodes, of which all but one have an address, in a pool that asks for checks.
fn plan(name: &str, nodes: u64, (steps, ailments): (Vec<Step>, Vec<Ailment>), end_ms: u64) -> Plan {
    let addresses = u8::try_from(nodes - 1).unwrap();
    let ips: Vec<Ipv4Addr> = (1..=addresses).map(|last| Ipv4Addr::new(192, 0, 2, last)).collect();
    let mut all: Vec<Step> = (1..=nodes).map(|number| at(0, Act::AddNode { node: node(number) })).collect();
    all.extend(ips.iter().map(|ip| at(0, Act::AddIp { ip: *ip })));
    let spec = json!({
        "provider": "digitalocean", "region": "nyc3", "ips": ips, "match": { "nodeLabel": "role=edge" }, "nodeCheck": {},
        "dnsRecordSet": { "provider": "digitalocean", "zone": "example.com", "recordName": "edge" },
    });
    all.push(at(SECOND_MS, Act::Create { kind: "FloatingIPPool".to_owned(), name: "pool".to_owned(), spec }));
    all.extend(steps);
    all.sort_by_key(|step| step.at_ms);
    Plan {
        name: name.to_owned(),
        seed: 1,
        replicas: 2,
        steps: all,
        weather: Vec::new(),
        triggers: Vec::new(),
        end_ms,
        staleness_ms: 5_000,
        rest_ms: REST_MS,
        skew_s: 0,
        machines: Machines { kubelets: true, lease_s: Vec::new(), ailments },
    }
}

fn moves(outcome: &Outcome) -> usize {
    let first = outcome.tally.assigns.len();
    outcome.tally.assigns.values().sum::<usize>() - first
}

/// How long after this moment the first move of an address began, in milliseconds.
fn moved(news: &[News], from_ms: u64) -> Option<u64> {
    let began = |news: &&News| {
        news.at_ms >= from_ms && matches!(news.what, What::Account(ChangeKind::AssignStarted { .. }))
    };
    news.iter().find(began).map(|news| news.at_ms - from_ms)
}

/// The machine of a node that holds an address dies; Kubernetes says so later.
fn death(number: u64, at_ms: u64) -> Vec<Step> {
    let name = node(number);
    vec![
        at(at_ms, Act::Die { node: name.clone(), dead: true }),
        at(at_ms + KUBERNETES_MS, Act::LoseContact { node: name }),
    ]
}

/// The time from a death to the move, over many phases of checks and renewals.
fn detections(name: &str, sizes: (u64, u64), ailments: &[Ailment], more: &[Step]) -> Vec<u64> {
    detections_in(name, sizes, (ailments, &[]), more)
}

fn detections_in(
    name: &str,
    (nodes, lease_s): (u64, u64),
    (ailments, weather): (&[Ailment], &[Weather]),
    more: &[Step],
) -> Vec<u64> {
    let turns: Vec<u64> = (0..u64::try_from(setting("SIMULATION_DEATHS", 4)).unwrap()).collect();
    let mut found = with_all(&turns, |turn| {
        let dies_ms = 3 * MINUTE_MS + turn * 1_370;
        let mut steps = death(1, dies_ms);
        steps.extend(more.iter().map(|step| at(dies_ms + step.at_ms, step.act.clone())));
        let plan = plan(name, nodes, (steps, ailments.to_vec()), dies_ms + 3 * MINUTE_MS);
        let machines = Machines { lease_s: vec![lease_s], ..plan.machines.clone() };
        let plan = Plan { seed: 1 + turn, machines, weather: weather.to_vec(), ..plan };
        let (outcome, news) = watch(&plan).unwrap();
        assert_eq!(outcome.violations, [], "{name}: {}", plan.to_yaml().unwrap());
        assert_eq!(moves(&outcome), 1, "{name}");
        moved(&news, dies_ms).unwrap()
    });
    found.sort_unstable();
    let (least, most) = (found.first().unwrap(), found.last().unwrap());
    let text = format!("{name}, {nodes} nodes, Leases of {lease_s} s: {least} ms to {most} ms\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    found
}

/// The durations of Leases, and the longest time from a death to the move.
const LEASES: [(u64, u64); 3] = [(10, 5_000), (20, 7_500), (40, 12_500)];

#[test]
fn a_dead_machine_loses_its_address_in_the_time_of_its_lease_in_pools_of_any_size() {
    for (lease_s, most_ms) in LEASES {
        for nodes in [2, 3, 10] {
            let found = detections("death", (nodes, lease_s), &[], &[]);
            assert!(found.iter().all(|ms| *ms <= most_ms), "{lease_s} s: {found:?}");
        }
    }
}

/// The provider shows the machine of a node as switched off, or as running again.
fn shown(number: u64, at_ms: u64, off: bool) -> Step {
    at(at_ms, Act::ShowOff { node: node(number), off })
}

/// A fault of every read of a single droplet.
fn of_reads(from_ms: u64, to_ms: u64, percent: u64, fault: Fault) -> Weather {
    let which = Which { text: Some("read droplet".to_owned()), ..Which::default() };
    Weather { from_ms, to_ms, which, percent, fault }
}

#[test]
fn a_machine_that_is_switched_off_loses_its_address_within_five_seconds_whatever_its_lease() {
    for (lease_s, late_ms) in [(10, 0), (20, 0), (40, 0), (40, 1_500)] {
        for nodes in [2, 3, 10] {
            let off = shown(1, late_ms, true);
            let found = detections(&format!("off, shown after {late_ms} ms"), (nodes, lease_s), &[], &[off]);
            assert!(found.iter().all(|ms| *ms <= 5_000), "{lease_s} s: {found:?}");
        }
    }
}

#[test]
fn where_the_provider_says_nothing_of_use_the_lease_decides() {
    let narrow = at(0, Act::NarrowToken { without: "droplet:read".to_owned(), for_ms: MINUTE_MS });
    let (refuse, slow) = (Fault::Refuse { status: 500, retry_after_s: None }, Fault::Delay { ms: 20_000 });
    for (name, more, fault) in [
        ("without the scope", vec![narrow], None),
        ("errors", vec![], Some(refuse)),
        ("late answers", vec![], Some(slow)),
    ] {
        let steps: Vec<Step> = more.into_iter().chain([shown(1, 0, true)]).collect();
        let weather: Vec<Weather> =
            fault.into_iter().map(|fault| of_reads(QUIET_MS, ALWAYS, 100, fault)).collect();
        let found = detections_in(&format!("off, {name}"), (3, 20), (&[], &weather), &steps);
        assert!(found.iter().all(|ms| *ms >= 4_000), "{name}: {found:?}");
    }
}

/// The address leaves the droplet with it, and no list shows that for a minute.
#[test]
fn a_machine_that_is_destroyed_loses_its_address_before_its_lease_says_so() {
    let lost = at(0, Act::LoseDroplet { node: node(1) });
    let found = detections("destroyed", (3, 40), &[], &[lost]);
    assert!(found.iter().all(|ms| *ms <= 5_000), "{found:?}");
}

/// A provider that lies about a machine behind a closed port is believed until its kubelet reports.
#[test]
fn a_wrong_word_of_the_provider_moves_an_address_only_beside_a_closed_port_and_is_counted() {
    let gone = of_reads(QUIET_MS, ALWAYS, 50, Fault::Refuse { status: 404, retry_after_s: None });
    let turns: Vec<u64> = (0..12).collect();
    for (name, steps, weather) in [
        ("a lying provider", vec![shown(1, 2 * MINUTE_MS, true)], vec![]),
        ("a provider that loses droplets now and then", vec![], vec![gone]),
    ] {
        let played = with_all(&turns, |turn| {
            let from_ms = 3 * MINUTE_MS + turn * 1_370;
            let deaf = of_node(1, from_ms, from_ms + 30 * SECOND_MS, Ail::Deaf);
            let plan = plan(name, 3, (steps.clone(), vec![deaf]), 6 * MINUTE_MS);
            let outcome = play(&Plan { seed: 1 + turn, weather: weather.clone(), ..plan });
            assert_eq!(outcome.violations, [], "{name}, {turn}");
            assert_eq!(outcome.tally.condemned, 0, "{name}, {turn}: no machine is dead");
            (moves(&outcome), outcome.tally.misled)
        });
        assert!(played.iter().all(|(moves, misled)| moves == misled), "{name}: {played:?}");
        let misled: usize = played.iter().map(|(_, misled)| misled).sum();
        let text = format!("{name}: {misled} wrong moves for {} closed ports\n", turns.len());
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        assert!((1..turns.len()).contains(&misled), "{name}: some kubelets report in time: {played:?}");
    }
}

#[test]
fn loss_on_another_link_does_not_hold_a_verdict_up() {
    let lossy = of_node(2, QUIET_MS, ALWAYS, Ail::Loss { percent: 20 });
    for ((lease_s, most_ms), nodes) in LEASES.into_iter().zip([3, 3, 10]) {
        let lossy = std::slice::from_ref(&lossy);
        let found = detections("death beside a lossy link", (nodes, lease_s), lossy, &[]);
        assert!(found.iter().all(|ms| *ms <= most_ms), "{lease_s} s: {found:?}");
    }
}

#[test]
fn where_the_machine_of_the_leader_dies_the_next_leader_takes_over_and_then_the_verdict_falls() {
    // Either replica may lead. So each dies once, together with the node that it runs on.
    let mut all = Vec::new();
    for replica in [0, 1] {
        let crash = at(0, Act::Crash { replica, restart_ms: 10 * MINUTE_MS });
        all.extend(detections("death of a machine with a replica", (3, 40), &[], &[crash]));
    }
    let slowest = all.iter().max().unwrap();
    assert!((20_000..=30_000).contains(slowest), "{all:?}");
}

/// Moments of the run, this far apart.
fn every(period_ms: u64, end_ms: u64) -> impl Iterator<Item = u64> {
    let moments = (0..).map(move |turn| 3 * MINUTE_MS + turn * period_ms);
    moments.take_while(move |at_ms| at_ms + period_ms < end_ms)
}

/// A replica whose checks are lost for a while, time and again.
fn deaf(replica: usize, for_ms: u64, end_ms: u64) -> Vec<Ailment> {
    let deaf = every(10 * MINUTE_MS, end_ms)
        .map(|from_ms| Ailment { replica: Some(replica), ..ail(from_ms, from_ms + for_ms, Ail::Deaf) });
    deaf.collect()
}

/// A replica that reaches nobody for a while, time and again.
fn isolated(replica: usize, end_ms: u64) -> (Vec<Step>, Vec<Ailment>) {
    let for_ms = 40 * SECOND_MS;
    let cuts = every(10 * MINUTE_MS, end_ms).flat_map(|at_ms| {
        [Side::Kube, Side::Cloud].map(|side| at(at_ms, Act::Cut { replica, side, for_ms }))
    });
    (cuts.collect(), deaf(replica, for_ms, end_ms))
}

/// The troubles that must move nothing, in a pool of this many nodes, for this long.
fn troubles(nodes: u64, minutes: u64) -> Vec<Plan> {
    let end_ms = QUIET_MS + minutes * MINUTE_MS;
    let plan = |name: &str, steps: Vec<Step>, ailments: Vec<Ailment>| {
        plan(&format!("{name}, {nodes} nodes"), nodes, (steps, ailments), end_ms)
    };
    let every = |period_ms| every(period_ms, end_ms);
    let mut all = Vec::new();
    for percent in [1, 5, 20] {
        let lossy = plan("loss on all links", Vec::new(), vec![ail(QUIET_MS, ALWAYS, Ail::Loss { percent })]);
        // The paths to the servers lose packets too.
        let slow = Weather {
            from_ms: QUIET_MS,
            to_ms: end_ms,
            which: Which::default(),
            percent: 2 * percent,
            fault: Fault::Delay { ms: 600 },
        };
        all.push(Plan { weather: vec![slow], ..lossy });
    }
    // The kubelets that were connected to one of three API servers need half a minute to find another one.
    let third = every(10 * MINUTE_MS).flat_map(|from_ms| {
        let idle = move |number| of_node(number, from_ms, from_ms + 30 * SECOND_MS, Ail::Idle);
        (1..=nodes.div_ceil(3)).map(idle)
    });
    all.push(plan("one API server of three dies", Vec::new(), third.collect()));
    let returns = every(10 * MINUTE_MS).flat_map(|from_ms| {
        let idle =
            move |number| of_node(number, from_ms, from_ms + MINUTE_MS + number * 3 * SECOND_MS, Ail::Idle);
        (1..=nodes).map(idle)
    });
    let stalls = every(10 * MINUTE_MS).flat_map(|from_ms| {
        let cut = move |replica| at(from_ms, Act::Cut { replica, side: Side::Kube, for_ms: MINUTE_MS });
        [cut(0), cut(1)]
    });
    let (returns, stalls): (Vec<Ailment>, Vec<Step>) = (returns.collect(), stalls.collect());
    all.push(plan("the API server stalls", stalls, returns.clone()));
    all.push(plan("kubelets alone see the API server stall", Vec::new(), returns));
    for replica in [0, 1] {
        let isolated = isolated(replica, end_ms);
        all.push(plan(&format!("replica {replica} is isolated"), isolated.0, isolated.1));
        let deaf = deaf(replica, 5 * MINUTE_MS, end_ms);
        all.push(plan(&format!("replica {replica} reaches no node"), Vec::new(), deaf));
    }
    let stands = every(5 * MINUTE_MS).flat_map(|from_ms| {
        let end_ms = from_ms + 8 * SECOND_MS;
        let idle = move |number| of_node(number, from_ms, end_ms + number * 700, Ail::Idle);
        (1..=nodes).map(idle).chain([ail(from_ms, end_ms, Ail::Deaf)])
    });
    let unreached = every(5 * MINUTE_MS).flat_map(|from_ms| {
        let cut = move |replica| at(from_ms, Act::Cut { replica, side: Side::Kube, for_ms: 8 * SECOND_MS });
        [cut(0), cut(1)]
    });
    all.push(plan("the whole network stands still", unreached.collect(), stands.collect()));
    let dropped = every(5 * MINUTE_MS).map(|from_ms| ail(from_ms, from_ms + 45 * SECOND_MS, Ail::Deaf));
    all.push(plan("every check is dropped at one moment", Vec::new(), dropped.collect()));
    let firewall = vec![
        ail(QUIET_MS, ALWAYS, Ail::Deaf),
        of_node(1, QUIET_MS + 20 * MINUTE_MS, QUIET_MS + 21 * MINUTE_MS, Ail::Idle),
    ];
    all.push(plan("a firewall and a kubelet that restarts", Vec::new(), firewall));
    let starved = vec![
        ail(QUIET_MS, ALWAYS, Ail::Slow { every_ms: 38 * SECOND_MS }),
        ail(QUIET_MS, ALWAYS, Ail::Late { ms: 900 }),
    ];
    all.push(plan("kubelets without CPU", Vec::new(), starved));
    let lies = every(5 * MINUTE_MS).flat_map(|at_ms| {
        (1..=nodes).flat_map(move |n| {
            [(0, true), (MINUTE_MS, false)].map(|(later_ms, off)| shown(n, at_ms + later_ms, off))
        })
    });
    let lossy = vec![ail(QUIET_MS, ALWAYS, Ail::Loss { percent: 5 })];
    all.push(plan("the provider calls all machines off", lies.collect(), lossy.clone()));
    let missing = of_reads(QUIET_MS, end_ms, 50, Fault::Refuse { status: 404, retry_after_s: None });
    let flaps = plan("reads of droplets find nothing now and then", Vec::new(), lossy);
    all.push(Plan { weather: vec![missing], ..flaps });
    all.push(plan("faults of our own", Vec::new(), vec![ail(QUIET_MS, ALWAYS, Ail::OwnFault)]));
    // A hundred rollouts a day.
    let rolled = every(144 * MINUTE_MS / 10).flat_map(|from_ms| {
        let stop = move |replica: usize| {
            let later_ms = u64::try_from(replica).unwrap() * 20 * SECOND_MS;
            at(from_ms + later_ms, Act::Stop { replica, restart_ms: 2 * SECOND_MS })
        };
        [stop(0), stop(1)]
    });
    let rolled = plan("rolled", rolled.collect(), vec![ail(QUIET_MS, ALWAYS, Ail::Loss { percent: 5 })]);
    all.push(rolled);
    all
}

#[test]
fn no_trouble_that_leaves_the_machines_alive_moves_anything() {
    let days = setting("SIMULATION_CHECKED_DAYS", 0);
    let (minutes, sizes): (u64, &[u64]) = match (days, text("SIMULATION_SWEEP")) {
        (0, None) => (6, &[3]),
        (0, Some(_)) => (60, &[3]),
        (days, _) => (1_440 * u64::try_from(days).unwrap(), &[2, 3, 10]),
    };
    // A plain run plays each trouble with one of these durations of Leases, and the others play it with each.
    let durations = [vec![10], vec![20], vec![40], vec![10, 20, 40]];
    let all = minutes > 6;
    let plans =
        sizes.iter().flat_map(|nodes| (0..).zip(troubles(*nodes, minutes))).flat_map(|(turn, plan)| {
            let chosen = durations.iter().enumerate().filter(move |(place, _)| all || *place == turn % 4);
            chosen.map(move |(_, lease_s)| {
                let machines = Machines { lease_s: lease_s.clone(), ..plan.machines.clone() };
                let name = format!("{}, Leases of {lease_s:?} s", plan.name);
                Plan { name, machines, ..plan.clone() }
            })
        });
    let plans: Vec<Plan> = plans.collect();
    let wrong = with_all(&plans, |plan| {
        let outcome = play(plan);
        let moved = moves(&outcome);
        let text = format!("{}: {moved} moves in {minutes} min\n", plan.name);
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        (moved > 0 || !outcome.violations.is_empty()).then(|| (plan.name.clone(), moved, outcome.violations))
    });
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

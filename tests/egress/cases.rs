//! The tests.

use crate::block::without_the_address_pods_reach_only_what_is_excepted;
use crate::connections::{
    chains_of_others_see_no_bit_of_ours, connections_end_although_an_agent_was_killed_before_it_ended_them,
    connections_that_others_marked_go_on, established_connections_end_with_the_address_and_others_go_on,
};
use crate::lab::{Lab, OUTSIDE, sh};
use crate::networks::{
    hosts_of_the_public_subnet_of_the_node_are_outside, pods_outside_of_the_known_networks_are_noticed,
};
use crate::rest::an_agent_at_rest_takes_little;
use crate::world::{PATIENCE, World};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A test in a world of its own.
pub(crate) type Test = for<'a> fn(&'a mut World) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

macro_rules! cases {
    ($($nodes:literal: $test:ident),+ $(,)?) => {
        vec![$({
            let test: Test = |world| Box::pin($test(world));
            (stringify!($test), $nodes, test)
        }),+]
    };
}

/// Each test with the number of its nodes.
pub(crate) fn all() -> Vec<(&'static str, u32, Test)> {
    cases![
        2: pods_leave_through_the_address_and_nothing_else_changes,
        2: a_hundred_moves_send_nothing_with_a_wrong_source,
        2: established_connections_end_with_the_address_and_others_go_on,
        1: connections_end_although_an_agent_was_killed_before_it_ended_them,
        1: connections_that_others_marked_go_on,
        2: chains_of_others_see_no_bit_of_ours,
        2: without_the_address_pods_reach_only_what_is_excepted,
        1: an_agent_that_is_killed_while_it_sets_leaves_nothing_behind,
        1: an_agent_that_is_killed_while_it_removes_leaves_nothing_behind,
        1: what_others_remove_is_set_again_within_two_seconds,
        1: api_server_and_metadata_may_be_away,
        1: what_is_not_ours_stays_byte_by_byte,
        1: none_removes_everything_and_dry_run_sets_nothing,
        1: flags_choose_the_mark_and_the_networks_of_pods,
        1: an_agent_that_is_not_able_sets_nothing_and_says_why,
        1: pods_outside_of_the_known_networks_are_noticed,
        2: hosts_of_the_public_subnet_of_the_node_are_outside,
        1: an_agent_at_rest_takes_little,
    ]
}

pub(crate) const IP: &str = "203.0.113.10";
const OTHER: &str = "203.0.113.11";

/// Longest times from both inputs to traffic, and from either to silence ([`STOP`]): the bounds of the documents, and
/// what a busy machine adds.
const START: Duration = Duration::from_millis(2_500);

/// Longest time from both inputs to traffic according to the documents. On a busy machine, a few of a hundred starts
/// may take longer.
const PROMPT: Duration = Duration::from_secs(1);
const DELAYED: usize = 5;
const STOP: Duration = Duration::from_secs(3);

async fn pods_leave_through_the_address_and_nothing_else_changes(world: &mut World) -> Outcome {
    world.start(1, &["--except=198.51.100.10/32"])?;
    world.ready(1, true).await?;
    let usual = Lab::public(1);
    assert_eq!(world.lab.source(1)?, usual, "without an address pods leave as the node");
    let before = reaches(&world.lab)?;
    world.give(IP, 1).await?;
    world.lab.leaves_as(1, IP, PATIENCE).await?;
    assert_eq!(world.lab.once(&world.lab.node(1), &["reach", OUTSIDE])?, usual, "the node itself does not");
    assert_eq!(reaches(&world.lab)?, before, "what stays inside is as it was");
    let (status, metrics) = world.get(1, "/metrics")?;
    assert!(
        status == 200 && metrics.contains(&format!("flipop_agent_active{{ip=\"{IP}\",node=")),
        "{metrics}"
    );
    // An exception: the API of the provider, for pods that move addresses.
    sh("ip", &["-n", &world.lab.outside(), "addr", "add", "198.51.100.10/24", "dev", "eth0"])?;
    assert_eq!(world.lab.once(&world.lab.pod(1), &["reach", "198.51.100.10:8000"])?, usual);
    world.take(IP, 1).await?;
    world.lab.leaves_as(1, &usual, PATIENCE).await?;
    world.bare(1, PATIENCE).await
}

/// The targets that a pod and a node reach the usual way, each with the address by which the target knows them.
pub(crate) fn reaches(lab: &Lab) -> Outcome<Vec<String>> {
    let (pod, node, outside) = (lab.pod(1), lab.node(1), lab.outside());
    Ok(vec![
        lab.once(&pod, &["reach", "10.244.2.2:8080"])?,
        lab.once(&pod, &["reach", "10.20.0.2:9000"])?,
        lab.once(&pod, &["reach", "10.96.0.10:80"])?,
        lab.once(&pod, &["reach", "10.96.0.11:80"])?,
        lab.once(&pod, &["get", "169.254.169.254:80", "/metadata/v1/reserved_ip/ipv4/none"])?,
        lab.once(&node, &["reach", "10.244.1.2:8080"])?,
        lab.once(&outside, &["reach", "192.0.2.11:30080"])?,
        lab.once(&outside, &["reach", "192.0.2.12:30080"])?,
    ])
}

async fn a_hundred_moves_send_nothing_with_a_wrong_source(world: &mut World) -> Outcome {
    for n in [1, 2] {
        world.start(n, &[])?;
        world.ready(n, true).await?;
    }
    for n in [1, 2] {
        world.lab.helper(&world.lab.pod(n), &["probe", OUTSIDE])?;
    }
    let (mut starts, mut stops) = (Vec::new(), Duration::ZERO);
    for number in 0..100 {
        let (to, from) = if number % 2 == 0 { (1, 2) } else { (2, 1) };
        world.lab.assign(IP, Some(to))?;
        world.annotate(from, None).await?;
        world.lab.metadata(from, None)?;
        // Either input may be the last to name the address.
        if number % 4 < 2 {
            world.lab.metadata(to, Some(IP))?;
            world.annotate(to, Some(IP)).await?;
        } else {
            world.annotate(to, Some(IP)).await?;
            world.lab.metadata(to, Some(IP))?;
        }
        let begun = Instant::now();
        let stop = async {
            world.bare(from, STOP).await?;
            // From here on nothing may leave with a wrong source, though both pods connect all the time.
            Ok::<_, Failure>((begun.elapsed(), world.lab.wrong()?))
        };
        let start = async {
            world.lab.leaves_as(to, IP, START).await?;
            Ok(begun.elapsed())
        };
        let ((stop, before), start) = futures::try_join!(stop, start)?;
        stops = stops.max(stop);
        starts.push(start);
        assert_eq!(world.lab.source(from)?, Lab::public(from));
        assert_eq!(world.lab.wrong()?, before, "move {number}");
    }
    starts.sort();
    let delayed = starts.iter().filter(|start| **start > PROMPT).count();
    println!(
        "of 100 starts the median is {:?}, the slowest {:?}; of stops {stops:?}",
        starts[50], starts[99]
    );
    assert!(delayed <= DELAYED, "{delayed} of 100 starts took more than {PROMPT:?}: {starts:?}");
    Ok(())
}

const LAYOUT: [&str; 4] = [IP, "10.10.0.11", "10.10.0.1", "10.244.1.0/24"];

/// Takes this many steps of an agent's work. Returns the number of all steps.
fn set(world: &World, count: usize) -> Outcome<usize> {
    let count = count.to_string();
    let words: Vec<&str> = ["steps", &count].into_iter().chain(LAYOUT).collect();
    Ok(world.lab.once(&world.lab.node(1), &words)?.parse()?)
}

/// Takes this many steps of the removal. Returns the number of all steps.
pub(crate) fn unset(world: &World, count: usize) -> Outcome<usize> {
    Ok(world.lab.once(&world.lab.node(1), &["unset", &count.to_string(), "4096"])?.parse()?)
}

async fn an_agent_that_is_killed_while_it_sets_leaves_nothing_behind(world: &mut World) -> Outcome {
    let bare = world.lab.state(1)?;
    let steps = set(world, 0)?;
    for address in [None, Some(IP)] {
        for reached in 0..=steps {
            set(world, reached)?;
            resume(world, address, &bare).await?;
        }
    }
    Ok(())
}

async fn an_agent_that_is_killed_while_it_removes_leaves_nothing_behind(world: &mut World) -> Outcome {
    let bare = world.lab.state(1)?;
    set(world, usize::MAX)?;
    let removals = unset(world, 0)?;
    for reached in 0..=removals {
        set(world, usize::MAX)?;
        unset(world, reached)?;
        let address = (reached % 2 == 0).then_some(IP);
        resume(world, address, &bare).await?;
    }
    Ok(())
}

/// An agent starts where another one was killed. In the end nothing of either is left.
async fn resume(world: &mut World, address: Option<&str>, bare: &str) -> Outcome {
    match address {
        Some(ip) => world.give(ip, 1).await?,
        None => world.take(IP, 1).await?,
    }
    world.start(1, &[])?;
    let source = address.map_or_else(|| Lab::public(1), str::to_owned);
    world.lab.leaves_as(1, &source, PATIENCE).await?;
    world.ready(1, true).await?;
    if address.is_none() {
        world.settles("nothing is left", PATIENCE, |state| state == bare).await?;
    }
    world.kill(1);
    // Removes everything, as a reboot does, for the next round.
    unset(world, usize::MAX)?;
    assert_eq!(world.lab.state(1)?, bare);
    Ok(())
}

async fn what_others_remove_is_set_again_within_two_seconds(world: &mut World) -> Outcome {
    world.leave_through(IP, &[]).await?;
    let whole = world.lab.state(1)?;
    let again = async |world: &World, what: &str| {
        world.settles(what, Duration::from_secs(2), |state| state == whole).await
    };
    let node = world.lab.node(1);
    let harms: [(&str, &[&str]); 7] = [
        ("ip", &["rule", "del", "pref", "7141"]),
        ("ip", &["rule", "del", "pref", "7140"]),
        ("ip", &["rule", "del", "pref", "7139"]),
        ("ip", &["route", "flush", "table", "7141"]),
        ("nft", &["delete", "table", "inet", "flipop"]),
        ("nft", &["flush", "table", "inet", "flipop"]),
        ("nft", &["flush", "chain", "inet", "flipop", "postrouting"]),
    ];
    for (program, arguments) in harms {
        world.lab.inside(&node, program, arguments)?;
        again(world, &format!("{program} {} is mended", arguments.join(" "))).await?;
    }
    // The interface loses its addresses and with them the route, and gets them back.
    world.lab.inside(&node, "ip", &["link", "set", "eth0", "down"])?;
    world.lab.inside(&node, "ip", &["link", "set", "eth0", "up"])?;
    world.lab.inside(&node, "ip", &["route", "add", "default", "via", "192.0.2.1"])?;
    again(world, "the interface is back").await?;
    // The gateway changes. A running agent learns of it within a minute, and a starting one at once.
    world.lab.metadata_with(1, Some(IP), "10.10.0.2")?;
    world.terminate(1).await?;
    assert_eq!(world.lab.state(1)?, whole, "SIGTERM changes nothing");
    world.start(1, &[])?;
    world
        .settles("the gateway is another one", PATIENCE, |state| {
            state.contains("default via 10.10.0.2 dev eth0 table 7141")
        })
        .await?;
    world.lab.leaves_as(1, IP, PATIENCE).await
}

async fn api_server_and_metadata_may_be_away(world: &mut World) -> Outcome {
    world.leave_through(IP, &[]).await?;
    let whole = world.lab.state(1)?;
    for (api, metadata) in [(false, true), (true, false), (false, false)] {
        world.api(1, api);
        if metadata {
            world.lab.metadata(1, Some(IP))?;
        } else {
            world.lab.metadata_away(1)?;
        }
        for restart in [false, true] {
            if restart {
                world.terminate(1).await?;
                world.start(1, &[])?;
            }
            world.ready(1, true).await?;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            assert_eq!(world.lab.state(1)?, whole, "api {api}, metadata {metadata}, restart {restart}");
            assert_eq!(world.get(1, "/readyz")?.0, 200);
        }
    }
    // Each of the two counts again once it is back.
    world.lab.metadata(1, None)?;
    world.bare(1, STOP).await?;
    world.api(1, true);
    world.lab.metadata(1, Some(IP))?;
    world.lab.leaves_as(1, IP, PATIENCE).await?;
    world.annotate(1, Some(OTHER)).await?;
    world.bare(1, STOP).await
}

async fn what_is_not_ours_stays_byte_by_byte(world: &mut World) -> Outcome {
    let node = world.lab.node(1);
    for rule in [
        &["rule", "add", "pref", "7141", "from", "10.1.0.0/16", "lookup", "main"][..],
        &["rule", "add", "pref", "7139", "fwmark", "0x1", "lookup", "100"],
        &["rule", "add", "pref", "7140", "from", "10.3.0.0/16", "lookup", "main", "protocol", "static"],
        &["route", "add", "203.0.113.0/24", "via", "192.0.2.1", "table", "7142", "proto", "141"],
    ] {
        world.lab.inside(&node, "ip", rule)?;
    }
    world.lab.nft(
        &node,
        "table ip flipop {\n chain c {\n type filter hook output priority 0\n counter\n }\n}\n",
    )?;
    let before = world.lab.state(1)?;
    world.leave_through(IP, &[]).await?;
    let with = world.lab.state(1)?;
    let lost: Vec<&str> = before.lines().filter(|line| !with.contains(*line)).collect();
    assert_eq!(lost, Vec::<&str>::new());
    world.take(IP, 1).await?;
    world.settles("all is as before", PATIENCE, |state| state == before).await?;
    // If a table of somebody else has our name, or our routing table has routes of somebody else, the agent sets
    // nothing and touches nothing.
    world.lab.inside(&node, "ip", &["route", "add", "default", "via", "192.0.2.1", "table", "7141"])?;
    let before = world.lab.state(1)?;
    world.give(IP, 1).await?;
    assert!(world.ready(1, false).await?.contains("Foreign"));
    assert_eq!(world.lab.state(1)?, before);
    world.lab.inside(&node, "ip", &["route", "flush", "table", "7141"])?;
    world.lab.leaves_as(1, IP, PATIENCE).await?;
    world.take(IP, 1).await?;
    world.settles("the table is gone", PATIENCE, |state| !state.contains("inet flipop")).await?;
    world.lab.nft(
        &node,
        "table inet flipop {\n chain c {\n type filter hook output priority 0\n counter\n }\n}\n",
    )?;
    let before = world.lab.state(1)?;
    world.give(IP, 1).await?;
    assert!(world.ready(1, false).await?.contains("Foreign"));
    assert_eq!(world.lab.state(1)?, before);
    Ok(())
}

async fn none_removes_everything_and_dry_run_sets_nothing(world: &mut World) -> Outcome {
    let bare = world.lab.state(1)?;
    world.start(1, &["--dry-run"])?;
    world.give(IP, 1).await?;
    eventually("it says what it would do", PATIENCE, || async {
        let log = world.describe();
        log.contains("would add rule 7141").then_some(()).ok_or_else(|| Failure::new(log))
    })
    .await?;
    assert_eq!(world.lab.state(1)?, bare);
    world.terminate(1).await?;
    world.start(1, &[])?;
    world.lab.leaves_as(1, IP, PATIENCE).await?;
    world.terminate(1).await?;
    world.start(1, &["--egress=None"])?;
    world.ready(1, true).await?;
    assert_eq!(world.lab.state(1)?, bare);
    world.lab.leaves_as(1, &Lab::public(1), PATIENCE).await
}

async fn flags_choose_the_mark_and_the_networks_of_pods(world: &mut World) -> Outcome {
    world.leave_through(IP, &["--mark=0x40000", "--pod-cidr=10.244.1.0/29"]).await?;
    let state = world.lab.state(1)?;
    let rule = "7141:\tfrom 10.244.1.0/29 fwmark 0x40000/0x40000 lookup 7141";
    assert!(state.contains(rule), "{state}");
    assert!(!state.contains("10.244.1.0/24 fwmark"), "the flag wins over the node's pod CIDR: {state}");
    assert!(!state.contains("0x1000"), "{state}");
    // A pod that no flag names keeps its usual way, and the bit of the former agent is gone.
    world.terminate(1).await?;
    world.start(1, &["--pod-cidr=10.244.1.128/25"])?;
    world.lab.leaves_as(1, &Lab::public(1), PATIENCE).await?;
    let rule = "7141:\tfrom 10.244.1.128/25 fwmark 0x1000/0x1000 lookup 7141";
    world
        .settles("the flags are followed", PATIENCE, |state| {
            state.contains(rule) && !state.contains("0x40000")
        })
        .await?;
    assert_eq!(world.lab.source(1)?, Lab::public(1));
    Ok(())
}

/// Waits until the agent names a reason why it is not able.
pub(crate) async fn says(world: &World, why: &str) -> Outcome {
    eventually("it says why", PATIENCE, || async {
        let (_, body) = world.get(1, "/readyz")?;
        body.contains(why).then_some(()).ok_or_else(|| Failure::new(body))
    })
    .await
}

async fn an_agent_that_is_not_able_sets_nothing_and_says_why(world: &mut World) -> Outcome {
    let node = world.lab.node(1);
    world.lab.metadata_away(1)?;
    let bare = world.lab.state(1)?;
    world.annotate(1, Some(IP)).await?;
    world.start(1, &[])?;
    says(world, "AnchorUnknown").await?;
    assert_eq!(world.lab.state(1)?, bare);
    world.terminate(1).await?;
    // A datapath that bypasses netfilter.
    world.lab.inside(&node, "ip", &["link", "add", "cilium_host", "type", "bridge"])?;
    world.give(IP, 1).await?;
    let bare = world.lab.state(1)?;
    world.start(1, &[])?;
    says(world, "Datapath").await?;
    assert_eq!(world.lab.state(1)?, bare);
    let (_, metrics) = world.get(1, "/metrics")?;
    assert!(metrics.contains("reason=\"Datapath\"} 0"), "{metrics}");
    world.terminate(1).await?;
    world.start(1, &["--cni-uses-netfilter"])?;
    world.lab.leaves_as(1, IP, PATIENCE).await?;
    world.terminate(1).await?;
    unset(world, usize::MAX)?;
    // The anchor address is missing.
    world.lab.inside(&node, "ip", &["link", "del", "cilium_host"])?;
    world.lab.inside(&node, "ip", &["addr", "del", "10.10.0.11/16", "dev", "eth0"])?;
    world.start(1, &[])?;
    says(world, "NoAnchor").await
}

//! Replicas that take turns, addresses that constantly have to move, and the account's log as the judge.
//!
//! Each replica has its own token, so the log names each sender. A write counts when it arrives at the provider,
//! whatever its sender believed.

use crate::world::{SOON, World, binary, plain_spec};
use flipop_cloud::{Call, Provider};
use flipop_envtest::operator::{Launch, Operator};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::Value;
use std::convert::Infallible;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// A dead holder's lease is taken over 15 s after its last change. The rest is for a loaded machine.
pub(crate) const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(45);

/// A new leader reads everything, then writes. This takes seconds, even on a loaded machine.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often every address has to move: about as long as the operator takes to see an assignment confirmed.
const MOVE: Duration = Duration::from_millis(1_200);

/// The pool's addresses, and twice as many nodes. Every other node is Ready.
const ADDRESSES: [u8; 3] = [10, 11, 12];
const NODES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];

/// How often something is repeated: as in CI by default, or as the environment says.
#[expect(clippy::disallowed_methods, reason = "the environment of the tests, not of the operator")]
pub(crate) fn times(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Nodes, addresses and the pool. The provider answers quickly and has no rate limits.
pub(crate) async fn stage(world: &World) -> Outcome {
    world.cloud().tune(|knobs| {
        knobs.action_ms = 20;
        knobs.rate_limits = false;
    });
    world.reserve(&ADDRESSES);
    for (number, name) in NODES.into_iter().enumerate() {
        world.node_with(name, |node| if number % 2 == 0 { node } else { node.not_ready() }).await?;
    }
    world.pool("p", &plain_spec(&ADDRESSES)).await
}

/// A replica whose provider calls carry its name.
pub(crate) async fn replica(world: &World, name: &str) -> Outcome<Operator> {
    replica_with(world, name, &world.operator_kubeconfig().await?).await
}

/// The same with its own way to the API server.
pub(crate) async fn replica_with(world: &World, name: &str, kubeconfig: &Path) -> Outcome<Operator> {
    world.start(&launch(world, name, kubeconfig)?).await
}

/// How to start such a replica.
pub(crate) fn launch(world: &World, name: &str, kubeconfig: &Path) -> Outcome<Launch> {
    let token = token_of(world, name);
    let launch = Launch::new(binary(), kubeconfig, &world.digitalocean_url())?;
    Ok(launch.env("DIGITALOCEAN_ACCESS_TOKEN", &token))
}

/// A token that the account's log shows as `name`.
pub(crate) fn token_of(world: &World, name: &str) -> String {
    let token = format!("envtest-token-of-{name}");
    world.cloud().add_token(Provider::DigitalOcean, name, &token, &["*"]);
    token
}

/// Runs a script while every address constantly has to move, so that the leader writes all the time.
pub(crate) async fn while_addresses_move<T>(
    world: &World,
    script: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    tokio::select! {
        biased;
        outcome = script => outcome,
        never = keep_moving(world) => match never {},
    }
}

async fn keep_moving(world: &World) -> Infallible {
    loop {
        for ready in [1, 0] {
            // Nodes that become Ready come first, so there is a node for every address at any time.
            let (up, down): (Vec<_>, Vec<_>) =
                NODES.iter().enumerate().partition(|(number, _)| number % 2 == ready);
            for (nodes, is_ready) in [(up, true), (down, false)] {
                for (_, node) in nodes {
                    // If the API server is down, they do not move.
                    let _ = world.nodes.set_ready(node, is_ready).await;
                }
            }
            tokio::time::sleep(MOVE).await;
        }
    }
}

/// Waits until a replica has read the lease and completed its watches.
pub(crate) async fn stands_by(operator: &Operator) -> Outcome {
    eventually("the standby is ready", SOON, || async {
        match operator.get("/readyz").await? {
            (200, _) => Ok(()),
            (_, why) => Err(Failure::new(why)),
        }
    })
    .await
}

/// The holder in the Lease, if there is one.
pub(crate) async fn holder(world: &World) -> Outcome<String> {
    let lease = world.cluster.lease().await?.ok_or_else(|| Failure::new("no lease"))?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    if holder.is_empty() { Err(Failure::new("nobody holds the lease")) } else { Ok(holder) }
}

/// Waits until another process than `before` holds the lease, and returns its identity.
#[track_caller]
pub(crate) fn taken_from<'a>(
    world: &'a World,
    before: &'a str,
    timeout: Duration,
) -> impl Future<Output = Outcome<String>> + use<'a> {
    eventually("the lease changes hands", timeout, move || async move {
        let now = holder(world).await?;
        if now == before { Err(Failure::new(format!("{now} still holds it"))) } else { Ok(now) }
    })
}

/// Waits until a replica has written to the provider, and returns its first write since a number.
#[track_caller]
pub(crate) fn writes<'a>(
    world: &'a World,
    name: &'a str,
    since: u64,
) -> impl Future<Output = Outcome<Call>> + use<'a> {
    writes_often(world, name, since, 1)
}

/// Waits until a replica has worked for a while, so that it can be ended in the middle of its work.
#[track_caller]
pub(crate) fn works<'a>(world: &'a World, name: &'a str) -> impl Future<Output = Outcome<Call>> + use<'a> {
    writes_often(world, name, 0, 3 * ADDRESSES.len())
}

#[track_caller]
fn writes_often<'a>(
    world: &'a World,
    name: &'a str,
    since: u64,
    count: usize,
) -> impl Future<Output = Outcome<Call>> + use<'a> {
    eventually(&format!("{name} writes"), WRITE_TIMEOUT, move || async move {
        let mut calls = world.mutating_calls(since);
        calls.retain(|call| call.token == name);
        let enough = calls.len() >= count;
        let first = calls.into_iter().next().filter(|_| enough);
        first.ok_or_else(|| Failure::new(format!("the writers are {:?}", writers(world, since))))
    })
}

/// The writers to the provider since a number, in order. A name appears again if another wrote in between.
pub(crate) fn writers(world: &World, since: u64) -> Vec<String> {
    let mut writers: Vec<String> = world.mutating_calls(since).into_iter().map(|call| call.token).collect();
    writers.dedup();
    writers
}

/// The number of overlapping writes: those of a replica whose successor had already written.
pub(crate) fn overlaps(world: &World, since: u64) -> usize {
    let mut seen: Vec<String> = Vec::new();
    let mut overlaps = 0;
    for call in world.mutating_calls(since) {
        match seen.iter().position(|name| *name == call.token) {
            None => seen.push(call.token),
            Some(place) if place + 1 == seen.len() => {}
            Some(_) => overlaps += 1,
        }
    }
    overlaps
}

/// When a line with this message was first logged, in milliseconds since the epoch. An effect may be visible before the
/// log mentions it.
#[track_caller]
pub(crate) fn logged_ms<'a>(
    operator: &'a Operator,
    message: &'a str,
) -> impl Future<Output = Outcome<i64>> + use<'a> {
    eventually(&format!("{message:?} is logged"), SOON, move || async move {
        let log = operator.log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.find(|line| line["message"] == message);
        let line = line.ok_or_else(|| Failure::new("never logged"))?;
        let time: jiff::Timestamp = line["timestamp"].as_str().unwrap_or_default().parse()?;
        Ok(time.as_millisecond())
    })
}

/// Durations in milliseconds, for people.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn push(&mut self, millis: u64) {
        self.0.push(millis);
        self.0.sort_unstable();
    }

    pub(crate) fn max(&self) -> u64 {
        self.0.last().copied().unwrap_or_default()
    }

    /// Prints median and maximum.
    pub(crate) fn say(&self, what: &str) {
        let median = self.0.get(self.0.len() / 2).copied().unwrap_or_default();
        let (max, runs) = (self.max(), self.0.len());
        say(&format!("{what}: median {median} ms, max {max} ms, {runs} runs"));
    }
}

/// Writes a line for the user who runs the tests. A closed terminal is no reason to stop.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "  {text}");
}

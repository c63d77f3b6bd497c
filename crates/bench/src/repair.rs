//! From the end of a fault to the repaired assignment.
//!
//! An assignment is repaired when the address gets to a healthy node's droplet. If the faulted request itself brought
//! it there and only the answer was lost, it is repaired when the status says so.

use crate::report::Report;
use crate::stats::{Ms, Samples, ms};
use crate::world::{OPERATOR, POOL, REGION, Stage, World, is_assign};
use flipop_cloud::{ActionOutcome, ActionPlan, Call, ChangeKind, Fault, Garble, Injection, Op, Target, When};
use flipop_envtest::{Failure, Outcome};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

/// How soon after the fault's end a failed assignment must be repaired.
const GOAL: Duration = Duration::from_secs(2);

/// How soon after the time that the provider asked for, if it did.
const DUE_SLACK: Duration = Duration::from_millis(500);

/// The wait that the provider asks for.
const RETRY_AFTER_S: u64 = 3;

/// How long an action runs before it fails.
const ACTION_MS: u64 = 500;

/// How long the provider is out, and how soon after that the request must be sent.
const OUTAGE: Duration = Duration::from_secs(30);
const RECOVERY: Duration = Duration::from_secs(6);

/// Repetitions of each fault.
const ROUNDS: usize = 3;

const IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
/// The droplets of the nodes.
type Droplets = BTreeMap<String, u64>;

const NODES: [&str; 3] = ["alpha", "beta", "gamma"];

/// A fault, and how much later than its answer it ends.
struct Case {
    name: &'static str,
    fault: Fault,
    lasts: Duration,
    due: bool,
}

fn cases() -> Vec<Case> {
    let case = |name, fault| Case { name, fault, lasts: Duration::ZERO, due: false };
    let errored = ActionPlan { outcome: ActionOutcome::Errored, duration_ms: Some(ACTION_MS) };
    let nonsense = Fault::Answer {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: b"{\"action\":".to_vec(),
    };
    vec![
        case("500", Fault::status(500)),
        case("429 without a time", Fault::Throttle { retry_after_s: None }),
        Case {
            name: "429 with Retry-After",
            fault: Fault::Throttle { retry_after_s: Some(RETRY_AFTER_S) },
            lasts: Duration::from_secs(RETRY_AFTER_S),
            due: true,
        },
        case("connection reset, not carried out", Fault::Reset(When::Before)),
        case("connection reset, carried out", Fault::Reset(When::After)),
        case("malformed answer, not carried out", nonsense),
        case("malformed answer, carried out", Fault::Garble(Garble::MalformedJson)),
        Case {
            name: "errored action",
            fault: Fault::Action(errored),
            lasts: Duration::from_millis(ACTION_MS),
            due: false,
        },
    ]
}

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    let world = stage.world().await?;
    world.cloud().add_ip(Some(IP), REGION);
    let mut droplets = Droplets::new();
    for node in NODES {
        droplets.insert(node.to_owned(), world.node(node, "work").await?);
    }
    world.pool(POOL, &[IP], "work", None).await?;
    let _operator = world.serving().await?;
    let mut holder = stands(&world, &droplets, None).await?;
    let rounds = if quick { 1 } else { ROUNDS };
    for case in cases() {
        let mut samples = Samples::default();
        for _ in 0..rounds {
            let (took, new) = repair(&world, &droplets, &case, &holder).await?;
            samples.push(took);
            world.nodes.set_ready(&holder, true).await?;
            holder = new;
            // A node that ranked behind the others after an error is soon a candidate like them.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let limit = if case.due { DUE_SLACK } else { GOAL };
        let of = if case.due { "its due time" } else { "the fault's end" };
        report.row(
            format_args!("failed assignment ({}) → repaired", case.name),
            format_args!("≤ {} after {of}", Ms(limit)),
            format_args!("{samples}"),
            samples.max() <= limit,
        );
        report.value(format_args!("ms, failed assignment ({}) → repaired", case.name), ms(samples.median()));
    }
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let (took, new) = recover(&world, &droplets, &holder).await?;
        samples.push(took);
        world.nodes.set_ready(&holder, true).await?;
        holder = new;
    }
    let seconds = OUTAGE.as_secs();
    let figure = format_args!("provider out for {seconds} s, a node fails meanwhile: recovery → request");
    report.all_within(figure, RECOVERY, &samples);
    report.value("ms, recovery of a provider → request", ms(samples.median()));
    world.end().await;
    Ok(())
}

/// Makes every call fail for a while, in which the node of the address fails. Returns the time from the end to the
/// request, and the address's node.
async fn recover(world: &World, droplets: &Droplets, holder: &str) -> Outcome<(Duration, String)> {
    let took = world.outage(OUTAGE, holder).await?;
    Ok((took, stands(world, droplets, Some(holder)).await?))
}

/// Makes the next assignment fail once. Returns the time from the fault's end to the repair, and the address's node.
async fn repair(
    world: &World,
    droplets: &Droplets,
    case: &Case,
    holder: &str,
) -> Outcome<(Duration, String)> {
    let cloud = world.cloud();
    let target = Target::op(Op::AssignIp).containing(&IP.to_string());
    let (since, mut changes, mut story) = (cloud.next_call(), cloud.changes(), cloud.changes());
    cloud.inject(Injection::once(target, case.fault.clone()));
    world.nodes.set_ready(holder, false).await?;
    let faulted = |call: &Call| is_assign(call, OPERATOR) && call.fault.is_some() && call.ended_ms.is_some();
    let call = world.call(&mut changes, since, faulted).await?;
    let ended = call.ended_ms.ok_or_else(|| Failure::new("the faulted call has not ended"))?;
    let fault_end = Duration::from_millis(ended) + case.lasts;
    let now = stands(world, droplets, Some(holder)).await?;
    let known = Duration::from_micros(cloud.now_us());
    let mut moved = None;
    while let Ok(change) = story.try_recv() {
        if matches!(change.kind, ChangeKind::Assigned { ip: IP, .. }) {
            moved = Some(Duration::from_millis(change.at_ms));
        }
    }
    let repaired = moved.filter(|moved| *moved > Duration::from_millis(ended)).unwrap_or(known);
    Ok((repaired.saturating_sub(fault_end), now))
}

/// Waits until status and account agree on where the address is, which must not be `except`.
async fn stands(world: &World, droplets: &Droplets, except: Option<&str>) -> Outcome<String> {
    let found = RefCell::new(String::new());
    world
        .pool_shows("the address is on a node", |status| {
            let node = status.active().remove(&IP.to_string()).ok_or("not active")?;
            if Some(node.as_str()) == except {
                return Err("still on the failed node".to_owned());
            }
            *found.borrow_mut() = node;
            Ok(())
        })
        .await?;
    let node = found.into_inner();
    let place = world.cloud().ip(IP).and_then(|ip| ip.droplet);
    if place.is_none() || place != droplets.get(&node).copied() {
        return Err(Failure::new(format!("the status says {node}, the account says {place:?}")));
    }
    Ok(node)
}

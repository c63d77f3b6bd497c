//! A hundred assignments at rest, and then two addresses moved by others.

use crate::footprint::Memory;
use crate::report::Report;
use crate::standing::{COUNT, ip, settled};
use crate::stats::{Ms, Samples};
use crate::world::{OPERATOR, REGION, World, is_assign};
use flipop_cloud::{Call, Op};
use flipop_envtest::cluster::USER;
use flipop_envtest::{Failure, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most provider calls per hour.
const CALLS: u128 = 75;

/// The most time until the operator acts on a change by others.
const NOTICED: Duration = Duration::from_mins(1);

/// Resident memory, in KiB.
const MEMORY: u64 = 15 * 1_024;

/// How many lists the window spans. One begins about every 50 s.
const LISTS: usize = 4;

/// Longer than the time between two lists.
const LIST_TIMEOUT: Duration = Duration::from_secs(90);

/// How often the call log is read.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) async fn measure(world: &World, quick: bool, report: &mut Report) -> Outcome {
    world.cluster.delete_lease().await?;
    let mut operator = world.serving().await?;
    settled(world).await?;

    let first = next_call(world, world.cloud().next_call(), is_list).await?;
    let (since, position) = (first.seq + 1, world.audit().position()?);
    let mut last = first.clone();
    for _ in 0..if quick { 1 } else { LISTS } {
        last = next_call(world, last.seq + 1, is_list).await?;
    }
    let window = Duration::from_micros(last.at_us.saturating_sub(first.at_us));
    let calls = world.cloud().calls(since).into_iter().filter(|call| call.seq <= last.seq).count();
    let hourly = u128::try_from(calls)? * 3_600_000 / window.as_millis().max(1);
    report.row(
        format_args!("at rest with {COUNT} IPs: provider calls an hour"),
        format_args!("≤ {CALLS}"),
        format_args!("{hourly} ({calls} in {})", Ms(window)),
        hourly <= CALLS,
    );
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    for write in world.audit().writes_of(USER, position)? {
        *writes.entry(write.resource).or_default() += 1;
    }
    let only_lease = writes.keys().all(|resource| resource == "leases");
    let measured: Vec<String> =
        writes.iter().map(|(resource, count)| format!("{count} {resource}")).collect();
    report.row(
        format_args!("at rest with {COUNT} IPs: writes to the API server"),
        "leases only",
        format_args!("{} in {}", measured.join(", "), Ms(window)),
        only_lease,
    );
    let memory = Memory::of(operator.id())?;
    let figure = format_args!("at rest with {COUNT} IPs: resident memory");
    report.resident(figure, MEMORY, &memory, "at rest")?;
    let noticed = moved_by_others(world).await?;
    report.all_within("changes by others, made right after a list → repairing request", NOTICED, &noticed);
    operator.terminate().await?;
    Ok(())
}

/// Takes one address off its droplet and puts another on a strange droplet. Returns how long each stays unrepaired.
async fn moved_by_others(world: &World) -> Outcome<Samples> {
    let cloud = world.cloud();
    let stranger = cloud.add_droplet("stranger", REGION);
    let (unassigned, moved) = (ip(1), ip(2));
    let (since, changed_us) = (cloud.next_call(), cloud.now_us());
    cloud.move_ip(unassigned, None)?;
    cloud.move_ip(moved, Some(stranger))?;
    let mut noticed = Samples::default();
    for ip in [unassigned, moved] {
        let path = format!("/v2/reserved_ips/{ip}/actions");
        let repair = |call: &Call| is_assign(call, OPERATOR) && call.path == path;
        let call = next_call(world, since, repair).await?;
        noticed.push(Duration::from_micros(call.at_us.saturating_sub(changed_us)));
    }
    Ok(noticed)
}

fn is_list(call: &Call) -> bool {
    call.op == Op::ListReservedIps && call.token == OPERATOR
}

/// Waits for a call with number `since` or later.
async fn next_call(world: &World, since: u64, wanted: impl Fn(&Call) -> bool) -> Outcome<Call> {
    let found = async {
        loop {
            if let Some(call) = world.cloud().calls(since).into_iter().find(|call| wanted(call)) {
                return call;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(LIST_TIMEOUT, found)
        .await
        .map_err(|_| Failure::new(format!("no such call within {LIST_TIMEOUT:?}")))
}

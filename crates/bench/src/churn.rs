//! The large cluster while its matching pods change all the time: processor time, and failovers.

use crate::bare::Bare;
use crate::failover::{self, Pair, Who};
use crate::footprint;
use crate::load::{Load, RATE};
use crate::receiver::Receiver;
use crate::report::Report;
use crate::stats::{Ms, ms};
use crate::world::World;
use flipop_envtest::Outcome;
use flipop_envtest::operator::Operator;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Processor time in a minute that reading the updates may cost.
const CPU: Duration = Duration::from_millis(500);

/// How much longer the operator's median may be than the bare client's.
const GOAL: Duration = Duration::from_micros(500);

/// How long processor time is counted.
const WINDOW: Duration = Duration::from_mins(1);
const WINDOW_QUICK: Duration = Duration::from_secs(10);

/// Samples per client.
const SAMPLES: usize = 32;
const SAMPLES_QUICK: usize = 4;

/// Samples that are discarded first.
const WARM_UP: usize = 3;

/// The address of the bare client.
const BARE_IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 250);

/// The time after which all effects of a sample have ended.
const PAUSE: Duration = Duration::from_millis(300);

/// Changes `pods`, each of which matches. `ip` is the address that moves, and `spare` a node without one.
pub(crate) async fn measure(
    world: &World,
    operator: &Operator,
    (pods, ip, spare): (&[String], Ipv4Addr, &str),
    quick: bool,
    report: &mut Report,
) -> Outcome {
    let window = if quick { WINDOW_QUICK } else { WINDOW };
    let other = Receiver::start(world, "app=web")?;
    let [rest, idle] = spent([operator.id(), other.id()], window).await?;
    let load = Load::of(world, pods).await?;
    let [busy, received] = spent([operator.id(), other.id()], window).await?;
    report.row(
        format_args!("{RATE} pod updates/s in that cluster: processor time a minute"),
        format_args!("≤ {} beyond a client that only receives them", Ms(CPU)),
        format_args!(
            "{} beyond {}; at rest {} and {}",
            Ms(busy.saturating_sub(received)),
            Ms(received),
            Ms(rest),
            Ms(idle)
        ),
        busy.saturating_sub(received) <= CPU,
    );
    report.value("ms of processor time a minute, under pod updates", ms(busy));
    drop(other);
    world.cloud().tune(|knobs| knobs.rate_limits = false);
    let _bare = Bare::start(world, "pool=work", BARE_IP).await?;
    let mut pair = Pair::default();
    for round in 0..WARM_UP + if quick { SAMPLES_QUICK } else { SAMPLES } {
        for who in [Who::Bare, Who::Operator] {
            let took = sample(world, who, (ip, spare)).await?;
            if round >= WARM_UP {
                pair.push(who, took);
            }
        }
    }
    let rate = load.end().await?;
    failover::row(report, &format!("failover in that cluster under {RATE} pod updates/s"), GOAL, &pair);
    report.note(format_args!("pod updates in the large cluster: {rate:.0}/s"));
    Ok(())
}

/// Processor times of two processes, projected to a minute.
async fn spent(processes: [u32; 2], window: Duration) -> Outcome<[Duration; 2]> {
    let [first, second] = processes;
    let (first, second) =
        tokio::try_join!(footprint::spent(first, window), footprint::spent(second, window))?;
    Ok([first, second].map(|spent| spent.mul_f64(WINDOW.as_secs_f64() / window.as_secs_f64())))
}

/// One failure, answered by one of the clients. Afterwards all nodes are Ready again, and the address is active.
async fn sample(world: &World, who: Who, (ip, spare): (Ipv4Addr, &str)) -> Outcome<Duration> {
    let ip_text = ip.to_string();
    let holder = world.holder(ip).await?;
    let node = if who == Who::Operator { holder.as_str() } else { spare };
    let took = failover::fail(world, node, who, ip).await?;
    let moved = |status: &crate::world::Status| match status.active().get(&ip_text) {
        Some(now) if (*now == holder) == (who == Who::Bare) => Ok(()),
        now => Err(format!("{ip} is on {now:?}")),
    };
    world.pool_shows(&format!("{ip} is active"), moved).await?;
    world.nodes.set_ready(node, true).await?;
    tokio::time::sleep(PAUSE).await;
    Ok(took)
}

//! Objects as large as the API server accepts, one after another beside a healthy pool: what each costs the operator,
//! and what it costs the pool.

use crate::failover::{self, Places};
use crate::footprint::{Memory, mib};
use crate::report::Report;
use crate::stats::{Samples, ms};
use crate::world::{Stage, TEAM, World};
use flipop_envtest::large::{self, Large};
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::Value;
use std::time::Duration;

/// The most resident memory, in KiB: as in the large cluster.
const MEMORY: u64 = 40 << 10;

/// The most bytes of a status.
const STATUS: usize = 64 << 10;

/// The median failover of the pool. The API server works on the large object meanwhile.
const FAILOVER: Duration = Duration::from_secs(1);

/// Failovers beside each object.
const SAMPLES: usize = 8;
const SAMPLES_QUICK: usize = 2;

/// The time for a status. An operator whose status the API server refuses never has one.
const JUDGED: Duration = Duration::from_secs(10);

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    let count = if quick { SAMPLES_QUICK } else { SAMPLES };
    let (world, operator, mut places) = failover::ground(stage).await?;
    let alone = failover::samples(&world, &mut places, count).await?;
    end(world, operator).await?;
    report.note(format_args!("strangers: without a large object a failover takes {alone} (median / max)"));
    // An account of its own for each, because the failovers of all would exceed what a token may ask for in a minute.
    for large in large::all(1) {
        let (world, operator, mut places) = failover::ground(stage).await?;
        let found = beside(&world, &operator, &mut places, &large, count).await?;
        end(world, operator).await?;
        tell(report, large.name, &found)?;
    }
    Ok(())
}

async fn end(world: World, mut operator: Operator) -> Outcome {
    operator.terminate().await?;
    world.end().await;
    Ok(())
}

/// The cost of one large object.
struct Cost {
    /// The most resident memory, in KiB.
    peak: u64,
    /// Bytes of its status. `None` if it is not about the object's spec.
    status: Option<usize>,
    failovers: Samples,
}

async fn beside(
    world: &World,
    operator: &Operator,
    places: &mut Places,
    Large { name, kind, spec }: &Large,
    count: usize,
) -> Outcome<Cost> {
    Memory::forget_peak(operator.id())?;
    world.cluster.create(*kind, TEAM, name, spec).await?;
    let failovers = failover::samples(world, places, count).await?;
    let judged = eventually(&format!("{name} is judged"), JUDGED, || async move {
        let object = world.cluster.get(*kind, TEAM, name).await?;
        let status = object.get("status").cloned().unwrap_or_default();
        let generation = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
        if generation("/status/observedGeneration") == generation("/metadata/generation") {
            Ok(status.to_string().len())
        } else {
            Err(Failure::new("its status is old"))
        }
    });
    let status = judged.await.ok();
    let peak = Memory::of(operator.id())?.peak;
    world.cluster.delete(*kind, TEAM, name).await?;
    Ok(Cost { peak, status, failovers })
}

fn tell(report: &mut Report, name: &str, Cost { peak, status, failovers }: &Cost) -> Outcome {
    report.row(
        format_args!("{name}: resident memory at the peak"),
        format_args!("≤ {} MiB", mib(MEMORY)),
        format_args!("{} MiB", mib(*peak)),
        *peak <= MEMORY,
    );
    report.row(
        format_args!("{name}: its status"),
        format_args!("≤ {STATUS} bytes"),
        status.map_or_else(|| "none".to_owned(), |bytes| format!("{bytes} bytes")),
        status.is_some_and(|bytes| bytes <= STATUS),
    );
    let figure = format_args!("{name}: failover of a pool beside it (median / max)");
    report.median_within(figure, FAILOVER, failovers);
    report.value(format_args!("KiB at the peak, {name}"), f64::from(u32::try_from(*peak)?));
    report.value(format_args!("ms of a failover beside {name}"), ms(failovers.median()));
    Ok(())
}

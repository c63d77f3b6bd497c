//! The resources that an agent needs while nothing changes.

use crate::cases::IP;
use crate::world::World;
use flipop_envtest::Outcome;
use std::fs;
use std::time::Duration;

/// Generous, because the tests' binary is not optimised. A release needs a fraction of it.
const REST_KIB: u64 = 64 << 10;
const REST_CPU: u32 = 5;

/// How long the agent is observed, unless `FLIPOP_TEST_MINUTES` says otherwise.
const REST: Duration = Duration::from_secs(20);

pub(crate) async fn an_agent_at_rest_takes_little(world: &mut World) -> Outcome {
    world.leave_through(IP, &["--debug=false"]).await?;
    world.ready(1, true).await?;
    let agent = world.agent(1)?;
    let before = cpu(agent.id())?;
    let rest = minutes().map_or(REST, |minutes| Duration::from_secs(60 * minutes));
    tokio::time::sleep(rest).await;
    let (used, resident) = (cpu(agent.id())?.saturating_sub(before), agent.resident_kib()?);
    println!("an agent at rest has {resident} KiB, and used {used:?} of CPU in {rest:?}");
    // In thousandths of a processor.
    assert!(resident < REST_KIB && used < rest * REST_CPU / 1_000, "{resident} KiB, {used:?}");
    Ok(())
}

fn minutes() -> Option<u64> {
    std::env::var("FLIPOP_TEST_MINUTES").ok()?.parse().ok()
}

/// The CPU time that a process has used so far, in steps of 10 ms.
fn cpu(process: u32) -> Outcome<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = [fields[11], fields[12]].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

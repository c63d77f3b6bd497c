//! A hundred nodes that already have their addresses.

use crate::world::World;
use flipop_envtest::Outcome;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The number of addresses and of nodes.
pub(crate) const COUNT: u8 = 100;

/// The time until assignments are fully reported, including annotations.
const SETTLED: Duration = Duration::from_secs(3);

/// The address of a node.
pub(crate) fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}

/// The name of a node.
pub(crate) fn node(number: u8) -> String {
    format!("node-{number:03}")
}

/// Waits until all addresses are active and all resulting writes are done.
pub(crate) async fn settled(world: &World) -> Outcome {
    world.all_active(COUNT).await?;
    tokio::time::sleep(SETTLED).await;
    Ok(())
}

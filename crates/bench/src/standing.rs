//! A hundred nodes that have their addresses already.

use crate::world::{SOON, World};
use flipop_envtest::Outcome;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Addresses and nodes.
pub(crate) const COUNT: u8 = 100;

/// A standing assignment is shown so soon, annotations included.
const SETTLED: Duration = Duration::from_secs(3);

/// Address of a node.
pub(crate) fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}

/// Name of a node.
pub(crate) fn node(number: u8) -> String {
    format!("node-{number:03}")
}

/// Waits until all are shown as active, and what follows from that has been written.
pub(crate) async fn settled(world: &World) -> Outcome {
    let all = |status: &crate::world::Status| match status.active().len() {
        count if count == usize::from(COUNT) => Ok(()),
        count => Err(format!("{count} are active")),
    };
    world.pool_shows("all addresses are active", SOON, all).await?;
    tokio::time::sleep(SETTLED).await;
    Ok(())
}

//! Provider calls that hang while others must go on.

use crate::world::{OPERATOR, REGION, TEAM, World, is_assign};
use flipop_cloud::{Fault, Injection, Target, When};
use flipop_envtest::Outcome;
use flipop_envtest::cluster::Kind;
use std::net::Ipv4Addr;

/// The client gives up after 10 s, so for this long a call certainly hangs.
const CERTAIN_US: u64 = 8_000_000;

/// One hung call after another, each for its own pool.
#[derive(Debug, Default)]
pub(crate) struct Hangs {
    count: u8,
    /// When the call that hangs now arrived.
    arrived_us: Option<u64>,
}

impl Hangs {
    /// Returns at once while a call hangs, and otherwise once the next one does.
    pub(crate) async fn ensure(&mut self, world: &World) -> Outcome {
        let cloud = world.cloud();
        if self.holds(world) {
            return Ok(());
        }
        if self.count > 0 {
            world.cluster.delete(Kind::Pool, TEAM, &self.name()).await?;
        }
        self.count = self.count.saturating_add(1);
        let ip = Ipv4Addr::new(203, 0, 113, 100_u8.saturating_add(self.count));
        cloud.add_ip(Some(ip), REGION);
        let target = Target::any().mutating().containing(&ip.to_string());
        cloud.inject(Injection::always(target, Fault::Hang(When::Before)));
        let (since, mut changes) = (cloud.next_call(), cloud.changes());
        let name = self.name();
        world.node(&name, &name).await?;
        world.pool(&name, &[ip], &name, None).await?;
        let ours = ip.to_string();
        let hung = |call: &flipop_cloud::Call| is_assign(call, OPERATOR) && call.path.contains(&ours);
        self.arrived_us = Some(world.call(&mut changes, since, hung).await?.at_us);
        Ok(())
    }

    /// Whether a call hangs now.
    pub(crate) fn holds(&self, world: &World) -> bool {
        let now_us = world.cloud().now_us();
        self.arrived_us.is_some_and(|arrived| now_us.saturating_sub(arrived) < CERTAIN_US)
    }

    fn name(&self) -> String {
        format!("hang-{}", self.count)
    }
}

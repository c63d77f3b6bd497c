//! Networks that the routes of a node name.

use crate::cases::{IP, says, told, unset};
use crate::lab::sh;
use crate::world::{PATIENCE, Server, World};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};

pub(crate) async fn pods_outside_of_the_known_networks_are_noticed(server: &Server) -> Outcome {
    let mut world = World::new(server, 1).await?;
    told(&mut world, async |world| {
        let node = world.lab.node(1);
        let ip = |words: &str| {
            sh("ip", &[&["-n", &node], words.split(' ').collect::<Vec<_>>().as_slice()].concat())
        };
        // Calico has such a route for each pod.
        ip("route add 10.0.1.5/32 dev veth0")?;
        let bare = world.lab.state(1)?;
        world.start(1, &[])?;
        world.give(IP, 1).await?;
        says(world, "PodsOutside").await?;
        assert_eq!(world.lab.state(1)?, bare);
        ip("route del 10.0.1.5/32")?;
        world.lab.leaves_as(1, IP, PATIENCE).await?;
        // From here on the agent was able.
        for words in ["link add cni0 type bridge", "addr add 10.88.0.1/16 dev cni0", "link set cni0 up"] {
            ip(words)?;
        }
        for restart in [false, true] {
            if restart {
                world.terminate(1).await?;
                world.start(1, &[])?;
            }
            eventually("the metric says so", PATIENCE, || async {
                let (_, metrics) = world.get(1, "/metrics")?;
                let says = metrics.contains("flipop_agent_pods_outside 1\n");
                says.then_some(()).ok_or_else(|| Failure::new(metrics))
            })
            .await?;
            world.ready(1, true).await?;
            world.lab.leaves_as(1, IP, PATIENCE).await?;
        }
        world.terminate(1).await?;
        unset(world, usize::MAX)?;
        world.start(1, &["--pod-cidr=10.244.1.0/24"])?;
        world.lab.leaves_as(1, IP, PATIENCE).await
    })
    .await
}

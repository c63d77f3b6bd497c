//! Networks that the routes of a node name.

use crate::cases::{IP, says, unset};
use crate::lab::{Lab, sh};
use crate::world::{PATIENCE, World};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};

pub(crate) async fn pods_outside_of_the_known_networks_are_noticed(world: &mut World) -> Outcome {
    let node = world.lab.node(1);
    let ip =
        |words: &str| sh("ip", &[&["-n", &node], words.split(' ').collect::<Vec<_>>().as_slice()].concat());
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
            let mut lines = metrics.lines();
            let says =
                lines.any(|line| line.starts_with("flipop_agent_pods_outside{") && line.ends_with(" 1"));
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
}

pub(crate) async fn hosts_of_the_public_subnet_of_the_node_are_outside(world: &mut World) -> Outcome {
    let (node, pod) = (world.lab.node(1), world.lab.pod(1));
    let ip =
        |words: &str| sh("ip", &[&["-n", &node], words.split(' ').collect::<Vec<_>>().as_slice()].concat());
    for last in [12, 20, 21] {
        let neighbor = format!("192.0.2.{last}");
        if last != 12 {
            sh("ip", &["-n", &world.lab.node(2), "addr", "add", &format!("{neighbor}/24"), "dev", "eth0"])?;
        }
        world.lab.helper(&world.lab.node(2), &["record", &format!("{neighbor}:9000")])?;
    }
    world.start(1, &["--except=192.0.2.20/32"])?;
    world.give(IP, 1).await?;
    let usual = Lab::public(1);
    let known = async |world: &World, as_what: &str, target: &str| {
        eventually(&format!("{target} knows the pod as {as_what}"), PATIENCE, || async {
            let source = world.lab.once(&pod, &["ask", target])?;
            (source == as_what).then_some(()).ok_or_else(|| Failure::new(source))
        })
        .await
    };
    known(world, IP, "192.0.2.12:9000").await?;
    known(world, IP, "192.0.2.21:9000").await?;
    assert_eq!(world.lab.once(&pod, &["reach", "192.0.2.20:9000"])?, usual, "an exception");
    // Another route leads to one of the hosts, by the VPC.
    ip("route add 192.0.2.21/32 via 10.20.0.2")?;
    known(world, "10.20.0.1", "192.0.2.21:9000").await?;
    assert_eq!(world.lab.once(&pod, &["reach", "192.0.2.12:9000"])?, IP);
    ip("route del 192.0.2.21/32")?;
    known(world, IP, "192.0.2.21:9000").await?;
    // The subnet becomes another one.
    ip("addr add 192.0.2.11/28 dev eth0")?;
    ip("addr del 192.0.2.11/24 dev eth0")?;
    known(world, IP, "192.0.2.12:9000").await?;
    world
        .settles("the rule names the other subnet", PATIENCE, |state| {
            state.contains("to 192.0.2.0/28") && !state.contains("to 192.0.2.0/24")
        })
        .await?;
    world.take(IP, 1).await?;
    known(world, &usual, "192.0.2.12:9000").await?;
    world.bare(1, PATIENCE).await
}

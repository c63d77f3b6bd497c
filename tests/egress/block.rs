//! `--when-absent=Block`: what pods, the node and inbound traffic reach while the node has no address.

use crate::cases::{IP, reaches};
use crate::connections::{ended, through};
use crate::lab::{Lab, OUTSIDE, sh};
use crate::world::{PATIENCE, World};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use std::fs;

/// A resolver outside, which the agent excepts.
const RESOLVER: &str = "198.51.100.10:8000";

/// Hosts outside in IPv6: public, public and excepted, and private.
const PUBLIC6: &str = "[2600:9::9]:8000";
const EXCEPTED6: &str = "[2600:8::9]:8000";
const PRIVATE6: &str = "[fd00:9::9]:8000";

const FLAGS: [&str; 3] = ["--when-absent=Block", "--except=198.51.100.10/32", "--except6=2600:8::/64"];

/// Moves of the address.
const MOVES: usize = 5;

pub(crate) async fn without_the_address_pods_reach_only_what_is_excepted(world: &mut World) -> Outcome {
    sh("ip", &["-n", &world.lab.outside(), "addr", "add", "198.51.100.10/24", "dev", "eth0"])?;
    six(&mut world.lab)?;
    let (node, pod) = (world.lab.node(1), world.lab.pod(1));
    let before = reaches(&world.lab)?;
    let usual = Lab::public(1);
    assert_eq!(world.lab.source(1)?, usual, "before the first turn pods leave as the node");
    // The first packet has to find its neighbors.
    eventually("the pod leaves as the node by IPv6 too", PATIENCE, || async {
        let source = world.lab.once(&pod, &["ask", PUBLIC6])?;
        (source == "2600:1::11").then_some(()).ok_or_else(|| Failure::new(source))
    })
    .await?;
    world.start(1, &FLAGS)?;
    world.ready(1, true).await?;
    let blocked = async |world: &World| {
        eventually("the pod reaches nothing outside", PATIENCE, || async {
            let source = world.lab.source(1)?;
            source.starts_with("none").then_some(()).ok_or_else(|| Failure::new(source))
        })
        .await
    };
    blocked(world).await?;
    // From here on the pod must never be known by the address of the node.
    let probe = world.lab.helper(&pod, &["probe", OUTSIDE])?;
    for _ in 0..MOVES {
        assert_eq!(reaches(&world.lab)?, before, "what stays inside, and inbound traffic, is as it was");
        assert_eq!(world.lab.once(&pod, &["reach", RESOLVER])?, usual);
        assert_eq!(world.lab.once(&node, &["reach", OUTSIDE])?, usual, "the node itself is not blocked");
        only_excepted6(&world.lab)?;
        world.give(IP, 1).await?;
        world.lab.leaves_as(1, IP, PATIENCE).await?;
        only_excepted6(&world.lab)?;
        let open = through(world).await?;
        world.take(IP, 1).await?;
        ended(&open).await?;
        blocked(world).await?;
    }
    // Neither a killed agent nor one that knows nothing but the kernel lets anything through.
    world.kill(1);
    world.api(1, false);
    world.lab.metadata_away(1)?;
    let standing = world.lab.state(1)?;
    world.start(1, &FLAGS)?;
    assert!(world.ready(1, false).await?.contains("AnchorUnknown"));
    assert_eq!(world.lab.state(1)?, standing);
    let said = fs::read_to_string(&probe)?;
    assert!(said.contains(IP) && !said.contains(&usual), "{said}");
    world.terminate(1).await?;
    world.start(1, &[&FLAGS[..], &["--egress=None"]].concat())?;
    world.lab.leaves_as(1, &usual, PATIENCE).await?;
    world.bare(1, PATIENCE).await?;
    assert_eq!(world.lab.once(&pod, &["reach", PUBLIC6])?, "2600:1::11");
    Ok(())
}

/// Of IPv6, the pod reaches private and excepted networks, and the node reaches all.
fn only_excepted6(lab: &Lab) -> Outcome {
    let (node, pod) = (lab.node(1), lab.pod(1));
    let refused = lab.once(&pod, &["ask", PUBLIC6])?;
    assert!(refused.starts_with("none"), "{refused}");
    assert_eq!(lab.once(&pod, &["reach", EXCEPTED6])?, "2600:1::11");
    assert_eq!(lab.once(&pod, &["reach", PRIVATE6])?, "fd00:1::2");
    assert_eq!(lab.once(&node, &["reach", PUBLIC6])?, "2600:1::11");
    Ok(())
}

/// Gives node 1, its pod, the router and the host outside IPv6. The node masquerades public traffic of pods.
fn six(lab: &mut Lab) -> Outcome {
    let (node, pod, router, outside) = (lab.node(1), lab.pod(1), lab.router(), lab.outside());
    for (name, link, address) in [
        (&node, "veth0", "fd00:1::1/64"),
        (&node, "eth0", "2600:1::11/64"),
        (&pod, "eth0", "fd00:1::2/64"),
        (&router, "br0", "2600:1::1/64"),
        (&router, "ro", "2600:8::1/64"),
        (&router, "ro", "2600:9::1/64"),
        (&router, "ro", "fd00:9::1/64"),
        (&outside, "eth0", "2600:8::9/64"),
        (&outside, "eth0", "2600:9::9/64"),
        (&outside, "eth0", "fd00:9::9/64"),
    ] {
        sh("ip", &["-n", name, "-6", "addr", "add", address, "dev", link, "nodad"])?;
    }
    for name in [&node, &router] {
        lab.inside(name, "sysctl", &["-qw", "net.ipv6.conf.all.forwarding=1"])?;
    }
    for (name, to, via) in [
        (&pod, "default", "fd00:1::1"),
        (&node, "default", "2600:1::1"),
        (&outside, "default", "2600:9::1"),
        (&router, "fd00:1::/64", "2600:1::11"),
    ] {
        sh("ip", &["-n", name, "-6", "route", "add", to, "via", via])?;
    }
    lab.nft(
        &node,
        "table ip6 cni {\n chain post {\n type nat hook postrouting priority 100\n \
         ip6 saddr fd00:1::/64 ip6 daddr != fd00::/8 masquerade\n }\n}\n",
    )?;
    for address in [PUBLIC6, EXCEPTED6, PRIVATE6] {
        lab.helper(&outside, &["record", address])?;
    }
    Ok(())
}

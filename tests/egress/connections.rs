//! Open connections when an address leaves.

use crate::cases::{IP, unset};
use crate::lab::{Lab, OUTSIDE, sh};
use crate::world::{PATIENCE, World};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An address of the host outside that pods reach the usual way.
const EXCEPTED: &str = "198.51.100.10";

pub(crate) async fn established_connections_end_with_the_address_and_others_go_on(
    world: &mut World,
) -> Outcome {
    world.start(1, &[&format!("--except={EXCEPTED}/32")])?;
    world.ready(1, true).await?;
    let (pod, outside) = (world.lab.pod(1), world.lab.outside());
    sh("ip", &["-n", &outside, "addr", "add", &format!("{EXCEPTED}/24"), "dev", "eth0"])?;
    let usual = format!("open {}", Lab::public(1));
    let before = world.lab.helper(&pod, &["keep", OUTSIDE])?;
    lines(&before, &[&usual]).await?;
    world.give(IP, 1).await?;
    world.lab.leaves_as(1, IP, PATIENCE).await?;
    let excepted = world.lab.helper(&pod, &["keep", &format!("{EXCEPTED}:8000")])?;
    lines(&excepted, &[&usual]).await?;
    let inside = [
        world.lab.helper(&pod, &["keep", "10.244.2.2:8080"])?,
        world.lab.helper(&pod, &["keep", "10.20.0.2:9000"])?,
        world.lab.helper(&pod, &["keep", "10.96.0.10:80"])?,
        world.lab.helper(&pod, &["keep", "10.96.0.11:80"])?,
        world.lab.helper(&outside, &["keep", "192.0.2.11:30080"])?,
    ];
    for log in &inside {
        eventually("a connection is open", PATIENCE, || async {
            fs::read_to_string(log)?.starts_with("open").then_some(()).ok_or_else(|| Failure::new("not yet"))
        })
        .await?;
    }
    let through = through(world).await?;
    world.take(IP, 1).await?;
    ended(&through).await?;
    // A kept connection speaks 20 times a second and waits 3 s for an answer.
    tokio::time::sleep(Duration::from_secs(4)).await;
    for log in inside.iter().chain([&before, &excepted]) {
        let said = fs::read_to_string(log)?;
        assert!(!said.contains("ended"), "{} ended: {said}", log.display());
    }
    Ok(())
}

pub(crate) async fn connections_end_although_an_agent_was_killed_before_it_ended_them(
    world: &mut World,
) -> Outcome {
    world.leave_through(IP, &[]).await?;
    let through = through(world).await?;
    world.kill(1);
    let removals = unset(world, 0)?;
    unset(world, removals - 1)?;
    world.bare(1, Duration::ZERO).await?;
    // The router still knows the address, so only the agent can end the connection.
    world.annotate(1, None).await?;
    world.lab.metadata(1, None)?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    lines(&through, &[&format!("open {IP}")]).await?;
    world.start(1, &[])?;
    ended(&through).await
}

/// A connection with the bit of the agent that does not leave through the anchor. If its entry were deleted, its next
/// packet would count as new.
pub(crate) async fn connections_that_others_marked_go_on(world: &mut World) -> Outcome {
    let (node, pod) = (world.lab.node(1), world.lab.pod(1));
    world.lab.nft(
        &node,
        "table ip other {\n chain pre {\n type filter hook prerouting priority -160\n \
         ip daddr 198.51.100.9 ct state new counter ct mark set ct mark or 0x1000\n }\n}\n",
    )?;
    let kept = world.lab.helper(&pod, &["keep", OUTSIDE])?;
    let open = format!("open {}", Lab::public(1));
    lines(&kept, &[&open]).await?;
    world.start(1, &[])?;
    world.ready(1, true).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    lines(&kept, &[&open]).await?;
    let listed = world.lab.inside(&node, "nft", &["list", "table", "ip", "other"])?;
    assert!(listed.contains("counter packets 1 "), "{listed}");
    Ok(())
}

/// The chain of the CNI plugin portmap masquerades what carries its bit. Here it looks at the bit of the agent too.
pub(crate) async fn chains_of_others_see_no_bit_of_ours(world: &mut World) -> Outcome {
    world.lab.nft(
        &world.lab.node(1),
        "table ip portmap {\n chain post {\n type nat hook postrouting priority 100\n \
         meta mark and 0x3000 != 0 counter masquerade\n }\n}\n",
    )?;
    world.leave_through(IP, &[]).await?;
    let peer = world.lab.once(&world.lab.pod(1), &["reach", "10.20.0.2:9000"])?;
    assert_eq!(peer, "10.244.1.2", "a peer in the VPC knows the pod by its own address");
    Ok(())
}

/// Opens a connection of the pod through the address, and keeps it.
pub(crate) async fn through(world: &mut World) -> Outcome<PathBuf> {
    let pod = world.lab.pod(1);
    let log = world.lab.helper(&pod, &["keep", OUTSIDE])?;
    lines(&log, &[&format!("open {IP}")]).await?;
    Ok(log)
}

/// Waits until a connection through the address has ended.
pub(crate) async fn ended(log: &Path) -> Outcome {
    lines(log, &[&format!("open {IP}"), "ended"]).await
}

/// Waits until a helper has printed exactly these lines.
async fn lines(log: &Path, wanted: &[&str]) -> Outcome {
    eventually(&format!("{wanted:?} in {}", log.display()), PATIENCE, || async {
        let said = fs::read_to_string(log)?;
        let same = said.lines().eq(wanted.iter().copied());
        same.then_some(()).ok_or_else(|| Failure::new(said))
    })
    .await
}

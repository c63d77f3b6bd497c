//! The other replica runs client-go's own leader election (`tests/go-elector`), as when a Go operator and this one meet
//! in a rolling update. The leader writes to one account, whose log shows that the two never overlap.
//!
//! `FLIPOP_HANDOVERS` sets how often the lease changes hands (4 by default).

use crate::suite::{Case, cases};
use crate::team::{
    TAKEOVER_TIMEOUT, Times, holder, overlaps, replica, say, stage, taken_from, times, token_of,
    while_addresses_move, works, writers, writes,
};
use crate::world::{REGION, SOON, World, ip, path};
use flipop_envtest::cluster::{LEASE, NAMESPACE};
use flipop_envtest::operator::Operator;
use flipop_envtest::process::{Process, Signal};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome, assets};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// client-go's elector looks every 2 to 4.4 s. The rest is for a loaded machine. An expiry would take 15 s.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(12);

/// How often the Go replica writes while it leads.
const WRITE_PERIOD_MS: &str = "100";

/// The address that the Go replica writes to; no pool has it.
const GO_ADDRESS: u8 = 200;

pub(crate) fn cases() -> Vec<Case> {
    cases![InstalledWithGo: the_lease_passes_to_client_gos_elector_and_back_and_two_never_write]
}

/// A replica of either kind.
#[derive(Debug)]
enum Replica {
    Ours(Operator),
    Go(Process),
}

/// How a leader ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Release,
    Crash,
}

impl End {
    /// Both kinds of end occur for both kinds of replica.
    fn of(handover: usize) -> Self {
        if (handover / 2).is_multiple_of(2) { Self::Release } else { Self::Crash }
    }

    fn timeout(self) -> Duration {
        match self {
            Self::Release => RELEASE_TIMEOUT,
            Self::Crash => TAKEOVER_TIMEOUT,
        }
    }
}

impl Replica {
    async fn end(&mut self, how: End) -> Outcome {
        match (self, how) {
            (Self::Ours(operator), End::Crash) => operator.kill_9(),
            (Self::Go(process), End::Crash) => process.kill(),
            (Self::Ours(operator), End::Release) => {
                let status = operator.terminate().await?;
                assert!(status.success(), "{status}");
            }
            (Self::Go(process), End::Release) => {
                process.signal(Signal::TERM)?;
                let status = process.wait_end(SOON).await?;
                assert!(status.success(), "{status}: {}", process.log_tail());
            }
        }
        Ok(())
    }
}

/// The names alternate between ours and Go's.
fn name(number: usize) -> String {
    if number.is_multiple_of(2) { format!("ours-{number}") } else { format!("go-{number}") }
}

/// Starts the replica of this number and waits until it stands by. The first one leads instead.
async fn start(world: &World, program: &Path, number: usize) -> Outcome<Replica> {
    let name = name(number);
    if number.is_multiple_of(2) {
        let operator = replica(world, &name).await?;
        eventually("the replica is ready", SOON, || async {
            let (status, why) = operator.get("/readyz").await?;
            if status == 200 { Ok(()) } else { Err(Failure::new(why)) }
        })
        .await?;
        return Ok(Replica::Ours(operator));
    }
    let droplet = world.cloud().add_droplet(&name, REGION);
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("KUBECONFIG", world.operator_kubeconfig().await?)
        .env("NAMESPACE", NAMESPACE)
        .env("LEASE", LEASE)
        .env("IDENTITY", format!("{name}_client-go"))
        .env("DIGITALOCEAN_API_URL", world.digitalocean_url())
        .env("DIGITALOCEAN_ACCESS_TOKEN", token_of(world, &name))
        .env("ADDRESS", ip(GO_ADDRESS).to_string())
        .env("DROPLET", droplet.to_string())
        .env("WRITE_PERIOD_MS", WRITE_PERIOD_MS);
    let log = world.server.folder().join(format!("{name}.log"));
    let process = Process::start(&name, &mut command, &log)?;
    eventually("the Go replica competes", SOON, || async {
        let log = process.log();
        if log.contains("Attempting to acquire leader lease") { Ok(()) } else { Err(Failure::new(log)) }
    })
    .await?;
    Ok(Replica::Go(process))
}

async fn the_lease_passes_to_client_gos_elector_and_back_and_two_never_write(world: &mut World) -> Outcome {
    let world = &*world;
    let handovers = times("FLIPOP_HANDOVERS", 4);
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go-elector");
    assets::build_go_program(Path::new(&path("tests/go-elector")), &program)?;
    stage(world).await?;
    world.reserve(&[GO_ADDRESS]);
    let (mut released, mut crashed) = (Times::default(), Times::default());
    while_addresses_move(world, async {
        let mut leader = start(world, &program, 0).await?;
        let mut identity = eventually("the first one leads", SOON, || holder(world)).await?;
        for handover in 0..handovers {
            let standby = start(world, &program, handover + 1).await?;
            works(world, &name(handover)).await?;
            let how = End::of(handover);
            leader.end(how).await?;
            let ended_ms = world.cloud().now_ms();
            identity = taken_from(world, &identity, how.timeout()).await?;
            let took_ms = world.cloud().now_ms() - ended_ms;
            match how {
                End::Release => released.push(took_ms),
                End::Crash => crashed.push(took_ms),
            }
            writes(world, &name(handover + 1), 0).await?;
            leader = standby;
        }
        Ok(())
    })
    .await?;
    let turns: Vec<String> = (0..=handovers).map(name).collect();
    assert_eq!(writers(world, 0), turns, "each wrote in its turn, and in no other");
    assert_eq!(overlaps(world, 0), 0);
    released.say("handover between client-go and this operator after a release");
    crashed.say("handover between client-go and this operator after a crash");
    say(&format!("overlapping writes: 0 of {}", world.mutating_calls(0).len()));
    Ok(())
}

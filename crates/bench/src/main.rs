//! Measures the operator's release binary from outside, with a real kube-apiserver and simulated providers on loopback.
//!
//! This crate defines the measurements and the goals. Servers and processes are in `flipop-envtest`, the simulated
//! account in `flipop-cloud`. Invariants: the binary is a black box, seen through the API server, its audit log, the
//! provider's call log and `/proc`. Latencies are compared with a bare client's in the same run, because a loaded
//! machine slows both. Each figure has its own cluster and account.

mod against;
mod bare;
mod bulk;
mod burst;
mod checks;
mod churn;
mod commands;
mod dns;
mod failover;
mod footprint;
mod hang;
mod hundred;
mod lists;
mod load;
mod pools;
mod publish;
mod receiver;
mod repair;
mod report;
mod rest;
mod scale;
mod scrapes;
mod soak;
mod standing;
mod start;
mod stats;
mod strangers;
mod world;
mod zones;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flipop_envtest::assets::{self, Found};
use flipop_envtest::{Failure, Outcome, tls};
use report::Report;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use world::Stage;

/// Measures FLIPOP and compares it with its goals; exits with 1 when one is missed.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// The client that latencies are compared with (the benchmark starts it).
    #[command(hide = true)]
    Bare(bare::Bare),
    /// The client that processor time is compared with (the benchmark starts it).
    #[command(hide = true)]
    Receive(receiver::Receiver),
}

#[derive(Debug, Args)]
struct Run {
    /// Few samples and short windows: shows that everything works, not how well.
    #[arg(long)]
    quick: bool,
    /// Only these figures (default: all but the soak).
    #[arg(long, value_enum)]
    only: Vec<Figure>,
    /// The operator's binary (default: target/release/flipop).
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Another binary, measured in turn with the first: prints ratios instead of verdicts.
    #[arg(long)]
    against: Option<PathBuf>,
    /// Nodes of the large cluster.
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Pods of the large cluster, of which 15 % match.
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// Minutes of the soak.
    #[arg(long, default_value_t = 30)]
    soak_minutes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// From a node's failure to the assign request.
    Failover,
    /// From a failed assignment to a repaired one.
    Repair,
    /// Start with a hundred addresses.
    Start,
    /// A hundred addresses, and nothing happens.
    Rest,
    /// Node checks of a hundred nodes, and the Leases of five thousand. Needs root.
    Checks,
    /// DNS: nodes that become ready, and failovers of a pool's address.
    Dns,
    /// A large cluster.
    Scale,
    /// The commands that people call, on a large cluster.
    Commands,
    /// A thousand pools with selectors of their own.
    Pools,
    /// Objects as large as the API server accepts, beside a healthy pool. Needs root.
    Strangers,
    /// Two thousand scrapes of the metrics a second.
    Scrapes,
    /// Changes and faults without a pause, for `--soak-minutes`. Only when asked for.
    Soak,
}

impl Run {
    fn wants(&self, figure: Figure) -> bool {
        self.only.contains(&figure) || (self.only.is_empty() && figure != Figure::Soak)
    }
}

fn main() -> ExitCode {
    let Cli { mode, run } = Cli::parse();
    tls::install_provider();
    let workers = 2;
    // One thread receives cheaper than two.
    let mut runtime = match mode {
        Some(Mode::Receive(_)) => tokio::runtime::Builder::new_current_thread(),
        Some(Mode::Bare(_)) | None => tokio::runtime::Builder::new_multi_thread(),
    };
    let result =
        runtime.worker_threads(workers).enable_all().build().map_err(Failure::from).and_then(|runtime| {
            runtime.block_on(async {
                match mode {
                    Some(Mode::Bare(bare)) => bare.run().await.map(|()| true),
                    Some(Mode::Receive(receiver)) => receiver.run().await.map(|()| true),
                    None => measure(&run).await,
                }
            })
        });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            say(&format!("flipop-bench: {failure}"));
            ExitCode::from(2)
        }
    }
}

/// True if every goal is met. Two binaries are only compared.
async fn measure(run: &Run) -> Outcome<bool> {
    let stage = |binary: Option<PathBuf>| match assets::find()? {
        Found::Assets(assets) => Stage::new(assets, binary),
        Found::Nothing(reason) => Err(Failure::new(reason)),
    };
    let ours = stage(run.binary.clone())?;
    let mut out = std::io::stdout().lock();
    if let Some(other) = run.against.clone() {
        let compared = against::measure(run, [&ours, &stage(Some(other))?]).await?;
        writeln!(out, "{compared}")?;
        return Ok(true);
    }
    let report = figures(run, &ours).await?;
    writeln!(out, "{report}")?;
    Ok(report.all_met())
}

/// Measures one binary.
async fn figures(run: &Run, stage: &Stage) -> Outcome<Report> {
    let mut report = Report::default();
    if run.wants(Figure::Failover) {
        say("failover: a node becomes NotReady …");
        failover::measure(stage, run.quick, &mut report).await?;
    }
    if run.wants(Figure::Repair) {
        say("repair: assignments fail …");
        repair::measure(stage, run.quick, &mut report).await?;
    }
    let hundred = [Figure::Start, Figure::Rest, Figure::Checks].map(|figure| run.wants(figure));
    if hundred.contains(&true) {
        hundred::measure(stage, run.quick, hundred, &mut report).await?;
    }
    if run.wants(Figure::Dns) {
        dns::measure(stage, run.quick, &mut report).await?;
    }
    if run.wants(Figure::Scale) {
        say(&format!("scale: {} nodes, {} pods …", run.nodes, run.pods));
        scale::measure(stage, (run.nodes, run.pods), run.quick, &mut report).await?;
    }
    if run.wants(Figure::Commands) {
        say("commands: status, plan and check on a large cluster …");
        commands::measure(stage, run.quick, &mut report).await?;
    }
    if run.wants(Figure::Pools) {
        say("pools: a thousand pools with selectors of their own …");
        pools::measure(stage, run.quick, &mut report).await?;
    }
    if run.wants(Figure::Strangers) {
        say("strangers: others create objects that are as large as possible …");
        strangers::measure(stage, run.quick, &mut report).await?;
    }
    if run.wants(Figure::Scrapes) {
        say("scrapes: many clients read the metrics …");
        scrapes::measure(stage, run.quick, &mut report).await?;
    }
    if run.wants(Figure::Soak) {
        say(&format!("soak: {} minutes …", run.soak_minutes));
        soak::measure(stage, run.soak_minutes, &mut report).await?;
    }
    Ok(report)
}

/// Writes a line for the user at the terminal.
fn say(text: &str) {
    // A closed terminal is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}

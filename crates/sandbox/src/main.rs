//! Entry point of the sandbox: FLIPOP in a simulated world, on a machine with nothing but Rust.

mod demo;
mod replay;

use clap::{Args, Parser, Subcommand};
use flipop::clock::Clock;
use flipop::telemetry;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The exit code after Ctrl-C during the story, as in shells: 128 plus the signal's number.
const INTERRUPTED: u8 = 130;

/// Shows what FLIPOP does, without a cluster, an account, Docker or Go.
///
/// Runs the real operator against a simulated Kubernetes API, a simulated DigitalOcean and a simulated Cloudflare,
/// all on this machine: makes nodes, pods, reserved IPs and DNS zones that fit the YAML, applies it, kills a node
/// that holds an IP, drains another one, heals both, and tells what moves where, which DNS records come and go, and
/// why.
///
/// Exit codes:
///   0  every pool and record set is healthy and everything went as expected
///   1  something in the YAML is wrong, or something expected did not happen in time; standard error says what
///   2  wrong usage
#[derive(Debug, Parser)]
#[command(
    name = "sandbox",
    bin_name = "cargo sandbox",
    args_conflicts_with_subcommands = true,
    verbatim_doc_comment
)]
struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a simulation step by step.
    Replay {
        /// A seed, or a file with a plan.
        plan: String,
    },
    /// Keep the simulated cluster running for kubectl and for commands that are typed, until Ctrl-C.
    Serve {
        #[command(flatten)]
        common: Common,
        /// Port of the simulated API server on 127.0.0.1; 0 takes any free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// YAML with a FloatingIPPool or NodeDNSRecordSet: files, directories, - for stdin [default: the examples].
    files: Vec<PathBuf>,
    /// Show the operator's logs too, on standard error.
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(usage) => {
            let _unwritten = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let verbose = match &flags.command {
        Some(Command::Serve { common, .. }) => common.verbose,
        Some(Command::Replay { plan }) => return replay::replay(plan, &mut std::io::stdout().lock()),
        None => flags.common.verbose,
    };
    let logs = if verbose { telemetry::start(false, Clock::system()).ok() } else { None };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure(&format!("failed to start the runtime: {error}")),
    };
    let code = runtime.block_on(act(flags));
    runtime.shutdown_background();
    if let Some(logs) = logs {
        logs.flush();
    }
    code
}

async fn act(flags: Flags) -> ExitCode {
    // Removes colours that would not be seen, or if NO_COLOR is set.
    let out = Box::new(anstream::stdout());
    let result = match flags.command {
        Some(Command::Serve { common, port }) => {
            let serving = demo::Serving { files: common.files, port, typed: typed() };
            demo::serve(serving, out, end_signal()).await
        }
        // Already done, on its own runtime.
        Some(Command::Replay { .. }) => Ok(()),
        None => tokio::select! {
            result = demo::run(&flags.common.files, out) => result,
            () = end_signal() => return ExitCode::from(INTERRUPTED),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(&error.to_string()),
    }
}

/// The typed lines of standard input. They are read on their own thread, since a blocked read cannot be ended. The
/// process does not wait for that thread.
fn typed() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(Result::ok);
        // The receiver is gone when the story is over.
        lines.into_iter().try_for_each(|line| sender.send(line).ok())
    });
    lines
}

fn failure(problem: &str) -> ExitCode {
    let _unwritten = writeln!(std::io::stderr(), "sandbox: ✗ {problem}");
    ExitCode::FAILURE
}

/// Waits for Ctrl-C, or for the signal that `kill` sends.
async fn end_signal() {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}

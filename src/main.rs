//! Entry point of the operator.

use flipop::clock::Clock;
use flipop::config::{ConfigError, Invocation};
use flipop::exit::{self, Exit};
use flipop::{agent, command, operator, telemetry};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io::Write;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Errors of the command line and the environment go to standard error.
fn main() -> ExitCode {
    exit::end_on_panic();
    keep_memory_private();
    let exit = match Invocation::from_process() {
        Ok(Invocation::Command(order)) => command::run(&order),
        Ok(Invocation::Run(config)) => {
            live(config.debug, |shutdown| operator::run(*config, shutdown, |_started| {}))
        }
        Ok(Invocation::Agent(config)) => live(config.debug, |shutdown| agent::run(*config, shutdown)),
        Err(ConfigError::Usage(usage)) => {
            let _unwritten = usage.print();
            if usage.use_stderr() { Exit::Usage } else { Exit::Success }
        }
        Err(ConfigError::CommandUsage(usage)) => {
            let _unwritten = usage.print();
            if usage.use_stderr() { Exit::UnknownCommand } else { Exit::Success }
        }
        Err(error) => {
            let _unwritten = writeln!(std::io::stderr(), "flipop: {error}");
            if matches!(error, ConfigError::UnknownCommand { .. } | ConfigError::CommandVariable(_)) {
                Exit::UnknownCommand
            } else {
                Exit::Usage
            }
        }
    };
    exit.into()
}

/// Keeps other processes of the same user, and core files, from reading tokens in this process's memory. Where the
/// kernel refuses that, the process runs as it did before.
fn keep_memory_private() {
    let _refused = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _refused = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Starts logging, and runs until the work ends. One thread is enough: it works in small pieces, and handing a piece to
/// another thread costs more than it saves. The election has a thread of its own.
fn live<F, E>(debug: bool, work: impl FnOnce(CancellationToken) -> F) -> Exit
where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let prepared = Builder::new_current_thread().enable_all().build().and_then(prepare);
    let logs = match telemetry::start(debug, Clock::system()) {
        Ok(logs) => logs,
        Err(error) => {
            let _unwritten = writeln!(std::io::stderr(), "flipop: {error}");
            return Exit::Failure;
        }
    };
    let (runtime, signals) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::error!("failed to start the runtime and to listen for signals: {error}");
            logs.flush();
            return Exit::Failure;
        }
    };
    let result = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let signals = signals.obey(shutdown.clone());
        let work = work(shutdown);
        tokio::select! {
            biased;
            () = signals => Ok(()),
            result = work => result,
        }
    });
    let code = match result {
        Ok(()) => Exit::Success,
        Err(error) => {
            tracing::error!("{error}");
            Exit::Failure
        }
    };
    // Cuts off what is still under way: a blocked call must not keep the process alive.
    runtime.shutdown_background();
    logs.flush();
    code
}

/// Listens for signals before anything that takes time, and returns the runtime with them. The kernel drops a signal to
/// a container's first process that does not listen for it.
fn prepare(runtime: Runtime) -> std::io::Result<(Runtime, Signals)> {
    let signals = {
        let _inside = runtime.enter();
        Signals::listen()?
    };
    Ok((runtime, signals))
}

/// The signals that ask the process to end.
struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to listen. No later signal is lost.
    fn listen() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The first signal begins the shutdown, and the second one ends the process at once.
    async fn obey(mut self, shutdown: CancellationToken) {
        for _ in 0..2 {
            tokio::select! {
                _ = self.term.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if shutdown.is_cancelled() {
                return;
            }
            shutdown.cancel();
        }
    }
}

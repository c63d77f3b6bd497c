//! Entry point of the operator.

use flipop::clock::Clock;
use flipop::config::{ConfigError, Invocation};
use flipop::{api, operator, telemetry};
use std::io::Write;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What is wrong is said on standard error; exit code 2 for flags and environment, 1 for everything else.
fn main() -> ExitCode {
    match Invocation::from_process() {
        Ok(Invocation::Crd) => print_crds(),
        Ok(Invocation::Run(config)) => run(*config),
        Err(ConfigError::Usage(usage)) => {
            let _unwritten = usage.print();
            ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
        }
        Err(error) => {
            let _unwritten = writeln!(std::io::stderr(), "flipop: {error}");
            ExitCode::from(2)
        }
    }
}

fn print_crds() -> ExitCode {
    match api::crd::all_yaml() {
        Ok(yaml) => {
            let _unwritten = std::io::stdout().write_all(yaml.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _unwritten = writeln!(std::io::stderr(), "flipop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: flipop::config::Config) -> ExitCode {
    let logs = match telemetry::start(config.debug, Clock::system()) {
        Ok(logs) => logs,
        Err(error) => {
            let _unwritten = writeln!(std::io::stderr(), "flipop: {error}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("failed to start the runtime: {error}");
            logs.flush();
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let signals = on_signals(shutdown.clone());
        let operator = operator::run(config, shutdown, |_started| {});
        tokio::select! {
            result = operator => result,
            () = signals => Ok(()),
        }
    });
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    };
    // What is still under way is cut off: a blocked call must not keep a process that is to end.
    runtime.shutdown_background();
    logs.flush();
    code
}

/// The first SIGTERM or SIGINT begins the shutdown, the second one ends the process at once.
async fn on_signals(shutdown: CancellationToken) {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("failed to listen for signals");
        return std::future::pending().await;
    };
    for _ in 0..2 {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        if shutdown.is_cancelled() {
            return;
        }
        shutdown.cancel();
    }
}

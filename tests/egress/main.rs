//! `flipop agent` in network namespaces: the real binary, the real kernel, the real API server.
//!
//! The tests need root, network namespaces, `ip` and `nft`. Without these they are reported as ignored, and fail if
//! `CI` is set.
#![expect(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at once")]
#![expect(clippy::print_stdout, reason = "helpers speak to the tests by their output")]
#![expect(clippy::disallowed_methods, reason = "real time: what is waited for are other processes")]

mod block;
mod cases;
mod connections;
mod helper;
mod lab;
mod networks;
mod rest;
mod world;

use flipop_envtest::assets::{self, Found};
use futures::FutureExt as _;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::panic::AssertUnwindSafe;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Runtime;

/// Tests at a time. Most of a test is waiting.
const TESTS_AT_A_TIME: usize = 6;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = arguments.as_slice()
        && first == "helper"
    {
        return helper::run(rest).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TESTS_AT_A_TIME);
    let suite = Arc::new(Suite::default());
    let trials = cases::all().into_iter().map(|(name, nodes, test)| {
        let suite = Arc::clone(&suite);
        Trial::ignorable_test(name, move || suite.run(nodes, test))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    // A static would leave the server running.
    drop(suite);
    conclusion.exit_code()
}

/// The server with its runtime, or what this machine lacks, or why the server did not start.
type Shared = Result<Result<(world::Server, Runtime), &'static str>, String>;

/// The parts that all tests share.
#[derive(Default)]
struct Suite {
    shared: OnceLock<Shared>,
}

impl Suite {
    fn run(&self, nodes: u32, test: cases::Test) -> Result<Completion, Failed> {
        let shared = self.shared.get_or_init(start);
        match shared {
            Err(failure) => Err(Failed::from(failure)),
            Ok(Err(reason)) if assets::nothing_may_be_skipped() => Err(Failed::from(*reason)),
            Ok(Err(reason)) => Ok(Completion::ignored_with(*reason)),
            Ok(Ok((server, runtime))) => {
                let ran = runtime.block_on(AssertUnwindSafe(server.run(nodes, test)).catch_unwind());
                match ran {
                    Ok(Ok(())) => Ok(Completion::Completed),
                    Ok(Err(failure)) => Err(Failed::from(failure.to_string())),
                    Err(_) => Err(Failed::from("it panicked: see above")),
                }
            }
        }
    }
}

/// Checks what the tests need, and starts the server.
fn start() -> Shared {
    if !has_namespaces() {
        return Ok(Err("needs root, network namespaces, ip (iproute2) and nft (nftables)"));
    }
    let assets = match assets::find().map_err(|failure| failure.to_string())? {
        Found::Assets(assets) => assets,
        Found::Nothing(_) => return Ok(Err("needs Go or KUBEBUILDER_ASSETS for an API server")),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let server = runtime.block_on(world::server(&assets)).map_err(|failure| failure.to_string())?;
    Ok(Ok((server, runtime)))
}

fn has_namespaces() -> bool {
    let name = format!("fl{}-probe", std::process::id());
    let quiet = |arguments: &[&str]| {
        let mut ip = Command::new("ip");
        ip.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        ip.status().is_ok_and(|status| status.success())
    };
    let made = quiet(&["netns", "add", &name]);
    let works = made && quiet(&["netns", "exec", &name, "nft", "list", "ruleset"]);
    if made {
        quiet(&["netns", "del", &name]);
    }
    works
}

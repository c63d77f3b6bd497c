//! FLIPOP on a real Kubernetes API server.
//!
//! The manifests are applied as users apply them. The real binary runs as their service account, against the simulated
//! `DigitalOcean` and Cloudflare. Servers come from `flipop-envtest`. Without Go and `KUBEBUILDER_ASSETS` the tests are
//! reported as ignored, and fail if `CI` is set.
#![expect(clippy::panic, clippy::indexing_slicing, reason = "a test may stop at once")]

mod api_faults;
mod assignment;
mod bad_input;
mod book;
mod check;
mod commands;
mod corpus;
mod creation;
mod dashboard;
mod dns;
mod dns_examples;
mod failover;
mod forwarded;
mod grace;
mod helm;
mod installation;
mod interop;
mod kills;
mod labels;
mod lease;
mod lists;
mod node_checks;
mod node_policy;
mod observation;
#[path = "../repository/book/pages.rs"]
mod pages;
#[path = "../shared/prometheus.rs"]
mod prometheus;
mod rbac;
mod reclaim;
mod removal;
mod restart;
mod rights;
mod shutdown;
mod suite;
mod team;
mod tenants;
mod tokens;
mod uninstall;
mod verdicts;
mod warnings;
mod watch_faults;
mod world;

use libtest_mimic::Arguments;
use std::process::ExitCode;
use suite::{Case, Suite};

/// Servers and tests at a time. Most of a test is waiting, and a server takes 300 MB.
const TESTS_AT_A_TIME: usize = 8;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TESTS_AT_A_TIME);
    suite::catch_panics();
    let modules: [fn() -> Vec<Case>; 35] = [
        installation::cases,
        helm::cases,
        dashboard::cases,
        corpus::cases,
        labels::cases,
        node_checks::cases,
        node_policy::cases,
        rbac::cases,
        warnings::cases,
        tenants::cases,
        verdicts::cases,
        assignment::cases,
        forwarded::cases,
        grace::cases,
        commands::cases,
        check::cases,
        uninstall::cases,
        observation::cases,
        restart::cases,
        kills::cases,
        failover::cases,
        lease::cases,
        lists::cases,
        interop::cases,
        shutdown::cases,
        creation::cases,
        bad_input::cases,
        book::cases,
        dns_examples::cases,
        rights::cases,
        watch_faults::cases,
        api_faults::cases,
        tokens::cases,
        reclaim::cases,
        removal::cases,
    ];
    let cases = modules.into_iter().flat_map(|cases| cases());
    let suite = Suite::new();
    let trials = suite.trials(cases);
    let conclusion = libtest_mimic::run(&arguments, trials);
    // With a static or an exit, the servers would stay.
    suite.end();
    conclusion.exit_code()
}

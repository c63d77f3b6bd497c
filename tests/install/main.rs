//! Ways to install and monitor FLIPOP besides `kubectl apply -f k8s`: the Helm chart, kustomize, the alerts and the
//! dashboard, and Argo CD's health checks. All are generated from the same files and install the same objects.
//! (tests/apiserver installs them on a real API server.)
//!
//! If a tool is missing, a test that needs it is reported as ignored, and fails if `CI` is set.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop at once")]

mod chart;
mod copies;
mod dashboard;
mod health;
mod kustomize;
mod objects;
#[path = "../shared/prometheus.rs"]
mod prometheus;
#[path = "../shared/queries.rs"]
mod queries;
mod scan;
mod schema;
mod tools;

use libtest_mimic::Arguments;

fn main() {
    let arguments = Arguments::from_args();
    let trials = [
        dashboard::trials,
        copies::trials,
        schema::trials,
        chart::trials,
        kustomize::trials,
        health::trials,
        scan::trials,
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flat_map(|trials| trials()).collect()).exit();
}

//! The shell of FLIPOP: everything that waits, logs or talks. Decisions live in `flipop-core`.

pub mod admin;
pub mod agent;
pub mod api;
pub mod clock;
pub mod command;
pub mod config;
pub mod debug;
pub mod execute;
pub mod exit;
pub mod kube;
pub mod leader;
pub mod liveness;
pub mod metrics;
pub mod network;
pub mod operator;
pub mod permit;
pub mod process_metrics;
pub mod provider;
pub mod random;
pub mod reconcile;
pub mod signal;
pub mod telemetry;
pub mod token;
pub mod version;
mod waiting;
mod watches;

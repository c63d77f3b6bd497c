//! The demonstration: a small cluster that fits the given YAML, the real operator, and a story told line by line.
//!
//! Its parts: what is simulated for which YAML ([`cast`]), the servers ([`stage`]) and the operators ([`operators`]),
//! what is told ([`story`]), what is done to the nodes and what must follow ([`script`], and [`restart`] for a failure
//! that passes), the final report ([`summary`]), the commands that can be typed while it serves ([`commands`]), and the
//! web page that has buttons for some of them ([`web`]). The operator is linked in unchanged. The simulated API server
//! and the simulated accounts are in other crates.
//!
//! Invariants: nothing leaves this machine. Every wait ends. The acts of the operator are read from the simulated
//! account and the API server, and never assumed.

mod access;
mod acts;
mod cast;
mod commands;
mod controllers;
mod machines;
mod manifest;
mod operators;
mod pods;
mod pools;
mod records;
mod restart;
mod script;
mod serve;
mod sets;
mod specs;
mod stage;
mod story;
mod summary;
mod teller;
mod web;
mod zones;

pub(crate) use manifest::ManifestError;
pub(crate) use script::run;
pub(crate) use serve::{Serving, serve};

use flipop::operator::OperatorError;
use flipop_apiserver::ScenarioError;

/// Why a demonstration failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The YAML cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The API server refused part of the YAML.
    #[error("failed to apply {source_name}: {problem}")]
    Apply {
        /// The file.
        source_name: String,
        /// The API server's refusal.
        problem: String,
    },
    /// The simulated cluster refused a step of the script.
    #[error("failed to change the simulated cluster: {}", explain(.0))]
    Cluster(#[from] ScenarioError),
    /// A port, a file or a directory is unavailable.
    #[error("failed to {0}: {1}")]
    Machine(&'static str, std::io::Error),
    /// The operator ended, or could not start.
    #[error("the operator failed: {0}")]
    Operator(#[from] OperatorError),
    /// The operator ended without being asked to.
    #[error("the operator ended by itself")]
    OperatorEnded,
    /// Something required did not happen.
    #[error("{0}")]
    Unmet(String),
}

/// An error of the simulated cluster with its cause.
fn explain(error: &ScenarioError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

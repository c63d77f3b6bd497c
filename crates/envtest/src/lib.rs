//! A real Kubernetes API server for tests and benchmarks, and the operator's binary as a black box in front of it.
//!
//! This crate finds or builds `kube-apiserver`, `etcd` and `kubectl` ([`assets`]) and runs them as child processes
//! ([`apiserver`], [`process`]). It runs the operator as a child process ([`operator`]), with a failing network between
//! them ([`proxy`]) or a failing API server ([`api_proxy`]). It writes the objects of tests ([`cluster`], [`large`])
//! and observes the result ([`kubectl`], [`scrape`], [`audit`], [`wait`]). The simulated providers are in
//! `flipop-cloud`, and the expectations are in the tests.
//!
//! Invariants: everything listens on loopback only. Every started process ends when its owner is dropped, even on a
//! panic. Nothing is written outside `target/`, temporary folders and the cache folder of [`assets`].

pub mod api_proxy;
pub mod apiserver;
pub mod assets;
pub mod audit;
pub mod cluster;
mod failure;
pub mod kubectl;
pub mod kubelet;
pub mod large;
pub mod nodes;
pub mod operator;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod scrape;
pub mod servers;
pub mod tls;
pub mod wait;

pub use failure::{Failure, Outcome};

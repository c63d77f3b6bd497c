//! A real Kubernetes API server for tests and benchmarks, and the operator's binary as a black box in front of it.
//!
//! Owns: where `kube-apiserver`, `etcd` and `kubectl` come from ([`assets`]), their life as child processes
//! ([`apiserver`], [`process`]), the operator as a child process ([`operator`]), a network between them that fails
//! ([`proxy`]), an API server that fails ([`api_proxy`]), the objects that tests write ([`cluster`]), and ways to look
//! ([`kubectl`], [`scrape`], [`audit`], [`wait`]). Does not own: the simulated providers (`flipop-cloud`) and what is
//! expected of the operator (the tests).
//!
//! Invariants: everything listens on loopback only; every process that is started ends when its owner is dropped,
//! on a panic too; nothing is installed outside `target/` and temporary folders.

pub mod api_proxy;
pub mod apiserver;
pub mod assets;
pub mod audit;
pub mod cluster;
mod failure;
pub mod kubectl;
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

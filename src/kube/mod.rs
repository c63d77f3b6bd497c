//! The Kubernetes API: clients, watches, reads and writes.
//!
//! It owns how we talk to the API server, and what a failed call means. It decides nothing from what was read, and does
//! not choose when to write. Invariants: every call has a deadline. Every write takes a [`crate::permit::Permit`] and
//! is fenced by it. Nothing is retried unseen.

pub mod client;
mod empty_fields;
pub mod events;
pub mod kubeconfig;
pub mod objects;
mod protobuf;
mod refusal;
pub mod server_time;
#[cfg(test)]
pub(crate) mod stub;
pub mod trouble;
pub mod watch;
pub mod writes;

//! Simulated cloud providers: a `DigitalOcean` (v2 API) and a Cloudflare (v4 API), on loopback or in process.
//!
//! `world` holds the accounts and decides every answer; it is pure, seeded and gets the time handed in. The
//! [`Cloud`] handle gives it tokio's clock, a lock, and the levers for tests; [`CloudServer`] puts it on
//! three loopback ports. What it deliberately is not: a model of resources that the operator never touches.
//! Invariants: the same seed and the same calls give the same answers; no token in any log entry.

mod actions;
mod calls;
mod cf_records;
mod change;
mod cloudflare;
mod digitalocean;
mod dns_handle;
mod domains;
mod faults;
mod garble;
mod handle;
mod history;
mod limits;
mod rate;
mod render;
mod reserved_ips;
mod seed;
mod server;
mod token;
mod wire;
mod world;

pub use actions::{ActionOutcome, ActionPlan};
pub use calls::Call;
pub use change::{Change, ChangeKind, RecordVerb};
pub use cloudflare::Plan;
pub use dns_handle::RecordView;
pub use faults::{Fault, Garble, Injection, InjectionId, Refusal, Target, When};
pub use handle::{Cloud, CloudError, ConnectionLost, IpView, Options};
pub use server::{CloudServer, Trapped};
pub use wire::{Op, Provider, Reply, Request};
pub use world::Knobs;

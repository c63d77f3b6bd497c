//! Simulated cloud providers: a `DigitalOcean` (v2 API) and a Cloudflare (v4 API), on loopback or in process.
//!
//! `world` holds the accounts, `exchange` answers calls; both are pure, seeded and get the time handed in. The
//! [`Cloud`] handle gives them tokio's clock, a lock, and the levers for tests; [`CloudServer`] puts it on
//! three loopback ports. What it deliberately is not: a model of resources that the operator never touches.
//! Invariants: the same seed and the same calls give the same answers; no token in any log entry.

mod actions;
mod addresses;
mod calls;
mod cf_answers;
mod cf_records;
mod change;
mod cloudflare;
mod digitalocean;
mod dns_handle;
mod do_answers;
mod domains;
mod exchange;
mod faults;
mod firewall_calls;
mod firewall_changes;
mod firewall_handle;
mod firewall_rules;
mod firewalls;
mod garble;
mod handle;
mod history;
mod limits;
mod rate;
mod render;
mod reserved_ips;
mod routes;
mod seed;
mod server;
mod token;
mod wire;
mod world;
mod zones;

pub use actions::{ActionOutcome, ActionPlan};
pub use calls::Call;
pub use change::{Change, ChangeKind, RecordVerb};
pub use dns_handle::RecordView;
pub use faults::{Fault, Garble, Injection, InjectionId, Refusal, Target, When};
pub use firewall_handle::FirewallView;
pub use handle::{Cloud, CloudError, ConnectionLost, IpView, Options};
pub use server::{CloudServer, Trapped};
pub use wire::{Op, Provider, Reply, Request};
pub use world::Knobs;
pub use zones::Plan;

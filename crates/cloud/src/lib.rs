//! Simulated cloud providers: a `DigitalOcean` (v2 API) and a Cloudflare (v4 API), on loopback or in process.
//!
//! `world` holds the accounts, and `exchange` answers calls. Both are pure and seeded, and get the time handed in.
//! The [`Cloud`] handle adds tokio's clock, a lock, and the controls for tests. [`CloudServer`] serves it on three
//! loopback ports. Resources that the operator never touches are left out on purpose. Invariants: the same seed and
//! the same calls give the same answers; no log entry holds a token.

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
pub use wire::{DROPLETS, Machines, Op, Provider, Reply, Request};
pub use world::Knobs;
pub use zones::Plan;

//! Cloud providers: the services that they have, the HTTP layer below these, and one folder for each provider.
//!
//! Owns the form of a call: its context, its result, and the permit that a change needs. Does not own when to make one:
//! a provider neither retries nor waits for its budget. The planner does both.
//!
//! This file passes on what its modules hold to the rest of the program. The modules do not import from it, so they
//! import each other in one direction.
//!
//! To add a provider, copy `digitalocean/`: a client over `http::Api`, wire types with lenient decoders, one function
//! that turns an error answer into a fault, and one value, `PROVIDER`, which is added to [`PROVIDERS`]. Everything else
//! (token, TLS, bounds, deadlines, rate limits, metrics) comes with `http::Api`, and `paging` reads long lists
//! completely. `cloudflare/` is an example of a provider of DNS alone.
//!
//! Invariants: a mutating method takes a [`Permit`](crate::permit::Permit) and writes no byte without it. If a lost
//! answer leaves the outcome unknown, the [fault](flipop_core::model::fault::Fault::outcome_unknown) says so. A token
//! appears in no error, log, metric or `Debug` text.

mod addresses;
mod call;
pub mod cloudflare;
pub mod digitalocean;
pub mod dns;
mod entry;
pub mod http;
mod known;
pub mod observe;
mod paging;
mod rate;

pub use addresses::{FirewallProvider, IpProvider, NewFirewall};
pub use call::{Action, CallContext, CallError};
pub use entry::{Provider, ProviderConfig, ProviderConfigs, Providers, Services, Variables, WriteScopes};
pub use flipop_core::model::ActionStatus;
pub use http::{Account, install_tls};
pub use known::{PROVIDERS, connect, descriptors, machine};

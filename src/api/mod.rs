//! Our two custom resources, as the cluster stores them.
//!
//! Owns the Rust types of `FloatingIPPool` and `NodeDNSRecordSet`, their schemas and the CRDs made of them.
//! Does not own what the fields mean (`flipop-core` decides), validation, or talking to the API server.
//!
//! Invariants:
//! - Whatever the schema admits, the types decode: `null` and absent are alike, unknown fields are ignored. A field of a
//!   spec is decoded up to its bound.
//! - The schema of a field that the Go operator's CRDs have is never narrower than theirs: it carries no rule, bound,
//!   pattern, enum, list type or default of ours. A field that only we have may carry them, with a message that says
//!   what to do. `tests/repository/crds` compares the two.
//! - No schema default in a spec: what a user wrote stays as it is, and absent means what the Go operator did. An
//!   absent status alone has one, which says that nothing was observed.
//! - Writing an object back changes nothing in a spec that was not changed on purpose.

pub(crate) mod bounded;
pub mod crd;
pub(crate) mod lenient;
mod pool;
mod record_set;
pub(crate) mod resource;
pub(crate) mod seen;
mod shared;
pub mod translate;

pub use pool::{
    CreatedIp, Creation, Firewall, FirewallEntry, FirewallPort, FloatingIPPool, FloatingIPPoolSpec,
    FloatingIPPoolStatus, IpStatus, LastMove, NodeLabels, PublishedRecordSet, PurchasedIp, RecordName,
};
pub use record_set::{NodeDNSRecordSet, NodeDNSRecordSetSpec, NodeDNSRecordSetStatus, SuspectNode};
pub use seen::{Conditioned, Seen, Undecodable, meta_of, object_of};
pub use shared::{Condition, DnsRecordSet, Grace, Match, NodeCheck, Toleration};

/// API group of both kinds.
pub const GROUP: &str = "flipop.digitalocean.com";

/// The one version of both kinds.
pub const VERSION: &str = "v1alpha1";

/// `observedGeneration` of a status that nobody wrote.
pub const UNOBSERVED: i64 = -1;

/// The text of a field. `None` if it is absent, or empty: the Go operator's types wrote an absent text as an empty one.
pub fn given(field: Option<&String>) -> Option<&str> {
    field.map(String::as_str).filter(|text| !text.is_empty())
}

//! How large the fields of a spec may be. The API server accepts any object of up to 1.5 MiB, and whoever may write one
//! must not be able to use up the memory of an operator that serves the whole cluster.
//!
//! A decoder keeps a field up to its bound, and notes the rest as a [`TooLarge`]. A text over its bound ends in
//! [`CUT`], which no field accepts, so nothing can take the rest for the whole.

use super::spec::{Scope, SpecProblem};

/// Ends a text that was cut.
pub const CUT: char = '…';

/// Longest text without a bound of its own, in bytes: a DNS name is no longer.
pub const TEXT_BYTES: usize = 253;

/// Longest annotation that is kept, in bytes: `lastMove.request` repeats at most 400 characters.
pub const ANNOTATION_BYTES: usize = 1_600;

/// Longest entry of a list of addresses or networks that is kept, in bytes. Every valid one is shorter.
pub const ENTRY_BYTES: usize = 64;

/// Entries of a list without a bound of its own.
const ENTRIES: usize = 1_000;

/// As many addresses of `spec.ips` count.
pub const MAX_IPS: usize = 1_000;

/// The unit of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Entries of a list.
    Entries,
    /// Bytes of a text in UTF-8.
    Bytes,
}

impl Unit {
    /// The word for more than one.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Bytes => "bytes",
        }
    }
}

/// The bound of a field.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The field, as a path without positions.
    pub field: &'static str,
    /// The largest size.
    pub most: usize,
    /// The unit of the size.
    pub unit: Unit,
    /// The reason for this bound, for the documentation.
    pub why: &'static str,
}

/// The bounds that differ from [`TEXT_BYTES`].
pub const BOUNDS: [Bound; 8] = [
    Bound {
        field: "spec.ips",
        most: MAX_IPS,
        unit: Unit::Entries,
        why: "`desiredIPs` has the same bound; the quota of an account is far lower",
    },
    Bound {
        field: "spec.releasedIPs",
        most: 500,
        unit: Unit::Entries,
        why: "the CRD has the same bound; the quota of an account is far lower",
    },
    Bound {
        field: "spec.match.tolerations",
        most: 64,
        unit: Unit::Entries,
        why: "each node is compared with each toleration",
    },
    Bound {
        field: "spec.match.tolerations.key",
        most: 317,
        unit: Unit::Bytes,
        why: "a label key has at most 253 bytes, a slash and 63 bytes",
    },
    Bound {
        field: "spec.match.nodeLabel",
        most: 4_096,
        unit: Unit::Bytes,
        why: "it is a parameter of a URL, and API servers and proxies limit the length of a request's first line",
    },
    Bound {
        field: "spec.match.podLabel",
        most: 4_096,
        unit: Unit::Bytes,
        why: "it is a parameter of a URL, and API servers and proxies limit the length of a request's first line",
    },
    Bound {
        field: "spec.firewall.ports",
        most: 50,
        unit: Unit::Entries,
        why: "the CRD and DigitalOcean have the same bound",
    },
    Bound {
        field: "spec.firewall.sources",
        most: 1_000,
        unit: Unit::Entries,
        why: "the CRD and DigitalOcean have the same bound",
    },
];

/// The bound of a field, given as a path without positions.
pub fn bound_of(field: &str, unit: Unit) -> usize {
    let own = BOUNDS.iter().find(|bound| bound.field == field && bound.unit == unit);
    let other = match unit {
        Unit::Entries => ENTRIES,
        Unit::Bytes if BOUNDS.iter().any(|list| list.field == field) => ENTRY_BYTES,
        Unit::Bytes => TEXT_BYTES,
    };
    own.map_or(other, |bound| bound.most)
}

/// A field over its bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLarge {
    /// The field, as a path without positions.
    pub field: String,
    /// Its size.
    pub size: usize,
    /// The unit of the size.
    pub unit: Unit,
}

impl TooLarge {
    /// The mistake that this is. `whole` is the scope of a field on which the whole object rests.
    pub fn problem(&self, whole: Scope) -> SpecProblem {
        let Self { field, size, unit } = self;
        let scope = match field.strip_prefix("spec.").unwrap_or_default() {
            "region" => Scope::Creation,
            "releasedIPs" => Scope::Entry,
            "reclaimPolicy" => Scope::Reclaim,
            field if field.starts_with("dnsRecordSet") => Scope::RecordSet,
            field if field.starts_with("firewall") => Scope::Firewall,
            _ => whole,
        };
        let (most, noun) = (bound_of(field, *unit), unit.noun());
        SpecProblem {
            scope,
            field: field.clone(),
            message: format!("{size} {noun} are too many; use at most {most}"),
        }
    }
}

/// Whether one of these lies in a part of the spec.
pub fn lie_in(too_large: &[TooLarge], part: &str) -> bool {
    too_large.iter().any(|found| found.field.starts_with(part))
}

/// Adds what is over its bound to the mistakes. They replace the other mistakes in the same fields, which would be
/// about a cut text.
pub(crate) fn add_to(problems: &mut Vec<SpecProblem>, too_large: &[TooLarge], whole: Scope) {
    problems.retain(|problem| !too_large.iter().any(|found| found.field == problem.field));
    problems.splice(0..0, too_large.iter().map(|found| found.problem(whole)));
}

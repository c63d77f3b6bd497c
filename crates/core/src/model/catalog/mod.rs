//! The catalog of conditions and Events: every type, status and reason, each with its meaning and its remedy.
//! `docs/reference/conditions.md` and `docs/reference/events.md` are generated from it.
//!
//! Invariant: the operator reports only what is in this catalog. A [`Condition`](crate::model::condition::Condition)
//! is made from a [`Finding`], and only the enums of this module convert into one. Each variant is declared together
//! with its texts. The reason of an Event is an [`EventReason`](events::EventReason), declared in the same way.
//!
//! The texts are Markdown. Links in them start from `docs/reference/`.

/// Declares the reasons of conditions and their texts, in one section for each condition type. Each enum of a section
/// converts into a [`Finding`].
macro_rules! sections {
    ($($kind:ident: $holds:literal {$(
        $(#[$doc:meta])*
        enum $name:ident {$(
            $($variant:ident)|+ => $status:ident, $meaning:literal, $remedy:literal;
        )+}
    )+})+) => {
        $($(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum $name {$($(
                #[doc = $meaning]
                $variant,
            )+)+}

            impl $name {
                /// The reason as it is written.
                pub const fn as_str(self) -> &'static str {
                    match self {$($(Self::$variant => stringify!($variant),)+)+}
                }

                /// The condition's status with this reason.
                pub const fn status(self) -> $crate::model::catalog::types::Status {
                    match self {$($(Self::$variant => $crate::model::catalog::types::Status::$status,)+)+}
                }
            }

            impl From<$name> for $crate::model::catalog::Finding {
                fn from(reason: $name) -> Self {
                    let kind = $crate::model::catalog::types::ConditionType::$kind;
                    Self { kind, status: reason.status(), reason: reason.as_str() }
                }
            }
        )+)+

        /// The condition types of this module, in the order of the documentation.
        pub(super) const SECTIONS: &[$crate::model::catalog::Section] = &[$($crate::model::catalog::Section {
            kind: $crate::model::catalog::types::ConditionType::$kind,
            holds: $holds,
            rows: &[$($($($crate::model::catalog::Row {
                status: $crate::model::catalog::types::Status::$status,
                reason: stringify!($variant),
                meaning: $meaning,
                remedy: $remedy,
                variant: concat!(stringify!($name), "::", stringify!($variant)),
            },)+)+)+],
        },)+];
    };
}

pub mod events;
pub mod firewalls;
pub mod pool;
pub mod reclaim;
pub mod record_set;
pub mod records;
pub mod shared;
pub mod types;

use crate::model::ids::ObjectKind;
use types::{ConditionType, Status};

/// The type, status and reason of a condition, without its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    kind: ConditionType,
    status: Status,
    reason: &'static str,
}

impl Finding {
    /// The condition's type. A type about DNS records lacks the prefix that it has on a pool.
    pub fn kind(self) -> ConditionType {
        self.kind
    }

    /// Its status.
    pub fn status(self) -> Status {
        self.status
    }

    /// Its reason.
    pub fn reason(self) -> &'static str {
        self.reason
    }
}

/// A condition type and its reasons.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The type. A type about DNS records lacks the prefix that it has on a pool.
    pub kind: ConditionType,
    /// When the condition is present.
    pub holds: &'static str,
    /// Its reasons.
    pub rows: &'static [Row],
}

/// One reason of a condition type.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The condition's status.
    pub status: Status,
    /// The condition's reason.
    pub reason: &'static str,
    /// The meaning of the reason.
    pub meaning: &'static str,
    /// The remedy.
    pub remedy: &'static str,
    /// The enum and variant in the code, such as `Ready::Paused`.
    pub variant: &'static str,
}

/// The conditions that only a pool has, except those about its DNS records, its firewalls and the addresses that it
/// releases.
pub fn of_pools() -> &'static [Section] {
    pool::SECTIONS
}

/// The conditions that a pool has about its firewalls.
pub fn of_firewalls() -> &'static [Section] {
    firewalls::SECTIONS
}

/// The conditions that a pool has about addresses that it releases.
pub fn of_reclaims() -> &'static [Section] {
    reclaim::SECTIONS
}

/// The conditions that both kinds have under one name.
pub fn of_both() -> &'static [Section] {
    shared::SECTIONS
}

/// The conditions about DNS records: on a pool their types have a prefix.
pub fn of_records() -> &'static [Section] {
    records::SECTIONS
}

/// The conditions that only a `NodeDNSRecordSet` has, and the reasons that only it adds to those of [`of_records`].
pub fn of_record_sets() -> &'static [Section] {
    record_set::SECTIONS
}

/// Every condition type of a kind of object, with each reason that it can have there.
pub fn of(object: ObjectKind) -> impl Iterator<Item = (ConditionType, Row)> {
    let (own, more, rest) = match object {
        ObjectKind::Pool => (of_pools(), of_firewalls(), of_reclaims()),
        ObjectKind::RecordSet => (of_record_sets(), &[][..], &[][..]),
    };
    let plain =
        own.iter().chain(more).chain(rest).chain(of_both()).map(|section| (section.kind, section.rows));
    let records = of_records().iter().map(move |section| (section.kind.about_records(object), section.rows));
    plain.chain(records).flat_map(|(kind, rows)| rows.iter().map(move |row| (kind, *row)))
}

/// The remedy for a condition of this kind of object, in Markdown. `None` if none is needed or known.
pub fn remedy(object: ObjectKind, kind: &str, reason: &str) -> Option<&'static str> {
    let is = |(its_kind, row): &(ConditionType, Row)| its_kind.as_str() == kind && row.reason == reason;
    of(object).find(is).map(|(_, row)| row.remedy).filter(|remedy| *remedy != "None.")
}

/// Whether the operator can write this condition on this kind of object. All names are spelled as in manifests.
pub fn contains(object: &str, kind: &str, status: &str, reason: &str) -> bool {
    let same = |(its_kind, row): (ConditionType, Row)| {
        its_kind.as_str() == kind && row.status.as_str() == status && row.reason == reason
    };
    ObjectKind::parse(object).is_some_and(|object| of(object).any(same))
}

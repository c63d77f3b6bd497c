//! The types of conditions and their statuses.

use crate::model::ids::ObjectKind;

/// Declares [`ConditionType`].
macro_rules! types {
    ($($variant:ident)+) => {
        /// The type of a condition. Those that begin with `RecordSet` are about the DNS records of a pool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ConditionType {$(
            #[doc = concat!("`", stringify!($variant), "`.")]
            $variant,
        )+}

        impl ConditionType {
            /// Every type.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The type as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {$(Self::$variant => stringify!($variant),)+}
            }
        }
    };
}

types! {
    Ready
    SpecValid
    ProviderReady
    AddressesIdle
    Conflict
    NodesBlocked
    CreationUncertain
    CreationFailed
    Stalled
    FirewallReady
    FirewallWouldIsolate
    Reclaiming
    ReclaimBlocked
    ReclaimKept
    ReclaimAtRisk
    Suspect
    ChecksUnavailable
    ChecksDoubted
    Paused
    WatchFailing
    AnnotationsDenied
    LabelsDenied
    EventsDenied
    WriteDenied
    CRDsOutdated
    AddressMissing
    TTLRaised
    ExternalDNS
    RecordSetReady
    RecordSetConflict
    RecordSetTTLRaised
    RecordSetExternalDNS
}

impl ConditionType {
    /// The type that has this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// Whether a condition of this type and status reports trouble. Most types do so while they are True. A type of
    /// another version counts as one of these.
    pub fn is_trouble(name: &str, status: &str) -> bool {
        let sums_up =
            [Self::Ready, Self::SpecValid, Self::ProviderReady, Self::FirewallReady, Self::RecordSetReady];
        if Self::parse(name).is_some_and(|kind| sums_up.contains(&kind)) {
            status != Status::True.as_str()
        } else {
            status == Status::True.as_str()
        }
    }

    /// The type by which an object of this kind reports this condition of its DNS records. Of the conditions of both, a
    /// pool has some for itself already.
    pub fn about_records(self, object: ObjectKind) -> Self {
        let of_a_pools_records = [
            (Self::Ready, Self::RecordSetReady),
            (Self::Conflict, Self::RecordSetConflict),
            (Self::TTLRaised, Self::RecordSetTTLRaised),
            (Self::ExternalDNS, Self::RecordSetExternalDNS),
        ];
        let renamed = of_a_pools_records.into_iter().find(|(own, _)| *own == self);
        renamed.filter(|_| object == ObjectKind::Pool).map_or(self, |(_, of_records)| of_records)
    }
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl Status {
    /// The status as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

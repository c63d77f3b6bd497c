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

    /// The type by which an object of this kind reports this condition of its DNS records.
    pub fn about_records(self, object: ObjectKind) -> Self {
        match object {
            ObjectKind::Pool => self.of_a_pools_records(),
            ObjectKind::RecordSet => self,
        }
    }

    fn of_a_pools_records(self) -> Self {
        match self {
            Self::Ready | Self::RecordSetReady => Self::RecordSetReady,
            Self::Conflict | Self::RecordSetConflict => Self::RecordSetConflict,
            Self::TTLRaised | Self::RecordSetTTLRaised => Self::RecordSetTTLRaised,
            Self::ExternalDNS | Self::RecordSetExternalDNS => Self::RecordSetExternalDNS,
            // Conditions that are not about records alone keep their type on a pool.
            Self::SpecValid
            | Self::ProviderReady
            | Self::AddressesIdle
            | Self::NodesBlocked
            | Self::CreationUncertain
            | Self::CreationFailed
            | Self::Stalled
            | Self::FirewallReady
            | Self::FirewallWouldIsolate
            | Self::Reclaiming
            | Self::ReclaimBlocked
            | Self::ReclaimKept
            | Self::ReclaimAtRisk
            | Self::Suspect
            | Self::ChecksUnavailable
            | Self::ChecksDoubted
            | Self::Paused
            | Self::WatchFailing
            | Self::AnnotationsDenied
            | Self::LabelsDenied
            | Self::EventsDenied
            | Self::WriteDenied
            | Self::CRDsOutdated
            | Self::AddressMissing => self,
        }
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

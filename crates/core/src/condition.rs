//! A condition of an object's status: its type, status and reason are those of the catalog.

use crate::catalog::Finding;
use crate::ids::ObjectKind;

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
            #[must_use]
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
    WatchFailing
    AnnotationsDenied
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
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// The type in which such an object says this of its DNS records.
    #[must_use]
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
            // What is not about records alone has no name of its own on a pool.
            Self::SpecValid
            | Self::ProviderReady
            | Self::AddressesIdle
            | Self::NodesBlocked
            | Self::CreationUncertain
            | Self::CreationFailed
            | Self::Stalled
            | Self::WatchFailing
            | Self::AnnotationsDenied
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
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition without its times, which the shell adds. Its fields are texts, since on the server may stand what another
/// version or somebody else wrote. What this crate says itself is made from a [`Finding`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// Type in `CamelCase`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in `CamelCase`.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Condition {
    /// One that says this.
    pub(crate) fn new(finding: impl Into<Finding>, message: String) -> Self {
        let finding = finding.into();
        Self::of(finding.kind(), finding, message)
    }

    /// One that says this of the DNS records of such an object.
    pub(crate) fn about_records(object: ObjectKind, finding: impl Into<Finding>, message: String) -> Self {
        let finding = finding.into();
        Self::of(finding.kind().about_records(object), finding, message)
    }

    fn of(kind: ConditionType, finding: Finding, message: String) -> Self {
        let (kind, status) = (kind.as_str().to_owned(), finding.status().as_str().to_owned());
        Self { kind, status, reason: finding.reason().to_owned(), message }
    }

    /// The same in other words.
    pub(crate) fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// Whether it is of this type.
    pub(crate) fn is(&self, kind: ConditionType) -> bool {
        self.kind == kind.as_str()
    }

    /// Whether it has this status.
    pub(crate) fn has(&self, status: Status) -> bool {
        self.status == status.as_str()
    }
}

//! Names and ids. Each has its own type, so the compiler rejects one in the place of another.

use std::fmt;
use std::net::{AddrParseError, IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::Arc;

/// Namespace and name of one of our objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectName {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object inside its namespace.
    pub name: String,
}

impl ObjectName {
    /// Builds a name from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `metadata.uid`. An object that is deleted and recreated under the same name gets a new one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uid(pub Arc<str>);

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An account at a provider: it decides which token is used, and which addresses and zones are visible.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AccountId {
    /// Name of the provider.
    pub provider: String,
    /// Name of the account; empty for the one whose token is in the operator's environment.
    pub name: String,
}

impl AccountId {
    /// True if not even the provider is known.
    pub fn is_unknown(&self) -> bool {
        self.provider.is_empty()
    }
}

impl<S: Into<String>> From<S> for AccountId {
    /// The account that uses the token in the operator's environment at this provider.
    fn from(provider: S) -> Self {
        Self { provider: provider.into(), name: String::new() }
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.provider)?;
        if !self.name.is_empty() {
            write!(f, "/{}", self.name)?;
        }
        Ok(())
    }
}

/// A public address, or an address of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(IpAddr);

impl Address {
    /// Parses an IPv4 address. Pools and A records hold nothing else.
    pub fn v4(text: &str) -> Option<Self> {
        text.parse::<Ipv4Addr>().ok().map(Self::from)
    }

    /// The address.
    pub const fn as_ip(self) -> IpAddr {
        self.0
    }

    /// The address as IPv4, if it is one.
    pub fn as_v4(self) -> Option<Ipv4Addr> {
        match self.0 {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        }
    }
}

impl<I: Into<IpAddr>> From<I> for Address {
    fn from(ip: I) -> Self {
        Self(ip.into())
    }
}

impl FromStr for Address {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Id of an action at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u64);

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One of our objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ObjectRef {
    /// `metadata.uid`.
    pub uid: Uid,
    /// Namespace and name.
    pub name: ObjectName,
}

/// The kinds of our objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `FloatingIPPool`.
    Pool,
    /// `NodeDNSRecordSet`.
    RecordSet,
}

impl ObjectKind {
    /// The kind as written in manifests and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "FloatingIPPool",
            Self::RecordSet => "NodeDNSRecordSet",
        }
    }

    /// The kind with this name in manifests.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Pool, Self::RecordSet].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// An object of either kind, as the owner of records.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its kind.
    pub kind: ObjectKind,
    /// The object.
    pub object: ObjectRef,
}

/// The order of age of two objects: the older one compares less. Objects created in the same second are ordered by
/// name. Kind and uid only make the order total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seniority<'a> {
    created_at_s: i64,
    name: &'a ObjectName,
    kind: ObjectKind,
    uid: &'a Uid,
}

impl<'a> Seniority<'a> {
    /// The seniority of an object with this `metadata.creationTimestamp`, in seconds since the Unix epoch.
    pub const fn of(created_at_s: i64, kind: ObjectKind, object: &'a ObjectRef) -> Self {
        let ObjectRef { uid, name } = object;
        Self { created_at_s, name, kind, uid }
    }
}

impl Owner {
    /// A pool.
    pub const fn pool(object: ObjectRef) -> Self {
        Self { kind: ObjectKind::Pool, object }
    }

    /// The seniority of this object, given its creation time.
    pub const fn seniority(&self, created_at_s: i64) -> Seniority<'_> {
        Seniority::of(created_at_s, self.kind, &self.object)
    }
}

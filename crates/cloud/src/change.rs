//! Changes in the simulated accounts, for those who tell the story.

use std::net::Ipv4Addr;

use super::wire::Provider;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it happened, in milliseconds since the world began.
    pub at_ms: u64,
    /// Its kind.
    pub kind: ChangeKind,
}

/// The kind of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// A droplet was added.
    DropletAdded(u64),
    /// A droplet was destroyed.
    DropletDestroyed(u64),
    /// An address was reserved.
    IpReserved(Ipv4Addr),
    /// An address was released.
    IpReleased(Ipv4Addr),
    /// The move of an address to a droplet began.
    AssignStarted {
        /// The address.
        ip: Ipv4Addr,
        /// Its destination.
        droplet: u64,
    },
    /// An address is on a droplet.
    Assigned {
        /// The address.
        ip: Ipv4Addr,
        /// Its droplet.
        droplet: u64,
        /// Its former droplet.
        from: Option<u64>,
    },
    /// An address is no longer on a droplet.
    Unassigned {
        /// The address.
        ip: Ipv4Addr,
        /// Its former droplet.
        from: u64,
    },
    /// An action failed.
    ActionErrored(Ipv4Addr),
    /// A firewall was made, altered or deleted. The value is its id.
    Firewall(String),
    /// A DNS record was made, altered or deleted.
    Record {
        /// The provider.
        provider: Provider,
        /// The change to it.
        verb: RecordVerb,
        /// Its id, as text.
        id: String,
        /// Its fully qualified name.
        fqdn: String,
        /// Its type.
        rtype: String,
        /// Its present content, or its last content.
        data: String,
        /// The content that an update replaced. Equal to `data` if something else was altered.
        replaced: Option<String>,
    },
}

/// The change to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordVerb {
    /// It is new.
    Created,
    /// It has another content or TTL.
    Updated,
    /// It is gone.
    Deleted,
}

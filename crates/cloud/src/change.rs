//! What changed in the simulated accounts, for whoever tells the story.

use std::net::Ipv4Addr;

use super::wire::Provider;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// What.
    pub kind: ChangeKind,
}

/// What a change was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// A droplet came.
    DropletAdded(u64),
    /// A droplet went.
    DropletDestroyed(u64),
    /// An address was reserved.
    IpReserved(Ipv4Addr),
    /// An address was released.
    IpReleased(Ipv4Addr),
    /// The move of an address to a droplet began.
    AssignStarted {
        /// The address.
        ip: Ipv4Addr,
        /// Where it is to go.
        droplet: u64,
    },
    /// An address stands on a droplet.
    Assigned {
        /// The address.
        ip: Ipv4Addr,
        /// Where it stands.
        droplet: u64,
        /// Where it stood before.
        from: Option<u64>,
    },
    /// An address stands on no droplet any more.
    Unassigned {
        /// The address.
        ip: Ipv4Addr,
        /// Where it stood before.
        from: u64,
    },
    /// An action failed.
    ActionErrored(Ipv4Addr),
    /// A firewall was made, altered or deleted: its id.
    Firewall(String),
    /// A DNS record was made, altered or deleted.
    Record {
        /// At which provider.
        provider: Provider,
        /// What happened to it.
        verb: RecordVerb,
        /// Its id, as text.
        id: String,
        /// Its fully qualified name.
        fqdn: String,
        /// Its type.
        rtype: String,
        /// Its content, as it is now, or as it was.
        data: String,
        /// The content that an update replaced; the same as `data` when something else about it was altered.
        replaced: Option<String>,
    },
}

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordVerb {
    /// It is new.
    Created,
    /// It has another content or TTL.
    Updated,
    /// It is gone.
    Deleted,
}

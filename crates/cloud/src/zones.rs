//! DNS zones and their records, as stored by the two accounts.

use std::collections::BTreeMap;

/// A zone at `DigitalOcean`.
#[derive(Debug, Clone, Default)]
pub(super) struct Domain {
    pub(super) records: BTreeMap<u64, Record>,
}

/// A record at `DigitalOcean`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) id: u64,
    pub(super) rtype: String,
    /// Relative to the zone; `@` is the zone itself.
    pub(super) name: String,
    pub(super) data: String,
    pub(super) ttl: u32,
    pub(super) numbers: BTreeMap<&'static str, u32>,
    pub(super) tag: Option<String>,
}

impl Record {
    /// A record without numbers and tag.
    pub(super) fn new(id: u64, rtype: &str, name: &str, data: &str, ttl: u32) -> Self {
        let (rtype, name, data) = (rtype.to_owned(), name.to_owned(), data.to_owned());
        Self { id, rtype, name, data, ttl, numbers: BTreeMap::new(), tag: None }
    }

    /// The fully qualified name.
    pub(super) fn fqdn(&self, zone: &str) -> String {
        if self.name == "@" { zone.to_owned() } else { format!("{}.{zone}", self.name) }
    }
}

/// The plan of a zone, which sets its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// TTL from 60 s, 200 changes per batch, no tags.
    Free,
    /// TTL from 30 s, 3,500 changes per batch, tags.
    Enterprise,
}

impl Plan {
    /// Smallest TTL except 1, which means automatic.
    pub(super) fn ttl_min(self) -> u64 {
        match self {
            Self::Free => 60,
            Self::Enterprise => 30,
        }
    }

    /// Most changes in one batch.
    pub(super) fn batch_max(self) -> usize {
        match self {
            Self::Free => 200,
            Self::Enterprise => 3_500,
        }
    }

    /// Most tags on one record.
    pub(super) fn tags_max(self) -> usize {
        match self {
            Self::Free => 0,
            Self::Enterprise => 20,
        }
    }

    pub(super) fn legacy_id(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Enterprise => "enterprise",
        }
    }
}

/// A zone at Cloudflare.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    pub(super) id: String,
    /// In ASCII.
    pub(super) name: String,
    pub(super) plan: Plan,
    pub(super) records: BTreeMap<String, CfRecord>,
}

/// A record at Cloudflare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CfRecord {
    pub(super) id: String,
    /// Position in lists.
    pub(super) order: u64,
    /// Fully qualified.
    pub(super) name: String,
    pub(super) rtype: String,
    pub(super) content: String,
    pub(super) ttl: u64,
    pub(super) proxied: bool,
    pub(super) comment: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) priority: Option<u64>,
    pub(super) created_ms: u64,
    pub(super) modified_ms: u64,
}

//! Names and numbers shared by plans, the simulated world and the judge.

use flipop_cloud::{Machines, Provider};

/// The wall clock at the start of every run, in milliseconds since 1970.
pub(super) const EPOCH_MS: i64 = 1_790_000_000_000;

/// When the world begins.
pub(super) fn epoch() -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(EPOCH_MS).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// How long steps and faults go on.
pub(super) const CHAOS_MS: u64 = 600_000;

/// The region of all addresses and droplets.
pub(super) const REGION: &str = "nyc3";

/// The tag of the droplets of all nodes.
pub(super) const TAG: &str = "k8s";

/// The namespace of users' objects.
pub(super) const USER_NAMESPACE: &str = "default";

/// The group and version of our kinds.
pub(super) const API_VERSION: &str = "flipop.digitalocean.com/v1alpha1";

/// The kinds of our objects.
pub(super) const POOL: &str = "FloatingIPPool";
pub(super) const RECORD_SET: &str = "NodeDNSRecordSet";

/// Their plurals.
pub(super) const POOLS: &str = "floatingippools";
pub(super) const RECORD_SETS: &str = "nodednsrecordsets";
/// The provider of the simulated addresses.
pub(super) const HOME: Provider = Provider::DigitalOcean;

/// Its machines, on which the nodes run.
pub(super) const MACHINES: Machines = flipop_cloud::DROPLETS;

/// The zone at `DigitalOcean`.
pub(super) const ZONE: &str = "example.com";

/// The zone at Cloudflare.
pub(super) const CLOUDFLARE_ZONE: &str = "example.net";

/// The zone at a provider.
pub(super) fn zone_of(provider: Provider) -> &'static str {
    match provider {
        Provider::DigitalOcean => ZONE,
        Provider::Cloudflare => CLOUDFLARE_ZONE,
    }
}

/// How soon an undisturbed operator acts on what it sees.
pub(super) const PROMPT_MS: u64 = 5_000;

/// The tokens of the simulated accounts: `DigitalOcean`, Cloudflare.
pub(super) const TOKENS: [&str; 2] = ["simulated-token-5f2a", "simulated-token-91c7"];

/// How many characters of a pool's uid the names of its firewalls contain.
const UID_CHARS: usize = 8;

/// The prefix of the names of a pool's firewalls.
pub(super) fn firewall_prefix(uid: &str) -> String {
    let start: String = uid.chars().take(UID_CHARS).collect();
    format!("flipop-{start}-")
}

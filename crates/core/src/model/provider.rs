//! The differences between providers that decisions and messages have to know. Each provider describes itself in one
//! value.

use crate::model::machine::MachineKind;
use std::collections::BTreeMap;

/// A provider of addresses, of DNS, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Its name in specs.
    pub name: &'static str,
    /// Its name in sentences.
    pub title: &'static str,
    /// The variable of the operator's environment that holds its token.
    pub token_variable: &'static str,
    /// The limits of one token.
    pub limits: Limits,
    /// The machines that its addresses are assigned to, if it has addresses.
    pub machines: Option<&'static MachineKind>,
    /// Whether it reports of a single machine that it is switched off, or that it no longer exists.
    pub tells_power: bool,
    /// The nodes that cannot have its addresses although they are such machines, if there are any.
    pub managed_nodes: Option<ManagedNodes>,
    /// The rules of its DNS, if it has any.
    pub dns: Option<Rules>,
    /// The limits of its firewalls, if it has any.
    pub firewalls: Option<FirewallLimits>,
}

/// The worker nodes of a provider's managed Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManagedNodes {
    /// The product's short name.
    pub product: &'static str,
    /// The label that the provider gives to each of them.
    pub label: &'static str,
}

/// The limits of a provider's firewalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirewallLimits {
    /// Machines of one firewall.
    pub machines: usize,
    /// Rules of one firewall.
    pub rules: usize,
    /// Sources of one rule.
    pub sources: usize,
}

/// The limits that a provider documents, with a margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Requests within `window_ms`.
    pub requests: usize,
    /// Length of the sliding window.
    pub window_ms: u64,
    /// Creations of addresses within `creation_window_ms`.
    pub creations: usize,
    /// Length of the creations' sliding window.
    pub creation_window_ms: u64,
}

/// How a provider's zones may be written in a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneForm {
    /// By name.
    Name,
    /// By name if there is a dot in it, else by id.
    NameOrId,
}

/// The differences between DNS providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How zones are written.
    pub zone_form: ZoneForm,
    /// The least TTL of ordinary zones, in seconds. A particular zone may accept less: `Zone::ttl_floor`.
    pub ttl_floor: u32,
    /// The greatest TTL, in seconds.
    pub ttl_ceiling: u32,
    /// The value below the floor that lets the provider choose the TTL, if there is one.
    pub ttl_automatic: Option<u32>,
    /// Changes that one request carries.
    pub changes_per_request: usize,
}

/// The facts that specs are checked against: the known providers, those that have a token, and the default of
/// `whenEmpty`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Providers {
    /// Every provider that the software knows, by name, and whether it has a token.
    known: BTreeMap<&'static str, (Descriptor, bool)>,
    /// A `NodeDNSRecordSet` without `whenEmpty` keeps its records when no address is left to publish.
    pub keep_last_record: bool,
}

impl Providers {
    /// Builds the set from descriptors, each with whether it has a token.
    pub fn new(known: impl IntoIterator<Item = (Descriptor, bool)>, keep_last_record: bool) -> Self {
        let known = known.into_iter().map(|known| (known.0.name, known)).collect();
        Self { known, keep_last_record }
    }

    /// The provider of this name.
    pub fn get(&self, name: &str) -> Option<&Descriptor> {
        self.known.get(name).map(|(descriptor, _)| descriptor)
    }

    /// Those that have a token.
    fn usable(&self) -> impl Iterator<Item = &Descriptor> {
        self.known.values().filter(|(_, has_token)| *has_token).map(|(descriptor, _)| descriptor)
    }

    /// Providers of addresses that have a token.
    pub fn of_addresses(&self) -> impl Iterator<Item = &Descriptor> {
        self.usable().filter(|descriptor| descriptor.machines.is_some())
    }

    /// Providers of DNS that have a token, with the rules of their DNS.
    pub fn of_dns(&self) -> impl Iterator<Item = (&Descriptor, Rules)> {
        self.usable().filter_map(|descriptor| Some((descriptor, descriptor.dns?)))
    }

    /// The names of providers in a message.
    pub fn named<'a>(providers: impl IntoIterator<Item = &'a Descriptor>) -> String {
        let names: Vec<&str> = providers.into_iter().map(|descriptor| descriptor.name).collect();
        if names.is_empty() { "none is configured".to_owned() } else { names.join(", ") }
    }
}

/// Two providers that differ in everything, for tests.
#[cfg(test)]
pub(crate) mod examples {
    use crate::model::machine::{MachineId, MachineKind};
    use crate::model::provider::{Descriptor, FirewallLimits, Limits, Providers, Rules, ZoneForm};

    /// The machines of [`OF_BOTH`].
    pub(crate) static DROPLETS: MachineKind = MachineKind {
        noun: "droplet",
        scheme: "digitalocean",
        read_scope: "droplet:read",
        id: |id| id.parse::<u64>().ok().map(|id| id.to_string()),
    };

    /// One of them.
    pub(crate) fn droplet(id: u64) -> MachineId {
        DROPLETS.machine(id.to_string())
    }

    /// A provider of addresses, and of zones that are written by name.
    pub(crate) const OF_BOTH: Descriptor = Descriptor {
        name: "digitalocean",
        title: "DigitalOcean",
        token_variable: "DIGITALOCEAN_ACCESS_TOKEN",
        limits: Limits { requests: 240, window_ms: 65_000, creations: 12, creation_window_ms: 65_000 },
        machines: Some(&DROPLETS),
        tells_power: true,
        managed_nodes: None,
        dns: Some(Rules {
            zone_form: ZoneForm::Name,
            ttl_floor: 30,
            ttl_ceiling: 2_147_483_647,
            ttl_automatic: None,
            changes_per_request: 1,
        }),
        firewalls: Some(FirewallLimits { machines: 10, rules: 50, sources: 1_000 }),
    };

    /// A provider of zones only, which may also be written by id.
    pub(crate) const OF_DNS: Descriptor = Descriptor {
        name: "cloudflare",
        title: "Cloudflare",
        token_variable: "CLOUDFLARE_TOKEN",
        limits: Limits { requests: 1_150, window_ms: 305_000, creations: 0, creation_window_ms: 60_000 },
        machines: None,
        tells_power: false,
        managed_nodes: None,
        dns: Some(RULES_OF_DNS),
        firewalls: None,
    };

    /// The rules of [`OF_DNS`].
    pub(crate) const RULES_OF_DNS: Rules = Rules {
        zone_form: ZoneForm::NameOrId,
        ttl_floor: 60,
        ttl_ceiling: 86_400,
        ttl_automatic: Some(1),
        changes_per_request: 200,
    };

    /// Both, with or without their tokens.
    pub(crate) fn providers(have_tokens: bool) -> Providers {
        Providers::new([(OF_BOTH, have_tokens), (OF_DNS, have_tokens)], false)
    }
}

//! The parts of the small world, and its faults besides those of provider calls that change something.

use crate::twins::Twins;
use crate::world::PROVIDER;
use crate::zones::CLOUDFLARE;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::addresses::pool::status::PoolStatus;
use flipop_core::fleet::Settings;
use flipop_core::model::provider::{Descriptor, FirewallLimits, Limits, Providers, Rules, ZoneForm};
use flipop_core::model::{
    Address, CallFailure, Fault, FaultKind, MachineId, MachineKind, ObjectRef, ReservedIp, ReservedIpList,
    WatchKey, WriteFailure,
};
use flipop_core::records::name::Zones;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How the next mutating provider call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trick {
    /// As it should.
    Fine,
    /// Refused with this kind, without effect.
    Refused(FaultKind),
    /// The answer is lost; `true`: after the effect.
    Lost(bool),
    /// The action ends as errored.
    Errored,
    /// The action takes this many seconds.
    Slow(u64),
}

/// The message of a list that contradicts itself.
pub(crate) const CONTRADICTION: &str = "the list has 1 entry, and its total is 2";

/// The present faults.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent faults, each with a meaning of its own")]
pub(crate) struct Faults {
    /// Every read of the provider fails like this.
    pub(crate) reads: Option<FaultKind>,
    /// The provider of addresses is out, and asks for a wait of this many milliseconds.
    pub(crate) out: Option<u64>,
    /// While it is, requests do not reach it, so that their outcome is known.
    pub(crate) unreached: bool,
    /// Every list fails as if the provider were out.
    pub(crate) lists_out: bool,
    /// Every list fails like this.
    pub(crate) lists: Option<FaultKind>,
    /// Every read of one address fails like this.
    pub(crate) gets: Option<FaultKind>,
    /// Every poll of an action fails like this. While it is `NotFound`, addresses read unlocked.
    pub(crate) polls: Option<FaultKind>,
    /// The token may not read droplets.
    pub(crate) blind: bool,
    /// The proof of the scope fails like this.
    pub(crate) proofs: Option<FaultKind>,
    /// Addresses that exist, but not on any list.
    pub(crate) unlisted: BTreeSet<Address>,
    /// Lists contradict themselves like this.
    pub(crate) contradiction: Option<&'static str>,
    /// Lists show this instead of the present state.
    pub(crate) stale: Option<BTreeMap<Address, ReservedIp>>,
    /// Every change of this address goes like this.
    pub(crate) broken: Option<(Address, Trick)>,
    /// Every assignment to these droplets goes like this.
    pub(crate) broken_droplets: BTreeMap<MachineId, Trick>,
    /// How every write of `spec.ips` fails.
    pub(crate) ips_writes: Option<WriteFailure>,
    /// How the next writes of a status fail.
    pub(crate) status_writes: VecDeque<WriteFailure>,
    /// How every write of this pool's status fails.
    pub(crate) unwritten: Option<(&'static str, WriteFailure)>,
    /// Writes of a status are on their way for as long as this holds, as (pool, version that they replace, status).
    pub(crate) held_status_writes: Option<Vec<(ObjectRef, String, PoolStatus)>>,
    /// How the next annotations fail.
    pub(crate) annotations: VecDeque<WriteFailure>,
    /// How the next writes of labels fail.
    pub(crate) labels: VecDeque<WriteFailure>,
    /// The answers to writes of labels take this long.
    pub(crate) label_delay_ms: Option<u64>,
    /// Answers to polls take this much longer than others.
    pub(crate) late_polls_ms: u64,
    /// Droplets that are off (`Ok(true)`), or whose reads fail.
    pub(crate) machines: BTreeMap<MachineId, Result<bool, FaultKind>>,
    /// Answers to reads of droplets take this much longer than others.
    pub(crate) late_machines_ms: u64,
    /// Answers to lists take this much longer than others.
    pub(crate) late_lists_ms: u64,
    /// How every write of a finalizer fails.
    pub(crate) finalizers: Option<WriteFailure>,
    /// Lists of objects fail like this.
    pub(crate) object_lists: Option<WriteFailure>,
    /// Every read of a node fails like this.
    pub(crate) node_reads: Option<WriteFailure>,
    /// Watches show nothing.
    pub(crate) mute: bool,
    /// The installed CRDs keep all of a status but the number of an intent.
    pub(crate) drops_numbers: bool,
    /// The installed CRDs keep all of a status but the last move.
    pub(crate) drops_moves: bool,
    /// Annotations that were sent to nodes that are gone.
    pub(crate) writes_to_gone_nodes: usize,
}

impl Faults {
    /// How every call fails while the provider is out. No change has an effect.
    pub(crate) fn out(&self) -> Option<CallFailure> {
        self.out.map(whole)
    }

    /// How a change fails while its provider is out.
    pub(crate) fn of_change(&self, mut out: CallFailure) -> CallFailure {
        if let CallFailure::Fault(fault) = &mut out {
            fault.outcome_unknown = !self.unreached;
        }
        out
    }

    fn shown(&self, read: &ReservedIp) -> ReservedIp {
        let machine = read.machine.clone().filter(|_| !self.blind);
        ReservedIp { machine, locked: read.locked && self.polls != Some(FaultKind::NotFound), ..read.clone() }
    }

    pub(crate) fn list(&self, cloud: &BTreeMap<Address, ReservedIp>) -> Result<ReservedIpList, CallFailure> {
        if let Some(kind) = self.lists.or(self.reads) {
            return Err(CallFailure::Fault(fault(kind, false)));
        }
        self.out().or(self.lists_out.then(|| whole(0))).map_or(Ok(()), Err)?;
        let ips = self.stale.as_ref().unwrap_or(cloud);
        let ips = ips.iter().filter(|(ip, _)| !self.unlisted.contains(*ip));
        let contradiction = self.contradiction.map(str::to_owned);
        Ok(ReservedIpList { ips: ips.map(|(ip, read)| (*ip, self.shown(read))).collect(), contradiction })
    }

    pub(crate) fn get(
        &self,
        cloud: &BTreeMap<Address, ReservedIp>,
        ip: Address,
    ) -> Result<ReservedIp, CallFailure> {
        self.out().map_or(Ok(()), Err)?;
        match (self.gets.or(self.reads), cloud.get(&ip)) {
            (Some(kind), _) => Err(CallFailure::Fault(fault(kind, false))),
            (None, None) => Err(CallFailure::Fault(fault(FaultKind::NotFound, false))),
            (None, Some(read)) => Ok(self.shown(read)),
        }
    }

    /// The answer to the read of a droplet, and by how much it is late.
    pub(crate) fn machine(&self, machine: &MachineId) -> (Result<bool, CallFailure>, u64) {
        let state = self.machines.get(machine).copied().unwrap_or(Ok(false));
        (state.map_err(|kind| CallFailure::Fault(fault(kind, false))), self.late_machines_ms)
    }

    pub(crate) fn proof(&self) -> Result<bool, CallFailure> {
        self.out().map_or(Ok(()), Err)?;
        self.proofs.or(self.reads).map_or(Ok(!self.blind), |kind| Err(CallFailure::Fault(fault(kind, false))))
    }
}

pub(crate) fn spec() -> RawPoolSpec {
    RawPoolSpec { provider: PROVIDER.into(), region: "nyc3".into(), ..RawPoolSpec::default() }
}

/// The spec of a pool that names these addresses.
pub(crate) fn spec_of(numbers: impl IntoIterator<Item = u8>) -> RawPoolSpec {
    let ips = numbers.into_iter().map(|n| crate::world::ip(n).to_string()).collect();
    RawPoolSpec { ips, ..spec() }
}

pub(crate) fn fault(kind: FaultKind, outcome_unknown: bool) -> Fault {
    Fault { outcome_unknown, ..Fault::new(kind, format!("{kind} by a trick")) }
}

/// The failure of a call to a provider that is out and asks for a wait.
pub(crate) fn whole(wait_ms: u64) -> CallFailure {
    CallFailure::Fault(Fault {
        whole: true,
        retry_after_ms: Some(wait_ms),
        ..fault(FaultKind::Transient, true)
    })
}

pub(crate) fn nodes_key() -> WatchKey {
    WatchKey::Nodes { selector: String::new() }
}

pub(crate) fn pods_key() -> WatchKey {
    WatchKey::Pods { namespace: "ns".into(), selector: String::new() }
}

/// The machines of the addresses of [`OF_BOTH`].
pub(crate) static DROPLETS: MachineKind = MachineKind {
    noun: "droplet",
    scheme: PROVIDER,
    read_scope: "droplet:read",
    id: |id| id.parse::<u64>().ok().map(|id| id.to_string()),
};

/// One such machine.
pub(crate) fn droplet_of(id: u64) -> MachineId {
    DROPLETS.machine(id.to_string())
}

/// The machines of [`OF_SERVERS`].
static SERVERS: MachineKind = MachineKind {
    noun: "server",
    scheme: ELSEWHERE,
    read_scope: "server:read",
    id: |id| Some(id.to_owned()),
};

/// The name of a provider whose machines are no droplets.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// A provider of addresses and DNS that takes one change per request, a provider of DNS that takes many, and a provider
/// of addresses with other machines.
pub(crate) fn providers() -> Providers {
    Providers::new([(OF_BOTH, true), (OF_DNS, true), (OF_SERVERS, true)], false)
}

pub(crate) const OF_BOTH: Descriptor = Descriptor {
    name: PROVIDER,
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

const OF_SERVERS: Descriptor = Descriptor {
    name: ELSEWHERE,
    title: "Elsewhere",
    token_variable: "ELSEWHERE_TOKEN",
    machines: Some(&SERVERS),
    dns: None,
    firewalls: None,
    ..OF_BOTH
};

pub(crate) const OF_DNS: Descriptor = Descriptor {
    name: CLOUDFLARE,
    title: "Cloudflare",
    token_variable: "CLOUDFLARE_TOKEN",
    limits: Limits { requests: 1_150, window_ms: 305_000, creations: 0, creation_window_ms: 60_000 },
    machines: None,
    tells_power: false,
    managed_nodes: None,
    dns: Some(Rules {
        zone_form: ZoneForm::NameOrId,
        ttl_floor: 60,
        ttl_ceiling: 86_400,
        ttl_automatic: Some(1),
        changes_per_request: 200,
    }),
    firewalls: None,
};

/// A fleet with these limits of its administrator.
pub(crate) fn limited(zones: Zones, max_addresses: Option<usize>) -> Twins {
    Twins::new(Settings {
        providers: providers(),
        epoch_ms: 0,
        own_node: Some("node-of-flipop".into()),
        own_namespace: Some("flipop".into()),
        zones,
        max_addresses,
        thorough: false,
    })
}

pub(crate) fn fleet() -> Twins {
    limited(Zones::default(), None)
}

//! The DNS of the small world: zones of both providers, their faults, and record sets as objects.

use crate::catalogued;
use crate::faults::{fault, providers, whole};
use crate::world::{PROVIDER, World};
use flipop_core::fleet::Input;
use flipop_core::fleet::action::Outcome;
use flipop_core::mechanism::{Answer, Request, WrittenStatus};
use flipop_core::model::spec::RawRecordSet;
use flipop_core::model::{
    Address, CallFailure, FaultKind, Moment, ObjectKind, ObjectName, ObjectRef, Observed, Uid, WriteFailure,
};
use flipop_core::records::action::{self as records, Call, Reply, Unfinished};
use flipop_core::records::dns::{Change, Record, Zone};
use flipop_core::records::name::ZoneRef;
use flipop_core::records::spec::RawRecordSetSpec;
use flipop_core::records::status::{RecordSetObject, RecordSetStatus};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) const CLOUDFLARE: &str = "cloudflare";

/// The id of the zone `example.com` at Cloudflare.
pub(crate) const ZONE_ID: &str = "023e105f4ecef8ad9ca31a8372d0c353";

/// How the next call that changes records goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DnsTrick {
    /// As it should.
    Fine,
    /// As it should, but the answer takes this many milliseconds longer.
    Slow(u64),
    /// This many changes are carried out, and the next one is refused with this kind.
    Refused(usize, FaultKind),
    /// This many changes are carried out, and the answer is lost.
    Lost(usize),
    /// Nothing is sent, for want of a permit.
    NotSent,
    /// This many changes are carried out, and the rest is not sent.
    Stopped(usize),
}

/// A zone of a provider.
pub(crate) type ZoneKey = (String, String);

/// Records of zones, each with its name.
type Records = BTreeMap<ZoneKey, Vec<(String, Record)>>;

/// Both providers' zones.
#[derive(Debug, Default)]
pub(crate) struct Dns {
    zones: BTreeMap<ZoneKey, Zone>,
    /// The records of each zone, with their names.
    pub(crate) records: Records,
    pub(crate) tricks: VecDeque<DnsTrick>,
    /// The provider of DNS is out.
    pub(crate) out: bool,
    /// The failure of reads, if they fail.
    pub(crate) read_fault: Option<FaultKind>,
    /// Reads take this much longer, and show the zone as it was when they began.
    pub(crate) slow_ms: u64,
    /// Reads of this zone are never answered.
    pub(crate) hanging: Option<&'static str>,
    /// Reads show the zone as it was this many milliseconds ago.
    pub(crate) lag_ms: u64,
    history: Vec<(Moment, Records)>,
    /// Names that went from some addresses to none.
    pub(crate) emptied: Vec<String>,
    pub(crate) reads: usize,
    /// Reads that look for a mark of external-dns beside a name.
    pub(crate) mark_looks: usize,
    /// The failure of these reads, if they fail.
    pub(crate) mark_fault: Option<FaultKind>,
    pub(crate) lookups: usize,
    /// This many lookups by name fail.
    pub(crate) failing_lookups: usize,
    /// When each change set was sent.
    pub(crate) applies: Vec<Moment>,
    /// How many single changes there were.
    pub(crate) changes: usize,
    serial: usize,
    /// How much longer than other lookups one by name takes.
    pub(crate) slow_name_ms: u64,
    /// The name of this zone shows later.
    showing: Option<(ZoneKey, String)>,
}

impl Dns {
    /// How every call fails while the provider is out.
    fn failure(&self) -> Option<CallFailure> {
        self.out.then(|| whole(0))
    }

    pub(crate) fn zone(&mut self, provider: &str, id: &str, name: Option<&str>) {
        let key = (provider.to_owned(), id.to_owned());
        let floor = providers().get(provider).unwrap().dns.unwrap().ttl_floor;
        let zone = Zone { id: id.to_owned(), name: name.map(str::to_owned), shown: None, ttl_floor: floor };
        self.zones.insert(key.clone(), zone);
        self.records.insert(key, Vec::new());
    }

    pub(crate) fn add(&mut self, provider: &str, zone: &str, fqdn: &str, kind: &str, data: &str) -> String {
        self.serial += 1;
        let id = format!("r{:04}", self.serial);
        let record = Record {
            id: id.clone(),
            kind: kind.to_owned(),
            data: data.to_owned(),
            ttl: 1_800,
            proxied: false,
        };
        let records = self.records.get_mut(&(provider.to_owned(), zone.to_owned())).unwrap();
        records.push((fqdn.to_owned(), record));
        id
    }

    pub(crate) fn addresses(&self, provider: &str, fqdn: &str) -> Vec<Address> {
        let zones = self.records.iter().filter(|((owner, _), _)| owner == provider);
        let records = zones.flat_map(|(_, records)| records).filter(|(name, _)| name == fqdn);
        let mut found: Vec<Address> = records.filter_map(|(_, record)| record.address()).collect();
        found.sort();
        found
    }

    /// The token can no longer see the zone at Cloudflare.
    pub(crate) fn drop_zone(&mut self) {
        let key = (CLOUDFLARE.to_owned(), ZONE_ID.to_owned());
        self.zones.remove(&key);
        self.records.remove(&key);
    }

    /// The zone at Cloudflare is made anew, or in another account. Its records are gone, and its id is new.
    pub(crate) fn renew_zone(&mut self, id: &str) {
        self.drop_zone();
        self.zone(CLOUDFLARE, id, Some("example.com"));
    }

    /// The name of the zone at Cloudflare is unknown from now on, but its id still answers.
    pub(crate) fn hide_zone(&mut self) {
        self.zones.remove(&(CLOUDFLARE.to_owned(), ZONE_ID.to_owned()));
    }

    /// The name of the zone at Cloudflare belongs to another zone from now on. The former zone still answers.
    pub(crate) fn move_zone(&mut self, id: &str) {
        self.hide_zone();
        self.zone(CLOUDFLARE, id, Some("example.com"));
    }

    /// The zone at Cloudflare has another plan, and so another lowest TTL.
    pub(crate) fn change_plan(&mut self, ttl_floor: u32) {
        self.zones.get_mut(&(CLOUDFLARE.to_owned(), ZONE_ID.to_owned())).unwrap().ttl_floor = ttl_floor;
    }

    /// The name of a zone that may not be read shows in what the next change makes, if that is not accepted.
    pub(crate) fn name_shows_later(&mut self, id: &str, name: &str) {
        self.showing = Some(((CLOUDFLARE.to_owned(), id.to_owned()), name.to_owned()));
    }

    fn find_zone(
        &mut self,
        provider: &str,
        zone: &ZoneRef,
    ) -> Result<Zone, flipop_core::model::fault::Fault> {
        self.lookups += 1;
        if zone.text().contains('.') && self.failing_lookups > 0 {
            self.failing_lookups -= 1;
            return Err(fault(FaultKind::Transient, false));
        }
        let found = self.zones.iter().find(|((owner, id), found)| {
            owner == provider && (id == zone.text() || found.name.as_deref() == Some(zone.text()))
        });
        found.map(|(_, zone)| zone.clone()).ok_or_else(|| fault(FaultKind::NotFound, false))
    }

    fn read(
        &self,
        key: &ZoneKey,
        fqdn: &str,
        now: Moment,
    ) -> Result<Vec<Record>, flipop_core::model::fault::Fault> {
        if let Some(kind) = self.read_fault {
            return Err(fault(kind, false));
        }
        let shown = Moment::from_millis(now.as_millis().saturating_sub(self.lag_ms));
        let past = self.history.iter().find(|(until, _)| *until > shown).map(|(_, records)| records);
        let records = past.unwrap_or(&self.records).get(key).ok_or_else(|| unseen(&key.0))?;
        Ok(records.iter().filter(|(name, _)| name == fqdn).map(|(_, record)| record.clone()).collect())
    }

    fn apply(
        &mut self,
        (provider, zone): &ZoneKey,
        fqdn: &str,
        changes: &[Change],
        now: Moment,
    ) -> Result<Vec<Record>, Unfinished> {
        self.applies.push(now);
        assert!(!changes.is_empty(), "an empty change set is not sent");
        if !self.records.contains_key(&(provider.clone(), zone.clone())) {
            return Err(unfinished(0, CallFailure::Fault(unseen(provider))));
        }
        if self.lag_ms > 0 {
            self.history.push((now, self.records.clone()));
        }
        let trick = self.tricks.pop_front().unwrap_or(DnsTrick::Fine);
        let carried = match trick {
            DnsTrick::Fine | DnsTrick::Slow(_) => changes.len(),
            DnsTrick::Refused(done, _) | DnsTrick::Lost(done) | DnsTrick::Stopped(done) => {
                done.min(changes.len())
            }
            DnsTrick::NotSent => 0,
        };
        if trick == DnsTrick::Refused(0, FaultKind::Invalid)
            && let Some((key, name)) = self.showing.take()
        {
            self.zones.get_mut(&key).unwrap().shown = Some(name);
        }
        let mut left = Vec::new();
        for (done, change) in changes.iter().take(carried).enumerate() {
            if let Change::Update { id, .. } = change
                && !self.records[&(provider.clone(), zone.clone())].iter().any(|(_, record)| record.id == *id)
            {
                return Err(unfinished(done, CallFailure::Fault(fault(FaultKind::NotFound, false))));
            }
            let before = self.addresses(provider, fqdn).len();
            self.changes += 1;
            left.extend(self.change(&(provider.clone(), zone.clone()), fqdn, change));
            if before > 0 && self.addresses(provider, fqdn).is_empty() {
                self.emptied.push(fqdn.to_owned());
            }
        }
        match trick {
            DnsTrick::Refused(_, kind) if carried < changes.len() => {
                Err(unfinished(carried, CallFailure::Fault(fault(kind, false))))
            }
            DnsTrick::Stopped(_) if carried < changes.len() => {
                Err(Unfinished { records: left, ..unfinished(carried, CallFailure::NotSent) })
            }
            DnsTrick::Fine | DnsTrick::Slow(_) | DnsTrick::Refused(..) | DnsTrick::Stopped(_) => Ok(left),
            DnsTrick::Lost(_) => Err(unfinished(0, CallFailure::Fault(fault(FaultKind::Transient, true)))),
            DnsTrick::NotSent => Err(unfinished(0, CallFailure::NotSent)),
        }
    }

    fn change(&mut self, key: &ZoneKey, fqdn: &str, change: &Change) -> Option<Record> {
        self.serial += 1;
        let records = self.records.get_mut(key).unwrap();
        match change {
            Change::Update { id, ip, ttl } => {
                let (name, record) = records.iter_mut().find(|(_, record)| record.id == *id)?;
                assert_eq!((name.as_str(), record.kind.as_str()), (fqdn, "A"), "a record that is not ours");
                record.data = ip.to_string();
                record.ttl = *ttl;
                Some(record.clone())
            }
            Change::Create { ip, ttl } => {
                assert!(!records.iter().any(|(name, record)| name == fqdn && record.kind == "CNAME"));
                let record = Record {
                    id: format!("r{:04}", self.serial),
                    kind: "A".into(),
                    data: ip.to_string(),
                    ttl: *ttl,
                    proxied: false,
                };
                records.push((fqdn.to_owned(), record.clone()));
                Some(record)
            }
            Change::Delete { id } => {
                let at = records.iter().position(|(_, record)| record.id == *id)?;
                let (name, record) = records.remove(at);
                assert_eq!((name.as_str(), record.kind.as_str()), (fqdn, "A"), "a record that is not ours");
                None
            }
        }
    }

    /// Everything but the address records of the given names.
    pub(crate) fn foreign(&self, ours: &[&str]) -> Vec<(ZoneKey, String, Record)> {
        let all = self.records.iter().flat_map(|(key, records)| {
            records.iter().map(move |(name, record)| (key.clone(), name.clone(), record.clone()))
        });
        all.filter(|(_, name, record)| record.kind != "A" || !ours.contains(&name.as_str())).collect()
    }
}

/// The answer for a zone that the token cannot see.
fn unseen(provider: &str) -> flipop_core::model::fault::Fault {
    let kind = if provider == CLOUDFLARE { FaultKind::Unauthorized } else { FaultKind::NotFound };
    fault(kind, false)
}

fn unfinished(done: usize, cause: CallFailure) -> Unfinished {
    Unfinished { done, records: Vec::new(), cause }
}

pub(crate) fn dns() -> Dns {
    let mut dns = Dns::default();
    dns.zone(PROVIDER, "example.com", Some("example.com"));
    dns.zone(CLOUDFLARE, ZONE_ID, Some("example.com"));
    dns.zone(CLOUDFLARE, "hidden", None);
    for n in 0..20 {
        let name = format!("other{n}.example.com");
        dns.add(PROVIDER, "example.com", &name, "A", "192.0.2.77");
        dns.add(PROVIDER, "example.com", "www.example.com", "TXT", &format!("text {n}"));
        dns.add(CLOUDFLARE, ZONE_ID, &name, "A", "192.0.2.77");
    }
    dns
}

pub(crate) fn record_set(name: &str) -> RawRecordSet {
    RawRecordSet { zone: "example.com".into(), record_name: name.into(), ..RawRecordSet::default() }
}

pub(crate) fn set_spec(name: &str) -> RawRecordSetSpec {
    RawRecordSetSpec { record_set: Some(record_set(name)), ..RawRecordSetSpec::default() }
}

pub(crate) fn external(n: u8) -> Address {
    Address::from([203, 0, 113, n])
}

pub(crate) fn internal(n: u8) -> Address {
    Address::from([10, 0, 0, n])
}

impl World {
    /// A world with this many ready nodes and a record set `www` of their addresses.
    pub(crate) fn with_set(nodes: u8) -> Self {
        let mut world = Self::new();
        (1..=nodes).for_each(|n| world.set_node(n, true));
        world.add_record_set("set", set_spec("www"));
        world.start();
        world
    }

    pub(crate) fn add_record_set(&mut self, name: &str, spec: RawRecordSetSpec) {
        let version = self.next_version();
        let set = RecordSetObject {
            object: ObjectRef {
                uid: Uid(format!("set-{name}-{version}").into()),
                name: ObjectName::new("ns", name),
            },
            created_at_s: i64::try_from(version).unwrap(),
            generation: 1,
            resource_version: version.to_string(),
            deleting: false,
            paused: None,
            spec: Ok(spec),
            status: RecordSetStatus::default(),
        };
        self.record_sets.insert(name.to_owned(), set.clone());
        self.observe(Input::RecordSets(Observed::Apply(set)));
        self.follow();
    }

    pub(crate) fn edit_set(&mut self, name: &str, edit: impl FnOnce(&mut RawRecordSetSpec)) {
        let version = self.next_version();
        let set = self.record_sets.get_mut(name).unwrap();
        edit(set.spec.as_mut().unwrap());
        set.generation += 1;
        set.resource_version = version.to_string();
        let set = set.clone();
        self.observe(Input::RecordSets(Observed::Apply(set)));
        self.follow();
    }

    pub(crate) fn delete_record_set(&mut self, name: &str) {
        if let Some(set) = self.record_sets.remove(name) {
            self.observe(Input::RecordSets(Observed::Delete(set)));
        }
    }

    /// The addresses at a name of the zone at `DigitalOcean`, by their last number.
    pub(crate) fn published(&self, fqdn: &str) -> Vec<u8> {
        self.dns.addresses(PROVIDER, fqdn).iter().map(|ip| ip.as_v4().unwrap().octets()[3]).collect()
    }

    pub(crate) fn execute_dns(&mut self, Request { epoch, owner, call }: records::Action) {
        let (begun, mut wait_ms) = (self.now, 50);
        let reply = match call {
            Call::Test { name, .. } => {
                self.call("test of DNS");
                assert!(name.is_some() || epoch.account_id.provider != PROVIDER, "it has no lookup");
                Reply::Tested(self.dns.failure().map_or(Ok(()), Err))
            }
            Call::FindZone(zone) => {
                let result =
                    self.dns.find_zone(&epoch.account_id.provider, &zone).map_err(CallFailure::Fault);
                wait_ms += if matches!(zone, ZoneRef::Name(_)) { self.dns.slow_name_ms } else { 0 };
                Reply::ZoneFound(zone, self.dns.failure().map_or(result, Err))
            }
            Call::ReadRecords { zone, fqdn, mark_of } => {
                let key = (epoch.account_id.provider.clone(), zone.id.clone());
                let looks = if mark_of.is_some() { &mut self.dns.mark_looks } else { &mut self.dns.reads };
                *looks += 1;
                let result = match self.dns.mark_fault.filter(|_| mark_of.is_some()) {
                    Some(kind) => Err(fault(kind, false)),
                    None => self.dns.read(&key, &fqdn, self.now),
                };
                let result = self.dns.failure().map_or(result.map_err(CallFailure::Fault), Err);
                if self.dns.hanging == Some(key.1.as_str()) {
                    return;
                }
                wait_ms += self.dns.slow_ms;
                Reply::RecordsRead { zone: zone.id, fqdn, mark_of, result }
            }
            Call::ApplyRecords { zone, fqdn, set } => {
                let owner = owner.as_ref().unwrap();
                self.call(format!("apply {fqdn} for {}", owner.object.name));
                self.check_changes(&set.changes);
                self.check_pause_of_records(owner, &fqdn, &set.changes);
                self.check_alone(&epoch.account_id.provider, &zone.id, &fqdn);
                wait_ms += match self.dns.tricks.front() {
                    Some(DnsTrick::Slow(ms)) => *ms,
                    Some(_) | None => 0,
                };
                let key = (epoch.account_id.provider.clone(), zone.id.clone());
                let emptied = self.dns.emptied.len();
                let stood = self.dns.addresses(&key.0, &fqdn);
                let result = match self.dns.failure() {
                    Some(out) => Err(unfinished(0, self.faults.of_change(out))),
                    None => self.dns.apply(&key, &fqdn, &set.changes, self.now),
                };
                if self.dns.emptied.len() > emptied {
                    self.check_emptied(owner, &stood);
                }
                Reply::RecordsApplied { zone: zone.id, fqdn, result }
            }
        };
        self.answer_after(wait_ms, Answer { epoch, owner, begun, reply });
    }

    /// Checks that a name is not changed twice at a time.
    fn check_alone(&self, provider: &str, zone: &str, fqdn: &str) {
        let at_work = self.inputs.iter().any(|(_, input)| {
            matches!(input, Input::Outcome(Outcome::Records(answer))
                if answer.epoch.account_id.provider == provider
                    && matches!(&answer.reply, Reply::RecordsApplied { zone: z, fqdn: f, .. } if (z.as_str(), f.as_str()) == (zone, fqdn)))
        });
        assert!(!at_work, "{fqdn} is changed twice at a time");
    }

    /// Checks a change set. It writes only addresses of nodes or of the account. Updates come before creates, and
    /// creates before deletes.
    fn check_changes(&self, changes: &[Change]) {
        let rank = |change: &Change| match change {
            Change::Update { .. } => 0,
            Change::Create { .. } => 1,
            Change::Delete { .. } => 2,
        };
        assert!(changes.is_sorted_by_key(rank), "{changes:?}");
        let known: BTreeSet<Address> = (1..=254).flat_map(|n| [external(n), internal(n)]).collect();
        for change in changes {
            if let Change::Update { ip, .. } | Change::Create { ip, .. } = change {
                assert!(known.contains(ip) || self.cloud.contains_key(ip), "{ip} is nobody's");
            }
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn write_set_status(
        &mut self,
        record_set: &ObjectRef,
        resource_version: &str,
        mut status: RecordSetStatus,
    ) {
        self.status_writes += 1;
        catalogued::check_conditions(ObjectKind::RecordSet, &status.conditions);
        if self.go_crds {
            status =
                RecordSetStatus { state: status.state, error: status.error, ..RecordSetStatus::default() };
        }
        let version = self.next_version();
        let refused = self.faults.status_writes.pop_front();
        let result = match self.record_sets.get_mut(&record_set.name.name) {
            _ if refused.is_some() => Err(refused.unwrap()),
            None => Err(WriteFailure::Gone),
            Some(object) if object.resource_version != resource_version => Err(WriteFailure::Conflict),
            Some(object) => {
                object.resource_version = version.to_string();
                object.status = status.clone();
                let object = object.clone();
                let kept = WrittenStatus { resource_version: object.resource_version.clone(), status };
                self.show(Input::RecordSets(Observed::Apply(object)));
                Ok(Box::new(kept))
            }
        };
        self.answer(Outcome::RecordSetStatusWritten(record_set.uid.clone(), result));
    }
}

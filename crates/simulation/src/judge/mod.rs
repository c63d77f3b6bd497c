//! The invariants that hold at every step, under any fault.
//!
//! The judge sees the operator's calls and their answers, every change of the cluster and of the account, and the
//! truth of both. It sees nothing inside the operator. Names of rules: I1 no needless move, I2 one writer, I5 no
//! leaks, I7 no act on ignorance, I8 bounded load, I9 honest status, I10 no secrets, I12 the spec is the user's,
//! I13 no act within grace, I14 a pause holds, I15 a requested move is made once, I16 no move rests on a check
//! without its evidence, I18 only a bought address that nobody wants is deleted, I19 ports of firewalls.

pub(super) mod allowed_delay;
pub(super) mod blindness;
mod calm;
mod conditions;
pub(super) mod dns;
mod evidence;
mod firewalls;
#[cfg(test)]
mod firewalls_tests;
mod grace;
#[cfg(test)]
mod grace_tests;
mod knowledge;
mod labels;
#[cfg(test)]
mod labels_tests;
mod limits;
mod load;
mod moves;
#[cfg(test)]
mod moves_tests;
mod names;
#[cfg(test)]
mod names_tests;
pub(super) mod pauses;
#[cfg(test)]
mod pauses_tests;
mod purchases;
#[cfg(test)]
mod purchases_tests;
mod reclaim;
#[cfg(test)]
mod reclaim_tests;
mod requests;
#[cfg(test)]
mod requests_tests;
mod selector;
pub(super) mod settled;
mod since;
mod statuses;
#[cfg(test)]
mod statuses_tests;
mod supply;
mod tally;
mod tellings;
mod term;
#[cfg(test)]
mod tests;
mod truth;
mod untouched;
mod validity;

use self::blindness::Blindness;
use self::calm::Calm;
use self::dns::{IntendedRecords, Site};
use self::evidence::Evidence;
use self::firewalls::Walls;
use self::grace::Graces;
use self::knowledge::Reads;
use self::labels::Removals;
use self::load::Loads;
use self::pauses::Pauses;
use self::requests::Requests;
pub use self::tally::Tally;
use self::tellings::Tellings;
use self::truth::{Pool, Truth};
use self::untouched::Written;
use crate::facts::{Facts, Hold, Kind};
use crate::scene::{HOME, MACHINES};
use flipop_apiserver::Change;
use flipop_cloud::{ChangeKind, Cloud, RecordVerb, RecordView};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The lifetime of a permit, from the sending of a renewal.
const PERMIT_MS: u64 = 10_000;

/// Clocks of processes start at fractions of a millisecond.
const ROUNDING_MS: u64 = 2;

/// How long the operator may rely on its own last round at a name whose records were edited by hand: until its next
/// look.
pub(super) const EDITED_MS: u64 = 630_000;

/// The operator's field manager.
const MANAGER: &str = "flipop";

/// A process: a replica and the count of its starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) replica: usize,
    pub(super) incarnation: u64,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "r{}.{}", self.replica, self.incarnation)
    }
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at_ms: u64,
    /// Which rule.
    pub rule: &'static str,
    /// The violation in words.
    pub text: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at_ms, rule, text } = self;
        write!(f, "{:>6}.{:03} {rule}: {text}", at_ms / 1_000, at_ms % 1_000)
    }
}

/// The end of a call, as the process saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    /// The status of the answer. `None`: there was no answer.
    pub(super) status: Option<u16>,
    /// `Retry-After` of the answer.
    pub(super) retry_after_s: Option<u64>,
}

#[derive(Debug, Clone)]
struct Open {
    process: Process,
    facts: Facts,
    sent_ms: u64,
}

/// The knowledge and the rights of a process, as far as its calls show them.
#[derive(Debug, Clone, Default)]
struct Known {
    permit_ends_ms: Option<u64>,
    /// When it sent the last list of the account that was answered.
    listed_ms: Option<u64>,
    /// When it sent its first call, and when its permit began.
    born_ms: Option<u64>,
    leads_ms: Option<u64>,
    reads: Reads,
    loads: Loads,
}

/// The judge.
pub(super) struct Judge {
    pub(super) cloud: Cloud,
    secrets: [&'static str; 2],
    pub(super) blindness: Blindness,
    truth: Truth,
    pub(super) violations: Vec<Violation>,
    pub(super) tally: Tally,
    /// When the operator last changed anything except the lease, or sent such a change.
    pub(super) last_write_ms: u64,
    /// The number of changes of the truth and of the account.
    changes: u64,
    open: BTreeMap<u64, Open>,
    known: BTreeMap<Process, Known>,
    pub(super) by_hand: BTreeMap<Ipv4Addr, u64>,
    pub(super) created: BTreeSet<Ipv4Addr>,
    /// For each pool, the most addresses that it ever lacked.
    lacked: BTreeMap<String, usize>,
    deleted: usize,
    /// Created addresses that no object has to name, since their pool was deleted.
    pub(super) nobodys: BTreeSet<Ipv4Addr>,
    pool_deleted_ms: Option<u64>,
    /// Names that an object ever asked for.
    pub(super) sites: BTreeSet<Site>,
    /// Names at which others wrote addresses.
    pub(super) touched: BTreeMap<Site, u64>,
    /// Records that belong only to others.
    pub(super) others: BTreeMap<flipop_cloud::Provider, Vec<RecordView>>,
    intended: IntendedRecords,
    written: Written,
    pauses: Pauses,
    requests: Requests,
    tellings: Tellings,
    calm: Calm,
    graces: Graces,
    walls: Walls,
    removals: Removals,
    evidence: Evidence,
    /// Former specs of objects, each with the time of its end.
    former: Vec<(u64, Pool)>,
    /// Processes that were told to end.
    ending: BTreeSet<Process>,
    /// When the judge last looked for waiting work, and whether anything has changed since.
    pub(super) looked: (u64, bool),
}

impl Judge {
    pub(super) fn new(cloud: Cloud, secrets: [&'static str; 2], blindness: Blindness) -> Self {
        Self {
            others: dns::records(&cloud),
            intended: IntendedRecords::default(),
            written: Written::default(),
            pauses: Pauses::default(),
            requests: Requests::default(),
            tellings: Tellings::default(),
            calm: blindness.calm.clone(),
            graces: Graces::default(),
            walls: Walls::default(),
            removals: Removals::default(),
            evidence: Evidence::default(),
            former: Vec::new(),
            ending: BTreeSet::new(),
            looked: (0, true),
            touched: BTreeMap::new(),
            cloud,
            secrets,
            blindness,
            truth: Truth::default(),
            violations: Vec::new(),
            tally: Tally::default(),
            last_write_ms: 0,
            changes: 0,
            open: BTreeMap::new(),
            known: BTreeMap::new(),
            by_hand: BTreeMap::new(),
            created: BTreeSet::new(),
            lacked: BTreeMap::new(),
            deleted: 0,
            nobodys: BTreeSet::new(),
            pool_deleted_ms: None,
            sites: BTreeSet::new(),
        }
    }

    pub(super) fn blame(&mut self, at_ms: u64, rule: &'static str, text: String) {
        self.violations.push(Violation { at_ms, rule, text });
    }

    /// The objects that have had another spec since `from_ms`, each as it was with a former one.
    fn former_since(&self, from_ms: u64) -> impl Iterator<Item = &Pool> + Clone {
        self.former.iter().filter(move |(until_ms, _)| *until_ms >= from_ms).map(|(_, object)| object)
    }

    /// The pools as they are, and those objects.
    fn pools_since(&self, from_ms: u64) -> impl Iterator<Item = &Pool> + Clone {
        self.truth.pools.values().chain(self.former_since(from_ms))
    }

    /// A process sends a call: the gate has let it pass.
    pub(super) fn sent(&mut self, now_ms: u64, seq: u64, process: Process, facts: &Facts, body: &[u8]) {
        self.check_secrets(now_ms, process, facts, body);
        self.look_for_work(now_ms);
        self.requests.calls(process, now_ms);
        if facts.mutates() {
            self.check_permit(now_ms, process, facts);
            self.check_alone(now_ms, process, facts);
            self.check_knowledge(now_ms, process, facts);
        }
        let known = self.known.entry(process).or_default();
        known.born_ms.get_or_insert(now_ms);
        for wrong in known.loads.sent(now_ms, facts) {
            self.blame(now_ms, "I8", format!("{process}: {wrong}"));
        }
        if facts.mutates() || facts.kind == Kind::Event {
            // A refused call counts too, and one without an effect: at rest none is sent.
            self.last_write_ms = now_ms;
        }
        self.removals.sent(now_ms, seq, process, facts);
        self.check_labels(now_ms, process, facts);
        self.check_gate(now_ms, facts);
        self.check_move(now_ms, process, facts);
        self.check_pause(now_ms, process, facts);
        self.check_deletion(now_ms, process, facts);
        self.open.insert(seq, Open { process, facts: facts.clone(), sent_ms: now_ms });
    }

    /// Whether the token was refused a move or a purchase, and none was accepted since.
    fn is_refused(&self) -> bool {
        self.known.values().any(|known| known.loads.is_refused())
    }

    /// A call ended for its process. `None`: the process gave up, or died.
    pub(super) fn ended(&mut self, now_ms: u64, seq: u64, ending: Option<Ending>) {
        self.removals.ended(seq);
        let Some(open) = self.open.remove(&seq) else { return };
        let known = self.known.entry(open.process).or_default();
        let permit_ends_ms = known.permit_ends_ms.unwrap_or_default();
        if open.facts.mutates() && permit_ends_ms.saturating_add(ROUNDING_MS) < now_ms {
            let text = format!("{} still waits for {:?} after its permit", open.process, open.facts.what);
            self.blame(now_ms, "I2", text);
        }
        let Some(ending) = ending else { return };
        self.told_of_droplet(open.process, &open.facts, ending.status);
        let known = self.known.entry(open.process).or_default();
        known.loads.ended((open.sent_ms, now_ms), &open.facts, ending);
        if !ending.status.is_some_and(|status| (200..300).contains(&status)) {
            return;
        }
        // Without the scope, an address on a machine looks as if it were on none.
        let shows = self.cloud.allows(HOME, MACHINES.read_scope)
            && self.cloud.ips().iter().any(|view| view.droplet.is_some());
        known.reads.answered(&open.facts, &self.truth, shows);
        known.listed_ms = known.listed_ms.max((open.facts.kind == Kind::ListIps).then_some(open.sent_ms));
        let Kind::Lease { write: Some(hold) } = open.facts.kind else { return };
        if hold == Hold::Released {
            known.permit_ends_ms = None;
            return;
        }
        let ends = open.sent_ms.saturating_add(PERMIT_MS);
        if known.permit_ends_ms.is_none_or(|end| end <= now_ms) {
            // A new leadership reads everything again. The first renewal after trouble resets retries.
            known.reads.forget();
            known.loads.renewed();
            known.loads.begun_anew(now_ms);
            known.leads_ms = Some(now_ms);
        }
        known.permit_ends_ms = Some(known.permit_ends_ms.unwrap_or_default().max(ends));
    }

    /// A process is told to end.
    pub(super) fn told_to_end(&mut self, process: Process) {
        self.ending.insert(process);
    }

    /// A process is gone. It waits for no answer any more.
    pub(super) fn died(&mut self, process: Process) {
        self.open.retain(|_, open| open.process != process);
    }

    /// Takes in a change of the cluster, by the operator's field manager or by others.
    pub(super) fn changed(&mut self, now_ms: u64, change: &Change) {
        let ours = change.manager == MANAGER;
        let kind = change.storage.plural.as_str();
        if self.evidence.hears(kind, change, now_ms) {
            return;
        }
        if ours && kind != "leases" {
            self.last_write_ms = now_ms;
            self.tally.writes += usize::from(kind != "events");
            self.tally.annotations += usize::from(kind == "nodes");
        }
        if kind == "events"
            && let Some(event) = &change.after
        {
            self.tally.events += 1;
            if let Some(text) = self.tellings.event(event, now_ms) {
                self.blame(now_ms, "I9", text);
            }
        }
        if kind == "floatingippools" && change.after.is_none() {
            self.pool_deleted(now_ms, &change.key.name);
        }
        if ours
            && let (Some(before), Some(after)) = (&change.before, &change.after)
            && let Some(text) = self.written.check(kind, (before, after), &self.created)
        {
            self.blame(now_ms, "I12", text);
        }
        self.note_pauses(now_ms, change);
        let before = self.truth.object(kind, &change.key.name);
        // An address that the operator writes into a spec changes the spec's generation too.
        let respecified = before.is_some_and(|before| Some(before.generation) != generation(change));
        let before = before.cloned();
        self.former.extend(before.clone().filter(|_| !ours).map(|object| (now_ms, object)));
        if self.truth.apply(change, now_ms) {
            self.changes += 1;
            if !ours || respecified {
                self.known.values_mut().for_each(|known| known.loads.renewed());
            }
            self.note_lacks();
            self.note_asked(now_ms);
            self.sites.extend(dns::sites(&self.truth));
            self.look(now_ms);
            self.look_at_failures(now_ms, ours);
            let name = &change.key.name;
            self.requests.note(self.truth.pools.get(name).filter(|_| !ours), now_ms);
            if ours {
                self.check_status(now_ms, change, before.as_ref());
            }
        }
    }

    /// Takes in a change of the account.
    pub(super) fn cloud_changed(&mut self, now_ms: u64, change: &flipop_cloud::Change, by_operator: bool) {
        self.changes += 1;
        // Requests depend on the places of addresses and on records.
        self.known.values_mut().for_each(|known| known.loads.renewed());
        match &change.kind {
            ChangeKind::IpReserved(ip) if by_operator => {
                self.created.insert(*ip);
                self.tally.creates += 1;
                // The buyer is unknown. It is a pool that existed when the request was sent.
                let sent_ms = self.blindness.since(now_ms).saturating_sub(PERMIT_MS);
                if self.pool_deleted_ms.is_some_and(|deleted_ms| deleted_ms >= sent_ms) {
                    self.nobodys.insert(*ip);
                }
                let allowed = self.lacked.values().sum::<usize>().saturating_add(self.deleted);
                if self.created.len() > allowed {
                    let text = format!("{} addresses were bought, {allowed} were needed", self.created.len());
                    self.blame(now_ms, "I5", text);
                }
            }
            ChangeKind::IpReleased(ip) if by_operator => {
                // It no longer counts against the purchases that are allowed.
                self.created.remove(ip);
                self.tally.deletes += 1;
            }
            ChangeKind::IpReleased(ip) => {
                self.deleted += 1;
                // The operator holds its former place for true until the next read of the account.
                self.by_hand.insert(*ip, now_ms);
            }
            ChangeKind::Record { provider, fqdn, rtype, verb, data, replaced, .. } => {
                let site = (*provider, fqdn.clone());
                if by_operator {
                    let new =
                        (*verb != RecordVerb::Deleted && replaced.as_ref() != Some(data)).then_some(data);
                    let withdrawn = *verb == RecordVerb::Deleted && self.is_given_back(now_ms, data);
                    let rtype = rtype.as_str();
                    self.check_record(now_ms, (&site, rtype), new.map(String::as_str), withdrawn);
                    let added = new.filter(|_| replaced.is_none()).map(String::as_str);
                    self.check_pause_of_record(now_ms, &site, added);
                    let old = if *verb == RecordVerb::Deleted { Some(data) } else { replaced.as_ref() };
                    if let Some(old) = old.filter(|_| rtype == "A") {
                        self.check_removal(now_ms, &site, old);
                    }
                    self.check_others(now_ms);
                } else {
                    self.others_wrote(now_ms, (rtype == "A").then_some(site));
                }
            }
            ChangeKind::Assigned { ip, droplet, from } => {
                self.note_place(now_ms, *ip, *from, Some(*droplet));
            }
            ChangeKind::Unassigned { ip, from } => self.note_place(now_ms, *ip, Some(*from), None),
            ChangeKind::DropletDestroyed(_) => self.firewalls_by_hand(now_ms),
            ChangeKind::Firewall(id) => return self.firewall_changed(now_ms, id, by_operator),
            ChangeKind::IpReserved(_)
            | ChangeKind::AssignStarted { .. }
            | ChangeKind::ActionErrored(_)
            | ChangeKind::DropletAdded(_) => return,
        }
        self.look(now_ms);
        self.look_at_failures(now_ms, by_operator);
    }

    /// A change by the operator took effect at the provider.
    pub(super) fn took_effect(&mut self, now_ms: u64, facts: &Facts) {
        self.last_write_ms = now_ms;
        self.tally.unassigns += usize::from(matches!(facts.kind, Kind::Unassign { .. }));
        self.tally.records += usize::from(facts.kind == Kind::Record);
        self.tally.firewalls += usize::from(facts.kind == Kind::Firewall);
        if let Kind::Assign { ip, droplet } = facts.kind {
            *self.tally.assigns.entry(ip).or_default() += 1;
            self.pauses.assigned(ip, now_ms);
            self.check_request(now_ms, (ip, droplet));
        }
    }

    /// Somebody writes records by hand. `site`: the name, if the records are its addresses.
    pub(super) fn others_wrote(&mut self, now_ms: u64, site: Option<Site>) {
        self.others = dns::records(&self.cloud);
        self.touched.extend(site.map(|site| (site, now_ms)));
    }

    /// Somebody moves an address, or its droplet.
    pub(super) fn moved_by_hand(&mut self, now_ms: u64, ip: Ipv4Addr) {
        self.by_hand.insert(ip, now_ms);
    }
}

/// The generation of an object after a change.
fn generation(change: &Change) -> Option<i64> {
    change.after.as_deref()?.pointer("/metadata/generation")?.as_i64()
}

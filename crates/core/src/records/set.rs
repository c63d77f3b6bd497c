//! The intended records of one object over time: its target, when its changes have settled, and the report about it.

use super::account::DnsAccount;
use super::diff::{Target, TtlRule, Wanted};
use super::former_name::{Home, Spot};
use super::site::{Site, SiteKey};
use super::spec::WhenEmpty;
use super::status::{Phase, PublishedSet, Remark, Reported, SetReport, described};
use super::view::{Choice, Located, View};
use crate::model::catalog::Finding;
use crate::model::catalog::record_set::Unmatched;
use crate::model::catalog::records::{Conflict, ExternalDNS, Obstacle, Settled, TTLRaised, UnderWay};
use crate::model::provider::Rules;
use crate::model::words::{count_addresses, enumerate};
use crate::model::{Address, FaultKind, Moment, ObjectKind, Owner};
use crate::records::dns::Zone;
use std::collections::BTreeSet;

/// The wait after the last change of what a node set intends. So a burst of node events becomes one round.
const QUIET_MS: u64 = 300;

/// The longest wait after the first change of what a node set intends, in case a burst does not end.
const PATIENCE_MS: u64 = 2_000;

/// A change that takes longer than this is reported as in progress. Most are over before the status could be written.
const REPORTED_AFTER_MS: u64 = 3_000;

/// If no node has matched this spec since this leadership began, a name is emptied only after this time. A mistake in
/// the criteria looks like the loss of every node, and so does a cluster whose nodes are just starting.
const UNMATCHED_KEPT_MS: u64 = 600_000;

/// Fewer transient failures in a row are not reported. Most pass before the status could be written.
const REPORTED_FAILURES: u32 = 2;

/// The facts from outside the object.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Where the set is.
    pub located: &'a Located,
    /// The object that owns the name, if it is another one.
    pub claimed_by: Option<&'a Owner>,
    /// Why nothing may be written there, if nothing may.
    pub barred: Option<&'a str>,
    /// The records there.
    pub site: Option<&'a Site>,
    /// Where external-dns has marked the name as its own.
    pub marked_at: Option<&'a str>,
    /// The token.
    pub account: Option<&'a DnsAccount>,
    /// The limit that delays requests with the token, in words.
    pub limit: Option<&'a str>,
}

/// The time that a generation of a spec has had, in this leadership, to match a node.
#[derive(Debug)]
struct Trial {
    generation: i64,
    since: Moment,
    /// A node has matched it.
    matched: bool,
}

/// The last intended records of an object, and the report about them.
#[derive(Debug, Default)]
pub struct Set {
    site: Option<SiteKey>,
    wanted: Option<Wanted>,
    /// The first and the last change that is not in DNS yet.
    changes: Option<(Moment, Moment)>,
    /// The set was deleted because no node matched. This is done once.
    emptied: bool,
    /// Decides when the name may be emptied although no node has matched this generation of the spec.
    trial: Option<Trial>,
    /// First records are due, but the status denies them, or is about to. The next leader has to know about them.
    unsaid: bool,
    raised: Option<(u32, u32)>,
    /// The object is paused.
    paused: bool,
    pending_since: Option<Moment>,
    /// The text about the limit that its change waits for.
    limited: Option<String>,
    announced: String,
    /// The place where it published last.
    pub home: Option<Home>,
    /// The new report. `None` if the last one still holds.
    pub report: Option<SetReport>,
    /// The name for people and metrics.
    pub name: String,
}

impl Set {
    /// A set that is known only from its status.
    pub fn recalled(reported: &Reported) -> Self {
        Self { announced: reported.error.clone(), home: Home::recalled(reported), ..Self::default() }
    }

    /// The place of its last intended records.
    pub fn site(&self) -> Option<&SiteKey> {
        self.site.as_ref()
    }

    /// Whether it may keep an address in its records: its intended records allow that or are unknown, or it is paused.
    pub fn keeps(&self, ip: Address) -> bool {
        let wants = |wanted: &Wanted| match &wanted.target {
            Target::Keep => true,
            Target::Exact(addresses) => addresses.contains(&ip) || wanted.undecided.contains(&ip),
            Target::Without(gone) => !gone.contains(&ip),
            Target::Empty => false,
        };
        self.paused || self.wanted.as_ref().is_none_or(wants)
    }

    /// Notes whether the object is paused. True when a pause has just ended.
    pub fn pause(&mut self, view: &View) -> bool {
        std::mem::replace(&mut self.paused, view.paused.is_some()) && !self.paused
    }

    /// Notes the place that the spec names now. Returns the former place, if it is another one and still has records.
    pub fn move_to(&mut self, view: &View, key: &SiteKey, zone: &Zone) -> Option<Home> {
        // A spec with a mistake is not followed.
        let place = view.spec.place.as_ref().filter(|_| view.problems.is_empty())?;
        Home::settle(&mut self.home, &view.reported, Spot::new(place.clone(), key.clone(), zone))
    }

    /// The intended records at a place now.
    pub fn want(
        &mut self,
        view: &View,
        choice: &Choice,
        (key, zone, rules): (&SiteKey, &Zone, Rules),
        site: &Site,
        now: Moment,
    ) -> Wanted {
        let Reported { published, right, current, .. } = &view.reported;
        let was_empty = *right && *current && published.fqdn == key.fqdn && published.addresses.is_empty();
        if self.site.as_ref() != Some(key) {
            // An edit may name another place, where nothing was deleted yet.
            self.emptied = was_empty;
            self.unsaid = false;
            self.site = Some(key.clone());
            self.wanted = None;
            self.changes = None;
        }
        self.try_out(view.generation, choice.any_node, now);
        if !choice.addresses.is_empty() {
            self.unsaid |= self.emptied && view.spec.when_empty == WhenEmpty::Delete;
            self.emptied = false;
        } else if site.is_confirmed() && site.addresses().is_some_and(|addresses| addresses.is_empty()) {
            self.emptied = true;
        }
        self.unsaid &= *right && *current && !choice.addresses.is_empty();
        let target = if !choice.addresses.is_empty() {
            Target::Exact(choice.addresses.clone())
        } else if choice.any_node
            || !choice.undecided.is_empty()
            || self.emptied
            || self.kept_until().is_some_and(|until| until > now)
        {
            Target::Keep
        } else {
            match view.spec.when_empty {
                WhenEmpty::Keep => Target::Keep,
                WhenEmpty::Delete => Target::Empty,
            }
        };
        let target = if target == Target::Keep { choice.keep_at(site) } else { target };
        let ttl = self.raise(view.spec.ttl, zone.ttl_floor, rules);
        let wanted = Wanted { target, undecided: choice.undecided.clone(), ttl };
        if self.wanted.as_ref() != Some(&wanted) {
            self.changes = Some((self.changes.map_or(now, |(first, _)| first), now));
            self.wanted = Some(wanted.clone());
        }
        wanted
    }

    fn try_out(&mut self, generation: i64, any_node: bool, now: Moment) {
        let same = self.trial.take().filter(|trial| trial.generation == generation);
        let mut trial = same.unwrap_or(Trial { generation, since: now, matched: false });
        trial.matched |= any_node;
        self.trial = Some(trial);
    }

    /// Until when the name keeps its records although no node has matched this generation of the spec.
    pub fn kept_until(&self) -> Option<Moment> {
        let trial = self.trial.as_ref().filter(|trial| !trial.matched)?;
        Some(trial.since.plus_millis(UNMATCHED_KEPT_MS))
    }

    fn raise(&mut self, ttl: TtlRule, floor: u32, rules: Rules) -> TtlRule {
        let raised = |asked: u32| asked < floor && Some(asked) != rules.ttl_automatic;
        self.raised = None;
        match ttl {
            TtlRule::Every(asked) if raised(asked) => {
                self.raised = Some((asked, floor));
                TtlRule::Every(floor)
            }
            TtlRule::New(asked) if raised(asked) => TtlRule::New(floor),
            TtlRule::Every(_) | TtlRule::New(_) => ttl,
        }
    }

    /// When the changes have settled. Changes of pools need no time: each is a failover. First records wait a short
    /// time until the status no longer denies them, because a new leader that believed it would never delete them.
    pub fn settled_at(&self, kind: ObjectKind) -> Moment {
        match (kind, self.changes) {
            (_, Some((first, _))) if self.unsaid => first.plus_millis(PATIENCE_MS),
            (ObjectKind::Pool, _) | (ObjectKind::RecordSet, None) => Moment::default(),
            (ObjectKind::RecordSet, Some((first, last))) => {
                last.plus_millis(QUIET_MS).min(first.plus_millis(PATIENCE_MS))
            }
        }
    }

    /// Notes that the intended records are in DNS, or were sent there.
    pub fn settled(&mut self) {
        if self.paused {
            return;
        }
        self.changes = None;
        self.unsaid = false;
    }

    /// Makes the report, and returns when to make it again.
    pub fn tell(&mut self, view: &View, scene: Scene<'_>, now: Moment) -> Option<Moment> {
        self.name = match scene.located.name() {
            "" => view.spec.record_name.clone(),
            name => name.to_owned(),
        };
        let (phase, later) = self.phase(view, scene, now);
        let published = self.published(view, scene);
        let right = matches!(phase, Some((Phase::Active { .. }, _)));
        if let (Located::At(key, _), Some(home), true) =
            (scene.located, &mut self.home, right || scene.claimed_by.is_some())
        {
            home.holds(key, &published.addresses);
        }
        self.report = phase.map(|(phase, spec_error)| SetReport {
            phase,
            spec_error,
            published,
            remarks: self.remarks(view, scene),
        });
        later
    }

    /// An error that was not announced yet. It counts as announced from now on. The pool itself reports the mistakes
    /// in its spec.
    pub fn announce(&mut self, view: &View) -> Option<(Obstacle, String)> {
        if view.owner.kind == ObjectKind::Pool && !view.problems.is_empty() {
            return None;
        }
        match &self.report.as_ref()?.phase {
            Phase::Active { .. } => self.announced.clear(),
            Phase::InProgress { .. } => {}
            Phase::Failed { message, .. } if self.announced == *message => {}
            Phase::Failed { reason, message } => {
                self.announced.clone_from(message);
                return Some((*reason, message.clone()));
            }
        }
        None
    }

    fn phase(
        &mut self,
        view: &View,
        scene: Scene<'_>,
        now: Moment,
    ) -> (Option<(Phase, Option<String>)>, Option<Moment>) {
        let failed = |reason, message| (Some((Phase::Failed { reason, message }, None)), None);
        if !view.problems.is_empty() {
            return failed(Obstacle::InvalidSpec, view.problems.join("; "));
        }
        if let Located::Bad(message) = scene.located {
            let phase = Phase::Failed { reason: Obstacle::InvalidSpec, message: message.clone() };
            return (Some((phase, Some(message.clone()))), None);
        }
        if let Some(why) = scene.barred {
            return failed(Obstacle::ZoneNotAllowed, why.to_owned());
        }
        if let Some(owner) = scene.claimed_by {
            return failed(Obstacle::NameClaimed, claimed(&self.name, owner));
        }
        let wanted = self.wanted.as_ref().filter(|_| view.choice.is_some());
        if let (Some(wanted), Some(site)) = (wanted, scene.site)
            && site.is_right(wanted)
        {
            (self.pending_since, self.limited) = (None, None);
            let kept = self.kept_until().is_some_and(|until| until > now);
            let deletes = view.spec.when_empty == WhenEmpty::Delete;
            let nothing = site.addresses().is_some_and(|addresses| addresses.is_empty());
            if (wanted.target == Target::Empty || deletes && kept && nothing) && !site.is_confirmed() {
                // A later leader would rely on the report.
                let message = "the first read found no records; a second read has to confirm that".to_owned();
                let reason = UnderWay::InProgress;
                return (Some((Phase::InProgress { reason, message }, None)), None);
            }
            return (Some((active(wanted, view, site, (self.emptied, kept)), None)), None);
        }
        if let Some((reason, message)) = failure(view, scene) {
            return failed(reason, message);
        }
        if let Some(message) = scene.site.and_then(waits_for) {
            let reason = UnderWay::InProgress;
            return (Some((Phase::InProgress { reason, message }, None)), None);
        }
        if view.choice.is_none() {
            return (None, None);
        }
        let since = *self.pending_since.get_or_insert(now);
        let differs = scene.site.is_some_and(Site::is_known);
        let due = since.plus_millis(REPORTED_AFTER_MS);
        if !view.reported.current || self.unsaid || (differs && due <= now) {
            // The text stays between two tries, so that the status does not flip back and forth.
            self.limited = limit(view, scene).or(self.limited.take());
            if let Some(pause) = &view.paused {
                let message = format!("the records stay as they are; the object is {}", pause.text());
                let reason = UnderWay::Paused;
                return (Some((Phase::InProgress { reason, message }, None)), None);
            }
            let about = || "the records are about to be changed".to_owned();
            let message = self.limited.clone().unwrap_or_else(about);
            let reason = UnderWay::InProgress;
            (Some((Phase::InProgress { reason, message }, None)), None)
        } else {
            (None, differs.then_some(due))
        }
    }

    fn published(&self, view: &View, scene: Scene<'_>) -> PublishedSet {
        let fqdn = scene.located.name().to_owned();
        let before = &view.reported.published;
        let addresses = match scene.site.and_then(Site::addresses) {
            // Records at a name where this object has none any more belong to others.
            _ if scene.claimed_by.is_some() || self.emptied || fqdn.is_empty() => Vec::new(),
            Some(addresses) => addresses.into_iter().collect(),
            None if before.fqdn == fqdn => before.addresses.clone(),
            None => Vec::new(),
        };
        PublishedSet { fqdn, addresses }
    }

    fn remarks(&self, view: &View, scene: Scene<'_>) -> Vec<Remark> {
        let mut remarks = view.remarks.clone();
        if let Some(owner) = scene.claimed_by {
            let message = claimed(&self.name, owner);
            remarks.push(Remark { finding: Conflict::NameClaimed.into(), message });
            return remarks;
        }
        if let Some((asked, floor)) = self.raised.filter(|(asked, _)| view.spec.ttl == TtlRule::Every(*asked))
        {
            let message =
                format!("the zone accepts no TTL below {floor} s; FLIPOP uses {floor} instead of {asked}");
            remarks.push(Remark { finding: TTLRaised::BelowFloor.into(), message });
        }
        if let Some(at) = scene.marked_at {
            let message = format!(
                "external-dns has a TXT record at {at}: it may change the same records; let only one of the two \
                 manage {}",
                self.name
            );
            remarks.push(Remark { finding: ExternalDNS::OwnershipRecord.into(), message });
        }
        remarks
    }
}

fn claimed(name: &str, owner: &Owner) -> String {
    let older = described(owner.kind, &owner.object.name);
    format!("{name} is claimed by the older {older}; choose another recordName for one of the two")
}

fn active(wanted: &Wanted, view: &View, site: &Site, (emptied, kept): (bool, bool)) -> Phase {
    let any_node = view.choice.as_ref().is_some_and(|choice| choice.any_node);
    let why = match view.no_match.as_str() {
        "" => "there is no address to publish".to_owned(),
        why => format!("no node matches spec.match ({why})"),
    };
    let addresses: Vec<String> = site.addresses().iter().flatten().map(ToString::to_string).collect();
    let (count, named) = (addresses.len(), enumerate(addresses.into_iter()));
    let (reason, message) = match &wanted.target {
        Target::Exact(_) => (Settled::Published, format!("{}: {named}", count_addresses(count))),
        Target::Keep | Target::Without(_) | Target::Empty if count == 0 || emptied => {
            (Settled::Empty, format!("{why}; no address is published"))
        }
        Target::Keep | Target::Without(_) | Target::Empty if any_node => {
            (Settled::Kept, format!("no matching node has an address to publish; the records stay: {named}"))
        }
        Target::Keep | Target::Without(_) | Target::Empty => {
            let deletes = view.spec.when_empty == WhenEmpty::Delete && kept;
            let until =
                if deletes { " for now (FLIPOP deletes them if no node matches within 10 min)" } else { "" };
            (Settled::Kept, format!("{why}; the records stay{until}: {named}"))
        }
    };
    let unmatched = view.owner.kind == ObjectKind::RecordSet && !any_node;
    let finding = if unmatched { Unmatched::NoMatchingNode.into() } else { Finding::from(reason) };
    Phase::Active { finding, message }
}

/// The reason for which the provider keeps postponing a change.
fn waits_for(site: &Site) -> Option<String> {
    let (kind, count, message) = site.failure()?;
    (kind == FaultKind::InProgress && count >= REPORTED_FAILURES).then(|| message.to_owned())
}

/// The limit that a change waits for, in words.
fn limit(view: &View, scene: Scene<'_>) -> Option<String> {
    let zone = view.spec.place.as_ref().zip(scene.account);
    let zone = zone.and_then(|(place, account)| account.zone_failure(&place.zone));
    let refused = zone.or_else(|| scene.site.and_then(Site::failure));
    let refused = refused.filter(|(kind, ..)| *kind == FaultKind::Throttled);
    let refused = || refused.map(|(_, _, message)| format!("the provider throttles the token: {message}"));
    let what = scene.limit.map(str::to_owned).or_else(refused)?;
    Some(format!("the change of the records waits: {what}"))
}

/// The obstacle at the provider.
fn failure(view: &View, scene: Scene<'_>) -> Option<(Obstacle, String)> {
    let place = view.spec.place.as_ref()?;
    let account = scene.account?;
    let zone = place.zone.text();
    let id = match scene.located {
        Located::At(key, _) => key.zone.as_str(),
        Located::Nowhere | Located::Pending(_) | Located::Bad(_) => zone,
    };
    if scene.site.is_some_and(Site::has_alias) {
        let (_, _, message) = scene.site.and_then(Site::failure)?;
        return Some((Obstacle::CNAME, message.to_owned()));
    }
    let refused = account.refusal(id).map(|message| (FaultKind::Unauthorized, REPORTED_FAILURES, message));
    let found = account.zone_failure(&place.zone).or_else(|| scene.site.and_then(Site::failure)).or(refused);
    let (kind, count, message) = found?;
    let text = match kind {
        FaultKind::InProgress | FaultKind::Throttled => return None,
        FaultKind::Transient if count < REPORTED_FAILURES => return None,
        // The remedy differs between providers, and is in the message.
        FaultKind::NotFound => format!("spec.dnsRecordSet.zone {zone}: {message}"),
        FaultKind::Unauthorized => format!("in the zone {zone} (spec.dnsRecordSet.zone): {message}"),
        FaultKind::Transient
        | FaultKind::NodeInUse
        | FaultKind::Invalid
        | FaultKind::Quota
        | FaultKind::Permanent => format!("failed to update the records: {kind}: {message}"),
    };
    Some((Obstacle::of(kind)?, text))
}

/// The part of the wanted change that may happen now. Nothing begins for a paused object: its records stay as they are,
/// and only addresses that earlier operations have moved join them.
pub fn allowed(view: &View, wanted: Wanted, site: &Site) -> Wanted {
    if view.paused.is_none() {
        return wanted;
    }
    let Wanted { target, undecided, ttl } = wanted;
    let stand = site.addresses().unwrap_or_default();
    let lacks = |ip: &&Address| view.finishing.contains(ip) && !stand.contains(ip);
    let due: BTreeSet<Address> = match &target {
        Target::Exact(addresses) => addresses.iter().filter(lacks).copied().collect(),
        Target::Empty | Target::Keep | Target::Without(_) => BTreeSet::new(),
    };
    let target = if due.is_empty() { Target::Keep } else { Target::Exact(&stand | &due) };
    let (TtlRule::Every(new) | TtlRule::New(new)) = ttl;
    Wanted { target, undecided, ttl: TtlRule::New(new) }
}

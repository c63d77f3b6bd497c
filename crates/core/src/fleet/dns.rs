//! Decides which records are read and changed now, for all objects of both kinds together.
//!
//! Invariants: if several objects name one set of records, only the owner acts. Each request first asks the budget of
//! its token. A request that may not start yet asks again in time, and delays nothing else.

mod answers;
mod given_back;
mod lookups;
mod outages;

pub(super) use given_back::{Leaving, site_of};

use crate::addresses::account::Account;
use crate::mechanism::{Budget, Effects, Epoch, Held, Notice, Purpose, RateReport};
use crate::model::provider::{Descriptor, Providers, Rules};
use crate::model::words::time_of_day;
use crate::model::{AccountId, Address, Moment, ObjectKind, Owner, Uid};
use crate::records::account::DnsAccount;
use crate::records::action::{Action, Call};
use crate::records::diff::Wanted;
use crate::records::dns::{Access, ChangeSet, Zone};
use crate::records::mark::Mark;
use crate::records::name::{ZoneRef, Zones};
use crate::records::set::{Scene, Set, allowed};
use crate::records::site::{Site, SiteKey, Step};
use crate::records::spec::Destination;
use crate::records::status::Reported;
use crate::records::view::{self, Claim, Located, View};
use std::collections::{BTreeMap, BTreeSet};

/// Requests of one change set. If each change is a separate request, newer intended records replace older ones in
/// between.
const MAX_REQUESTS: usize = 25;

/// A reread that has waited for this long is as urgent as any other read. This is longer than the longest window in
/// which providers count requests. Otherwise the rereads that did not fit into one window would fill the next.
const OVERDUE_MS: u64 = 600_000;

type Accounts = BTreeMap<AccountId, Account>;

/// The state of DNS.
#[derive(Debug, Default)]
pub(super) struct Dns {
    /// The zones in which records may be written.
    zones: Zones,
    accounts: BTreeMap<AccountId, DnsAccount>,
    sites: BTreeMap<SiteKey, Site>,
    /// The marks of external-dns at `a-<name>`, for the names of records.
    marks: BTreeMap<SiteKey, Mark>,
    /// The sets, by the uid of the pool or record set.
    sets: BTreeMap<Uid, Set>,
    /// The owner of each name, by the last plan.
    owners: BTreeMap<SiteKey, Owner>,
    /// The longest time for which clients may remember an address, for each name that held it.
    remembered_ms: BTreeMap<(Address, SiteKey), u64>,
    /// Objects that ask for no records, and whose left records were reported.
    bare: BTreeSet<Uid>,
    /// The oldest object in each zone and its place there, from the oldest on.
    named: Vec<(Owner, Destination)>,
    /// There may be names that no object owns.
    unowned: bool,
    /// Pools give addresses back.
    withdrawing: bool,
    /// The objects of the last plan whose records are right, each with the moment of the next read.
    resting: BTreeMap<Uid, Moment>,
    /// The Unix time of the clock's origin in milliseconds, for texts.
    epoch_ms: u64,
}

/// Whether these are all objects, the intended records of objects, the objects that ask for no records, and the
/// addresses that leave records because they are given back.
type Asked<'a> = (bool, &'a [View], &'a [(Owner, Reported)], &'a BTreeMap<SiteKey, Leaving>);

/// Why a name with correct records has to be read, and when.
enum Next {
    /// They are due to be read again.
    Reread,
    /// They are read again then.
    Rest(Moment),
}

impl Dns {
    /// The token of a provider that also has addresses already has a budget, which the account keeps.
    pub(super) fn new(providers: &Providers, zones: Zones, epoch_ms: u64) -> Self {
        let account = |(of, rules): (&Descriptor, Rules)| {
            let own = of.machines.is_none().then(|| Budget::new(of.limits));
            let id = AccountId::from(of.name);
            (id.clone(), DnsAccount::new(id, rules, own))
        };
        Self { accounts: providers.of_dns().map(account).collect(), zones, epoch_ms, ..Self::default() }
    }

    /// Starts again when leadership begins, because a predecessor may have changed the records.
    pub(super) fn restart(&mut self) {
        self.sets.clear();
        self.bare.clear();
        self.accounts.values_mut().for_each(DnsAccount::restart);
        self.sites.values_mut().for_each(Site::restart);
        self.marks.values_mut().for_each(Mark::restart);
    }

    /// The present epoch of an account.
    pub(super) fn epoch(&self, account_id: &AccountId) -> Option<&Epoch> {
        self.accounts.get(account_id).map(DnsAccount::epoch)
    }

    pub(super) fn observe_rate(&mut self, account_id: &AccountId, now: Moment, report: &RateReport) {
        if let Some(budget) = self.accounts.get_mut(account_id).and_then(DnsAccount::budget) {
            budget.observe(now, report);
        }
    }

    pub(super) fn token_changed(&mut self, account_id: &AccountId) {
        if let Some(account) = self.accounts.get_mut(account_id) {
            account.token_changed();
        }
        let sites = self.sites.iter_mut().filter(|(key, _)| key.account_id == *account_id);
        sites.for_each(|(_, site)| site.forgive());
    }

    /// The object that owns a name, by the last plan.
    pub(super) fn owner(&self, key: &SiteKey) -> Option<&Owner> {
        self.owners.get(key)
    }

    /// Notes whether pools give addresses back. True if they do or did, since that can concern any name.
    pub(super) const fn withdraws(&mut self, withdrawing: bool) -> bool {
        std::mem::replace(&mut self.withdrawing, withdrawing) || withdrawing
    }

    /// The objects of the last plan whose records are right, each with the moment of the next read.
    pub(super) fn take_resting(&mut self) -> BTreeMap<Uid, Moment> {
        std::mem::take(&mut self.resting)
    }

    /// The set of an object.
    pub(super) fn set(&self, uid: &Uid) -> Option<&Set> {
        self.sets.get(uid)
    }

    /// Whether a name holds an address that its object wants there, if an object manages it.
    pub(super) fn shows(&self, uid: &Uid, ip: Address) -> bool {
        let site = self.sets.get(uid).and_then(Set::site).and_then(|key| self.sites.get(key));
        let holds = |site: &Site| site.addresses().is_some_and(|addresses| addresses.contains(&ip));
        site.is_none_or(|site| site.is_known() && !site.is_busy() && holds(site))
    }

    /// Requests left per token, for tokens that no account counts.
    pub(super) fn rates_remaining(&self) -> impl Iterator<Item = (&AccountId, Option<u64>)> {
        self.accounts.iter().filter_map(|(account_id, account)| Some((account_id, account.rate_remaining()?)))
    }

    /// Decides on reads and changes. `bare` are the objects that ask for no records.
    pub(super) fn plan(
        &mut self,
        (all, views, bare, leaving): Asked<'_>,
        accounts: &mut Accounts,
        permit: bool,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        self.resting.clear();
        if all {
            self.note_objects(views, bare);
        }
        self.look_up_zones(accounts, now, out);
        let located: Vec<Located> = views
            .iter()
            .map(|view| {
                let place = view.spec.place.as_ref();
                let account = place.and_then(|place| self.accounts.get(&place.account_id));
                Located::of(place, account)
            })
            .collect();
        let claims = views.iter().zip(&located).filter_map(|(view, located)| match located {
            Located::At(site, _) => {
                let (owner, created_at_s) = (view.owner.clone(), view.created_at_s);
                Some(Claim { site: site.clone(), created_at_s, owner })
            }
            Located::Nowhere | Located::Pending(_) | Located::Bad(_) => None,
        });
        // Between two plans for all objects, no object comes, goes, is edited or finds another zone.
        let owners = if all { view::owners(claims) } else { std::mem::take(&mut self.owners) };
        if all || self.unowned {
            self.forget_unowned(leaving, &owners, now);
        }
        self.read_anew(leaving);
        self.leave(bare, &owners, permit, out);
        let undecided = self.undecided(views, &located);
        let mut rereads = Vec::new();
        for (view, located) in views.iter().zip(&located) {
            let waits = matches!(located, Located::At(key, _)
                if undecided.get(&(&key.account_id, &key.fqdn)).is_some_and(|older| older.seniority() < view.seniority()));
            let before = out.additions();
            let next = self.advance(view, located, (&owners, waits), (accounts, permit, now), out);
            match (next, located) {
                (Some(Next::Reread), Located::At(key, zone)) => {
                    rereads.push((view.owner.clone(), key, zone));
                }
                (Some(Next::Rest(at)), _) => {
                    if out.additions() == before {
                        self.resting.insert(view.owner.object.uid.clone(), at);
                    }
                    out.later(at);
                }
                _ => {}
            }
        }
        // The longest wait comes first.
        rereads.sort_by_key(|(_, key, _)| self.sites.get(key).map(Site::read_due));
        for (owner, key, zone) in rereads {
            let (site, account) = (self.sites.get_mut(key), self.accounts.get_mut(&key.account_id));
            if let (Some(site), Some(account)) = (site, account) {
                let overdue = site.read_due().plus_millis(OVERDUE_MS);
                let purpose = if overdue <= now { Purpose::Dns } else { Purpose::Reread };
                out.later(Some(overdue).filter(|at| *at > now));
                read(site, (&owner, key, zone), purpose, (account, accounts), now, out);
            }
        }
        self.clear_unowned(leaving, &owners, (accounts, permit, now), out);
        self.look_for_marks((views, &located), &owners, accounts, now, out);
        self.plan_tests(accounts, now, out);
        self.renew_zones(accounts, now, out);
        self.owners = owners;
    }

    /// Forgets the objects that are gone, and notes the zones that the others name.
    fn note_objects(&mut self, views: &[View], bare: &[(Owner, Reported)]) {
        let bare: BTreeSet<&Uid> = bare.iter().map(|(owner, _)| &owner.object.uid).collect();
        let viewed: BTreeSet<&Uid> = views.iter().map(|view| &view.owner.object.uid).collect();
        self.sets.retain(|uid, _| viewed.contains(uid) || bare.contains(uid));
        self.bare.retain(|uid| bare.contains(uid));
        self.name_zones(views);
    }

    /// Forgets the names that no object owns, once nothing has to be kept of them.
    fn forget_unowned(
        &mut self,
        leaving: &BTreeMap<SiteKey, Leaving>,
        owners: &BTreeMap<SiteKey, Owner>,
        now: Moment,
    ) {
        self.marks.retain(|key, _| owners.contains_key(key));
        self.unowned = !leaving.is_empty();
        self.sites.retain(|key, site| {
            let owned = owners.contains_key(key);
            let kept = owned || leaving.contains_key(key) || site.unclaimed(now);
            self.unowned |= kept && !owned;
            kept
        });
    }

    /// The oldest object at each name that waits for the first lookup of its zone, which shows whether it is the
    /// owner.
    fn undecided<'a>(
        &self,
        views: &'a [View],
        located: &'a [Located],
    ) -> BTreeMap<(&'a AccountId, &'a String), &'a View> {
        let mut oldest: BTreeMap<_, &View> = BTreeMap::new();
        for (view, located) in views.iter().zip(located) {
            let (Located::Pending(fqdn), Some(place)) = (located, &view.spec.place) else { continue };
            let Some(account) = self.accounts.get(&place.account_id) else { continue };
            if matches!(place.zone, ZoneRef::Name(_)) && account.is_unasked(&place.zone) {
                let first = oldest.entry((&place.account_id, fqdn)).or_insert(view);
                *first = if view.seniority() < first.seniority() { view } else { *first };
            }
        }
        oldest
    }

    /// Decides for one object: its intended records, the next step and the report. Returns when a correct name is read
    /// again, because that comes after everything else.
    fn advance(
        &mut self,
        view: &View,
        located: &Located,
        (owners, waits): (&BTreeMap<SiteKey, Owner>, bool),
        (accounts, permit, now): (&mut Accounts, bool, Moment),
        out: &mut Effects<Action>,
    ) -> Option<Next> {
        let uid = &view.owner.object.uid;
        let mut next = None;
        let mut set = self.sets.remove(uid).unwrap_or_else(|| Set::recalled(&view.reported));
        let (mut claimed_by, mut barred) = (None, None);
        if let Located::At(key, zone) = located {
            barred = self.zones.refusal(zone);
            let home = permit.then(|| set.move_to(view, key, zone)).flatten();
            out.tell(home.and_then(|home| answers::left(&view.owner, &home, owners)));
            claimed_by = owners.get(key).filter(|owner| owner.object.uid != *uid);
            let acts = claimed_by.is_none() && barred.is_none() && !waits && view.problems.is_empty();
            let choice = view.choice.as_ref().filter(|_| acts);
            if let (Some(choice), Some(account)) = (choice, self.accounts.get_mut(&key.account_id)) {
                let site = self.sites.entry(key.clone()).or_default();
                if set.pause(view) {
                    site.restart();
                }
                let wanted = set.want(view, choice, (key, zone, account.rules()), site, now);
                let wanted = allowed(view, wanted, site);
                out.later(set.kept_until().filter(|until| *until > now));
                let mut scene = Drive { site, set: &mut set, account, accounts, permit, now, out };
                next = scene.drive(&view.owner, key, zone, &wanted);
            }
        }
        let limit = self.limit(view.spec.place.as_ref(), accounts, now);
        let (site, account) = match (located, &view.spec.place) {
            (Located::At(key, _), _) => (self.sites.get(key), self.accounts.get(&key.account_id)),
            (_, Some(place)) => (None, self.accounts.get(&place.account_id)),
            (_, None) => (None, None),
        };
        let limit = limit.as_deref();
        let marked_at = self.marked_at(view, located);
        let barred = barred.as_deref();
        let scene =
            Scene { located, claimed_by, barred, site, marked_at: marked_at.as_deref(), account, limit };
        out.later(set.tell(view, scene, now));
        if let Some((reason, message)) = permit.then(|| set.announce(view)).flatten() {
            let notice = Notice::on(&view.owner, true, reason.into(), &set.name, message);
            out.tell([notice]);
        }
        self.sets.insert(uid.clone(), set);
        next
    }
}

impl Dns {
    /// The limit that delays requests for records, and until when, if there is one.
    fn limit(&mut self, place: Option<&Destination>, accounts: &mut Accounts, now: Moment) -> Option<String> {
        let account_id = &place?.account_id;
        let account = self.accounts.get_mut(account_id)?;
        let until = |at| time_of_day(at, self.epoch_ms);
        Some(match budget(account, accounts, account_id)?.held(Purpose::Dns, now)? {
            Held::Paused(at) => format!("{account_id} throttles the token until {}", until(at)),
            Held::UsedUp(at) => {
                format!(
                    "the token for {account_id} has few requests left, and FLIPOP keeps them for addresses until {}",
                    until(at)
                )
            }
            Held::Full => {
                format!("the rate limit of the token for {account_id} leaves no request for them yet")
            }
        })
    }
}

/// The inputs for acting at one name.
struct Drive<'a> {
    site: &'a mut Site,
    set: &'a mut Set,
    account: &'a mut DnsAccount,
    accounts: &'a mut Accounts,
    permit: bool,
    now: Moment,
    out: &'a mut Effects<Action>,
}

impl Drive<'_> {
    /// Returns when a correct name is read again.
    fn drive(&mut self, owner: &Owner, key: &SiteKey, zone: &Zone, wanted: &Wanted) -> Option<Next> {
        let kind = owner.kind;
        let settled_at = self.set.settled_at(kind);
        match self.site.next(wanted, settled_at, kind == ObjectKind::Pool, self.now) {
            Step::Busy => {}
            Step::Rest(at) => {
                self.site.rested();
                self.set.settled();
                return Some(Next::Rest(at));
            }
            Step::Wait(at) => self.out.later(at),
            Step::Reread => return Some(Next::Reread),
            Step::Read => self.read(owner, key, zone),
            Step::Apply(set) => {
                self.apply(owner, key, zone, wanted, set);
                if self.site.is_reread_due(self.now) {
                    self.read(owner, key, zone);
                }
            }
        }
        None
    }

    fn read(&mut self, owner: &Owner, key: &SiteKey, zone: &Zone) {
        let (accounts, place) = ((&mut *self.account, &mut *self.accounts), (owner, key, zone));
        read(self.site, place, Purpose::Dns, accounts, self.now, self.out);
    }

    fn apply(&mut self, owner: &Owner, key: &SiteKey, zone: &Zone, wanted: &Wanted, mut set: ChangeSet) {
        // Without a permit the records wait. The return of the permit is an input, so a plan follows.
        let call = (key.zone.as_str(), Access::Write, Purpose::Dns);
        if !self.permit || !admit(self.account, self.accounts, &key.account_id, call, self.now, self.out) {
            return;
        }
        self.account.begun(&key.zone);
        let all = set.changes.len();
        let per = self.account.rules().changes_per_request;
        let requests = all.min(MAX_REQUESTS.saturating_mul(per)).div_ceil(per);
        let mut admitted = 1;
        if let Some(budget) = budget(self.account, self.accounts, &key.account_id) {
            while admitted < requests && budget.reserve(Purpose::Dns, self.now) {
                admitted += 1;
            }
        }
        set.changes.truncate(admitted * per);
        let left = all - set.changes.len();
        self.site.applying(wanted.clone(), set.changes.clone(), left, owner.clone(), self.now);
        self.set.settled();
        let call = Call::ApplyRecords { zone: zone.clone(), fqdn: key.fqdn.clone(), set };
        self.out.act(self.account.epoch().request(Some(owner.clone()), call));
    }
}

/// Reads the records of a name, if that is allowed now.
fn read(
    site: &mut Site,
    (owner, key, zone): (&Owner, &SiteKey, &Zone),
    purpose: Purpose,
    (account, accounts): (&mut DnsAccount, &mut Accounts),
    now: Moment,
    out: &mut Effects<Action>,
) {
    let call = (key.zone.as_str(), Access::Read, purpose);
    if admit(account, accounts, &key.account_id, call, now, out) {
        account.begun(&key.zone);
        site.reading(now);
        let call = Call::ReadRecords { zone: zone.clone(), fqdn: key.fqdn.clone(), mark_of: None };
        out.act(account.epoch().request(Some(owner.clone()), call));
    }
}

/// The budget of a token, from the account or from here.
fn budget<'a>(
    account: &'a mut DnsAccount,
    accounts: &'a mut Accounts,
    account_id: &AccountId,
) -> Option<&'a mut Budget> {
    match accounts.get_mut(account_id) {
        Some(shared) => Some(shared.budget()),
        None => account.budget(),
    }
}

/// Takes one request from the token's budget, or notes when to ask again.
fn admit(
    account: &mut DnsAccount,
    accounts: &mut Accounts,
    account_id: &AccountId,
    (zone, access, purpose): (&str, Access, Purpose),
    now: Moment,
    out: &mut Effects<Action>,
) -> bool {
    if let Err(at) = account.admit(zone, access, now) {
        out.later(at);
        return false;
    }
    if purpose == Purpose::Reread && account.is_loaded(zone) {
        return false;
    }
    if let Some(budget) = budget(account, accounts, account_id) {
        if let Err(at) = budget.admit(purpose, now) {
            out.later(at);
            return false;
        }
        budget.sent(purpose, now);
    }
    account.sent(zone, access, now);
    true
}

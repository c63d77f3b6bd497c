//! Buying missing addresses without ever losing one or buying one twice.
//!
//! The intent (region, addresses listed before) is in the object's status before the request is sent. After a crash or
//! a lost reply the account is listed twice, at least 30 s apart. Without a new address, nothing was bought. A single
//! new address is ours. If there are several, only the user can tell. Invariant: addresses created and possibly
//! created are never more than `desiredIPs`.

use super::Pool;
use super::memory::Intent;
use super::orphans::{Absences, Sightings};
use super::world::World;
use crate::addresses::account::Account;
use crate::addresses::account::rights::Right;
use crate::addresses::action::{Action, Call};
use crate::mechanism::{Effects, LAG_MS, Notice, Pace, Purpose, Retry, Schedule};
use crate::model::catalog::events::EventReason;
use crate::model::catalog::pool::CreationFailed;
use crate::model::words::name_all;
use crate::model::{AccountId, Address, CallFailure, Context, Fault, FaultKind, Moment};
use std::collections::BTreeSet;

/// The stage of the creation under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Progress {
    /// None is under way.
    #[default]
    Idle,
    /// The intent is to be written into the status.
    Announcing,
    /// The request is under way.
    Sending,
    /// It is unknown whether an address was bought. Lists that begin after `since` will show it.
    Resolving { since: Moment, first: Option<Moment> },
}

/// The stage of a creation, as other pools of the account have to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purchase {
    /// Nothing was asked for.
    None,
    /// An intent is announced, and the request follows.
    Announced,
    /// The request is under way, or its effect unknown.
    Open,
}

/// A purchase is told as a Warning once no node has matched for this long. A rollout takes less.
const IDLE_MS: u64 = 60_000;

/// The warning about such a purchase.
const UNUSED: &str = ", and no node has matched for 60 s: the provider charges for an address on no machine; to \
                      release it, set reclaimPolicy to Delete, lower desiredIPs and list the address in \
                      releasedIPs";

/// State of a pool's creations that need not survive a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Creation {
    pub(super) stage: Progress,
    /// Number of the last intent.
    pub(super) number: u64,
    pub(super) retry: Retry,
    /// Why the last creation failed.
    pub failure: Option<(FaultKind, String)>,
    /// Why no creation may begin, if a limit of ours stands against it.
    pub barred: Option<(CreationFailed, String)>,
    /// The installed CRDs are older than the operator, so the server drops our fields of the status.
    pub crds_outdated: bool,
    /// Addresses of unknown origin that are on candidates. For each of them one address fewer is bought.
    pub orphans: BTreeSet<Address>,
    pub(super) sightings: Sightings,
    search: Search,
    /// Since when no node has matched, as seen by this process.
    idle_since: Option<Moment>,
}

impl Creation {
    /// Whether FLIPOP is finding out whether an address was bought.
    pub(super) fn is_resolving(&self) -> bool {
        matches!(self.stage, Progress::Resolving { .. })
    }
}

/// The search for the result of a creation of unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Search {
    /// New addresses that lists have shown.
    found: BTreeSet<Address>,
    /// A list has left out an address that another one showed. From then on the search takes in no further addresses.
    doubted: bool,
    /// The found addresses that lists leave out.
    away: Absences,
}

impl Pool {
    /// Whether the next list of the account may show an address to adopt.
    pub(crate) fn may_adopt(&self) -> bool {
        let intent = self.memory.as_ref().and_then(|memory| memory.intent.as_ref());
        self.creation.is_resolving() || intent.is_some_and(|intent| intent.uncertain.is_some())
    }

    /// True while an address was bought that the server's copy of the status, or else the spec, does not remember yet.
    pub fn has_unrecorded_creation(&self) -> bool {
        let in_spec = |written| self.creation.crds_outdated && written;
        let mut created = self.memory.iter().flat_map(|memory| &memory.created);
        created.any(|created| !self.on_server.remembers(created.ip) && !in_spec(created.written))
    }

    /// The account of the creation under way, or else of the next one. An edit of `spec.provider` does not change the
    /// account of a request that was sent.
    pub fn creates_at(&self) -> &AccountId {
        let intent = self.memory.as_ref().and_then(|memory| memory.intent.as_ref());
        let asked = intent.map(|intent| &intent.account_id).filter(|account_id| !account_id.is_unknown());
        asked.unwrap_or(&self.spec.account_id)
    }

    /// The number of missing addresses.
    pub fn missing(&self) -> usize {
        self.spec.desired.map_or(0, |desired| desired.saturating_sub(self.effective().len()))
    }

    /// The stage of this pool's creation, for the other pools of the account. An intent that the server refuses delays
    /// no other pool: if others buy meanwhile, a new intent replaces it before the request.
    pub fn purchase(&self) -> Purchase {
        let intent = self.memory.as_ref().and_then(|memory| memory.intent.as_ref());
        match self.creation.stage {
            Progress::Announcing if self.writes.is_status_failing() => Purchase::None,
            Progress::Announcing => Purchase::Announced,
            Progress::Sending | Progress::Resolving { .. } => Purchase::Open,
            Progress::Idle if intent.is_some_and(Intent::is_open) => Purchase::Open,
            Progress::Idle => Purchase::None,
        }
    }

    /// The furthest stage of the creations of the account's other pools.
    fn others_create(&self, account: &Account, world: &World<'_>) -> Purchase {
        if account.creating().is_some_and(|creating| *creating != self.object.uid) {
            return Purchase::Open;
        }
        let others = world.in_the_way().filter(|pool| *pool.creates_at() == account.epoch().account_id);
        others.map(Self::purchase).max().unwrap_or(Purchase::None)
    }

    /// Decides on creations. `named` are the addresses that any pool names.
    pub fn plan_creation(
        &mut self,
        account: &mut Account,
        world: &World<'_>,
        named: &BTreeSet<Address>,
        out: &mut Effects<Action>,
    ) {
        let idle = self.nodes.matched && self.candidates.is_empty();
        self.creation.idle_since = idle.then(|| self.creation.idle_since.unwrap_or(world.now));
        self.weigh_uncertain(account, named, out);
        self.look_for_orphans(account, world, named);
        if account.gate(Right::Create).is_open() {
            self.forgive_token_creating();
        }
        match self.creation.stage {
            Progress::Idle => self.announce(account, world, named, out),
            Progress::Announcing => self.send(account, world, named, out),
            Progress::Sending => {}
            Progress::Resolving { since, first } => self.resolve(account, named, (since, first), out),
        }
    }

    /// Ends a creation in `account`, which the spec no longer names.
    pub fn end_creation(
        &mut self,
        account: &mut Account,
        named: &BTreeSet<Address>,
        out: &mut Effects<Action>,
    ) {
        self.weigh_uncertain(account, named, out);
        match self.creation.stage {
            // Nothing was sent yet.
            Progress::Announcing => self.forget_intent(),
            Progress::Resolving { since, first } => self.resolve(account, named, (since, first), out),
            Progress::Idle | Progress::Sending => {}
        }
    }

    /// An uncertainty ends when the user names one of its addresses, or when at most one is left.
    fn weigh_uncertain(
        &mut self,
        account: &mut Account,
        named: &BTreeSet<Address>,
        out: &mut Effects<Action>,
    ) {
        let spec_ips: BTreeSet<Address> = self.spec.ips.iter().copied().collect();
        let Some((begun, listed)) = account.last_list() else { return };
        let Some(memory) = &mut self.memory else { return };
        let Some(Intent { region, uncertain: Some(uncertain), .. }) = &memory.intent else { return };
        if let Some(chosen) = uncertain.intersection(&spec_ips).next().copied() {
            memory.intent = None;
            memory.bought(chosen, true);
            out.tell([self.notice(
                false,
                EventReason::Adopted,
                chosen,
                format!("{chosen} counts as the address that was created"),
            )]);
            return;
        }
        let left: BTreeSet<Address> = uncertain
            .iter()
            .copied()
            .filter(|ip| {
                let read = listed.get(ip);
                let gone = self.creation.search.away.is_gone(*ip, read.is_some(), begun);
                let free = read.is_none_or(|read| read.machine.is_none() && read.region == *region);
                !gone && free && !named.contains(ip)
            })
            .collect();
        // Another list has to agree before an address that this one leaves out is adopted or given up.
        if left.len() <= 1 && left.iter().all(|ip| listed.contains_key(ip)) {
            memory.intent = None;
            for ip in left {
                self.adopt(ip, out);
            }
        } else if let Some(at) = self.creation.search.away.undecided(begun) {
            account.want_list(at);
        }
    }

    fn announce(
        &mut self,
        account: &mut Account,
        world: &World<'_>,
        named: &BTreeSet<Address>,
        out: &mut Effects<Action>,
    ) {
        if account.last_list().is_none() || account.lists_contradict_themselves() {
            return;
        }
        if world.deleting || !account.is_listed_without_deleted() {
            // A purchase may return an address that was deleted. So the account is listed after a deletion first.
            return;
        }
        if self.missing() <= self.creation.orphans.len() {
            (self.creation.failure, self.creation.barred) = (None, None);
            return;
        }
        self.creation.barred = self.bar(account, world);
        if self.creation.barred.is_some() {
            return;
        }
        let uncertain = self.memory.as_ref().is_some_and(|memory| memory.intent.is_some());
        if uncertain
            || self.creation.crds_outdated
            || !self.may_begin()
            || !self.spec.may_create()
            || !self.nodes.matched
            || self.others_create(account, world) > Purchase::None
        {
            return;
        }
        let (Some(region), Some(memory)) = (self.spec.region.clone(), &mut self.memory) else { return };
        let refused = account.gate(Right::Create).waits(world.now);
        let due = refused.map_or(self.creation.retry.due(), |at| at.max(self.creation.retry.due()));
        if due > world.now {
            out.later(due);
            return;
        }
        if let Err(at) = account.budget().admit(Purpose::Create, world.now) {
            out.later(at);
            return;
        }
        let known = account.known_with(named);
        self.creation.number = self.creation.number.saturating_add(1);
        let (number, account_id) = (self.creation.number, self.spec.account_id.clone());
        memory.intent = Some(Intent { number, account_id, region, known, uncertain: None });
        self.creation.stage = Progress::Announcing;
    }

    /// Sends the request once the server holds the intent.
    fn send(
        &mut self,
        account: &mut Account,
        world: &World<'_>,
        named: &BTreeSet<Address>,
        out: &mut Effects<Action>,
    ) {
        let intent = self.memory.as_ref().and_then(|memory| memory.intent.clone());
        let Some(intent) = intent else {
            self.creation.stage = Progress::Idle;
            return;
        };
        let elsewhere = self.spec.region.as_ref() != Some(&intent.region);
        if elsewhere
            || world.deleting
            || self.missing() <= self.creation.orphans.len()
            || !self.may_begin()
            || !self.spec.may_create()
            || !self.nodes.matched
        {
            // Nothing was sent yet, so the intent is taken back, and another may take its place.
            self.forget_intent();
            return self.announce(account, world, named, out);
        }
        let kept = self.on_server.memory.as_ref().and_then(|memory| memory.intent.as_ref());
        if account.lists_contradict_themselves() || !self.may_buy_guarded() {
            return;
        }
        if kept != Some(&intent)
            || self.others_create(account, world) > Purchase::Announced
            || !world.permit
            || !account.is_authorised()
        {
            return;
        }
        if !account.known_with(named).is_subset(&intent.known) {
            // Pools or people have bought addresses meanwhile. A new intent distinguishes them from the result of this
            // request.
            self.forget_intent();
            self.announce(account, world, named, out);
            return;
        }
        let free = account.budget().admit(Purpose::Create, world.now);
        if let Some(at) = free.err().max(account.gate(Right::Create).waits(world.now)) {
            out.later(at);
            return;
        }
        debug_assert!(self.missing() > 0, "nothing is bought beyond desiredIPs");
        account.begin_creation(&self.object.uid, world.now);
        self.creation.stage = Progress::Sending;
        out.act(account.epoch().request(Some(self.owner()), Call::Create(intent.region)));
    }

    fn resolve(
        &mut self,
        account: &mut Account,
        named: &BTreeSet<Address>,
        (since, first): (Moment, Option<Moment>),
        out: &mut Effects<Action>,
    ) {
        let Some((begun, listed)) = account.last_list().filter(|(begun, _)| *begun > since) else { return };
        let Some(intent) = self.memory.as_mut().and_then(|memory| memory.intent.as_mut()) else {
            self.creation.stage = Progress::Idle;
            return;
        };
        let new: BTreeSet<Address> = listed
            .values()
            .filter(|read| !intent.known.contains(&read.ip) && !named.contains(&read.ip))
            .filter(|read| read.machine.is_none() && read.region == intent.region)
            .map(|read| read.ip)
            .collect();
        // If a list leaves out an address of an earlier one, another list has to agree first.
        let Search { found, doubted, away } = &mut self.creation.search;
        let is_open = |ip: &&Address| {
            let there = listed.contains_key(ip);
            let gone = away.is_gone(**ip, there, begun);
            !there && !gone
        };
        let open = found.iter().filter(is_open).count();
        let late = first.is_some_and(|first| begun.millis_since(first) >= LAG_MS);
        if !late || open > 0 {
            if !*doubted {
                found.extend(new);
            }
            *doubted |= late;
            let first = first.unwrap_or(begun);
            let next = away.undecided(begun).filter(|_| late);
            self.creation.stage = Progress::Resolving { since, first: Some(first) };
            account.want_list(next.unwrap_or(first.plus_millis(LAG_MS)));
            return;
        }
        self.creation.search = Search::default();
        self.creation.stage = Progress::Idle;
        if new.len() > 1 {
            let message =
                format!("the creation may have made one of {}; put that one into spec.ips", name_all(&new));
            intent.uncertain = Some(new);
            out.tell([self.notice(true, EventReason::CreationUncertain, "addresses", message)]);
        } else {
            self.forget_intent();
            for ip in new {
                self.adopt(ip, out);
            }
        }
    }

    fn adopt(&mut self, ip: Address, out: &mut Effects<Action>) {
        if self.deleting {
            let what =
                format!("{ip} was created for this pool, which is being deleted, and stays in the account");
            let message = format!("{what}: put it into another pool's spec.ips, or delete it there");
            out.tell([self.notice(true, EventReason::CreatedWithoutPool, ip, message)]);
            return;
        }
        if let Some(memory) = &mut self.memory {
            memory.bought(ip, false);
        }
        out.tell([self.notice(
            false,
            EventReason::Adopted,
            ip,
            format!("adopted {ip}, created by an interrupted request"),
        )]);
    }

    pub(crate) fn forget_intent(&mut self) {
        self.creation.stage = Progress::Idle;
        if let Some(memory) = &mut self.memory {
            memory.intent = None;
        }
    }

    /// Drops the sightings of addresses of unknown origin at the former account. They will be out of date when the pool
    /// asks that provider again.
    pub(super) fn account_changed(&mut self) {
        self.creation.sightings = Sightings::default();
    }

    /// Makes the next creation due at once. With another region or number it is another request.
    pub(super) fn request_changed(&mut self) {
        if !self.creation.crds_outdated {
            self.creation.retry = Retry::default();
        }
    }

    /// Makes a creation due at once that lacked rights, because the token changed or another creation was accepted.
    pub(super) fn forgive_token_creating(&mut self) {
        if self.creation.failure.take_if(|(kind, _)| *kind == FaultKind::Unauthorized).is_some() {
            self.request_changed();
        }
    }

    /// Notes that the status cannot be written. An intent that the server never had is withdrawn, so that it delays no
    /// other pool.
    pub fn status_refused(&mut self, at: Context) {
        if self.creation.stage == Progress::Announcing {
            self.forget_intent();
            self.put_off(Pace::by(Schedule::Slow), at);
        }
    }

    /// Takes in the answer to a creation.
    pub fn on_created(
        &mut self,
        account: &mut Account,
        result: Result<Address, CallFailure>,
        at @ Context { now, .. }: Context,
        news: &mut Vec<Notice>,
    ) {
        match result {
            Ok(ip) => {
                let region =
                    self.memory.as_ref().and_then(|memory| memory.intent.as_ref()).map(|i| i.region.clone());
                self.forget_intent();
                let new = self.purchase_in(&account.epoch().account_id, ip);
                let memory = self.memory.get_or_insert_default();
                memory.bought(ip, false);
                memory.purchase(new);
                account.created(ip, &region.unwrap_or_default(), now);
                self.creation.retry.succeeded();
                self.creation.failure = None;
                let idle = self.creation.idle_since.is_some_and(|since| now.millis_since(since) >= IDLE_MS);
                let unused = if idle { UNUSED } else { "" };
                news.push(self.notice(idle, EventReason::Created, ip, format!("created {ip}{unused}")));
            }
            Err(CallFailure::NotSent) => self.creation.stage = Progress::Announcing,
            Err(CallFailure::Fault(fault)) => {
                self.put_off(Pace::of(&fault), at);
                let Fault { kind, message, outcome_unknown, .. } = fault;
                news.push(self.notice(
                    true,
                    EventReason::CreationFailed,
                    kind,
                    format!("failed to create an address: {kind}: {message}"),
                ));
                self.creation.failure = Some((kind, message));
                if outcome_unknown {
                    self.creation.stage = Progress::Resolving { since: now, first: None };
                    self.creation.search = Search::default();
                    account.want_list(now.plus_millis(1));
                } else {
                    self.forget_intent();
                }
            }
        }
    }

    pub(super) fn put_off(&mut self, pace: Pace, at: Context) {
        self.creation.retry.failed(pace, at);
    }
}

//! How many requests one token may send, and which of them go first.
//!
//! Owns the decision "may this request be sent now, and if not, when to ask again". It neither sends nor retries, and
//! reads no headers: the provider layer hands in a [`RateReport`], and the caller reports what it sends.
//!
//! Invariants: no window has more requests than its limit. A request that a round may send at any time counts in every
//! window until the round ends. Nothing is sent before the end of a block. A share of every limit is kept for
//! assignments. A caller that asks again whenever [`Budget::admit`] says so is admitted in the end, because single
//! requests probe a used-up quota once its reset has come.

use crate::model::provider::Limits;
use crate::model::{Moment, Uid};
use std::collections::{BTreeMap, VecDeque};

/// A used-up quota gets one probe at a time. The next one follows the answer, or comes after this time, which is the
/// deadline of a call.
const PROBE_MS: u64 = 10_000;

/// The share of the window, in percent, that is kept from polls, and from calls about firewalls and returned
/// addresses. Normally there are a few polls a minute. In an outage every action may be pending, and the many polls
/// must leave room for calls that move addresses.
const KEPT_FROM_POLLS_PERCENT: u64 = 40;

/// The share of the window, in percent, that is kept from DNS and from looks at single addresses. To bring an address
/// to a healthy node comes first. Looks at many addresses that others have locked must not delay that.
const KEPT_FROM_DNS_PERCENT: u64 = 20;

/// The share of the window, in percent, that is kept from reads of known DNS records, and of addresses that were never
/// seen in the account. With hundreds of them they are all due together after a start. Changes of records and polls
/// must not wait for them.
const KEPT_FROM_REREADS_PERCENT: u64 = 50;

/// The share of the window, in percent, that all rounds under way may reserve together. Beyond it a round sends only
/// one request. So the unsent requests of slow rounds delay neither polls nor other names.
const RESERVED_PERCENT: u64 = 20;

/// The share of the long quota, in percent, that is kept from polls, and from calls about known records, firewalls and
/// returned addresses. It is smaller than that of the short window: ordinary work never uses up one hour's quota, and
/// its last tenth is hundreds of requests.
const QUOTA_KEPT_FROM_POLLS_PERCENT: u64 = 10;

/// The share of the long quota, in percent, that is kept from DNS and from looks at single addresses.
const QUOTA_KEPT_FROM_DNS_PERCENT: u64 = 5;

/// The share of the window, in percent, that one object may start while others wait. So a pool with a thousand
/// addresses delays those with one by a few seconds.
const OBJECT_PERCENT: u64 = 25;

/// An object that waits for room and has not asked again for this long after its time waits no longer.
const WAITS_MS: u64 = 1_000;

/// After an outage, this many calls run at a time until as many have succeeded. So a provider that has just come back
/// is not overrun.
const RAMP: usize = 8;

/// The share of these calls, in percent, that is kept from records.
const RAMP_KEPT_FROM_DNS_PERCENT: u64 = 25;

/// The share of these calls, in percent, that is kept from everything that neither addresses nor records wait for.
const RAMP_KEPT_FROM_OTHERS_PERCENT: u64 = 50;

/// While these calls run, others ask again after this long. Each answer makes room, and a plan follows it anyway.
const RAMP_ASKS_MS: u64 = 1_000;

/// A token's long quota, as the provider last reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The size of the whole quota, if the provider reports it.
    pub limit: Option<u64>,
    /// Requests left at `observed_at`.
    pub remaining: u64,
    /// When the oldest counted request expires. The window slides, so only a little of the quota comes back then.
    pub reset_at: Moment,
    /// When the answer arrived.
    pub observed_at: Moment,
}

/// The latest facts about a token's rate limits, from any of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateReport {
    /// The number of changes of the token so far. Another token has another budget.
    pub token_generation: u64,
    /// HTTP requests begun with this token. A list is one call, and may take many requests.
    pub requests: u64,
    /// The long quota, if the provider reports it.
    pub quota: Option<Quota>,
    /// Nothing may be sent before this moment.
    pub blocked_until: Option<Moment>,
}

/// The purpose of a call, the most urgent first. Within the short window, [`Purpose::Reread`] leaves the most room for
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Buys an address. This is as urgent as an assignment, and has a limit of its own.
    Create,
    /// Moves an address, or reads a fact that any move depends on.
    Assign,
    /// Reads where one address is.
    Look,
    /// Changes or reads DNS records.
    Dns,
    /// Looks whether something has changed.
    Poll,
    /// Looks whether DNS records that are known have changed, or whether the account has an address that it was never
    /// seen to have.
    Reread,
    /// Changes or reads firewalls. Calls that move addresses or change records come first.
    Firewall,
    /// Gives an address back, for which nobody waits.
    Reclaim,
}

/// The reason why a call may not be sent yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The provider asked for a pause until then.
    Paused(Moment),
    /// The long quota is used up, or the rest of it is kept for more urgent calls. Some of it comes back at this time.
    UsedUp(Moment),
    /// The short window is full. Room comes back all the time.
    Full,
}

/// The first calls after an outage.
#[derive(Debug, Clone)]
struct Ramp {
    began: Moment,
    /// When the calls under way were sent.
    running: VecDeque<Moment>,
    /// How many have succeeded.
    succeeded: usize,
}

/// The budget of one token.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    limits: Limits,
    sends: VecDeque<Moment>,
    creations: VecDeque<Moment>,
    /// The objects for which requests were started, with the moments.
    started: VecDeque<(Moment, Uid)>,
    /// Until when each object waits that was not admitted.
    waiting: BTreeMap<Uid, Moment>,
    /// Requests that rounds under way will still send, at unknown times.
    reserved: u64,
    report: RateReport,
    /// Calls announced with [`Budget::sent`] and [`Budget::reserve`] under the present token.
    announced: u64,
    /// Requests since the quota was observed.
    since_quota: u64,
    /// The last request sent while the quota was used up.
    probe: Option<Moment>,
    /// The first calls after an outage, until enough of them have succeeded.
    ramp: Option<Ramp>,
}

impl Budget {
    /// A budget that has sent nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Notes that an outage is over. At first only a few calls run at a time.
    pub fn outage_ended(&mut self, now: Moment) {
        self.ramp = Some(Ramp { began: now, running: VecDeque::new(), succeeded: 0 });
    }

    /// Notes that a call ended that began at `begun`.
    pub fn answered(&mut self, begun: Moment, succeeded: bool) {
        let Some(ramp) = self.ramp.as_mut().filter(|ramp| begun >= ramp.began) else { return };
        ramp.running.pop_front();
        ramp.succeeded += usize::from(succeeded);
        if ramp.succeeded >= RAMP {
            self.ramp = None;
        }
    }

    /// Takes in the latest facts of the provider layer.
    pub fn observe(&mut self, now: Moment, report: &RateReport) {
        if report.token_generation != self.report.token_generation {
            // The window of requests stays: several tokens may belong to one account.
            self.announced = 0;
            self.since_quota = 0;
            self.probe = None;
        }
        let fresh = report.quota != self.report.quota;
        if fresh {
            self.since_quota = 0;
            self.probe = None;
        }
        self.report = *report;
        // The pages of a list after the first one are sent without an announcement.
        let unannounced = report.requests.saturating_sub(self.announced);
        for _ in 0..unannounced.min(self.capacity()) {
            self.sends.push_back(now);
        }
        if !fresh {
            self.since_quota = self.since_quota.saturating_add(unannounced);
        }
        self.announced = self.announced.max(report.requests);
        self.forget(now);
    }

    /// The reason why a call of this purpose may not be sent now, if there is one.
    pub fn held(&self, purpose: Purpose, now: Moment) -> Option<Held> {
        let later = |until: Option<Moment>| until.filter(|until| *until > now);
        let paused = later(self.report.blocked_until).map(Held::Paused);
        let used_up = || later(self.quota_frees(purpose, now)).map(Held::UsedUp);
        let full = || later(self.window_frees(purpose, now)).map(|_| Held::Full);
        paused.or_else(used_up).or_else(full)
    }

    /// Whether a call may be sent now.
    ///
    /// # Errors
    /// The moment, later than `now`, at which to ask again.
    pub fn admit(&mut self, purpose: Purpose, now: Moment) -> Result<(), Moment> {
        self.forget(now);
        let waits = [
            self.report.blocked_until,
            self.window_frees(purpose, now),
            self.creation_frees(purpose, now),
            self.quota_frees(purpose, now),
            self.ramp_frees(purpose, now),
        ];
        match waits.into_iter().flatten().filter(|wait| *wait > now).max() {
            Some(wait) => Err(wait),
            None => Ok(()),
        }
    }

    /// The same for a call for one object, which leaves room to others that wait.
    ///
    /// # Errors
    /// Like [`Budget::admit`].
    pub fn admit_for(&mut self, object: &Uid, purpose: Purpose, now: Moment) -> Result<(), Moment> {
        let mut admitted = self.admit(purpose, now);
        self.waiting.remove(object);
        self.waiting.retain(|_, until| until.plus_millis(WAITS_MS) > now);
        if admitted.is_ok() && !self.waiting.is_empty() {
            let own = self.started.iter().filter(|(_, other)| other == object).map(|(at, _)| *at).collect();
            let allowed = usize::try_from(share(self.capacity(), OBJECT_PERCENT)).unwrap_or(usize::MAX);
            let frees = frees(&own, allowed, self.limits.window_ms, now);
            admitted = frees.filter(|at| *at > now).map_or(Ok(()), Err);
        }
        if let Err(until) = admitted {
            self.waiting.insert(object.clone(), until);
        }
        admitted
    }

    /// Counts a call for one object.
    pub fn started_for(&mut self, object: &Uid, now: Moment) {
        self.started.push_back((now, object.clone()));
    }

    /// Counts an admitted call that is about to be sent.
    pub fn sent(&mut self, purpose: Purpose, now: Moment) {
        self.forget(now);
        self.sends.push_back(now);
        if purpose == Purpose::Create {
            self.creations.push_back(now);
        }
        if self.quota_low(purpose) {
            self.probe = Some(now);
        }
        self.ramp.iter_mut().for_each(|ramp| ramp.running.push_back(now));
        self.announced = self.announced.saturating_add(1);
        self.since_quota = self.since_quota.saturating_add(1);
    }

    /// Reserves one more request for a round whose first request is sent now. False if there is no room for it. The
    /// round may send it at any time before its end, which the caller reports with [`Budget::release`].
    pub fn reserve(&mut self, purpose: Purpose, now: Moment) -> bool {
        if self.reserved >= share(self.capacity(), RESERVED_PERCENT) || self.admit(purpose, now).is_err() {
            return false;
        }
        self.reserved = self.reserved.saturating_add(1);
        self.announced = self.announced.saturating_add(1);
        self.since_quota = self.since_quota.saturating_add(1);
        true
    }

    /// Ends a round: `sent` of its `reserved` requests were sent, and the rest are returned.
    pub fn release(&mut self, reserved: usize, sent: usize, now: Moment) {
        self.reserved = self.reserved.saturating_sub(u64::try_from(reserved).unwrap_or(u64::MAX));
        self.sends.extend(std::iter::repeat_n(now, sent));
        (sent..reserved).for_each(|_| self.not_sent());
        self.forget(now);
    }

    /// Takes back a call that was announced with [`Budget::sent`] and then not sent, for lack of a permit. It stays in
    /// the windows, which is harmless because nothing may be written then. It leaves the count that is compared with
    /// the report.
    pub fn not_sent(&mut self) {
        self.announced = self.announced.saturating_sub(1);
        self.since_quota = self.since_quota.saturating_sub(1);
    }

    /// Requests left in the quota, as far as known.
    pub fn remaining(&self) -> Option<u64> {
        self.report.quota.map(|quota| quota.remaining.saturating_sub(self.since_quota))
    }

    fn capacity(&self) -> u64 {
        u64::try_from(self.limits.requests).unwrap_or(u64::MAX)
    }

    fn forget(&mut self, now: Moment) {
        let over = |at: &Moment, window: u64| at.plus_millis(window) <= now;
        while self.sends.front().is_some_and(|at| over(at, self.limits.window_ms))
            // A list grew beyond the window's limit. Its newest entries are enough for the decision.
            || self.sends.len() > self.limits.requests
        {
            self.sends.pop_front();
        }
        while self.started.front().is_some_and(|(at, _)| over(at, self.limits.window_ms)) {
            self.started.pop_front();
        }
        while self.creations.front().is_some_and(|at| over(at, self.limits.creation_window_ms)) {
            self.creations.pop_front();
        }
    }

    /// When enough of the window's sends have expired for one more of this purpose; `None` when they have already.
    fn window_frees(&self, purpose: Purpose, now: Moment) -> Option<Moment> {
        let kept = match purpose {
            Purpose::Create | Purpose::Assign => 0,
            Purpose::Look | Purpose::Dns => KEPT_FROM_DNS_PERCENT,
            Purpose::Poll | Purpose::Firewall | Purpose::Reclaim => KEPT_FROM_POLLS_PERCENT,
            Purpose::Reread => KEPT_FROM_REREADS_PERCENT,
        };
        let allowed = usize::try_from(share(self.capacity(), 100 - kept)).unwrap_or(usize::MAX);
        let reserved = usize::try_from(self.reserved).unwrap_or(usize::MAX);
        frees(&self.sends, allowed.saturating_sub(reserved), self.limits.window_ms, now)
    }

    fn creation_frees(&self, purpose: Purpose, now: Moment) -> Option<Moment> {
        if purpose != Purpose::Create {
            return None;
        }
        frees(&self.creations, self.limits.creations, self.limits.creation_window_ms, now)
    }

    /// When to ask again while enough calls run for a provider that has just come back.
    fn ramp_frees(&self, purpose: Purpose, now: Moment) -> Option<Moment> {
        let kept = match purpose {
            Purpose::Create | Purpose::Assign | Purpose::Look | Purpose::Poll => 0,
            Purpose::Dns => RAMP_KEPT_FROM_DNS_PERCENT,
            Purpose::Reread | Purpose::Firewall | Purpose::Reclaim => RAMP_KEPT_FROM_OTHERS_PERCENT,
        };
        let room = share(u64::try_from(RAMP).unwrap_or(u64::MAX), 100 - kept);
        let running = self.ramp.iter().flat_map(|ramp| &ramp.running);
        let running = running.filter(|sent| now.millis_since(**sent) < PROBE_MS).count();
        (u64::try_from(running).unwrap_or(u64::MAX) >= room).then(|| now.plus_millis(RAMP_ASKS_MS))
    }

    /// When the quota may be tried again; `None` while there is enough of it.
    fn quota_frees(&self, purpose: Purpose, now: Moment) -> Option<Moment> {
        if !self.quota_low(purpose) {
            return None;
        }
        let reset_at = self.report.quota?.reset_at;
        let answer_due = self.probe.map(|sent| sent.plus_millis(PROBE_MS)).filter(|due| *due > now);
        Some(answer_due.map_or(reset_at, |due| due.max(reset_at)))
    }

    fn quota_low(&self, purpose: Purpose) -> bool {
        let Some(quota) = self.report.quota else { return false };
        let kept = match purpose {
            Purpose::Create | Purpose::Assign => 0,
            Purpose::Look | Purpose::Dns => QUOTA_KEPT_FROM_DNS_PERCENT,
            Purpose::Poll | Purpose::Reread | Purpose::Firewall | Purpose::Reclaim => {
                QUOTA_KEPT_FROM_POLLS_PERCENT
            }
        };
        let kept = quota.limit.map_or(0, |limit| share(limit, kept));
        quota.remaining.saturating_sub(self.since_quota) <= kept
    }
}

fn share(whole: u64, percent: u64) -> u64 {
    whole.saturating_mul(percent) / 100
}

/// When fewer than `allowed` of `times` lie within the window; `None` when that is so already.
fn frees(times: &VecDeque<Moment>, allowed: usize, window_ms: u64, now: Moment) -> Option<Moment> {
    let surplus = times.len().checked_sub(allowed)?;
    // If nothing is allowed at all, the caller still waits a whole window, so it does not ask in a tight loop. The end
    // of a round also makes room, and a plan follows it anyway.
    Some(times.get(surplus).copied().unwrap_or(now).plus_millis(window_ms))
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;

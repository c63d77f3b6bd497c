//! The elector: client-go's protocol on the Lease.
//!
//! It differs from client-go in three ways. No elector of client-go can notice them.
//!
//! - It also watches the Lease.
//! - It keeps trying after the renew deadline. That is safe, because the permit has ended by then.
//! - It recreates a *deleted* lease at once only while its own permit lasts, or if it never saw a lease. Otherwise it
//!   treats the deletion as one more change of the record and waits for a full lease duration: a holder's permit
//!   outlives the lease, and the last record seen, even a released one, may not be the latest.

use super::api_recovery::{FailureLog, Returns, Sort};
use super::lease_watch::{Sight, sights};
use super::record::{self, LEASE_DURATION_MS};
use super::{LEASE_NAME, LeaderHandle, LeaderOutcome, LeaderState, Order};
use crate::clock::Clock;
use crate::kube::objects::FIELD_MANAGER;
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::liveness::Heartbeat;
use crate::permit::PermitSource;
use crate::random::Random;
use flipop_core::model::Moment;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time between two tries. The Go operator's retry period, and client-go's default.
const RETRY_MS: u64 = 2_000;

/// client-go's `JitterFactor` of 1.2: a standby waits up to this much longer than [`RETRY_MS`].
const RETRY_JITTER_MS: u64 = 2_400;

/// Longest wait for one call on the lease. Three such calls fit into a permit.
const CALL_TIMEOUT_MS: u64 = 3_000;

/// Longest wait for a release. A shutdown of 10 s has about this much left after it waits 8 s for other calls.
pub(crate) const RELEASE_MS: u64 = 1_000;

/// Most rounds of one try. A holder that still collides with other writers waits for the next try.
const MAX_ROUNDS: usize = 3;

/// The lease counts as missing throughout if two looks find none and are no further apart than this. Must exceed the
/// longest time between two tries.
const MISSING_GAP_MS: u64 = 6_000;

/// The settings of an elector, apart from its clients.
#[derive(Debug, Clone)]
pub struct ElectorSettings {
    /// `<hostname>_<uuid>`; no two processes ever share one.
    pub identity: String,
    /// The operator's namespace.
    pub namespace: String,
    /// Monotonic clock and wall clock.
    pub clock: Clock,
    /// Source of the jitter of polls.
    pub random: Random,
    /// Extended by each renewal.
    pub permits: PermitSource,
    /// Beats on every turn of the loop.
    pub heartbeat: Option<Heartbeat>,
}

/// The last record seen, and since when it has been unchanged.
struct Observed {
    lease: Lease,
    since: Moment,
}

/// The lease was looked for and is missing.
#[derive(Clone, Copy)]
struct Missing {
    since: Moment,
    seen_at: Moment,
}

/// Our hold on the lease.
struct Hold {
    since: Moment,
}

/// The result of a try.
enum Try {
    /// We hold the lease, by a write sent at this moment.
    Held { sent_at: Moment },
    /// Someone else holds it. If `holder` is empty, nobody does, but we may not take it now.
    Other { holder: String },
    /// We held it, and someone else now has it.
    Lost { holder: String },
    /// Someone wrote between our read and our write. Read again at once to learn who.
    Again,
    /// Nothing new was learned.
    Failed(Trouble),
}

/// The next step after the watch shows a change of the lease.
enum Reaction {
    Nothing,
    Try,
    Lost { holder: String },
}

/// Competes for the Lease and keeps it.
pub struct Elector {
    settings: ElectorSettings,
    state: watch::Sender<LeaderState>,
    orders: watch::Receiver<Order>,
    returns: Returns,
    observed: Option<Observed>,
    missing: Option<Missing>,
    hold: Option<Hold>,
    failure_log: FailureLog,
}

impl Elector {
    /// A new elector, not yet started, and its handle.
    pub fn new(settings: ElectorSettings) -> (Self, LeaderHandle) {
        let state = watch::Sender::new(LeaderState::Starting);
        let returns = Returns::new();
        let orders = watch::Sender::new(Order::Compete);
        let handle =
            LeaderHandle { state: state.subscribe(), returns: returns.subscribe(), orders: orders.clone() };
        let orders = orders.subscribe();
        let elector = Self {
            settings,
            state,
            orders,
            returns,
            observed: None,
            missing: None,
            hold: None,
            failure_log: FailureLog::default(),
        };
        (elector, handle)
    }

    /// Runs until it is cancelled, or the lease is released or lost. `calls` must not retry by itself; `watches` must
    /// tolerate a minute of silence.
    pub async fn run(mut self, calls: Client, watches: Client, cancel: CancellationToken) -> LeaderOutcome {
        let api = Api::namespaced(calls, &self.settings.namespace);
        let lookout = Api::namespaced(watches, &self.settings.namespace);
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => LeaderOutcome::Stopped,
            outcome = self.compete(&api, lookout) => outcome,
        };
        self.settings.permits.revoke();
        match &outcome {
            LeaderOutcome::Lost { holder } => {
                tracing::warn!(holder, "lost the lease");
                self.state.send_replace(LeaderState::Lost { holder: holder.clone() });
            }
            LeaderOutcome::Stopped | LeaderOutcome::Released | LeaderOutcome::NotReleased => {
                self.state.send_replace(LeaderState::Ended);
            }
        }
        outcome
    }

    async fn compete(&mut self, api: &Api<Lease>, watched: Api<Lease>) -> LeaderOutcome {
        let mut sights = sights(watched, self.settings.clock.clone());
        loop {
            self.beat();
            let order = *self.orders.borrow_and_update();
            if order == Order::Release {
                return self.release(api).await;
            }
            let started_at = self.now();
            match self.attempt(api, order).await {
                Try::Held { sent_at } => self.held(sent_at),
                Try::Other { holder } => self.stands_by(holder),
                Try::Lost { holder } => return LeaderOutcome::Lost { holder },
                Try::Again => self.failed(&Trouble::new(TroubleKind::Conflict, "others write the lease too")),
                Try::Failed(trouble) => self.failed(&trouble),
            }
            if let Some(holder) = self.wait(self.next_try(started_at), &mut sights).await {
                return LeaderOutcome::Lost { holder };
            }
        }
    }

    /// Waits for the next try. Returns the new holder if the watch shows that it took the lease from us.
    async fn wait(&mut self, next: Moment, sights: &mut BoxStream<'static, Sight>) -> Option<String> {
        let clock = self.settings.clock.clone();
        loop {
            self.beat();
            tokio::select! {
                biased;
                Ok(()) = self.orders.changed() => return None,
                () = clock.sleep_until(next.min(clock.now().plus_millis(RETRY_MS))) => {
                    if clock.now() >= next {
                        return None;
                    }
                }
                Some(sight) = sights.next() => match self.react(sight) {
                    Reaction::Nothing => {}
                    Reaction::Try => return None,
                    Reaction::Lost { holder } => return Some(holder),
                },
            }
        }
    }

    /// One try. Repeats the round while others write in between.
    async fn attempt(&mut self, api: &Api<Lease>, order: Order) -> Try {
        for _ in 0..MAX_ROUNDS {
            let outcome = self.round(api, order).await;
            if !matches!(outcome, Try::Again) {
                return outcome;
            }
        }
        Try::Again
    }

    /// One round of client-go's `tryAcquireOrRenew`.
    async fn round(&mut self, api: &Api<Lease>, order: Order) -> Try {
        if self.hold.is_some() && self.expires_at().is_some_and(|end| end > self.now()) {
            match self.renew(api).await {
                Err(trouble) if matches!(trouble.kind, TroubleKind::Conflict | TroubleKind::NotFound) => {}
                Err(trouble) => return Try::Failed(trouble),
                Ok(sent_at) => return Try::Held { sent_at },
            }
        }
        match self.call(Sort::Read, api.get(LEASE_NAME)).await {
            Err(trouble) if trouble.kind == TroubleKind::NotFound => self.create(api, order).await,
            Err(trouble) => Try::Failed(trouble),
            Ok(lease) => {
                self.observe(lease);
                self.take_or_renew(api, order).await
            }
        }
    }

    /// The lease is there, freshly read.
    async fn take_or_renew(&mut self, api: &Api<Lease>, order: Order) -> Try {
        let Some(observed) = &self.observed else {
            return Try::Failed(Trouble::new(TroubleKind::Undecodable, "no lease was read"));
        };
        let holder = record::holder(&observed.lease).to_owned();
        if holder == self.settings.identity {
            return match self.renew(api).await {
                Ok(sent_at) => Try::Held { sent_at },
                Err(trouble) if trouble.kind == TroubleKind::Conflict => Try::Again,
                Err(trouble) => Try::Failed(trouble),
            };
        }
        if self.hold.is_some() {
            return Try::Lost { holder };
        }
        let expired = self.expires_at().is_none_or(|end| end <= self.now());
        if order != Order::Compete || (!holder.is_empty() && !expired) {
            return Try::Other { holder };
        }
        let lease = record::taken(&observed.lease, &self.settings.identity, self.settings.clock.timestamp());
        match self.replace(api, &lease).await {
            Ok(sent_at) => Try::Held { sent_at },
            // Another standby was faster.
            Err(trouble) if trouble.kind == TroubleKind::Conflict => Try::Other { holder: String::new() },
            Err(trouble) => Try::Failed(trouble),
        }
    }

    /// There is no lease.
    async fn create(&mut self, api: &Api<Lease>, order: Order) -> Try {
        let free_at = self.misses();
        let holds = self.hold.is_some();
        let may_write = holds && self.settings.permits.ends_at().is_some();
        if let Some(observed) = self.observed.as_ref().filter(|_| !may_write && free_at > self.now()) {
            let holder = record::holder(&observed.lease).to_owned();
            let trouble = Trouble::new(TroubleKind::NotFound, "the lease was deleted");
            return if holds { Try::Failed(trouble) } else { Try::Other { holder } };
        }
        if !holds && order != Order::Compete {
            return Try::Other { holder: String::new() };
        }
        let now = self.settings.clock.timestamp();
        let lease = record::first(LEASE_NAME, &self.settings.namespace, &self.settings.identity, now);
        let sent_at = self.now();
        match self.call(Sort::Write, api.create(&params(), &lease)).await {
            Ok(lease) => {
                self.observe(lease);
                Try::Held { sent_at }
            }
            Err(trouble) if trouble.kind == TroubleKind::Conflict => Try::Again,
            Err(trouble) => Try::Failed(trouble),
        }
    }

    /// Renews the lease as last seen. Returns when the renewal was sent.
    async fn renew(&mut self, api: &Api<Lease>) -> Result<Moment, Trouble> {
        let now = self.settings.clock.timestamp();
        let Some(observed) = &self.observed else {
            return Err(Trouble::new(TroubleKind::NotFound, "no lease was seen yet"));
        };
        let lease = record::renewed(&observed.lease, &self.settings.identity, now);
        self.replace(api, &lease).await
    }

    async fn replace(&mut self, api: &Api<Lease>, lease: &Lease) -> Result<Moment, Trouble> {
        let sent_at = self.now();
        let lease = self.call(Sort::Write, api.replace(LEASE_NAME, &params(), lease)).await?;
        self.observe(lease);
        Ok(sent_at)
    }

    async fn call(
        &mut self,
        sort: Sort,
        call: impl Future<Output = kube::Result<Lease>>,
    ) -> Result<Lease, Trouble> {
        let answer = match tokio::time::timeout(Duration::from_millis(CALL_TIMEOUT_MS), call).await {
            Ok(answer) => answer.map_err(Trouble::from),
            Err(_elapsed) => Err(Trouble::timed_out(CALL_TIMEOUT_MS)),
        };
        self.beat();
        self.returns.note(sort, &answer);
        answer
    }

    /// Records that the lease is missing. Returns when a former holder can no longer believe that it holds the lease.
    fn misses(&mut self) -> Moment {
        let now = self.now();
        let before = self.missing.filter(|missing| now.millis_since(missing.seen_at) <= MISSING_GAP_MS);
        let since = before.map_or(now, |missing| missing.since);
        self.missing = Some(Missing { since, seen_at: now });
        since.plus_millis(LEASE_DURATION_MS)
    }

    /// Records the lease as read. The record's age restarts only if its spec changed; metadata does not count.
    fn observe(&mut self, lease: Lease) {
        self.missing = None;
        let unchanged = self.observed.as_ref().filter(|observed| observed.lease.spec == lease.spec);
        let since = unchanged.map_or_else(|| self.now(), |observed| observed.since);
        self.observed = Some(Observed { lease, since });
    }

    /// Reacts to a change of the lease that the watch shows.
    fn react(&mut self, sight: Sight) -> Reaction {
        let lease = match sight {
            Sight::Deleted => return Reaction::Try,
            Sight::Changed(lease) => lease,
        };
        let known = self.observed.as_ref().and_then(|observed| record::version(&observed.lease));
        // The watch may lag behind our own calls.
        let newer = record::version(&lease).is_some_and(|version| known.is_none_or(|known| version > known));
        let holder = record::holder(&lease).to_owned();
        if !newer || holder == self.settings.identity {
            return Reaction::Nothing;
        }
        self.observe(*lease);
        if self.hold.is_some() {
            return Reaction::Lost { holder };
        }
        if holder.is_empty() { Reaction::Try } else { Reaction::Nothing }
    }

    fn held(&mut self, sent_at: Moment) {
        self.failure_log.ended();
        let term = self.observed.as_ref().map_or(0, |observed| record::transitions(&observed.lease));
        let lapsed = self.settings.permits.extend(sent_at);
        let new = self.hold.is_none();
        let since = self.hold.as_ref().map_or_else(|| self.now(), |hold| hold.since);
        self.hold = Some(Hold { since });
        if new || lapsed || !matches!(*self.state.borrow(), LeaderState::Leading { .. }) {
            let permit = self.settings.permits.permit();
            let what = if new { "took the lease" } else { "renewed the lease after a gap" };
            tracing::info!(term, epoch = permit.epoch(), identity = self.settings.identity, "{what}");
            self.state.send_replace(LeaderState::Leading { term, since, permit });
        }
    }

    fn stands_by(&mut self, holder: String) {
        self.failure_log.ended();
        let known = match &*self.state.borrow() {
            LeaderState::Standby { holder: known } => *known == holder,
            LeaderState::Starting
            | LeaderState::Leading { .. }
            | LeaderState::Lapsed { .. }
            | LeaderState::Lost { .. }
            | LeaderState::Ended => false,
        };
        if !known {
            tracing::info!(holder, "standing by");
            self.state.send_replace(LeaderState::Standby { holder });
        }
    }

    fn failed(&mut self, trouble: &Trouble) {
        let over = self.settings.permits.ends_at().is_none();
        if matches!(*self.state.borrow(), LeaderState::Leading { .. }) && over {
            tracing::warn!("could not renew the lease, so nothing is written until it is renewed: {trouble}");
            self.failure_log.warned(trouble);
            self.state.send_replace(LeaderState::Lapsed { since: self.now() });
        } else if self.failure_log.failed(trouble) {
            tracing::warn!("failed to use the lease {LEASE_NAME}: {trouble}");
        } else {
            tracing::debug!("failed to use the lease: {trouble}");
        }
    }

    /// When to try next if no event comes first.
    fn next_try(&self, started_at: Moment) -> Moment {
        if self.hold.is_some() {
            return started_at.plus_millis(RETRY_MS);
        }
        let poll = RETRY_MS.saturating_add(self.settings.random.below(RETRY_JITTER_MS));
        let poll = self.now().plus_millis(poll);
        // Try when a silent holder's time is up, if that comes first.
        self.expires_at().filter(|end| *end > self.now()).map_or(poll, |end| end.min(poll))
    }

    /// When the record last seen expires, or when the absence of the lease counts.
    fn expires_at(&self) -> Option<Moment> {
        if let Some(missing) = self.missing {
            return Some(missing.since.plus_millis(LEASE_DURATION_MS));
        }
        self.observed.as_ref().map(|observed| {
            // A released record says 1 s. A record with a holder is trusted for at least our own duration.
            let least = if record::holder(&observed.lease).is_empty() { 0 } else { LEASE_DURATION_MS };
            observed.since.plus_millis(record::duration_ms(&observed.lease).max(least))
        })
    }

    /// Releases the lease if it is ours.
    async fn release(&mut self, api: &Api<Lease>) -> LeaderOutcome {
        self.settings.permits.revoke();
        if self.hold.is_none() {
            return LeaderOutcome::Stopped;
        }
        let released = tokio::time::timeout(Duration::from_millis(RELEASE_MS), self.write_release(api)).await;
        match released {
            Ok(Ok(())) => {
                tracing::info!("released the lease");
                LeaderOutcome::Released
            }
            Ok(Err(trouble)) => {
                tracing::warn!("failed to release the lease, it will expire: {trouble}");
                LeaderOutcome::NotReleased
            }
            Err(_elapsed) => {
                tracing::warn!("failed to release the lease in time, it will expire");
                LeaderOutcome::NotReleased
            }
        }
    }

    async fn write_release(&mut self, api: &Api<Lease>) -> Result<(), Trouble> {
        for last in [false, true] {
            let Some(observed) = &self.observed else { break };
            if record::holder(&observed.lease) != self.settings.identity {
                break;
            }
            let lease = record::released(&observed.lease, self.settings.clock.timestamp());
            match self.replace(api, &lease).await {
                Ok(_) => return Ok(()),
                Err(trouble) if trouble.kind == TroubleKind::Conflict && !last => {
                    let lease = self.call(Sort::Read, api.get(LEASE_NAME)).await?;
                    self.observe(lease);
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Err(Trouble::new(TroubleKind::Conflict, "someone else has it"))
    }

    fn now(&self) -> Moment {
        self.settings.clock.now()
    }

    fn beat(&self) {
        if let Some(heartbeat) = &self.settings.heartbeat {
            heartbeat.beat();
        }
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

//! The right to write, and its end.
//!
//! A permit ends [`PERMIT_MS`] after the last successful renewal of the lease was *sent*. The elector holds the
//! [`PermitSource`] and extends it. Every mutating call holds a [`Permit`], checks [`Permit::may_start`] right before
//! its bytes are written, and gives up when [`Permit::ended`] resolves.
//!
//! Invariant: a permit that has ended never comes back. A late renewal opens a new *epoch*, and only permits taken in
//! that epoch are valid. A decision made before the gap cannot be carried out after it.

pub(crate) mod gate;

use crate::clock::Clock;
use crate::latest;
use flipop_core::model::Moment;
use std::sync::Arc;

/// Life of a permit, counted from the sending of a renewal. The Go operator's renew deadline.
pub const PERMIT_MS: u64 = 10_000;

/// A mutating call may start only while at least this much of the permit is left.
pub const MIN_REMAINING_MS: u64 = 3_000;

/// The permit is over, or too little of it is left to start a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the leader: no valid permit to write")]
pub struct PermitEnded;

/// The grant so far.
#[derive(Debug, Clone, Copy, Default)]
struct Grant {
    epoch: u64,
    ends_at: Option<Moment>,
    /// The process is ending.
    closing: bool,
}

/// The elector's side.
#[derive(Debug, Clone)]
pub struct PermitSource {
    grant: Arc<latest::Sender<Grant>>,
    clock: Clock,
}

impl PermitSource {
    /// A source that has granted nothing yet.
    pub fn new(clock: Clock) -> Self {
        Self { grant: Arc::new(latest::Sender::new(Grant::default())), clock }
    }

    /// A renewal sent at `sent_at` succeeded. Returns true if the permit had ended before this answer came. Permits
    /// taken earlier are then void for good.
    pub fn extend(&self, sent_at: Moment) -> bool {
        let now = self.clock.now();
        let ends_at = sent_at.plus_millis(PERMIT_MS);
        let mut lapsed = false;
        self.grant.send_modify(|grant| {
            lapsed = grant.ends_at.is_some_and(|end| end <= now);
            if lapsed {
                *grant = Grant { epoch: grant.epoch.saturating_add(1), ends_at: Some(ends_at), ..*grant };
            } else {
                grant.ends_at = Some(grant.ends_at.map_or(ends_at, |end| end.max(ends_at)));
            }
        });
        lapsed
    }

    /// The lease is lost or released. From now on nothing may start.
    pub fn revoke(&self) {
        self.grant.send_modify(|grant| {
            *grant = Grant { epoch: grant.epoch.saturating_add(1), ends_at: None, ..*grant };
        });
    }

    /// The process is ending. Calls in flight finish, but no series of calls continues.
    pub fn close(&self) {
        self.grant.send_modify(|grant| grant.closing = true);
    }

    /// When the current grant ends, if it has not ended.
    pub fn ends_at(&self) -> Option<Moment> {
        let now = self.clock.now();
        self.grant.latest().ends_at.filter(|end| *end > now)
    }

    /// A permit of the current epoch.
    pub fn permit(&self) -> Permit {
        let grant = self.grant.subscribe();
        let epoch = grant.latest().epoch;
        Permit { grant, epoch, clock: self.clock.clone() }
    }
}

/// The caller's side. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Permit {
    grant: latest::Receiver<Grant>,
    epoch: u64,
    clock: Clock,
}

impl Permit {
    /// Whether a mutating call may start now.
    ///
    /// # Errors
    /// [`PermitEnded`] if less than [`MIN_REMAINING_MS`] is left.
    pub fn may_start(&self) -> Result<(), PermitEnded> {
        match self.ends_at() {
            Some(end) if end.millis_since(self.clock.now()) >= MIN_REMAINING_MS => Ok(()),
            Some(_) | None => Err(PermitEnded),
        }
    }

    /// Whether a series of calls may continue with its next call.
    pub fn may_go_on(&self) -> bool {
        !self.grant.latest().closing
    }

    /// The end as granted so far. `None` if this permit is void.
    pub fn ends_at(&self) -> Option<Moment> {
        let grant = self.grant.latest();
        grant.ends_at.filter(|_| grant.epoch == self.epoch)
    }

    /// Counts the gaps between permits. A holder that sees a new epoch must read before it writes.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Resolves when the permit ends, counting renewals made meanwhile.
    pub async fn ended(&self) {
        let mut grant = self.grant.clone();
        loop {
            let Grant { epoch, ends_at, .. } = grant.see();
            let Some(end) = ends_at.filter(|_| epoch == self.epoch) else { return };
            if end <= self.clock.now() {
                return;
            }
            tokio::select! {
                biased;
                () = self.clock.sleep_until(end) => {}
                changed = grant.changed() => if changed.is_err() { return },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn source() -> (Clock, PermitSource) {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        (clock.clone(), PermitSource::new(clock))
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_is_closed_stays_closed_and_lets_what_was_begun_end() {
        let (clock, source) = source();
        source.extend(clock.now());
        let permit = source.permit();
        assert!(permit.may_go_on());
        source.close();
        assert_eq!((permit.may_go_on(), permit.may_start()), (false, Ok(())));
        source.extend(clock.now());
        assert!(!permit.may_go_on(), "renewals go on meanwhile");
        tokio::time::advance(Duration::from_millis(PERMIT_MS)).await;
        source.extend(clock.now());
        assert!(!source.permit().may_go_on());
        source.revoke();
        assert!(!source.permit().may_go_on());
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_lasts_ten_seconds_from_the_sending_and_starts_nothing_in_the_last_three() {
        let (clock, source) = source();
        let permit = source.permit();
        assert_eq!(permit.may_start(), Err(PermitEnded));
        let sent_at = clock.now();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!source.extend(sent_at));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(permit.may_start(), Ok(()));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(permit.may_start(), Err(PermitEnded));
        permit.ended().await;
        assert_eq!(clock.now().millis_since(sent_at), PERMIT_MS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_in_time_prolongs_a_wait_for_the_end() {
        let (clock, source) = source();
        source.extend(clock.now());
        let permit = source.permit();
        let renewals = async {
            tokio::time::sleep(Duration::from_secs(8)).await;
            source.extend(clock.now());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = permit.ended() => {}
            () = renewals => {}
        }
        assert_eq!(clock.now().as_millis(), 18_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_ended_stays_void_after_a_late_renewal() {
        let (clock, source) = source();
        source.extend(clock.now());
        let old = source.permit();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(source.extend(clock.now()));
        assert_eq!(old.may_start(), Err(PermitEnded));
        old.ended().await;
        assert_eq!(source.permit().may_start(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn revoking_ends_every_permit_at_once() {
        let (clock, source) = source();
        source.extend(clock.now());
        let permit = source.permit();
        source.revoke();
        permit.ended().await;
        assert_eq!(permit.may_start(), Err(PermitEnded));
        assert_eq!(clock.now().as_millis(), 0);
    }
}

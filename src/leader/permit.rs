//! The right to write, and its end.
//!
//! A permit ends [`PERMIT_MS`] after the *sending* of the last successful renewal of the lease. The elector holds
//! the [`PermitSource`] and extends it; every mutating call holds a [`Permit`], asks [`Permit::may_start`] in the
//! last code of ours before its bytes are written, and stops waiting when [`Permit::ended`] resolves.

use crate::clock::Clock;
use flipop_core::moment::Moment;
use tokio::sync::watch;

/// Life of a permit, counted from the sending of a renewal: the renew deadline of the contract's Lease.
pub const PERMIT_MS: u64 = 10_000;

/// A mutating call may start only while this much of the permit is left.
pub const MIN_REMAINING_MS: u64 = 3_000;

/// The permit is over, or too little of it is left to start a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the leader: no valid permit to write")]
pub struct PermitEnded;

/// The elector's side.
#[derive(Debug)]
pub struct PermitSource {
    ends_at: watch::Sender<Option<Moment>>,
    clock: Clock,
}

impl PermitSource {
    /// A source that has granted nothing yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { ends_at: watch::Sender::new(None), clock }
    }

    /// A renewal that was sent at `sent_at` succeeded.
    pub fn extend(&self, sent_at: Moment) {
        self.ends_at.send_replace(Some(sent_at.plus_millis(PERMIT_MS)));
    }

    /// The lease is lost or given up: from now on nothing may start.
    pub fn revoke(&self) {
        self.ends_at.send_replace(None);
    }

    /// A permit that follows this source.
    #[must_use]
    pub fn permit(&self) -> Permit {
        Permit { ends_at: self.ends_at.subscribe(), clock: self.clock.clone() }
    }
}

/// A caller's side: cheap to clone.
#[derive(Debug, Clone)]
pub struct Permit {
    ends_at: watch::Receiver<Option<Moment>>,
    clock: Clock,
}

impl Permit {
    /// Whether a mutating call may start now.
    ///
    /// # Errors
    /// [`PermitEnded`] when less than [`MIN_REMAINING_MS`] are left.
    pub fn may_start(&self) -> Result<(), PermitEnded> {
        let ends_at = *self.ends_at.borrow();
        match ends_at {
            Some(end) if end.millis_since(self.clock.now()) >= MIN_REMAINING_MS => Ok(()),
            Some(_) | None => Err(PermitEnded),
        }
    }

    /// Resolves at the permit's end, as renewed meanwhile.
    pub async fn ended(&self) {
        let mut ends_at = self.ends_at.clone();
        loop {
            let end = *ends_at.borrow_and_update();
            let Some(end) = end else { return };
            if end <= self.clock.now() {
                return;
            }
            tokio::select! {
                () = self.clock.sleep_until(end) => {}
                changed = ends_at.changed() => if changed.is_err() { return },
            }
        }
    }
}

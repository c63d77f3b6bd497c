//! Tracks the mutating calls that may still have an effect. The lease may be released only if there are none.
//!
//! A call that was given up without an answer may still be on the network. It counts for as long as a lease lasts, so a
//! process that ends soon after it leaves its lease to expire.

use crate::clock::Clock;
use crate::kube::events::{Guard, Guards};
use crate::leader::record::LEASE_DURATION_MS;
use flipop_core::fleet::action::Outcome;
use flipop_core::model::{CallFailure, Moment};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Most writes of a status at once. Each takes a connection to the API server, and the first plan of many pools writes
/// the status of each.
pub(super) const MAX_STATUSES: usize = 32;

/// The mutating calls of the process. Clones of the [`Arc`] share it.
#[derive(Debug)]
pub struct Underway {
    clock: Clock,
    calls: AtomicUsize,
    given_up: Mutex<Option<Moment>>,
    statuses: Semaphore,
}

/// Counts one call until it is dropped, however its task ends.
#[derive(Debug)]
pub(super) struct Writing(Arc<Underway>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Guard for Writing {
    fn may_still_arrive(&self) {
        self.0.gave_up();
    }
}

impl Underway {
    /// No calls yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            calls: AtomicUsize::default(),
            given_up: Mutex::default(),
            statuses: Semaphore::new(MAX_STATUSES),
        }
    }

    pub(super) fn begin(self: &Arc<Self>) -> Writing {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Writing(Arc::clone(self))
    }

    /// Waits until fewer than [`MAX_STATUSES`] writes of a status are under way. The oldest wait ends first.
    pub(super) async fn turn_of_a_status(&self) -> Option<SemaphorePermit<'_>> {
        self.statuses.acquire().await.ok()
    }

    /// Makes guards that count notes as calls.
    pub fn guards(self: &Arc<Self>) -> Guards {
        let underway = Arc::clone(self);
        Arc::new(move || Box::new(underway.begin()))
    }

    /// Records that a call ended whose effect may still come.
    pub(super) fn gave_up(&self) {
        *self.given_up.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.clock.now());
    }

    /// Whether nothing that was sent can have an effect any more.
    pub fn is_over(&self) -> bool {
        let now = self.clock.now();
        let given_up = *self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = given_up.is_none_or(|moment| now.millis_since(moment) >= LEASE_DURATION_MS);
        settled && self.calls.load(Ordering::SeqCst) == 0
    }
}

/// Whether the outcome leaves open that the call may still have its effect.
pub(super) fn is_unknown(outcome: &mut Outcome) -> bool {
    let failure = match outcome {
        Outcome::Addresses(answer) => answer.reply.failure(),
        Outcome::Firewalls(answer) => answer.reply.failure(),
        Outcome::Records(answer) => answer.reply.failure(),
        // The writers of these report it themselves: they know more than the outcome says.
        Outcome::Annotated { .. }
        | Outcome::Labelled { .. }
        // A version guards these writes: they do nothing once somebody else has written.
        | Outcome::StatusWritten(..)
        | Outcome::RecordSetStatusWritten(..)
        | Outcome::IpsWritten { .. }
        | Outcome::FinalizerWritten { .. }
        // These calls change nothing.
        | Outcome::Swept(_)
        | Outcome::ObjectsListed(..)
        | Outcome::NodesCounted(_) | Outcome::NodeRead(..) => None,
    };
    matches!(failure, Some(CallFailure::Fault(fault)) if fault.outcome_unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipop_core::addresses::action::Reply;
    use flipop_core::mechanism::{Answer, Epoch};
    use flipop_core::model::{Address, Fault, FaultKind};
    use std::time::Duration;

    fn changed(outcome_unknown: bool) -> Outcome {
        let fault = Fault { outcome_unknown, ..Fault::new(FaultKind::Transient, String::new()) };
        let result = Err(CallFailure::Fault(fault));
        let (epoch, begun) = (Epoch::first("digitalocean".into()), Moment::default());
        let reply = Reply::Changed(Address::from([127, 0, 0, 1]), result);
        Answer { epoch, owner: None, begun, reply }.into()
    }

    #[test]
    fn a_call_to_a_provider_may_have_its_effect_later_if_its_fault_says_so() {
        assert!(is_unknown(&mut changed(true)) && !is_unknown(&mut changed(false)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_counts_until_it_ends_and_one_without_an_answer_for_a_lease_longer() {
        let underway = Arc::new(Underway::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH)));
        assert!(underway.is_over());
        let writing = underway.begin();
        assert!(!underway.is_over());
        drop(writing);
        assert!(underway.is_over());
        underway.gave_up();
        tokio::time::advance(Duration::from_millis(LEASE_DURATION_MS - 1)).await;
        assert!(!underway.is_over());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(underway.is_over());
    }
}

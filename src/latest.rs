//! A shared value with change notification.
//!
//! Like [`tokio::sync::watch`], which wakes waiters in random order. Here they wake in the order in which they began to
//! wait. So an event that many wait for (the end of a permit, the return of the API server) always takes the same
//! course, and a simulation can be replayed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
struct State<T> {
    value: T,
    version: u64,
    closed: bool,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changes: Notify,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody can change the value any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sender of the signal is gone")]
pub struct Closed;

/// Dropped with the last clone of a sender.
#[derive(Debug)]
struct Last<T>(Arc<Shared<T>>);

/// Changes the value. Clones change the same value.
#[derive(Debug)]
pub struct Sender<T>(Arc<Last<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Reads the value and waits for changes. A clone has seen what its original has seen.
#[derive(Debug, Clone)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T: Clone> Sender<T> {
    /// A signal with a first value.
    pub fn new(value: T) -> Self {
        let state = State { value, version: 0, closed: false };
        let shared = Shared { state: Mutex::new(state), changes: Notify::new() };
        Self(Arc::new(Last(Arc::new(shared))))
    }

    /// A receiver that has seen the current value.
    pub fn subscribe(&self) -> Receiver<T> {
        let shared = Arc::clone(&self.0.0);
        let seen = shared.lock().version;
        Receiver { shared, seen }
    }

    /// Changes the value and wakes all waiters.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Like [`Self::send_modify`], but wakes waiters only if `change` returns true.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) {
        {
            let mut state = self.0.0.lock();
            if !change(&mut state.value) {
                return;
            }
            state.version += 1;
        }
        self.0.0.changes.notify_waiters();
    }

    /// Replaces the value and wakes all waiters.
    pub fn send_replace(&self, new: T) {
        self.send_modify(|value| *value = new);
    }

    /// The current value.
    pub fn latest(&self) -> T {
        self.0.0.lock().value.clone()
    }
}

impl<T> Drop for Last<T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changes.notify_waiters();
    }
}

impl<T: Clone> Receiver<T> {
    /// The current value.
    pub fn latest(&self) -> T {
        self.shared.lock().value.clone()
    }

    /// The current value. Marks it as seen.
    pub fn see(&mut self) -> T {
        let state = self.shared.lock();
        self.seen = state.version;
        state.value.clone()
    }

    /// Marks the current value as seen.
    pub fn mark_seen(&mut self) {
        self.seen = self.shared.lock().version;
    }

    /// Whether the current value is unseen.
    pub fn has_changed(&self) -> bool {
        self.shared.lock().version != self.seen
    }

    /// Waits for an unseen value and marks it as seen.
    ///
    /// # Errors
    /// [`Closed`] if no new value can come.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let shared = Arc::clone(&self.shared);
        loop {
            let mut change = std::pin::pin!(shared.changes.notified());
            // From here on, no change is missed.
            change.as_mut().enable();
            {
                let state = shared.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.closed {
                    return Err(Closed);
                }
            }
            change.await;
        }
    }

    /// Waits until the value is `wanted`.
    ///
    /// # Errors
    /// [`Closed`] if no new value can come.
    pub async fn wait_for(&mut self, wanted: impl Fn(&T) -> bool) -> Result<T, Closed> {
        loop {
            let value = self.see();
            if wanted(&value) {
                return Ok(value);
            }
            self.changed().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio_util::task::TaskTracker;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_woken_in_the_order_in_which_they_began() {
        let (sender, order) = (Sender::new(0), Arc::new(Mutex::new(Vec::new())));
        let tracker = TaskTracker::new();
        for number in 0..20 {
            let (mut receiver, order) = (sender.subscribe(), Arc::clone(&order));
            tracker.spawn(async move {
                receiver.changed().await.unwrap();
                order.lock().unwrap().push(number);
            });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        sender.send_replace(1);
        tracker.close();
        tracker.wait().await;
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_is_told_once_to_each_and_none_is_missed() {
        let sender = Sender::new(0);
        let (mut one, mut other) = (sender.subscribe(), sender.subscribe());
        sender.send_modify(|value| *value += 1);
        assert!(one.has_changed());
        assert_eq!(one.see(), 1);
        assert!(!one.has_changed());
        assert_eq!(other.changed().await, Ok(()));
        sender.send_if_modified(|_| false);
        assert!(!other.has_changed());
        drop(sender);
        assert_eq!(
            (one.changed().await, other.wait_for(|value| *value > 1).await),
            (Err(Closed), Err(Closed))
        );
        assert_eq!(other.wait_for(|value| *value == 1).await, Ok(1));
    }
}

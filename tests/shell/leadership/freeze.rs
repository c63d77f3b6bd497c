//! A process that is stopped and continued. Its futures are not polled meanwhile, while time goes on.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

#[derive(Debug, Default)]
struct State {
    frozen: bool,
    waiting: Vec<Waker>,
}

/// The switch of one process. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Freezer(Arc<Mutex<State>>);

impl Freezer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn set(&self, frozen: bool) {
        let waiting = {
            let mut state = self.state();
            state.frozen = frozen;
            if frozen { Vec::new() } else { std::mem::take(&mut state.waiting) }
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Wraps a future of that process.
    pub(crate) fn wrap<F: Future>(&self, inner: F) -> Freezable<F> {
        Freezable { inner: Box::pin(inner), freezer: self.clone() }
    }
}

/// See [`Freezer::wrap`].
pub(crate) struct Freezable<F> {
    inner: Pin<Box<F>>,
    freezer: Freezer,
}

impl<F: Future> Future for Freezable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        {
            let mut state = self.freezer.state();
            if state.frozen {
                state.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.inner.as_mut().poll(context)
    }
}

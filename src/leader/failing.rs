//! Logs failing tries: one warning when they persist, one message when they are over.

use crate::kube::trouble::{Trouble, TroubleKind};

/// Failed tries in a row before a warning. Fewer are normal: servers restart.
const TRIES_TO_WARN: u32 = 3;

/// Failed tries in a row. A try that reads the lease but cannot write it has failed.
#[derive(Debug, Default)]
pub(super) struct Failing {
    tries: u32,
    warned: Option<TroubleKind>,
}

impl Failing {
    /// Counts one more failed try. Returns whether to warn, at most once per series.
    pub(super) fn failed(&mut self, trouble: &Trouble) -> bool {
        self.tries = self.tries.saturating_add(1);
        // These last until someone fixes them.
        let lasts = matches!(trouble.kind, TroubleKind::Forbidden | TroubleKind::Unauthorised);
        let warns = (lasts || self.tries >= TRIES_TO_WARN) && self.warned.is_none();
        if warns {
            self.warned(trouble);
        }
        warns
    }

    /// The caller has logged a warning of its own.
    pub(super) fn warned(&mut self, trouble: &Trouble) {
        self.warned = Some(trouble.kind);
    }

    /// A try succeeded.
    pub(super) fn ended(&mut self) {
        self.tries = 0;
        if let Some(kind) = self.warned.take() {
            tracing::info!(trouble = kind.label(), "the lease can be used again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_warned_of_once_and_what_lasts_at_once() {
        let (server, role) = (TroubleKind::ServerError, TroubleKind::Forbidden);
        let mut failing = Failing::default();
        let mut told = |kinds: &[TroubleKind]| -> Vec<bool> {
            let told = kinds.iter().map(|kind| failing.failed(&Trouble::new(*kind, "no"))).collect();
            failing.ended();
            told
        };
        assert_eq!(told(&[server; 5]), [false, false, true, false, false]);
        assert_eq!(told(&[server; 2]), [false, false]);
        assert_eq!(told(&[role, role]), [true, false]);
    }
}

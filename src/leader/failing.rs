//! What is said of tries that fail: once, when they go on, and once when they are over.

use crate::kube::trouble::{Trouble, TroubleKind};

/// Failed tries in a row before that is worth a warning: servers restart.
const TRIES_TO_WARN: u32 = 3;

/// Tries in a row that failed. A try that reads the lease and cannot write it has failed.
#[derive(Debug, Default)]
pub(super) struct Failing {
    tries: u32,
    warned: Option<TroubleKind>,
}

impl Failing {
    /// One more try failed. Answers whether to warn of it, which was not done yet.
    pub(super) fn failed(&mut self, trouble: &Trouble) -> bool {
        self.tries = self.tries.saturating_add(1);
        // Someone has to mend these.
        let lasts = matches!(trouble.kind, TroubleKind::Forbidden | TroubleKind::Unauthorised);
        let warns = (lasts || self.tries >= TRIES_TO_WARN) && self.warned.is_none();
        if warns {
            self.warned(trouble);
        }
        warns
    }

    /// It was warned of for a reason of its own.
    pub(super) fn warned(&mut self, trouble: &Trouble) {
        self.warned = Some(trouble.kind);
    }

    /// A try has succeeded.
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

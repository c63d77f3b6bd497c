//! The rights that changes in an account need: the gate of each, and what an answer says about it.

use super::Account;
use crate::mechanism::{Epoch, Purpose, RefusedRight};
use crate::model::{CallFailure, Moment};

/// A right that a token may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Assign and unassign addresses.
    Move,
    /// Create addresses.
    Create,
    /// Delete addresses.
    Delete,
}

/// The gate of each right.
#[derive(Debug, Default)]
pub(super) struct Rights {
    moves: RefusedRight,
    creations: RefusedRight,
    deletions: RefusedRight,
}

impl Rights {
    fn gate(&self, right: Right) -> &RefusedRight {
        match right {
            Right::Move => &self.moves,
            Right::Create => &self.creations,
            Right::Delete => &self.deletions,
        }
    }

    fn gate_mut(&mut self, right: Right) -> &mut RefusedRight {
        match right {
            Right::Move => &mut self.moves,
            Right::Create => &mut self.creations,
            Right::Delete => &mut self.deletions,
        }
    }
}

impl Account {
    /// The gate before requests that need this right.
    pub fn gate(&self, right: Right) -> &RefusedRight {
        self.rights.gate(right)
    }

    /// Notes that a request is sent that needs this right.
    pub(super) fn sent(&mut self, right: Right, purpose: Purpose, now: Moment) {
        self.budget.sent(purpose, now);
        self.rights.gate_mut(right).sent(now);
    }

    /// Takes in how a request ended that needed this right, whatever it was about. It was decided in the epoch `asked`.
    pub(crate) fn answered(
        &mut self,
        right: Right,
        asked: &Epoch,
        failure: Option<&CallFailure>,
        now: Moment,
    ) {
        self.rights.gate_mut(right).answered(asked, failure, now);
        match failure {
            Some(CallFailure::NotSent) => self.budget.not_sent(),
            Some(CallFailure::Fault(fault)) => match right {
                Right::Move | Right::Create => self.refused(fault, now),
                // The refusal proves nothing about other rights, so no other request has to wait.
                Right::Delete => {}
            },
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fault, FaultKind};

    #[test]
    fn a_refusal_shuts_the_gate_of_its_right_alone() {
        let (kind, message) = (FaultKind::Unauthorized, "no".to_owned());
        let refusal = CallFailure::Fault(Fault::new(kind, message));
        let asked = Epoch::first("p".into());
        let all = [Right::Move, Right::Create, Right::Delete];
        for right in all {
            let mut rights = Rights::default();
            rights.gate_mut(right).answered(&asked, Some(&refusal), Moment::default());
            assert_eq!(all.map(|other| rights.gate(other).is_open()), all.map(|other| other != right));
        }
    }
}

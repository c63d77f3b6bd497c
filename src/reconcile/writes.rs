//! Facts about writes that the loop needs: the object of a status, and the message of a refusal.

use flipop_core::fleet::action::{Action, Outcome};
use flipop_core::model::{ObjectKind, Uid, WriteFailure};

/// The object whose status an action writes.
pub(super) fn written(action: &Action) -> Option<(ObjectKind, Uid)> {
    match action {
        Action::WriteStatus(write) => Some((ObjectKind::Pool, write.object.uid.clone())),
        Action::WriteRecordSetStatus(write) => Some((ObjectKind::RecordSet, write.object.uid.clone())),
        Action::Addresses(_)
        | Action::Records(_)
        | Action::Firewalls(_)
        | Action::WriteIps { .. }
        | Action::Annotate { .. }
        | Action::Label { .. }
        | Action::SweepAnnotations
        | Action::CountNodes
        | Action::ListObjects { .. }
        | Action::WriteFinalizer { .. }
        | Action::ReadNode { .. } => None,
    }
}

/// Why the API server refused a write, until somebody mends it: that is logged, since the status that would tell may be
/// what is refused.
pub(super) fn refused_write(outcome: &Outcome) -> Option<&str> {
    let failure = match outcome {
        Outcome::Annotated { result, .. }
        | Outcome::Labelled { result, .. }
        | Outcome::FinalizerWritten { result, .. }
        | Outcome::IpsWritten { result, .. } => result.as_ref().err(),
        Outcome::StatusWritten(_, result) => result.as_ref().err(),
        Outcome::RecordSetStatusWritten(_, result) => result.as_ref().err(),
        Outcome::Swept(result) => result.as_ref().err(),
        Outcome::NodesCounted(result) => result.as_ref().err(),
        Outcome::ObjectsListed(_, result) => result.as_ref().err(),
        Outcome::NodeRead(_, read) => read.result.as_ref().err(),
        Outcome::Addresses(_) | Outcome::Records(_) | Outcome::Firewalls(_) => None,
    };
    match failure? {
        WriteFailure::Forbidden(message) | WriteFailure::Invalid(message) => Some(message),
        WriteFailure::NotSent
        | WriteFailure::Conflict
        | WriteFailure::Gone
        | WriteFailure::Throttled { .. }
        | WriteFailure::Transient(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_refused_until_somebody_acts_is_logged_and_others_are_not() {
        let said = |failure| {
            let outcome = Outcome::StatusWritten(Uid("uid".into()), Err(failure));
            refused_write(&outcome).map(str::to_owned)
        };
        let refused = || "a policy says no".to_owned();
        assert_eq!(said(WriteFailure::Invalid(refused())), Some(refused()));
        assert_eq!(said(WriteFailure::Forbidden(refused())), Some(refused()));
        assert_eq!(said(WriteFailure::Transient(refused())), None);
        assert_eq!(said(WriteFailure::Conflict), None);
    }
}

//! All conditions and Events in these worlds are in the catalog.

use flipop_core::mechanism::Notice;
use flipop_core::model::catalog::{contains, events};
use flipop_core::model::{Condition, ObjectKind};

/// Checks that every condition of a written status is documented.
pub(crate) fn check_conditions(object: ObjectKind, conditions: &[Condition]) {
    for condition in conditions {
        let Condition { kind, status, reason, message: _ } = condition;
        let known = contains(object.as_str(), kind, status, reason);
        assert!(known, "a {} says what is documented nowhere: {condition:?}", object.as_str());
    }
}

/// Checks that an Event is documented, with the same type.
pub(crate) fn check_notice(notice: &Notice) {
    let kind = if notice.warning { "Warning" } else { "Normal" };
    let known = events::contains(notice.kind.as_str(), kind, notice.reason.as_str());
    assert!(known, "an Event is documented nowhere: {notice:?}");
}

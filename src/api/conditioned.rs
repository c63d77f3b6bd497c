//! The access to conditions that both kinds of objects have in common.

use super::{Condition, FloatingIPPool, NodeDNSRecordSet};
use flipop_core::model::ids::ObjectKind;

/// An object of ours, with conditions in its status.
pub trait Conditioned: kube::Resource {
    /// Its kind.
    const KIND: ObjectKind;

    /// The conditions in its status.
    fn conditions(&self) -> &[Condition];
}

impl Conditioned for FloatingIPPool {
    const KIND: ObjectKind = ObjectKind::Pool;

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

impl Conditioned for NodeDNSRecordSet {
    const KIND: ObjectKind = ObjectKind::RecordSet;

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

//! One object's record set as the rest of the state shows it: what it wants, and what is to be published.

use super::spec::SetSpec;
use super::status::{Remark, Told};
use crate::model::ids::{Address, Owner, Seniority};
use crate::model::pause::Reason;
use std::collections::BTreeSet;

/// What an object has to publish.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// These.
    pub addresses: BTreeSet<Address>,
    /// And these if they are published now: too little is known of them.
    pub undecided: BTreeSet<Address>,
    /// There are nodes that match: to have no address then is a defect, and no wish.
    pub any_node: bool,
}

/// One object's record set as the rest of the state shows it at this moment.
#[derive(Debug)]
pub struct View {
    /// The object.
    pub owner: Owner,
    /// Decides who is older.
    pub created_at_s: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// The record set as the spec wants it.
    pub spec: SetSpec,
    /// Why the object is paused, if it is: nothing is changed then but what follows.
    pub paused: Option<Reason>,
    /// Addresses that a paused object still publishes, since what brought them was sent before.
    pub finishing: BTreeSet<Address>,
    /// What is wrong with the spec, as far as it stops this set.
    pub problems: Vec<String>,
    /// What is to be published; `None` while too little is known to say.
    pub choice: Option<Choice>,
    /// What the status says.
    pub told: Told,
    /// Further things to say.
    pub remarks: Vec<Remark>,
    /// Why no node matches; empty while one does.
    pub no_match: String,
}

impl View {
    /// Decides which of two objects is the older.
    #[must_use]
    pub const fn seniority(&self) -> Seniority<'_> {
        self.owner.seniority(self.created_at_s)
    }
}

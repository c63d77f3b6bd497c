//! One object's record set as the rest of the state shows it: what it wants, and what is to be published.

use super::diff::Target;
use super::site::Site;
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
    /// These are about to be deleted in the account: no record may go on holding one, not even the last one.
    pub withdrawn: BTreeSet<Address>,
}

impl Choice {
    /// Publishes none of these any more, which are about to be deleted in the account.
    pub fn withdraw(&mut self, gone: &BTreeSet<Address>) {
        self.addresses.retain(|ip| !gone.contains(ip));
        self.undecided.retain(|ip| !gone.contains(ip));
        self.withdrawn.clone_from(gone);
    }

    /// What is wanted at a name that keeps what it has.
    #[must_use]
    pub fn keep_at(&self, site: &Site) -> Target {
        let stand = site.addresses().unwrap_or_default();
        if stand.is_disjoint(&self.withdrawn) {
            Target::Keep
        } else {
            Target::Without(self.withdrawn.clone())
        }
    }
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

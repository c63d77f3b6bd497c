//! The wishes of a paused object that are still carried out: nothing begins, and operations that were sent before are
//! finished.

use super::diff::{Target, TtlRule, Wanted};
use super::site::Site;
use super::view::View;
use crate::model::ids::Address;
use std::collections::BTreeSet;

/// The part of the wanted change that may happen now. While the object is paused, the records stay as they are. Only
/// addresses that earlier operations have moved join them.
pub fn allowed(view: &View, wanted: Wanted, site: &Site) -> Wanted {
    if view.paused.is_none() {
        return wanted;
    }
    let Wanted { target, undecided, ttl } = wanted;
    let stand = site.addresses().unwrap_or_default();
    let lacks = |ip: &&Address| view.finishing.contains(ip) && !stand.contains(ip);
    let due: BTreeSet<Address> = match &target {
        Target::Exact(addresses) => addresses.iter().filter(lacks).copied().collect(),
        Target::Empty | Target::Keep | Target::Without(_) => BTreeSet::new(),
    };
    let target = if due.is_empty() { Target::Keep } else { Target::Exact(&stand | &due) };
    let (TtlRule::Every(new) | TtlRule::New(new)) = ttl;
    Wanted { target, undecided, ttl: TtlRule::New(new) }
}

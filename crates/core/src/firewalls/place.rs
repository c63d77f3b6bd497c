//! Places machines into the firewalls of a pool. A machine stays in its firewall. New machines fill gaps in order, and
//! the others go into new firewalls.

use crate::model::machine::MachineId;
use std::collections::{BTreeMap, BTreeSet};

/// Places machines into firewalls that have room. `room` has, in order, the number of machines that each one takes.
/// Also returns the machines that are left.
pub fn fill<'a>(
    mut machines: BTreeSet<MachineId>,
    room: impl Iterator<Item = (&'a String, usize)>,
) -> (BTreeMap<String, BTreeSet<MachineId>>, BTreeSet<MachineId>) {
    let mut placed = BTreeMap::new();
    for (name, room) in room {
        let here: BTreeSet<MachineId> = machines.iter().take(room).cloned().collect();
        machines.retain(|machine| !here.contains(machine));
        if !here.is_empty() {
            placed.insert(name.clone(), here);
        }
    }
    (placed, machines)
}

/// The lowest free numbers for the new firewalls that so many machines need, with at most `each` machines in one.
pub fn new_numbers(taken: &BTreeSet<u64>, machines: usize, each: usize) -> Vec<u64> {
    (1..).filter(|number| !taken.contains(number)).take(machines.div_ceil(each.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::examples::droplet;

    #[test]
    fn gaps_are_filled_in_order_and_the_rest_is_left() {
        let machines: BTreeSet<MachineId> = (1..=5).map(droplet).collect();
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let (placed, left) = fill(machines, names.iter().zip([2, 0, 1]));
        assert_eq!(placed["a"], [droplet(1), droplet(2)].into());
        assert_eq!(placed.get("b"), None);
        assert_eq!(placed["c"], [droplet(3)].into());
        assert_eq!(left, [droplet(4), droplet(5)].into());
        assert_eq!(new_numbers(&[1, 3].into(), 21, 10), [2, 4, 5]);
        assert_eq!(new_numbers(&BTreeSet::new(), 0, 10), Vec::<u64>::new());
    }
}

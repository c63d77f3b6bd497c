use super::*;
use crate::model::matching::example::node;
use crate::model::{MachineKind, Moment};
use proptest::prelude::*;

static MACHINES: MachineKind = MachineKind {
    noun: "machine",
    scheme: "cloud",
    read_scope: "machines:read",
    id: |id| Some(id.to_owned()),
};

fn ip(number: u8) -> Address {
    Address::from([192, 0, 2, number])
}

fn on_its_machine(name: &str) -> NodeFacts {
    NodeFacts { machine: Some(MACHINES.machine(name)), ..node(name) }
}

/// Candidates on machines of their own, in the order in which they came.
fn candidates(names: &[&str]) -> Candidates {
    let mut candidates = Candidates::default();
    for (count, name) in (1..).zip(names) {
        candidates.insert(&on_its_machine(name).into(), count, Moment::from_millis(0));
    }
    candidates
}

fn queue(candidates: &Candidates) -> Vec<&str> {
    candidates.queue().map(|(name, _)| &**name).collect()
}

#[test]
fn nodes_that_lost_an_address_come_first_and_the_others_in_the_order_in_which_they_came() {
    let mut candidates = candidates(&["c", "a", "d", "b"]);
    let names = ["c", "a", "d", "b"].map(Arc::from);
    candidates.hold(&names[2], ip(1));
    candidates.hold(&names[3], ip(2));
    candidates.lose(&names[3], 5);
    candidates.lose(&names[2], 6);
    for name in &names {
        candidates.note_wait(name, Some(Wait::NoFreeIp));
    }
    assert_eq!(queue(&candidates), ["b", "d", "c", "a"]);
    candidates.remove("d");
    candidates.note_wait(&names[0], Some(Wait::CoolOff));
    assert_eq!(queue(&candidates), ["b", "a"]);
}

#[test]
fn the_list_of_waiting_nodes_is_made_again_only_when_it_changes() {
    let mut candidates = candidates(&["a", "b"]);
    let [a, b] = ["a", "b"].map(Arc::from);
    assert_eq!(*candidates.assignable(), [""; 0]);
    candidates.note_wait(&a, Some(Wait::NoFreeIp));
    candidates.keep_assignable();
    let listed = candidates.assignable();
    assert_eq!(*listed, ["a"]);
    candidates.note_wait(&a, Some(Wait::InFlight(ip(1))));
    candidates.note_wait(&b, Some(Wait::Foreign(ip(2))));
    assert!(Arc::ptr_eq(&listed, &candidates.assignable()), "an error is not on it");
    candidates.note_wait(&b, Some(Wait::RetryAt(Moment::default(), "refused".into())));
    assert!(Arc::ptr_eq(&listed, &candidates.assignable()), "another error is not either");
    candidates.note_wait(&b, Some(Wait::CoolOff));
    assert_eq!(*candidates.assignable(), ["a", "b"]);
    candidates.keep_assignable();
    candidates.hold(&a, ip(1));
    candidates.keep_assignable();
    let listed = candidates.assignable();
    assert_eq!(*listed, ["b"]);
    candidates.remove("a");
    assert!(Arc::ptr_eq(&listed, &candidates.assignable()), "a node with an address is not on it");
    candidates.remove("b");
    assert_eq!(*candidates.assignable(), [""; 0]);
}

#[test]
fn a_plan_looks_at_every_node_without_an_address_once_after_it_was_asked_to() {
    let mut candidates = candidates(&["a", "b", "c"]);
    let names = ["a", "b", "c"].map(Arc::from);
    candidates.hold(&names[0], ip(1));
    candidates.note_wait(&names[1], Some(Wait::NoFreeIp));
    candidates.note_wait(&names[2], Some(Wait::CoolOff));
    let mut due = || candidates.take_unsettled().into_iter().collect::<Vec<_>>();
    assert_eq!(due(), names[2..]);
    candidates.look_at_all();
    let mut due = || candidates.take_unsettled().into_iter().collect::<Vec<_>>();
    assert_eq!(due(), names[1..]);
    assert_eq!(due(), names[2..]);
}

#[test]
fn both_nodes_of_a_machine_are_found_and_no_other() {
    let mut candidates = candidates(&["1", "10", "2"]);
    candidates.insert(
        &NodeFacts { machine: Some(MACHINES.machine("1")), ..node("twin") }.into(),
        9,
        Moment::from_millis(0),
    );
    let on = |candidates: &Candidates, id: &str| {
        candidates.on(&MACHINES.machine(id.to_owned())).map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(on(&candidates, "1"), ["1", "twin"]);
    candidates.remove("1");
    assert_eq!((on(&candidates, "1"), on(&candidates, "10")), (vec!["twin".into()], vec!["10".into()]));
    let few = BTreeMap::from([(MACHINES.machine("2"), ip(1))]);
    let many = (0..9).map(|id| (MACHINES.machine(id.to_string()), ip(id))).collect();
    assert_eq!(candidates.on_any(&few), [Arc::from("2")]);
    assert_eq!(candidates.on_any(&many), ["twin", "2"].map(Arc::from));
}

proptest! {
    /// Random changes of four nodes. Exactly one index names each node without an address.
    #[test]
    fn every_candidate_has_one_state(changes in prop::collection::vec((0..4_usize, 0..8_u8), 0..40)) {
        let names: [Arc<str>; 4] = ["a", "b", "c", "d"].map(Arc::from);
        let mut candidates = Candidates::default();
        for (count, (which, change)) in (1..).zip(changes) {
            let name = &names[which];
            let known = candidates.get(name).map(Candidate::holds);
            match (change, known) {
                (0, None) => candidates.insert(&on_its_machine(name).into(), count, Moment::from_millis(0)),
                (1, Some(_)) => drop(candidates.remove(name)),
                (2, Some(_)) => candidates.hold(name, ip(1)),
                (3, Some(Some(_))) => candidates.lose(name, count),
                (4, _) => candidates.note_wait(name, None),
                (5, _) => candidates.note_wait(name, Some(Wait::NoFreeIp)),
                (6, _) => candidates.note_wait(name, Some(Wait::CoolOff)),
                (7, _) => candidates.note_wait(name, Some(Wait::Foreign(ip(2)))),
                (_, _) => {}
            }
            for name in &names {
                let queued = candidates.queue().any(|(queued, _)| queued == name);
                let states = [
                    candidates.holders().any(|holder| holder == name),
                    queued,
                    candidates.waits().any(|(waits, _)| waits == name),
                    candidates.undecided.contains(name),
                ];
                let states = states.into_iter().filter(|state| *state).count();
                prop_assert_eq!(states, usize::from(candidates.contains(name)));
                let holds = candidates.get(name).is_some_and(|candidate| candidate.holds().is_some());
                prop_assert_eq!(holds, candidates.holders().any(|holder| holder == name));
                let here = candidates.on(&MACHINES.machine(&**name)).count();
                prop_assert_eq!(here, usize::from(candidates.contains(name)));
            }
            let in_turn = candidates.queue.iter().all(|(turn, name)| candidates.by_name[name].turn == *turn);
            prop_assert!(in_turn);
            prop_assert_eq!(&candidates.assignable(), &candidates.list());
            candidates.keep_assignable();
        }
    }
}

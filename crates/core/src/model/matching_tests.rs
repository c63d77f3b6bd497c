use super::example::node;
use super::*;
use crate::model::ids::Uid;
use proptest::prelude::*;

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: effect.into() }
}

fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
    Toleration { effect: effect.into(), key: key.into(), operator: operator.into(), value: value.into() }
}

fn pod(name: &str, node: &str, serving: bool) -> PodFacts {
    PodFacts { namespace: "ns".into(), name: name.into(), node: node.into(), serving, fails_since_s: None }
}

#[test]
fn a_toleration_tolerates_as_kubernetes_does() {
    let subject = taint("k", "v", "NoSchedule");
    for (toleration, expected) in [
        (toleration("", "", "v", ""), true),
        (toleration("", "", "", ""), false),
        (toleration("k", "Equal", "v", "NoSchedule"), true),
        (toleration("k", "Equal", "w", "NoSchedule"), false),
        (toleration("k", "Exists", "anything", ""), true),
        (toleration("", "Exists", "", ""), true),
        (toleration("", "Exists", "", "NoExecute"), false),
        (toleration("x", "Exists", "", ""), false),
        (toleration("k", "exists", "", ""), false),
    ] {
        assert_eq!(toleration.tolerates(&subject), expected, "{toleration:?}");
    }
}

#[test]
fn a_toleration_with_an_effect_tolerates_no_other_effect() {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    for (tolerated, tainted) in effects.into_iter().flat_map(|one| effects.map(|other| (one, other))) {
        let toleration = toleration("k", "Exists", "", tolerated);
        assert_eq!(
            toleration.tolerates(&taint("k", "v", tainted)),
            tolerated == tainted,
            "{tolerated} {tainted}"
        );
    }
}

#[test]
fn each_criterion_alone_excludes_a_node() {
    let pods = Some(("ns".into(), Selector::default()));
    let criteria = Criteria::new(Selector::default(), pods, Vec::new());
    let mut pods = PodStore::default();
    pods.observe(Observed::Reset(vec![pod("p", "a", true)]));
    let check = |node: &NodeFacts| verdict(&criteria, node, Some(&pods));
    assert_eq!(check(&node("a")), Ok(()));
    assert_eq!(check(&NodeFacts { ready: Readiness::NotReady, ..node("a") }), Err(Mismatch::NotReady));
    let unknown = NodeFacts { ready: Readiness::Unknown, ..node("a") };
    assert_eq!(check(&unknown), Err(Mismatch::ReadyUnknown));
    assert_eq!(check(&NodeFacts { deleting: true, ..node("a") }), Err(Mismatch::Deleting));
    assert_eq!(check(&NodeFacts { provider_id: String::new(), ..node("a") }), Err(Mismatch::NoProviderId));
    for effect in ["NoSchedule", "PreferNoSchedule", "NoExecute", "Odd"] {
        let taint = taint("t", "", effect);
        let tainted = NodeFacts { taints: vec![taint.clone()], ..node("a") };
        assert_eq!(check(&tainted), Err(Mismatch::Taint(taint)));
    }
    assert_eq!(check(&node("b")), Err(Mismatch::PodNotReady));
}

#[test]
fn only_the_first_and_the_last_serving_pod_touch_a_node() {
    let mut pods = PodStore::default();
    pods.observe(Observed::Reset(Vec::new()));
    let a = BTreeSet::from(["a".to_owned()]);
    assert_eq!(pods.observe(Observed::Apply(pod("p", "a", false))), BTreeSet::new());
    assert_eq!(pods.observe(Observed::Apply(pod("p", "a", true))), a);
    assert_eq!(pods.observe(Observed::Apply(pod("p", "a", true))), BTreeSet::new());
    assert_eq!(pods.observe(Observed::Apply(pod("q", "a", true))), BTreeSet::new());
    let both = [pod("p", "a", true), pod("q", "a", true)];
    assert_eq!(pods.observe(Observed::Reset(both.to_vec())), BTreeSet::new());
    assert_eq!(pods.observe(Observed::Delete(pod("p", "a", true))), BTreeSet::new());
    assert_eq!(pods.observe(Observed::Apply(pod("q", "a", false))), a);
    assert!(!pods.serves_on("a"));
}

#[test]
fn a_pod_counts_once_even_if_a_list_holds_it_twice() {
    let mut pods = PodStore::default();
    let listed = ["p", "p", "q"].map(|name| pod(name, "a", true)).to_vec();
    pods.observe(Observed::Reset(listed));
    assert_eq!(pods.count(), 2);
    pods.observe(Observed::Delete(pod("p", "a", true)));
    assert!(pods.serves_on("a"));
    pods.observe(Observed::Delete(pod("q", "a", true)));
    assert!(!pods.serves_on("a"));
}

#[test]
fn facts_that_a_new_list_repeats_are_still_shared() {
    let mut nodes = NodeStore::default();
    nodes.observe(Observed::Reset(vec![node("a"), node("b")]));
    let before = ["a", "b"].map(|name| Arc::clone(nodes.shared(name).unwrap()));
    let changed = NodeFacts { deleting: true, ..node("b") };
    let touched = nodes.observe(Observed::Reset(vec![node("a"), changed.clone()]));
    assert_eq!(touched, BTreeSet::from(["b".to_owned()]));
    assert!(Arc::ptr_eq(&before[0], nodes.shared("a").unwrap()));
    assert_eq!(nodes.get("b"), Some(&changed));
}

#[test]
fn a_pod_made_again_on_another_node_touches_both() {
    let mut pods = PodStore::default();
    pods.observe(Observed::Reset(vec![pod("p", "a", true), pod("q", "b", true)]));
    let moved = pods.observe(Observed::Apply(pod("p", "c", true)));
    assert_eq!(moved, BTreeSet::from(["a".to_owned(), "c".to_owned()]));
    let gone = pods.observe(Observed::Reset(vec![pod("p", "c", true)]));
    assert_eq!(gone, BTreeSet::from(["b".to_owned()]));
}

#[test]
fn a_late_deletion_of_an_earlier_node_of_the_same_name_is_ignored() {
    let mut nodes = NodeStore::default();
    nodes.observe(Observed::Reset(vec![node("a")]));
    let recreated = NodeFacts { uid: Uid("new".into()), ..node("a") };
    nodes.observe(Observed::Apply(recreated.clone()));
    assert!(nodes.observe(Observed::Delete(node("a"))).is_empty());
    assert_eq!(nodes.get("a"), Some(&recreated));
}

#[test]
fn a_complete_list_removes_what_it_does_not_name() {
    let mut nodes = NodeStore::default();
    assert!(!nodes.is_complete());
    nodes.observe(Observed::Reset(vec![node("a"), node("b")]));
    assert!(nodes.is_complete());
    assert_eq!(nodes.observe(Observed::Reset(vec![node("b")])), BTreeSet::from(["a".to_owned()]));
    assert!(nodes.get("a").is_none());
}

proptest! {
    #[test]
    fn serving_counts_equal_a_recount(steps in proptest::collection::vec((0..3_u8, 0..4_u8, 0..3_u8, any::<bool>()), 0..60)) {
        let mut store = PodStore::default();
        let mut model: BTreeMap<String, PodFacts> = BTreeMap::new();
        store.observe(Observed::Reset(Vec::new()));
        for (kind, name, on, serving) in steps {
            let facts = pod(&format!("p{name}"), &format!("n{on}"), serving);
            match kind {
                0 => { store.observe(Observed::Delete(facts.clone())); model.remove(&facts.name); }
                1 => { store.observe(Observed::Apply(facts.clone())); model.insert(facts.name.clone(), facts); }
                _ => { store.observe(Observed::Reset(vec![facts.clone()])); model = BTreeMap::from([(facts.name.clone(), facts)]); }
            }
            for on in 0..3_u8 {
                let on = format!("n{on}");
                let expected = model.values().any(|pod| pod.serving && pod.node == on);
                prop_assert_eq!(store.serves_on(&on), expected);
            }
        }
    }
}

use super::*;

const SECOND: u64 = 1_000;

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn nodes(selector: &str) -> WatchKey {
    WatchKey::Nodes { selector: selector.to_owned() }
}

fn pods(namespace: &str, selector: &str) -> WatchKey {
    WatchKey::Pods { namespace: namespace.to_owned(), selector: selector.to_owned() }
}

fn numbered(numbers: std::ops::Range<usize>, key: impl Fn(usize) -> WatchKey) -> BTreeSet<WatchKey> {
    numbers.map(key).collect()
}

/// Plans at a time. Groups serve their keys at once.
fn plan(planner: &mut Planner, wanted: &BTreeSet<WatchKey>, ms: u64) -> BTreeSet<String> {
    planner.plan(wanted, |_| true, at(ms))
}

/// The watches of the groups, each with the number of its keys, and how many keys are alone.
fn planned(planner: &Planner, wanted: &BTreeSet<WatchKey>) -> (Vec<(WatchKey, usize)>, usize) {
    let groups = planner.groups().values().map(|group| (group.watch.clone(), group.keys.len()));
    (groups.collect(), planner.alone(wanted).len())
}

#[test]
fn more_than_eight_node_selectors_share_a_watch_of_all_nodes_until_few_are_left_for_ten_minutes() {
    let mut planner = Planner::default();
    let wanted = |count| numbered(0..count, |number| nodes(&format!("pool=n{number}")));
    plan(&mut planner, &wanted(8), 0);
    assert_eq!(planned(&planner, &wanted(8)), (vec![], 8));
    plan(&mut planner, &wanted(9), 0);
    assert_eq!(planned(&planner, &wanted(9)), (vec![(nodes(""), 9)], 0));
    plan(&mut planner, &wanted(5), 0);
    plan(&mut planner, &wanted(5), 2 * FEW_MS);
    assert_eq!(planned(&planner, &wanted(5)), (vec![(nodes(""), 5)], 0), "half of the threshold is enough");
    plan(&mut planner, &wanted(4), 2 * FEW_MS);
    plan(&mut planner, &wanted(20), 3 * FEW_MS - 1);
    plan(&mut planner, &wanted(4), 3 * FEW_MS);
    plan(&mut planner, &wanted(4), 4 * FEW_MS - 1);
    assert_eq!(planned(&planner, &wanted(4)), (vec![(nodes(""), 4)], 0), "it was more in between");
    plan(&mut planner, &wanted(4), 4 * FEW_MS);
    assert_eq!(planned(&planner, &wanted(4)), (vec![], 4));
}

#[test]
fn keys_that_come_later_join_when_that_saves_enough_and_the_plan_before_is_carried_out() {
    let mut planner = Planner::default();
    let wanted = |count| numbered(0..count, |number| nodes(&format!("pool=n{number}")));
    plan(&mut planner, &wanted(20), 0);
    let first: Vec<SourceId> = planner.groups().keys().copied().collect();
    plan(&mut planner, &wanted(27), 0);
    assert_eq!(planned(&planner, &wanted(27)), (vec![(nodes(""), 20)], 7));
    planner.plan(&wanted(28), |_| false, at(0));
    assert_eq!(planned(&planner, &wanted(28)), (vec![(nodes(""), 20)], 8));
    plan(&mut planner, &wanted(28), 0);
    assert_eq!(planned(&planner, &wanted(28)), (vec![(nodes(""), 28)], 0));
    assert!(planner.groups().keys().all(|id| !first.contains(id)), "it is another watch");
}

#[test]
fn a_refused_watch_of_all_nodes_is_not_tried_again_for_ten_minutes() {
    let mut planner = Planner::default();
    let wanted = numbered(0..20, |number| nodes(&format!("pool=n{number}")));
    plan(&mut planner, &wanted, 0);
    planner.refused(&nodes(""), at(SECOND));
    for ms in [SECOND, BELIEVED_MS] {
        plan(&mut planner, &wanted, ms);
        assert_eq!(planned(&planner, &wanted), (vec![], 20));
    }
    plan(&mut planner, &wanted, BELIEVED_MS + SECOND);
    assert_eq!(planned(&planner, &wanted), (vec![(nodes(""), 20)], 0));
}

#[test]
fn pod_selectors_of_a_namespace_share_watches_by_the_values_of_the_label_that_tells_them_apart() {
    let mut planner = Planner::default();
    let wanted = numbered(0..10, |number| pods("games", &format!("shard=s{number},tier in (a,b)")));
    assert_eq!(plan(&mut planner, &wanted, 0), BTreeSet::new());
    let values: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    let together = pods("games", &format!("shard in ({})", values.join(",")));
    assert_eq!(planned(&planner, &wanted), (vec![(together, 10)], 0));
}

#[test]
fn the_values_of_a_watch_stay_within_the_length_of_a_url() {
    let mut planner = Planner::default();
    let wanted = numbered(0..1_000, |number| pods("games", &format!("app=server-{number:04}")));
    assert_eq!(plan(&mut planner, &wanted, 0), BTreeSet::new());
    let (groups, alone) = planned(&planner, &wanted);
    assert_eq!((groups.len(), groups.iter().map(|(_, keys)| keys).sum::<usize>(), alone), (4, 1_000, 0));
    for (watch, _) in groups {
        let encoded = selector_of(&watch).replace(',', "%2C").len();
        assert!(encoded <= MAX_VALUES_BYTES + "app in ()".len(), "{encoded}");
    }
}

#[test]
fn the_watch_of_a_namespace_or_of_the_cluster_is_shared_if_it_saves_more_than_its_pods_cost() {
    let in_one = numbered(0..20, |number| pods("games", &format!("app-{number}")));
    let in_many = numbered(0..20, |number| pods(&format!("tenant-{number}"), &format!("app-{number}")));
    for (wanted, namespace) in [(in_one, "games"), (in_many, "")] {
        for (count, shared) in
            [(Some(19 * PODS_PER_WATCH - 1), true), (Some(19 * PODS_PER_WATCH), false), (None, false)]
        {
            let mut planner = Planner::default();
            assert_eq!(plan(&mut planner, &wanted, 0), BTreeSet::from([namespace.to_owned()]));
            assert_eq!(planned(&planner, &wanted), (vec![], 20), "not before they are counted");
            planner.counted(namespace.to_owned(), count, at(0));
            assert_eq!(plan(&mut planner, &wanted, 0), BTreeSet::new());
            let expected = if shared { (vec![(pods(namespace, ""), 20)], 0) } else { (vec![], 20) };
            assert_eq!(planned(&planner, &wanted), expected, "{count:?} pods");
        }
    }
}

#[test]
fn pods_of_a_shared_watch_are_counted_again_and_it_ends_once_they_cost_twice_what_it_saves() {
    let wanted = numbered(0..20, |number| pods("games", &format!("app-{number}")));
    let mut planner = Planner::default();
    planner.counted("games".to_owned(), Some(10), at(0));
    plan(&mut planner, &wanted, 0);
    let shared = (vec![(pods("games", ""), 20)], 0);
    assert_eq!(plan(&mut planner, &wanted, BELIEVED_MS), BTreeSet::from(["games".to_owned()]));
    for (count, expected) in [(2 * 19 * PODS_PER_WATCH - 1, shared), (2 * 19 * PODS_PER_WATCH, (vec![], 20))]
    {
        planner.counted("games".to_owned(), Some(count), at(BELIEVED_MS));
        assert_eq!(plan(&mut planner, &wanted, BELIEVED_MS), BTreeSet::new());
        assert_eq!(planned(&planner, &wanted), expected, "{count} pods");
    }
}

#[test]
fn tenants_that_use_one_label_share_its_watch_in_the_whole_cluster_unless_that_is_refused() {
    let wanted = numbered(0..1_000, |number| pods(&format!("tenant-{number}"), "app=game"));
    let mut planner = Planner::default();
    plan(&mut planner, &wanted, 0);
    planner.counted(String::new(), Some(5_000), at(0));
    plan(&mut planner, &wanted, 0);
    assert_eq!(planned(&planner, &wanted), (vec![(pods("", "app=game"), 1_000)], 0));
    planner.refused(&pods("", "app=game"), at(0));
    assert_eq!(plan(&mut planner, &wanted, 0), BTreeSet::new());
    assert_eq!(planned(&planner, &wanted), (vec![], 1_000));
}

#[test]
fn each_kind_is_planned_for_itself() {
    let mut planner = Planner::default();
    let of_nodes = numbered(0..9, |number| nodes(&format!("pool=n{number}")));
    let of_pods = numbered(0..8, |number| pods("games", &format!("app=a{number}")));
    let wanted: BTreeSet<WatchKey> = of_nodes.union(&of_pods).cloned().collect();
    plan(&mut planner, &wanted, 0);
    assert_eq!(planned(&planner, &wanted), (vec![(nodes(""), 9)], 8));
}

#[test]
fn a_group_selects_at_least_what_its_keys_select() {
    let selectors =
        ["a=x", "a in (x,y)", "b=1,a=y", "b in (1,2)", "c", "!c", "a!=x", "b=2,c=3", "", "b=3", "a=z,b=1"];
    let wanted: BTreeSet<WatchKey> = selectors.into_iter().map(|selector| pods("n", selector)).collect();
    let refs: BTreeSet<&WatchKey> = wanted.iter().collect();
    let groups = Planner::default().by_value("n", &refs);
    let covered: BTreeSet<&WatchKey> = groups.iter().flat_map(|group| &group.keys).collect();
    assert_eq!(covered, refs);
    for group in &groups {
        let all = Selector::parse(selector_of(&group.watch)).unwrap();
        for key in &group.keys {
            for (a, b, c) in (0..4).flat_map(|a| (0..4).flat_map(move |b| (0..2).map(move |c| (a, b, c)))) {
                let labels =
                    [("a", ["", "x", "y", "z"][a]), ("b", ["", "1", "2", "3"][b]), ("c", ["", "3"][c])];
                let present = labels.into_iter().filter(|(_, value)| !value.is_empty());
                let labels: BTreeMap<String, String> =
                    present.map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
                let selected = Selector::parse(selector_of(key)).unwrap().matches(&labels);
                assert!(!selected || all.matches(&labels), "{key:?} in {:?}: {labels:?}", group.watch);
            }
        }
    }
}

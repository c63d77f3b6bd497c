use super::*;

fn network(text: &str) -> Network {
    Network::parse(text).unwrap()
}

const ANCHOR: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 5);

const EXIT: Exit = Exit {
    address: Ipv4Addr::new(203, 0, 113, 10),
    anchor: ANCHOR,
    gateway: Ipv4Addr::new(10, 10, 0, 1),
    interface: 2,
};

fn layout() -> Layout {
    Layout {
        exit: Some(EXIT),
        pods: vec![network("10.244.1.0/24"), network("10.245.0.0/16")],
        except: vec![network("198.51.100.0/24")],
        subnets: vec![network("192.0.2.0/24")],
        block: false,
        except6: None,
        mark: 0x2000,
    }
}

/// The same, where nothing leaves without the address.
fn blocking(exit: Option<Exit>) -> Layout {
    Layout { exit, block: true, except6: Some(vec![network("2001:db8::/32")]), ..layout() }
}

/// The steps of an agent that knows its anchor.
fn steps(found: &Found, wanted: Option<&Layout>, mark: u32) -> Vec<Step> {
    super::steps(found, wanted, mark, Some(ANCHOR))
}

/// The kernel after these steps.
fn apply(found: &mut Found, steps: &[Step]) {
    for step in steps {
        match step {
            Step::SetNat(layout) => {
                found.nat = Nat::Ours { signature: Some(layout.signature()), whole: true };
            }
            Step::DropNat => found.nat = Nat::Absent,
            Step::AddRoute(route) => found.routes.push(*route),
            Step::DropRoute(route) => found.routes.retain(|other| other != route),
            Step::AddRule(rule) => found.rules.push(*rule),
            Step::DropRule(rule) => found.rules.retain(|other| other != rule),
            Step::EndConnections(..) => {}
        }
    }
}

fn standing() -> Found {
    made(&layout())
}

fn made(layout: &Layout) -> Found {
    let mut found = Found::default();
    apply(&mut found, &steps(&Found::default(), Some(layout), layout.mark));
    found
}

fn ranks(steps: &[Step]) -> Vec<u8> {
    let rank = |step: &Step| match step {
        Step::SetNat(_) | Step::DropNat => 0,
        Step::AddRoute(_) | Step::DropRoute(_) => 1,
        Step::AddRule(_) | Step::DropRule(_) => 2,
        Step::EndConnections(..) => 3,
    };
    steps.iter().map(rank).collect()
}

#[test]
fn what_is_set_goes_from_nat_to_rules_and_back_and_connections_end_last() {
    let set = steps(&Found::default(), Some(&layout()), 0x2000);
    assert!(ranks(&set).is_sorted(), "{set:?}");
    assert_eq!(
        set.len(),
        1 + 7 + 6,
        "the table, five private networks, one more and the default, three rules a network"
    );
    let mut found = standing();
    assert_eq!(steps(&found, Some(&layout()), 0x2000), []);
    assert_eq!(found.intact(), Some(EXIT.address));
    let removed = steps(&found, None, 0x2000);
    let (last, before) = removed.split_last().unwrap();
    assert_eq!(*last, Step::EndConnections(0x2000, ANCHOR));
    assert!(ranks(before).iter().rev().is_sorted(), "{removed:?}");
    apply(&mut found, &removed);
    assert_eq!(found, Found::default());
    assert_eq!(steps(&found, None, 0x2000), [], "nothing is removed twice");
}

#[test]
fn whatever_is_missing_is_set_again_and_nothing_else() {
    let whole = steps(&Found::default(), Some(&layout()), 0x2000);
    for reached in 0..whole.len() {
        let mut found = Found::default();
        apply(&mut found, &whole[..reached]);
        assert_eq!(found.intact(), None, "after {reached} steps");
        assert_eq!(steps(&found, Some(&layout()), 0x2000), whole[reached..], "after {reached} steps");
        let back = steps(&found, None, 0x2000);
        apply(&mut found, &back);
        assert_eq!(found, Found::default(), "after {reached} steps");
    }
    let mut found = standing();
    found.nat = Nat::Ours { signature: Some(layout().signature()), whole: false };
    assert_eq!(steps(&found, Some(&layout()), 0x2000), [Step::SetNat(Box::new(layout()))]);
    found = standing();
    let lost = found.rules.remove(2);
    assert_eq!(steps(&found, Some(&layout()), 0x2000), [Step::AddRule(lost)]);
}

#[test]
fn what_is_made_otherwise_is_made_anew_and_its_connections_end() {
    let changes: [fn(&mut Layout); 5] = [
        |layout| layout.exit = Some(Exit { address: Ipv4Addr::new(203, 0, 113, 11), ..EXIT }),
        |layout| layout.exit = Some(Exit { anchor: Ipv4Addr::new(10, 10, 0, 6), ..EXIT }),
        |layout| layout.exit = Some(Exit { gateway: Ipv4Addr::new(10, 10, 0, 2), ..EXIT }),
        |layout| layout.mark = 0x1000,
        |layout| layout.pods.truncate(1),
    ];
    for change in changes {
        let mut other = layout();
        change(&mut other);
        let mut found = standing();
        let todo = steps(&found, Some(&other), other.mark);
        assert!(todo.contains(&Step::EndConnections(0x2000, ANCHOR)), "{todo:?}");
        apply(&mut found, &todo);
        assert_eq!(steps(&found, Some(&other), other.mark), []);
        assert_eq!(found.intact(), other.exit.map(|exit| exit.address));
    }
    // The interface and the exceptions affect only routes, and subnets affect only rules.
    let other = Layout { exit: Some(Exit { interface: 3, ..EXIT }), except: Vec::new(), ..layout() };
    let mut found = standing();
    let todo = steps(&found, Some(&other), 0x2000);
    assert!(ranks(&todo).iter().all(|rank| *rank == 1), "{todo:?}");
    apply(&mut found, &todo);
    assert_eq!(steps(&found, Some(&other), 0x2000), []);
    let other = Layout { subnets: Vec::new(), ..other };
    let todo = steps(&found, Some(&other), 0x2000);
    assert_eq!(ranks(&todo), [2, 2], "{todo:?}");
}

#[test]
fn hosts_of_a_public_subnet_are_outside_unless_another_route_leads_to_them() {
    let route = |to, link| MainRoute { to: network(to), link };
    let found = Found {
        main: vec![
            route("10.10.0.0/16", Some(2)),
            route("192.0.2.0/24", Some(2)),
            route("192.0.2.1/32", Some(2)),
            route("192.0.2.32/28", None),
            route("192.0.2.64/28", Some(4)),
            route("192.0.2.80/28", Some(2)),
            route("198.51.100.0/24", None),
            route("203.0.113.0/24", Some(4)),
        ],
        addresses: vec![(Ipv4Addr::new(192, 0, 2, 11), 2), (ANCHOR, 2), (Ipv4Addr::new(10, 244, 1, 1), 4)],
        ..Found::default()
    };
    let subnets = ["192.0.2.0/24", "192.0.2.1/32"].map(network).to_vec();
    let others = ["192.0.2.32/28", "192.0.2.64/28", "192.0.2.80/28"].map(network).to_vec();
    assert_eq!(found.subnets(&[network("192.0.2.80/28")]), (subnets, others));
}

#[test]
fn a_comment_says_how_the_table_was_made_even_where_it_is_cut() {
    let signature = layout().signature();
    assert_eq!(Signature::parse(&signature.to_string()), Some(signature.clone()));
    let mut many = layout();
    many.pods = (0..20).map(|n| network(&format!("10.244.{n}.0/24"))).collect();
    let cut = Signature::parse(&many.signature().to_string()).unwrap();
    assert!(cut.is(&many.signature()) && cut.pod_networks == 20 && !cut.is(&signature));
    for blocks in [blocking(None), blocking(Some(EXIT))] {
        assert_eq!(Signature::parse(&blocks.signature().to_string()), Some(blocks.signature()));
        assert!(!blocks.signature().is(&signature));
    }
    for foreign in ["", "flipop", "flipop-agent", "a comment", "flipop-agent x y z 0x1 1 1.2.3.0/24"] {
        assert_eq!(Signature::parse(foreign), None, "{foreign}");
    }
}

/// Whether public traffic of the first pod network cannot take its usual way. It carries the mark of the table.
fn is_held(found: &Found) -> bool {
    let Nat::Ours { signature: Some(signature), .. } = &found.nat else { return false };
    let pods = network("10.244.1.0/24");
    let all = |way| Route { to: network("0.0.0.0/0"), way };
    found.rules.contains(&Rule::Egress(pods, signature.mark)) && found.routes.contains(&all(Way::Unreachable))
}

#[test]
fn what_blocks_becomes_any_other_that_blocks_without_a_gap() {
    let layouts = [
        blocking(None),
        blocking(Some(EXIT)),
        blocking(Some(Exit { address: Ipv4Addr::new(203, 0, 113, 11), ..EXIT })),
        blocking(Some(Exit { anchor: Ipv4Addr::new(10, 10, 0, 6), interface: 3, ..EXIT })),
        Layout { mark: 0x1000, ..blocking(Some(EXIT)) },
        Layout { pods: vec![network("10.244.1.0/24")], ..blocking(None) },
        Layout { except: Vec::new(), except6: Some(Vec::new()), ..blocking(Some(EXIT)) },
    ];
    let leads = |step: &Step| matches!(step, Step::AddRoute(Route { way: Way::Via(..), .. }));
    for (from, to) in layouts.iter().flat_map(|from| layouts.iter().map(move |to| (from, to))) {
        let mut found = made(from);
        let todo = steps(&found, Some(to), to.mark);
        for step in &todo {
            apply(&mut found, std::slice::from_ref(step));
            assert!(is_held(&found), "after {step} of {todo:?}");
        }
        assert_eq!(steps(&found, Some(to), to.mark), [], "from {from:?} to {to:?}");
        assert_eq!(found.intact(), to.exit.map(|exit| exit.address));
        let end = todo.iter().position(|step| matches!(step, Step::EndConnections(..)));
        let used = from.exit.is_some() && !from.signature().is(&to.signature());
        assert!(!used || end.is_some(), "connections of {from:?} go on: {todo:?}");
        assert!(end <= todo.iter().position(leads).or(end), "they end before the next way out: {todo:?}");
        let removed = steps(&found, None, to.mark);
        apply(&mut found, &removed);
        assert_eq!(found, Found::default(), "nothing of what blocks stays");
    }
}

#[test]
fn what_blocks_ends_the_way_out_even_where_its_table_is_gone_or_nothing_can_be_set() {
    let mut found = made(&blocking(Some(EXIT)));
    found.nat = Nat::Absent;
    let todo = steps(&found, Some(&blocking(None)), 0x2000);
    assert!(todo.contains(&Step::EndConnections(0x2000, ANCHOR)), "{todo:?}");
    let way_out = Route { to: network("0.0.0.0/0"), way: Way::Via(EXIT.gateway, EXIT.interface) };
    assert_eq!(
        withdrawal(&found, 0x2000, Some(ANCHOR)),
        [Step::DropRoute(way_out), Step::EndConnections(0x2000, ANCHOR)]
    );
    assert_eq!(withdrawal(&made(&blocking(None)), 0x2000, Some(ANCHOR)), []);
}

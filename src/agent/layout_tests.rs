use super::*;

fn network(text: &str) -> Network {
    Network::parse(text).unwrap()
}

fn layout() -> Layout {
    Layout {
        address: Ipv4Addr::new(203, 0, 113, 10),
        anchor: Ipv4Addr::new(10, 10, 0, 5),
        gateway: Ipv4Addr::new(10, 10, 0, 1),
        interface: 2,
        pods: vec![network("10.244.1.0/24"), network("10.245.0.0/16")],
        except: vec![network("198.51.100.0/24")],
        mark: 0x2000,
    }
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
            Step::EndConnections(_) => {}
        }
    }
}

fn standing() -> Found {
    let mut found = Found::default();
    apply(&mut found, &steps(&Found::default(), Some(&layout()), 0x2000));
    found
}

fn ranks(steps: &[Step]) -> Vec<u8> {
    let rank = |step: &Step| match step {
        Step::SetNat(_) | Step::DropNat => 0,
        Step::AddRoute(_) | Step::DropRoute(_) => 1,
        Step::AddRule(_) | Step::DropRule(_) => 2,
        Step::EndConnections(_) => 3,
    };
    steps.iter().map(rank).collect()
}

#[test]
fn what_is_set_goes_from_nat_to_rules_and_back_and_connections_end_last() {
    let set = steps(&Found::default(), Some(&layout()), 0x2000);
    assert!(ranks(&set).is_sorted(), "{set:?}");
    assert_eq!(
        set.len(),
        1 + 7 + 4,
        "the table, five private networks, one more and the default, two rules a network"
    );
    let mut found = standing();
    assert_eq!(steps(&found, Some(&layout()), 0x2000), []);
    assert_eq!(found.intact(), Some(layout().address));
    let removed = steps(&found, None, 0x2000);
    let (last, before) = removed.split_last().unwrap();
    assert_eq!(*last, Step::EndConnections(0x2000));
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
        assert!(!found.any_ours(), "after {reached} steps");
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
        |layout| layout.address = Ipv4Addr::new(203, 0, 113, 11),
        |layout| layout.anchor = Ipv4Addr::new(10, 10, 0, 6),
        |layout| layout.gateway = Ipv4Addr::new(10, 10, 0, 2),
        |layout| layout.mark = 0x1000,
        |layout| layout.pods.truncate(1),
    ];
    for change in changes {
        let mut other = layout();
        change(&mut other);
        let mut found = standing();
        let todo = steps(&found, Some(&other), other.mark);
        assert!(todo.contains(&Step::EndConnections(0x2000)), "{todo:?}");
        apply(&mut found, &todo);
        assert_eq!(steps(&found, Some(&other), other.mark), []);
        assert_eq!(found.intact(), Some(other.address));
    }
    // The interface and the exceptions affect only routes.
    let other = Layout { interface: 3, except: Vec::new(), ..layout() };
    let mut found = standing();
    let todo = steps(&found, Some(&other), 0x2000);
    assert!(ranks(&todo).iter().all(|rank| *rank == 1), "{todo:?}");
    apply(&mut found, &todo);
    assert_eq!(steps(&found, Some(&other), 0x2000), []);
}

#[test]
fn a_comment_says_how_the_table_was_made_even_where_it_is_cut() {
    let signature = layout().signature();
    assert_eq!(Signature::parse(&signature.to_string()), Some(signature.clone()));
    let mut many = layout();
    many.pods = (0..20).map(|n| network(&format!("10.244.{n}.0/24"))).collect();
    let cut = Signature::parse(&many.signature().to_string()).unwrap();
    assert!(cut.is(&many.signature()) && cut.pod_networks == 20 && !cut.is(&signature));
    for foreign in ["", "flipop", "flipop-agent", "a comment", "flipop-agent x y z 0x1 1 1.2.3.0/24"] {
        assert_eq!(Signature::parse(foreign), None, "{foreign}");
    }
}

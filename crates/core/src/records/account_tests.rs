//! Tests of zone lookups, and of tokens that some zones refuse.

use super::*;
use crate::model::provider::examples::RULES_OF_DNS;

const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

fn account() -> DnsAccount {
    DnsAccount::new("p".into(), RULES_OF_DNS, None)
}

fn refusal() -> CallFailure {
    let message = "403".to_owned();
    let kind = FaultKind::Unauthorized;
    CallFailure::Fault(Fault::new(kind, message))
}

#[test]
fn a_token_is_tried_once_a_minute_where_it_was_refused_and_freely_elsewhere() {
    let mut account = account();
    for zone in ["a", "b"] {
        account.sent(zone, Access::Read, T(0));
        account.answered(zone, Access::Read, Some(&refusal()), Context::exactly(T(0)));
        account.accepted(T(0));
    }
    assert_eq!(account.admit("a", Access::Read, T(1)), Err(Some(T(60))));
    assert_eq!(account.admit("a", Access::Write, T(1)), Err(Some(T(60))));
    assert_eq!(account.admit("c", Access::Read, T(1)), Ok(()));
    assert_eq!(account.admit("a", Access::Read, T(60)), Ok(()));
    account.sent("a", Access::Read, T(60));
    assert_eq!(account.admit("b", Access::Read, T(61)), Err(Some(T(120))), "one a minute and token");
    account.answered("a", Access::Read, None, Context::exactly(T(61)));
    assert_eq!(account.admit("b", Access::Read, T(61)), Ok(()), "it works again");
}

#[test]
fn a_token_that_two_zones_refuse_waits_for_its_probe_in_all_zones() {
    let refuse = |account: &mut DnsAccount, zone: &str, now| {
        account.sent(zone, Access::Read, now);
        account.answered(zone, Access::Read, Some(&refusal()), Context::exactly(now));
    };
    let mut account = account();
    refuse(&mut account, "a", T(0));
    assert_eq!(account.admit("c", Access::Read, T(1)), Ok(()), "it may be the zone's own");
    refuse(&mut account, "b", T(1));
    assert_eq!(account.admit("c", Access::Read, T(2)), Err(Some(T(61))));
    assert_eq!(account.admit("d", Access::Write, T(2)), Err(Some(T(61))));
    // Zones that have refused nothing yet go first: they are the most likely to be readable.
    assert_eq!(account.admit("c", Access::Read, T(61)), Ok(()));
    assert!(account.admit("a", Access::Read, T(61)).is_err_and(|at| at < Some(T(62))));
    account.sent("c", Access::Read, T(61));
    assert_eq!(account.admit("d", Access::Read, T(62)), Err(Some(T(121))), "one a minute");
    account.answered("c", Access::Read, None, Context::exactly(T(62)));
    account.accepted(T(62));
    assert_eq!(["a", "d"].map(|zone| account.admit(zone, Access::Read, T(62))), [Ok(()); 2]);
    // A zone that refuses the token again says nothing new about the token.
    for (zone, now) in [("a", 62), ("b", 63)] {
        refuse(&mut account, zone, T(now));
    }
    assert_eq!(account.admit("d", Access::Read, T(64)), Ok(()));
}

#[test]
fn a_zone_refused_by_name_and_by_id_and_for_reads_and_writes_is_one() {
    let mut account = knowing(&["a.example"]);
    account.looked_up(&ZoneRef::Name("a.example".into()), Ok(found("id", 60)), Context::exactly(T(0)));
    for (zone, access) in [("id", Access::Write), ("id", Access::Read), ("a.example", Access::Read)] {
        account.answered(zone, access, Some(&refusal()), Context::exactly(T(1)));
    }
    assert_eq!(account.admit("d", Access::Read, T(2)), Ok(()));
    account.answered("b", Access::Write, Some(&refusal()), Context::exactly(T(2)));
    assert_eq!(account.admit("d", Access::Read, T(2)), Err(Some(T(62))));
}

#[test]
fn a_token_in_doubt_looks_up_no_name_that_is_known_and_another_one_is_not_in_doubt() {
    let mut account = knowing(&["a.example"]);
    for zone in ["b", "c"] {
        account.answered(zone, Access::Read, Some(&refusal()), Context::exactly(T(700)));
    }
    let name = ZoneRef::Name("a.example".into());
    assert_eq!(account.renewal_due(&name, T(701)), Err(None));
    account.token_changed();
    assert_eq!(account.admit("d", Access::Read, T(701)), Ok(()));
}

#[test]
fn of_many_zones_where_a_token_was_refused_each_has_its_turn() {
    let mut account = account();
    let zones = ["a", "b", "c", "d"];
    let mut tries = [0; 4];
    let refuse = |account: &mut DnsAccount, zone: &str, now| {
        account.sent(zone, Access::Read, now);
        account.answered(zone, Access::Read, Some(&refusal()), Context::exactly(now));
    };
    for id in zones {
        let zone = Zone { id: id.into(), name: None, shown: None, ttl_floor: 60 };
        account.looking_up(&ZoneRef::Id(id.into()));
        account.looked_up(&ZoneRef::Id(id.into()), Ok(zone), Context::exactly(T(0)));
        refuse(&mut account, id, T(0));
    }
    // No object names this zone any more, so no turn is lost to it.
    refuse(&mut account, "former", T(0));
    for second in 1..=40 * 60 {
        // Objects always ask in the same order.
        for (number, zone) in zones.iter().enumerate() {
            if account.admit(zone, Access::Read, T(second)).is_ok() {
                refuse(&mut account, zone, T(second));
                tries[number] += 1;
            }
        }
    }
    assert!(tries.iter().all(|tries| (9..=10).contains(tries)), "{tries:?}");
}

#[test]
fn lookups_of_doubted_zones_leave_room_for_the_reads_that_show_a_repaired_token() {
    let mut account = account();
    let zones = ["a", "b", "c", "d", "e"];
    let name = |id: &str| ZoneRef::Name(format!("{id}.example"));
    let zone =
        |id: &str| Zone { id: id.into(), name: Some(name(id).text().into()), shown: None, ttl_floor: 60 };
    let refuse = |account: &mut DnsAccount, id: &str, now| {
        account.sent(id, Access::Read, now);
        account.answered(id, Access::Read, Some(&refusal()), Context::exactly(now));
        account.doubt(id);
    };
    for id in zones {
        account.looking_up(&name(id));
        account.looked_up(&name(id), Ok(zone(id)), Context::exactly(T(0)));
        refuse(&mut account, id, T(0));
    }
    let mut reads = vec![0];
    for second in 1..=3_600 {
        for id in zones {
            let now = T(second);
            if account.lookup_due(&name(id), now).is_ok() && account.admit(id, Access::Write, now).is_ok() {
                account.sent(id, Access::Write, now);
                account.looking_up(&name(id));
                account.answered(name(id).text(), Access::Read, None, Context::exactly(now));
                account.looked_up(&name(id), Ok(zone(id)), Context::exactly(now));
            }
        }
        for id in zones {
            if account.admit(id, Access::Read, T(second)).is_ok() {
                refuse(&mut account, id, T(second));
                reads.push(second);
            }
        }
    }
    let longest = reads.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest <= 130 && reads.len() >= 28, "{longest}: {reads:?}");
}

#[test]
fn a_token_that_may_only_read_goes_on_reading() {
    let mut account = account();
    account.sent("a", Access::Write, T(0));
    account.answered("a", Access::Write, Some(&refusal()), Context::exactly(T(0)));
    assert_eq!(account.admit("a", Access::Read, T(1)), Ok(()));
    account.sent("a", Access::Read, T(1));
    account.answered("a", Access::Read, None, Context::exactly(T(1)));
    assert_eq!(account.admit("a", Access::Write, T(2)), Err(Some(T(60))));
    assert_eq!(account.refusal("a"), Some("403"));
    account.token_changed();
    assert_eq!(account.admit("a", Access::Write, T(2)), Ok(()));
}

#[test]
fn a_zone_found_by_name_is_known_by_id_too() {
    let mut account = account();
    let (name, id) = (ZoneRef::Name("example.com".into()), ZoneRef::Id("abc".into()));
    assert_eq!(account.lookup_due(&name, T(0)), Ok(()));
    account.looking_up(&name);
    assert_eq!(account.lookup_due(&name, T(0)), Err(None));
    let zone = Zone { id: "abc".into(), name: Some("example.com".into()), shown: None, ttl_floor: 60 };
    account.looked_up(&name, Ok(zone.clone()), Context::exactly(T(1)));
    assert_eq!((account.zone(&name), account.zone(&id)), (Some(zone.clone()), Some(zone)));
    assert_eq!(account.lookup_due(&id, T(1)), Err(None));
    account.zone_gone("abc", "404", Context::exactly(T(1)));
    assert_eq!(account.zone(&name), None);
    assert_eq!(account.lookup_due(&name, T(2)), Err(Some(T(61))));
}

#[test]
fn a_zone_that_is_not_found_is_looked_for_ever_more_slowly() {
    let mut account = account();
    let name = ZoneRef::Name("example.com".into());
    let fault = fault(FaultKind::NotFound);
    for (now, due) in [(0, 60), (60, 360), (360, 960)] {
        account.looking_up(&name);
        account.looked_up(&name, Err(fault.clone()), Context::exactly(T(now)));
        assert_eq!(account.lookup_due(&name, T(now)), Err(Some(T(due))));
    }
    assert_eq!(account.zone_failure(&name).map(|(_, count, _)| count), Some(3));
    account.token_changed();
    assert_eq!(account.lookup_due(&name, T(400)), Ok(()));
}

#[test]
fn a_zone_that_the_former_token_may_not_see_is_looked_up_at_once_with_another_one() {
    let mut account = account();
    let name = ZoneRef::Name("example.com".into());
    for (answer, due) in [(CallFailure::NotSent, Ok(())), (refusal(), Err(Some(T(60))))] {
        account.looking_up(&name);
        account.token_changed();
        account.looked_up(&name, Err(answer), Context::exactly(T(0)));
        assert_eq!(account.lookup_due(&name, T(0)), due);
    }
}

fn found(id: &str, ttl_floor: u32) -> Zone {
    Zone { id: id.into(), name: Some("example.com".into()), shown: None, ttl_floor }
}

fn fault(kind: FaultKind) -> CallFailure {
    let message = "so it is".to_owned();
    CallFailure::Fault(Fault::new(kind, message))
}

/// An account that found these names at the beginning.
fn knowing(names: &[&str]) -> DnsAccount {
    let mut account = account();
    for name in names {
        let zone = ZoneRef::Name((*name).into());
        account.looking_up(&zone);
        account.looked_up(&zone, Ok(found(name, 60)), Context::exactly(T(0)));
    }
    account
}

#[test]
fn a_name_that_is_known_is_looked_up_again_every_ten_minutes_whatever_comes_of_it() {
    let mut account = knowing(&["example.com"]);
    let name = ZoneRef::Name("example.com".into());
    let answers = [
        (Err(fault(FaultKind::NotFound)), found("example.com", 60)),
        (Err(fault(FaultKind::Transient)), found("example.com", 60)),
        (Err(fault(FaultKind::Unauthorized)), found("example.com", 60)),
        (Err(fault(FaultKind::Invalid)), found("example.com", 60)),
        (Ok(found("example.com", 30)), found("example.com", 30)),
        (Ok(found("other", 60)), found("other", 60)),
    ];
    for (round, (answer, known)) in (1..).zip(answers) {
        assert_eq!(account.renewal_due(&name, T(600 * round - 1)), Err(Some(T(600 * round))), "{answer:?}");
        assert_eq!(account.renewal_due(&name, T(600 * round)), Ok(()), "{answer:?}");
        account.renewing(&name);
        assert_eq!(account.renewal_due(&name, T(600 * round)), Err(None), "it is under way");
        account.looked_up(&name, answer, Context::exactly(T(600 * round)));
        assert_eq!((account.zone(&name), account.zone_failure(&name)), (Some(known), None));
        assert_eq!(account.lookup_due(&name, T(600 * round)), Err(None));
    }
    assert_eq!(account.renewal_due(&ZoneRef::Id("other".into()), T(9_000)), Err(None), "an id stays");
}

#[test]
fn names_are_looked_up_again_one_at_a_time_and_one_a_minute_where_that_is_refused() {
    let names = ["a.example", "b.example", "c.example"];
    let mut account = knowing(&names);
    let zones = names.map(|name| ZoneRef::Name(name.into()));
    account.renewing(&zones[0]);
    assert_eq!(account.renewal_due(&zones[1], T(600)), Err(None), "it waits for the answer");
    account.looked_up(&zones[0], Ok(found("a.example", 60)), Context::exactly(T(601)));
    assert_eq!(account.renewal_due(&zones[1], T(601)), Ok(()));
    account.renewing(&zones[1]);
    account.looked_up(&zones[1], Err(fault(FaultKind::Unauthorized)), Context::exactly(T(602)));
    assert_eq!(account.renewal_due(&zones[2], T(602)), Err(Some(T(662))));
    assert_eq!(account.renewal_due(&zones[1], T(602)), Err(Some(T(1_202))));
    assert_eq!(account.renewal_due(&zones[2], T(662)), Ok(()));
}

#[test]
fn a_zone_that_refuses_its_reads_is_looked_up_for_that_reason_only() {
    let mut account = knowing(&["example.com"]);
    let name = ZoneRef::Name("example.com".into());
    account.sent("example.com", Access::Read, T(1));
    account.answered("example.com", Access::Read, Some(&refusal()), Context::exactly(T(1)));
    assert_eq!(account.renewal_due(&name, T(700)), Err(None));
    account.doubt("example.com");
    assert_eq!((account.lookup_due(&name, T(700)), account.renewal_due(&name, T(700))), (Ok(()), Err(None)));
    // This lookup counts if it does not find the zone.
    account.looking_up(&name);
    account.looked_up(&name, Err(fault(FaultKind::NotFound)), Context::exactly(T(700)));
    assert_eq!(account.zone(&name), None);
}

#[test]
fn a_lookup_that_only_looks_again_spares_no_refused_write_its_wait() {
    let mut account = knowing(&["example.com"]);
    let name = ZoneRef::Name("example.com".into());
    account.sent("example.com", Access::Write, T(600));
    account.answered("example.com", Access::Write, Some(&refusal()), Context::exactly(T(600)));
    account.renewing(&name);
    account.looked_up(&name, Ok(found("example.com", 60)), Context::exactly(T(601)));
    assert_eq!(account.admit("example.com", Access::Write, T(602)), Err(Some(T(660))));
}

#[test]
fn a_refusal_is_forgotten_once_nobody_names_its_zone_and_it_may_be_tried_again() {
    let mut account = knowing(&["a.example", "b.example"]);
    // In this order: named at a provider without ids, found as an id, not found by name, written as an id, and named by
    // nobody.
    let refused = ["plain.example", "a.example", "b.example", "written", "former"];
    for zone in refused {
        account.sent(zone, Access::Read, T(0));
        account.answered(zone, Access::Read, Some(&refusal()), Context::exactly(T(0)));
        account.answered(zone, Access::Write, Some(&refusal()), Context::exactly(T(0)));
    }
    let named = |zone: &ZoneRef| match zone {
        ZoneRef::Name(name) => ["a.example", "plain.example"].contains(&name.as_str()),
        ZoneRef::Id(id) => id == "written",
    };
    account.retain(named, T(59));
    let kept = |account: &DnsAccount| refused.map(|zone| account.refusal(zone).is_some());
    assert_eq!(kept(&account), [true; 5], "an object that comes back has to wait");
    assert!(account.admit("former", Access::Read, T(59)).is_err());
    account.retain(named, T(10_000));
    assert_eq!(kept(&account), [true, true, false, true, false]);
    assert_eq!(refused.map(|zone| account.refusals.refuses_reads(zone)), kept(&account));
    let id = |zone: &ZoneRef| *zone == ZoneRef::Name("c.example".into());
    account.looking_up(&ZoneRef::Name("c.example".into()));
    account.looked_up(
        &ZoneRef::Name("c.example".into()),
        Ok(found("written", 60)),
        Context::exactly(T(10_000)),
    );
    account.answered("written", Access::Write, Some(&refusal()), Context::exactly(T(10_000)));
    account.retain(id, T(90_000));
    assert_eq!(kept(&account), [false, false, false, true, false], "it is the id of a name");
}

#[test]
fn a_name_in_doubt_or_being_looked_up_needs_no_other_lookup() {
    let mut account = knowing(&["example.com"]);
    let name = ZoneRef::Name("example.com".into());
    account.doubt("example.com");
    assert_eq!(account.renewal_due(&name, T(700)), Err(None));
    account.looking_up(&name);
    assert_eq!(account.renewal_due(&name, T(700)), Err(None));
    account.looked_up(&name, Err(fault(FaultKind::Transient)), Context::exactly(T(700)));
    assert_eq!(account.zone(&name), Some(found("example.com", 60)), "no answer says nothing of it");
}

#[test]
fn what_the_former_id_of_a_name_refused_is_forgotten_and_what_others_refused_is_not() {
    let mut account = knowing(&["a.example", "b.example"]);
    for zone in ["a.example", "b.example"] {
        account.answered(zone, Access::Write, Some(&refusal()), Context::exactly(T(0)));
    }
    let name = ZoneRef::Name("a.example".into());
    account.looking_up(&name);
    account.looked_up(&name, Ok(found("new", 60)), Context::exactly(T(1)));
    assert_eq!((account.refusal("a.example"), account.refusal("b.example")), (None, Some("403")));
}

#[test]
fn a_zone_that_was_found_again_is_read_at_once_and_before_others_are_looked_up() {
    let mut account = knowing(&["a.example", "b.example"]);
    let [a, b] = ["a.example", "b.example"].map(|name| ZoneRef::Name(name.into()));
    for zone in ["a.example", "b.example"] {
        account.answered(zone, Access::Read, Some(&refusal()), Context::exactly(T(0)));
        account.accepted(T(0));
        account.doubt(zone);
    }
    account.looking_up(&a);
    account.looked_up(&a, Ok(found("a.example", 60)), Context::exactly(T(1)));
    assert_eq!(account.admit("a.example", Access::Read, T(1)), Ok(()));
    assert_eq!(account.admit("b.example", Access::Read, T(1)), Err(Some(T(120))));
    let Err(Some(after)) = account.lookup_due(&b, T(1)) else { panic!("the read goes first") };
    assert!(after > T(1));
    assert_eq!(account.lookup_due(&b, after), Ok(()));
}

#[test]
fn only_the_zone_that_may_have_shown_its_name_is_looked_up_for_it() {
    let mut account = account();
    let ids = ["hidden", "other", "shown"];
    let zones = ids.map(|id| ZoneRef::Id(id.into()));
    for (id, zone) in ids.iter().zip(&zones) {
        let shown = (*id == "shown").then(|| "example.com".to_owned());
        account.looking_up(zone);
        let found = Zone { id: (*id).into(), name: None, shown, ttl_floor: 60 };
        account.looked_up(zone, Ok(found), Context::exactly(T(0)));
    }
    for id in ["hidden", "shown"] {
        account.name_may_show(id, T(5));
    }
    let due = zones.each_ref().map(|zone| account.lookup_due(zone, T(5)).is_ok());
    assert_eq!(due, [true, false, false]);
}

#[test]
fn a_refusal_in_a_zone_that_nobody_names_is_kept_until_its_zone_may_be_tried() {
    let mut account = account();
    account.answered("former", Access::Write, Some(&refusal()), Context::exactly(T(0)));
    account.retain(|_| false, T(59));
    assert_eq!(account.admit("former", Access::Write, T(59)), Err(Some(T(60))));
    account.retain(|_| false, T(60));
    assert_eq!(account.refusal("former"), None);
}

#[test]
fn with_another_token_a_name_may_mean_another_zone_and_an_id_may_not() {
    let mut account = knowing(&["example.com"]);
    let [name, id, unknown] = [
        ZoneRef::Name("example.com".into()),
        ZoneRef::Id("abc".into()),
        ZoneRef::Name("nowhere.example".into()),
    ];
    account.looking_up(&id);
    account.looked_up(&id, Ok(found("abc", 60)), Context::exactly(T(0)));
    account.looking_up(&unknown);
    account.looked_up(&unknown, Err(fault(FaultKind::NotFound)), Context::exactly(T(0)));
    account.token_changed();
    let due = [&name, &id, &unknown].map(|zone| account.lookup_due(zone, T(1)));
    assert_eq!(due, [Ok(()), Err(None), Ok(())]);
    assert!(account.lookups[&name].doubted && !account.lookups[&unknown].doubted);
}

use super::*;
use proptest::prelude::*;

fn ip(last: u8) -> Address {
    Address::from([192, 0, 2, last])
}

fn a(id: &str, last: u8, ttl: u32) -> Record {
    Record { id: id.into(), kind: "A".into(), data: ip(last).to_string(), ttl, proxied: false }
}

fn exact(addresses: &[u8], ttl: TtlRule) -> Wanted {
    let target = Target::Exact(addresses.iter().map(|last| ip(*last)).collect());
    Wanted { target, undecided: BTreeSet::new(), ttl }
}

const EVERY: TtlRule = TtlRule::Every(60);
const NEW: TtlRule = TtlRule::New(60);

fn update(id: &str, last: u8, ttl: u32) -> Change {
    Change::Update { id: id.into(), ip: ip(last), ttl }
}

fn create(last: u8) -> Change {
    Change::Create { ip: ip(last), ttl: 60 }
}

fn delete(id: &str) -> Change {
    Change::Delete { id: id.into() }
}

#[test]
fn what_goes_is_paired_with_what_comes() {
    let (one, two, three) = (a("1", 1, 60), a("2", 2, 60), a("3", 3, 60));
    for (before, wanted, changes, survivor) in [
        (vec![], vec![1, 2], vec![create(1), create(2)], false),
        (vec![one.clone()], vec![1], vec![], true),
        (vec![one.clone()], vec![2], vec![update("1", 2, 60)], false),
        (vec![one.clone(), two.clone()], vec![2, 3, 4], vec![update("1", 3, 60), create(4)], true),
        (vec![one.clone(), two.clone(), three.clone()], vec![3], vec![delete("1"), delete("2")], true),
        (
            vec![one.clone(), two.clone(), three],
            vec![9],
            vec![update("1", 9, 60), delete("2"), delete("3")],
            false,
        ),
        (vec![one.clone(), a("7", 1, 60)], vec![1], vec![delete("7")], true),
        (vec![one, a("7", 1, 60)], vec![1, 2], vec![update("7", 2, 60)], true),
    ] {
        let found = diff(&before, &exact(&wanted, EVERY));
        assert_eq!(found, ChangeSet { changes, survivor }, "{before:?} to {wanted:?}");
    }
}

#[test]
fn a_proof_writes_one_address_that_stays_as_it_is_and_relies_on_no_other() {
    let text = Record { kind: "TXT".into(), ..a("0", 1, 60) };
    let before = [text, a("1", 1, 60), a("2", 2, 1_800), a("3", 3, 60)];
    let set =
        |ids: &[&str], survivor| ChangeSet { changes: ids.iter().map(|id| delete(id)).collect(), survivor };
    for (changes, proof) in [
        (set(&["1"], true), Some(update("2", 2, 1_800))),
        (set(&["2", "3"], true), Some(update("1", 1, 60))),
        (set(&["1", "2", "3"], false), None),
    ] {
        let mut expected = changes.clone();
        expected.survivor = changes.survivor && proof.is_none();
        expected.changes.splice(0..0, proof);
        assert_eq!(with_proof(&before, changes), expected);
    }
}

#[test]
fn of_two_records_with_one_address_the_one_with_the_right_ttl_stays() {
    let before = [a("1", 1, 1_800), a("2", 1, 60)];
    assert_eq!(diff(&before, &exact(&[1], EVERY)).changes, [delete("1")]);
}

#[test]
fn a_ttl_is_put_right_in_place_unless_existing_ones_are_to_be_kept() {
    let before = [a("1", 1, 1_800), a("2", 2, 60)];
    assert_eq!(diff(&before, &exact(&[1, 2], EVERY)).changes, [update("1", 1, 60)]);
    assert!(diff(&before, &exact(&[1, 2], NEW)).is_empty());
    assert_eq!(diff(&before, &exact(&[2, 3, 4], NEW)).changes, [update("1", 3, 1_800), create(4)]);
}

#[test]
fn a_proxied_record_reads_an_automatic_ttl_which_counts_as_right() {
    let proxied = Record { proxied: true, ..a("1", 1, 1) };
    assert!(diff(std::slice::from_ref(&proxied), &exact(&[1], EVERY)).is_empty());
    assert_eq!(diff(&[proxied], &exact(&[2], EVERY)).changes, [update("1", 2, 1)]);
    assert_eq!(diff(&[a("1", 1, 1)], &exact(&[1], EVERY)).changes, [update("1", 1, 60)]);
}

#[test]
fn an_empty_target_deletes_and_keep_does_nothing() {
    let before = [a("1", 1, 60), a("2", 2, 60)];
    let wanted = |target| Wanted { target, undecided: BTreeSet::new(), ttl: EVERY };
    assert_eq!(diff(&before, &wanted(Target::Empty)).changes, [delete("1"), delete("2")]);
    assert!(diff(&before, &wanted(Target::Keep)).is_empty());
}

#[test]
fn an_address_of_which_too_little_is_known_stays_and_is_not_added() {
    let mut wanted = exact(&[1], EVERY);
    wanted.undecided.insert(ip(2));
    assert!(diff(&[a("1", 1, 60), a("2", 2, 60)], &wanted).is_empty());
    assert!(diff(&[a("1", 1, 60)], &wanted).is_empty());
}

#[test]
fn an_alias_blocks_and_other_types_do_not() {
    let alias = Record { kind: "CNAME".into(), data: "www".into(), ..a("9", 1, 60) };
    assert!(diff(&[alias], &exact(&[1], EVERY)).is_empty());
    let text =
        Record { kind: "TXT".into(), data: "\"heritage=external-dns,owner=x\"".into(), ..a("9", 1, 60) };
    assert!(is_marked_by_external_dns(std::slice::from_ref(&text)));
    assert_eq!(diff(&[text], &exact(&[1], EVERY)).changes, [create(1)]);
}

#[test]
fn a_record_whose_content_is_no_address_is_used_up_first() {
    let odd = Record { data: "nonsense".into(), ..a("1", 1, 60) };
    assert_eq!(diff(&[odd], &exact(&[1], EVERY)).changes, [update("1", 1, 60)]);
}

/// Applies a change exactly as a provider does.
fn apply(records: &mut Vec<Record>, change: &Change, serial: usize) -> Option<Record> {
    match change {
        Change::Update { id, ip, ttl } => {
            let record = records.iter_mut().find(|record| record.id == *id).unwrap();
            assert_eq!(record.kind, "A", "only address records are ours");
            record.data = ip.to_string();
            record.ttl = if record.proxied { 1 } else { *ttl };
            Some(record.clone())
        }
        Change::Create { ip, ttl } => {
            let record = Record {
                id: format!("new-{serial}"),
                kind: "A".into(),
                data: ip.to_string(),
                ttl: *ttl,
                proxied: false,
            };
            records.push(record.clone());
            Some(record)
        }
        Change::Delete { id } => {
            let at = records.iter().position(|record| record.id == *id).unwrap();
            assert_eq!(records.remove(at).kind, "A", "only address records are ours");
            None
        }
    }
}

fn record() -> impl Strategy<Value = Record> {
    let kind = prop_oneof![6 => Just("A"), 1 => Just("AAAA"), 1 => Just("TXT"), 1 => Just("NS")];
    let ttl = prop_oneof![Just(1_u32), Just(60), Just(1_800)];
    (kind, 0..9_u8, ttl, any::<bool>(), any::<bool>()).prop_map(|(kind, last, ttl, proxied, odd)| {
        let data = if odd && last == 0 { "odd".to_owned() } else { ip(last).to_string() };
        let ttl = if proxied { 1 } else { ttl };
        Record { id: String::new(), kind: kind.into(), data, ttl, proxied }
    })
}

fn zone() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec(record(), 0..10).prop_map(|records| {
        records.into_iter().enumerate().map(|(n, record)| Record { id: n.to_string(), ..record }).collect()
    })
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let some = || prop::collection::btree_set((0..9_u8).prop_map(ip), 1..6);
    let target = prop_oneof![
        4 => some().prop_map(Target::Exact),
        1 => Just(Target::Empty),
        1 => Just(Target::Keep),
        1 => some().prop_map(Target::Without),
    ];
    let ttl = prop_oneof![Just(EVERY), Just(NEW), Just(TtlRule::Every(1))];
    let undecided = prop::collection::btree_set((0..9_u8).prop_map(ip), 0..3);
    (target, undecided, ttl).prop_map(|(target, undecided, ttl)| Wanted { target, undecided, ttl })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, ..ProptestConfig::default() })]

    #[test]
    fn applying_the_changes_yields_what_is_wanted_never_through_empty_and_leaves_all_else(
        before in zone(), wanted in wanted(),
    ) {
        let set = diff(&before, &wanted);
        let mut records = before.clone();
        let mut answered = Vec::new();
        let had = !addresses(&before).is_empty();
        for (serial, change) in set.changes.iter().enumerate() {
            answered.extend(apply(&mut records, change, serial));
            if had && !matches!(wanted.target, Target::Empty | Target::Without(_)) {
                prop_assert!(!addresses(&records).is_empty(), "empty after {:?} of {:?}", change, set);
            }
        }
        let others = |records: &[Record]| {
            records.iter().filter(|record| record.kind != "A").cloned().collect::<Vec<_>>()
        };
        prop_assert_eq!(others(&before), others(&records));
        let a_records = records.iter().filter(|record| record.kind == "A").count();
        match &wanted.target {
            Target::Keep => prop_assert_eq!(&records, &before),
            Target::Empty => prop_assert_eq!(a_records, 0),
            Target::Without(gone) => {
                let stays = |record: &&Record| record.address().is_none_or(|ip| !gone.contains(&ip));
                let stay: Vec<Record> = before.iter().filter(stays).cloned().collect();
                prop_assert_eq!(&records, &stay);
            }
            Target::Exact(exact) => {
                let stays = addresses(&before).intersection(&wanted.undecided).copied().collect();
                let right: BTreeSet<Address> = exact.union(&stays).copied().collect();
                prop_assert_eq!(addresses(&records), right);
                prop_assert_eq!(a_records, addresses(&records).len());
            }
        }
        prop_assert!(diff(&records, &wanted).is_empty(), "a second pass changes more");
        let mut after_all = after(&before, &set.changes, answered);
        after_all.sort();
        records.sort();
        prop_assert_eq!(after_all, records);
    }

    #[test]
    fn stopped_anywhere_the_rest_is_what_a_new_look_asks_for(before in zone(), wanted in wanted(), stop in 0..8_usize) {
        let set = diff(&before, &wanted);
        let mut records = before;
        for (serial, change) in set.changes.iter().take(stop).enumerate() {
            apply(&mut records, change, serial);
        }
        let left = set.changes.len().saturating_sub(stop);
        prop_assert_eq!(diff(&records, &wanted).changes.len(), left);
    }

    #[test]
    fn the_order_of_the_records_does_not_matter(before in zone().prop_shuffle(), wanted in wanted()) {
        let mut sorted = before.clone();
        sorted.sort();
        prop_assert_eq!(diff(&before, &wanted), diff(&sorted, &wanted));
    }
}

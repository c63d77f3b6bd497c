//! Cloudflare's particularities: batches, proxied records, zones by name and by id, and its rate limits.

use super::dns_support::{WWW, World, ZONE, a_records, address, changes, cloudflare, create, delete, update};
use super::server::{Server, answer};
use super::{TOKEN, account, config};
use flipop::provider::CallError;
use flipop::provider::cloudflare::{Cloudflare, DESCRIPTOR};
use flipop::provider::dns::{Applied, DnsProvider, Unfinished};
use flipop_cloud::{Fault, Op, Plan, Provider, RecordView, Refusal, When};
use flipop_core::mechanism::{Budget, Purpose};
use flipop_core::model::{
    CallFailure, Context, FaultKind, Moment, ObjectKind, ObjectName, ObjectRef, Owner, Uid,
};
use flipop_core::records::diff::{Target, TtlRule, Wanted};
use flipop_core::records::dns::{Change, ChangeSet, Record};
use flipop_core::records::name::qualify;
use flipop_core::records::site::{Applied as SiteApplied, Site, Step};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

fn creates(count: u32) -> ChangeSet {
    let ip = |n| Ipv4Addr::from(u32::from(address("10.0.0.0")) + n);
    changes((0..count).map(|n| Change::Create { ip: ip(n).into(), ttl: 60 }))
}

#[tokio::test]
async fn a_change_set_is_one_batch_as_long_as_a_record_survives() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let (a, b, _c) = (world.add("192.0.2.1"), world.add("192.0.2.2"), world.add("192.0.2.3"));
    let set =
        ChangeSet { survivor: true, ..changes([update(&a, "192.0.2.8"), create("192.0.2.9"), delete(&b)]) };
    world.apply(&set).await.unwrap();
    assert_eq!(world.addresses(), ["192.0.2.3", "192.0.2.8", "192.0.2.9"]);
    let batches = world.calls(Op::BatchRecords);
    let body: serde_json::Value = serde_json::from_str(&batches[0].body).unwrap();
    let expected = serde_json::json!({
        "deletes": [{"id": b}],
        "patches": [{"id": a, "content": "192.0.2.8", "ttl": 60}],
        "posts": [{"type": "A", "name": WWW, "content": "192.0.2.9", "ttl": 60, "proxied": false}],
    });
    assert_eq!((batches.len(), body), (1, expected));
}

#[tokio::test]
async fn deletions_wait_for_the_rest_when_no_record_survives() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let (a, b) = (world.add("192.0.2.1"), world.add("192.0.2.2"));
    let set = changes([update(&a, "192.0.2.8"), delete(&b)]);
    world.next(Op::BatchRecords, Fault::Refuse(Refusal::Forbidden));
    let (done, _) = world.apply_fault(&set).await;
    assert_eq!((done, world.calls(Op::BatchRecords).len()), (0, 1), "no deletion after a failed change");
    assert_eq!(world.addresses(), ["192.0.2.1", "192.0.2.2"]);
    world.apply(&set).await.unwrap();
    let bodies: Vec<String> =
        world.calls(Op::BatchRecords).into_iter().skip(1).map(|call| call.body).collect();
    assert!(
        bodies.len() == 2 && bodies[0].contains("patches") && !bodies[0].contains("deletes"),
        "{bodies:?}"
    );
    assert_eq!(world.addresses(), ["192.0.2.8"]);
}

#[tokio::test]
async fn a_large_set_is_several_batches_of_what_the_smallest_plan_takes() {
    for (count, batches) in [(1, 1), (199, 1), (200, 1), (201, 2), (450, 3)] {
        let world = cloudflare(&["*"], Plan::Free).await;
        let applied = world.apply(&creates(count)).await.unwrap();
        assert_eq!(applied.records.len(), usize::try_from(count).unwrap());
        assert_eq!(a_records(&applied.records), a_records(&world.read().await.unwrap()));
        assert_eq!(world.calls(Op::BatchRecords).len(), batches, "{count}");
    }
}

#[tokio::test]
async fn a_failed_batch_says_how_many_changes_came_before_it() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let second = flipop_cloud::Target::op(Op::BatchRecords).containing("\"10.0.0.200\"");
    let _id = world.cloud().inject(flipop_cloud::Injection::once(second, Fault::Reset(When::After)));
    let (done, fault) = world.apply_fault(&creates(201)).await;
    assert_eq!((done, fault.kind, fault.outcome_unknown), (200, FaultKind::Transient, true));
}

#[tokio::test]
async fn proxying_comment_and_tags_of_an_updated_record_stay() {
    let world = cloudflare(&["*"], Plan::Enterprise).await;
    let mut dressed = RecordView::new(WWW, "A", "192.0.2.1", 1);
    dressed.proxied = true;
    dressed.comment = Some("by hand".to_owned());
    dressed.tags = vec!["team:web".to_owned()];
    let id = world.add_record(&dressed);
    let read = world.read().await.unwrap();
    let expected =
        Record { id: id.clone(), kind: "A".into(), data: "192.0.2.1".into(), ttl: 1, proxied: true };
    assert_eq!(read, std::slice::from_ref(&expected));
    let left = world.apply(&changes([update(&id, "192.0.2.2")])).await.unwrap().records;
    assert_eq!(left, [Record { data: "192.0.2.2".into(), ..expected }]);
    let after = world.cloud().records(Provider::Cloudflare, ZONE).remove(0);
    assert_eq!(after, RecordView { id, data: "192.0.2.2".into(), ..dressed });
    world.apply(&changes([create("192.0.2.3")])).await.unwrap();
    assert!(!world.cloud().records(Provider::Cloudflare, ZONE)[1].proxied, "a new record is not proxied");
}

#[tokio::test]
async fn a_record_that_exists_is_as_good_as_made() {
    let world = cloudflare(&["*"], Plan::Free).await;
    // With the same TTL (81058) and with another one (81057).
    world.add("192.0.2.1");
    world.add_record(&RecordView::new(WWW, "A", "192.0.2.2", 300));
    let applied =
        world.apply(&changes([create("192.0.2.1"), create("192.0.2.2"), create("192.0.2.3")])).await;
    let left = a_records(&applied.unwrap().records);
    assert_eq!(
        left,
        [(address("192.0.2.1"), 60), (address("192.0.2.3"), 60)],
        "what has to be read again is left out"
    );
    assert_eq!(world.addresses(), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let before = world.cloud().next_call();
    world.apply(&changes([create("192.0.2.1"), create("192.0.2.2")])).await.unwrap();
    let ops: Vec<Op> = world.cloud().calls(before).into_iter().map(|call| call.op).collect();
    assert_eq!(ops, [Op::BatchRecords, Op::ListRecords], "nothing was left to do");
}

/// The zone is full: it refuses every change that would create a record.
fn no_room(world: &World) -> Fault {
    let full = br#"{"success": false, "errors": [{"code": 81045, "message": "The record quota has been exceeded."}]}"#;
    let refused = Fault::Answer { status: 400, headers: Vec::new(), body: full.to_vec() };
    let new = flipop_cloud::Target::op(Op::BatchRecords).containing("posts");
    let _id = world.cloud().inject(flipop_cloud::Injection::always(new, refused.clone()));
    refused
}

#[tokio::test]
async fn a_full_zone_holds_up_no_change_of_the_records_that_it_has() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let id = world.add("192.0.2.1");
    let refused = no_room(&world);
    let applied = world.apply(&changes([update(&id, "192.0.2.2"), create("192.0.2.3")])).await.unwrap();
    assert_eq!((applied.done, world.addresses()), (1, vec!["192.0.2.2".to_owned()]));
    assert_eq!(a_records(&applied.records), [(address("192.0.2.2"), 60)]);
    let (done, fault) = world.apply_fault(&changes([create("192.0.2.3"), create("192.0.2.4")])).await;
    assert_eq!((done, fault.kind), (0, FaultKind::Quota), "nothing else was to be done");
    assert_eq!(world.calls(Op::BatchRecords).len(), 3);
    world.next(Op::BatchRecords, refused);
    let (done, fault) = world.apply_fault(&changes([update(&id, "192.0.2.5")])).await;
    assert_eq!((done, fault.kind, world.calls(Op::BatchRecords).len()), (0, FaultKind::Quota, 4));
}

#[tokio::test]
async fn what_waits_for_room_in_a_full_zone_holds_up_the_deletions_after_it() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let (a, b) = (world.add("192.0.2.1"), world.add("192.0.2.2"));
    let _refused = no_room(&world);
    let set = changes([update(&a, "192.0.2.3"), create("192.0.2.4"), delete(&b)]);
    let applied = world.apply(&set).await.unwrap();
    assert_eq!((applied.done, world.addresses()), (1, vec!["192.0.2.2".to_owned(), "192.0.2.3".to_owned()]));
}

/// Others decide when a call may be made. A client holds back only the follow-up calls that it makes itself.
#[tokio::test]
async fn a_round_that_is_asked_for_is_begun_whatever_the_token_was_told_before() {
    let world = cloudflare(&["*"], Plan::Free).await;
    world.next(Op::ListRecords, Fault::Throttle { retry_after_s: Some(30) });
    assert_eq!(world.read().await.unwrap_err().kind, FaultKind::Throttled);
    world.apply(&creates(1)).await.unwrap();
    assert_eq!(world.addresses(), ["10.0.0.0"]);
}

/// The result of three creations, of which the first and the last are already done, if something happens between the
/// refusal of the batch and the retry of the rest.
async fn held_up(world: &World, meanwhile: impl Future<Output = ()>) -> Applied {
    world.add("192.0.2.1");
    world.add("192.0.2.3");
    let set = changes([create("192.0.2.1"), create("192.0.2.2"), create("192.0.2.3")]);
    let applied = world.while_slow((Op::ListRecords, 1), world.apply(&set), meanwhile).await.unwrap();
    assert_eq!(world.calls(Op::BatchRecords).len(), 1, "the rest is not sent");
    assert_eq!(world.addresses(), ["192.0.2.1", "192.0.2.3"]);
    applied
}

#[tokio::test]
async fn the_rest_of_a_batch_is_not_sent_once_the_process_ends_or_while_the_token_has_to_be_left_alone() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let applied = held_up(&world, async { world.leadership.source.close() }).await;
    assert_eq!((applied.done, a_records(&applied.records)), (1, vec![(address("192.0.2.1"), 60)]));

    let world = cloudflare(&["*"], Plan::Free).await;
    let refused = async {
        world.next(Op::ListZones, Fault::Throttle { retry_after_s: Some(30) });
        let fault = world.client.find_zone(&account(), ZONE).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Throttled);
    };
    let applied = held_up(&world, refused).await;
    assert_eq!((applied.done, a_records(&applied.records)), (1, vec![(address("192.0.2.1"), 60)]));
}

#[tokio::test]
async fn the_ttl_of_a_record_that_exists_already_is_put_right_and_nothing_fails() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let addresses = ["192.0.2.1", "192.0.2.2"].map(|ip| address(ip).into());
    let (target, undecided) = (Target::Exact(addresses.into()), BTreeSet::new());
    let wanted = Wanted { target, undecided, ttl: TtlRule::Every(60) };
    let object = ObjectRef { uid: Uid("set".into()), name: ObjectName::new("ns", "set") };
    let owner = Owner { kind: ObjectKind::RecordSet, object };
    let (mut site, now, mut steps) = (Site::default(), Moment::default(), Vec::new());
    loop {
        match site.next(&wanted, now, false, now) {
            Step::Read => {
                steps.push("read");
                site.reading(now);
                site.read(world.read().await.map_err(CallFailure::Fault), Context::exactly(now));
                if steps.len() == 1 {
                    // Somebody else is faster.
                    world.add_record(&RecordView::new(WWW, "A", "192.0.2.2", 300));
                }
            }
            Step::Apply(set) => {
                steps.push("apply");
                site.applying(wanted.clone(), set.changes.clone(), 0, owner.clone(), now);
                let applied = world.apply(&set).await.unwrap();
                assert_eq!(site.applied(Ok(applied.records), Context::exactly(now)), SiteApplied::Done);
            }
            Step::Rest(_) => break,
            step @ (Step::Busy | Step::Wait(_) | Step::Reread) => {
                panic!("{step:?} after {steps:?}: {:?}", site.failure())
            }
        }
    }
    assert_eq!(steps, ["read", "apply", "read", "apply"]);
    assert_eq!(a_records(&world.read().await.unwrap()), addresses.map(|ip| (ip.as_v4().unwrap(), 60)));
}

#[tokio::test]
async fn a_record_that_is_said_to_exist_and_is_not_shown_is_waited_for() {
    let world = cloudflare(&["*"], Plan::Free).await;
    world.next(Op::BatchRecords, Fault::Refuse(Refusal::IdenticalRecord));
    let (done, fault) = world.apply_fault(&changes([create("192.0.2.1")])).await;
    assert_eq!((done, fault.kind, fault.outcome_unknown), (0, FaultKind::InProgress, false));
    assert_eq!(
        world.calls(Op::ListRecords).len(),
        1,
        "the zone's name is known: nothing else is to be found out"
    );
    // An update to an address that another record has. Only another look at the whole set can decide what to do.
    let (a, _b) = (world.add("192.0.2.1"), world.add("192.0.2.2"));
    let (_, fault) = world.apply_fault(&changes([update(&a, "192.0.2.2")])).await;
    assert_eq!(fault.kind, FaultKind::InProgress);
    assert_eq!(world.addresses(), ["192.0.2.1", "192.0.2.2"]);
}

#[tokio::test]
async fn a_zone_is_asked_for_once() {
    let world = cloudflare(&["*"], Plan::Free).await;
    for _ in 0..3 {
        let zone = world.client.find_zone(&account(), ZONE).await.unwrap();
        assert_eq!(zone, world.zone);
        world.client.find_zone(&account(), &world.zone.id).await.unwrap();
    }
    assert_eq!((world.calls(Op::ListZones).len(), world.calls(Op::GetZone).len()), (1, 1));
}

#[tokio::test]
async fn what_is_remembered_of_a_zone_is_dropped_when_it_refuses() {
    let world = cloudflare(&["*"], Plan::Free).await;
    world.client.find_zone(&account(), ZONE).await.unwrap();
    world.next(Op::ListRecords, Fault::Refuse(Refusal::Forbidden));
    world.read().await.unwrap_err();
    world.client.find_zone(&account(), ZONE).await.unwrap();
    assert_eq!(world.calls(Op::ListZones).len(), 2);
}

#[tokio::test]
async fn of_several_zones_of_one_name_the_active_one_is_meant() {
    let zones = |list: &str| format!(r#"{{"success": true, "errors": [], "result": [{list}]}}"#);
    let zone =
        |id: u8, status: &str| format!(r#"{{"id": "{id}", "name": "example.com", "status": "{status}"}}"#);
    for (list, expected) in [
        (vec![zone(1, "moved"), zone(2, "active")], Ok("2")),
        (vec![zone(1, "pending")], Ok("1")),
        (vec![zone(1, "active"), zone(2, "active")], Err("several zones")),
        (vec![r#"{"id": "1", "name": "other.com"}"#.to_owned()], Err("no zone example.com")),
    ] {
        let body = zones(&list.join(","));
        let server = Server::start(move |_| answer(200, &[], &body)).await;
        let client = Cloudflare::new(config(&format!("{}client/v4", server.url()))).unwrap();
        match (client.find_zone(&account(), ZONE).await, expected) {
            (Ok(zone), Ok(id)) => assert_eq!(zone.id, id),
            (Err(fault), Err(text)) => assert!(fault.message.contains(text), "{fault}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(server.received()[0].line, "GET /client/v4/zones?name=example.com&per_page=50 HTTP/1.1");
    }
}

#[tokio::test]
async fn the_names_of_a_zone_in_another_script_are_written_in_ascii() {
    const BOOKS: &str = "xn--bcher-kva.example";
    let world = cloudflare(&["*"], Plan::Free).await;
    let id = world.cloud().add_zone(BOOKS, Plan::Free);
    let permit = &world.leadership.permit;
    for (number, written) in [BOOKS, "XN--Bcher-KVA.example.", &id].into_iter().enumerate() {
        let zone = world.client.find_zone(&account(), written).await.unwrap();
        assert_eq!((zone.id.as_str(), zone.name.as_deref()), (id.as_str(), Some(BOOKS)), "{written}");
        for (name, expected) in [
            ("@", BOOKS),
            ("www", "www.xn--bcher-kva.example"),
            ("api.xn--bcher-kva.example", "api.xn--bcher-kva.example"),
            ("mail.xn--bcher-kva.example.", "mail.xn--bcher-kva.example"),
        ] {
            let fqdn = qualify(name, zone.name.as_deref()).unwrap();
            assert_eq!(fqdn, expected);
            let ip = format!("192.0.2.{number}");
            let before = world.cloud().next_call();
            let set = changes([create(&ip)]);
            let left = world.client.apply(&account(), permit, &zone, &fqdn, &set).await.unwrap().records;
            assert_eq!(a_records(&left), [(address(&ip), 60)], "{name}");
            assert_eq!(world.cloud().calls(before).len(), 1, "nothing is taken back");
            let read = world.client.read_records(&account(), &zone, &fqdn).await.unwrap();
            assert_eq!((read.len(), read.contains(&left[0])), (number + 1, true), "{read:?}");
        }
    }
    assert_eq!(world.calls(Op::ListZones).len(), 1, "both spellings are one name");
}

#[tokio::test]
async fn a_token_for_records_only_works_by_id_and_is_told_what_it_lacks_by_name() {
    let world = cloudflare(&["dns:edit"], Plan::Enterprise).await;
    assert_eq!((world.zone.name.as_deref(), world.zone.ttl_floor), (None, 60));
    world.apply(&changes([create("192.0.2.1")])).await.unwrap();
    assert_eq!(a_records(&world.read().await.unwrap()), [(address("192.0.2.1"), 60)]);
    let fault = world.client.find_zone(&account(), ZONE).await.unwrap_err();
    assert!(
        fault.message.contains("Zone > Zone > Read") && fault.message.contains("dnsRecordSet.zone"),
        "{fault}"
    );
}

const OUTSIDE: &str = "www.example.org";

/// Writes at a name outside the zone, which is refused.
async fn outside(world: &World, client: &dyn DnsProvider) -> flipop_core::model::fault::Fault {
    let set = changes([create("192.0.2.1"), create("192.0.2.2")]);
    let permit = &world.leadership.permit;
    match client.apply(&account(), permit, &world.zone, OUTSIDE, &set).await {
        Err(Unfinished { done: 0, cause: CallError::Fault(fault) }) => fault,
        other => panic!("{other:?}"),
    }
}

/// The client now knows the zone's name, and uses it only to check names.
async fn only_refuses(world: &World, client: &dyn DnsProvider) {
    let zone = client.find_zone(&account(), &world.zone.id).await.unwrap();
    assert_eq!((zone.name.as_deref(), zone.shown.as_deref()), (None, Some(ZONE)));
    let before = world.cloud().next_call();
    // The caller need not know the name yet.
    let fault = outside(world, client).await;
    assert!(
        fault.message.contains("dnsRecordSet.recordName www.example.org is outside of the zone example.com")
    );
    let fault = client.read_records(&account(), &world.zone, OUTSIDE).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Invalid, "{fault}");
    assert_eq!(world.cloud().calls(before), []);
    client.read_records(&account(), &world.zone, WWW).await.unwrap();
}

#[tokio::test]
async fn what_a_zone_without_a_known_name_made_of_a_name_outside_is_taken_back_and_nothing_is_sent_after_it()
{
    let world = cloudflare(&["dns:edit"], Plan::Free).await;
    let fault = outside(&world, &*world.client).await;
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Invalid, false));
    assert!(fault.message.contains("dnsRecordSet.recordName www.example.org is outside"), "{fault}");
    assert_eq!(world.cloud().records(Provider::Cloudflare, ZONE), [], "what was made is gone");
    only_refuses(&world, &*world.client).await;
}

#[tokio::test]
async fn a_record_that_stands_where_a_name_outside_would_be_made_tells_the_zone_s_name() {
    let world = cloudflare(&["dns:edit"], Plan::Free).await;
    for (name, ip) in
        [("www.example.org.example.com", "192.0.2.2"), ("www.example.org.a.example.com", "192.0.2.1")]
    {
        world.add_record(&RecordView::new(name, "A", ip, 60));
    }
    let records = world.cloud().records(Provider::Cloudflare, ZONE);
    let fault = outside(&world, &*world.client).await;
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Invalid, false), "{fault}");
    assert_eq!(world.cloud().records(Provider::Cloudflare, ZONE), records, "nothing is made or deleted");
    only_refuses(&world, &*world.client).await;
}

#[tokio::test]
async fn a_name_inside_of_a_zone_without_a_known_name_is_not_taken_for_one_outside() {
    let world = cloudflare(&["dns:edit"], Plan::Free).await;
    for name in ["www.example.com.example.com", "www.example.com.a.example.com"] {
        world.add_record(&RecordView::new(name, "A", "192.0.2.1", 60));
    }
    world.next(Op::BatchRecords, Fault::Refuse(Refusal::IdenticalRecord));
    let (_, fault) = world.apply_fault(&changes([create("192.0.2.1")])).await;
    assert_eq!(fault.kind, FaultKind::InProgress, "{fault}");
    world.apply(&changes([create("192.0.2.1")])).await.unwrap();
    assert_eq!(world.addresses(), ["192.0.2.1"]);
}

#[tokio::test]
async fn a_refused_token_is_no_zone_without_a_name() {
    let world = cloudflare(&["*"], Plan::Free).await;
    let other = world.cloud().add_zone("example.net", Plan::Free);
    world.cloud().revoke_token("ours", true);
    let fault = world.client.find_zone(&account(), &other).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unauthorized);
    assert!(!fault.message.contains(TOKEN), "{fault}");
}

/// Reads once more than the token's window allows.
async fn exhausted(world: &World) -> flipop_core::model::fault::Fault {
    world.cloud().exhaust(Provider::Cloudflare, "ours", 1);
    world.read().await.unwrap();
    world.read().await.unwrap_err()
}

#[tokio::test]
async fn the_five_minute_block_silences_the_budget_with_and_without_a_time() {
    let clock = flipop::clock::Clock::system();
    for retry_after in [true, false] {
        let world = cloudflare(&["*"], Plan::Free).await;
        world.cloud().tune(|knobs| knobs.retry_after = retry_after);
        let fault = exhausted(&world).await;
        assert_eq!(
            (fault.kind, fault.retry_after_ms),
            (FaultKind::Throttled, Some(300_000)),
            "{retry_after}"
        );
        let mut budget = Budget::new(DESCRIPTOR.limits);
        budget.observe(clock.now(), &world.client.api().rate().borrow());
        let again = budget.admit(Purpose::Dns, clock.now()).unwrap_err();
        let wait = again.millis_since(clock.now());
        assert!((295_000..=300_000).contains(&wait), "{retry_after}: {wait}");
    }
}

#[tokio::test]
async fn the_quota_in_the_structured_header_can_be_read() {
    let world = cloudflare(&["*"], Plan::Free).await;
    world.cloud().exhaust(Provider::Cloudflare, "ours", 31);
    world.read().await.unwrap();
    let quota = world.client.api().rate().borrow().quota.unwrap();
    assert_eq!((quota.limit, quota.remaining), (Some(1_200), 30));
    assert!(quota.reset_at.millis_since(quota.observed_at) <= 300_000);
}

/// Reads a name whose records come in pages of this size: 201 records if `many`, otherwise one. Each page claims this
/// total. Returns the number of records and of requests.
async fn listed(many: bool, size: u32, total: u32) -> (usize, usize) {
    let server = Server::start(move |request| {
        let page: u32 = request.query("page").unwrap().parse().unwrap();
        let record = |n: u32| {
            format!(r#"{{"id": "{n}", "type": "A", "name": "www.example.com", "content": "10.0.0.{n}", "ttl": 60}}"#)
        };
        let all = if many { 201 } else { 1 };
        let records: Vec<String> = (page * size - size..(page * size).min(all)).map(record).collect();
        let info = format!(r#"{{"per_page": {size}, "total_count": {total}, "page": {page}}}"#);
        let body = records.join(",");
        answer(200, &[], &format!(r#"{{"success": true, "result_info": {info}, "result": [{body}]}}"#))
    })
    .await;
    let client = Cloudflare::new(config(&server.url())).unwrap();
    let zone = flipop_core::records::dns::Zone { id: "1".to_owned(), name: None, shown: None, ttl_floor: 60 };
    let records = client.read_records(&account(), &zone, WWW).await.unwrap().len();
    assert!(server.received()[0].line.starts_with("GET /zones/1/dns_records?name=www.example.com&per_page="));
    (records, server.received().len())
}

#[tokio::test]
async fn pages_are_as_long_as_the_server_makes_them_and_totals_may_count_the_zone() {
    assert_eq!(listed(true, 100, 201).await, (201, 3));
    assert_eq!(listed(true, 67, 201).await, (201, 3), "the last page is full, and no record is left");
    assert_eq!(listed(false, 1_000, 1).await, (1, 1));
    assert_eq!(listed(false, 1_000, 4_711).await, (1, 1), "of the whole zone");
    assert_eq!(listed(true, 100, 4_711).await, (201, 3));
}

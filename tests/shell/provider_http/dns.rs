//! The common behaviour of both DNS clients, against the simulated providers.

use super::dns_support::{
    WWW, World, ZONE, a_records, address, both, changes, cloudflare, create, delete, digitalocean, update,
};
use super::{TOKEN, account};
use flipop::permit::PermitEnded;
use flipop::provider::CallError;
use flipop::provider::dns::Unfinished;
use flipop_cloud::{ChangeKind, Fault, Garble, Op, Plan, Provider, RecordVerb, RecordView, Refusal, When};
use flipop_core::model::FaultKind;
use flipop_core::records::dns::{ChangeSet, Zone};
use std::net::Ipv4Addr;

#[tokio::test]
async fn a_set_is_made_changed_and_deleted_and_everything_else_stays_as_it_was() {
    for world in both().await {
        world.add_foreign();
        let foreign = world.foreign();
        let made =
            world.apply(&changes([create("192.0.2.1"), create("192.0.2.2"), create("192.0.2.3")])).await;
        let ids: Vec<String> = made.unwrap().records.into_iter().map(|record| record.id).collect();
        assert_eq!(world.addresses(), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);

        let set = changes([update(&ids[1], "192.0.2.9"), create("192.0.2.4"), delete(&ids[0])]);
        let left = world.apply(&set).await.unwrap().records;
        assert_eq!(a_records(&left), [(address("192.0.2.4"), 60), (address("192.0.2.9"), 60)]);
        assert_eq!((left[0].id.as_str(), left.len()), (ids[1].as_str(), 2), "in the order of the changes");
        assert_eq!(world.addresses(), ["192.0.2.3", "192.0.2.4", "192.0.2.9"]);

        let read = world.read().await.unwrap();
        assert!(left.iter().all(|record| read.contains(record)), "answers and reading agree: {read:?}");
        let kinds: Vec<&str> = read.iter().map(|record| record.kind.as_str()).collect();
        assert!(kinds.contains(&"TXT") && kinds.contains(&"AAAA") && read.len() == 5, "{read:?}");

        let all: Vec<_> = read.iter().filter(|record| record.kind == "A").map(|r| delete(&r.id)).collect();
        world.apply(&changes(all)).await.unwrap();
        assert_eq!(world.addresses(), [""; 0]);
        assert_eq!(world.foreign(), foreign, "{:?}", world.provider);
    }
}

#[tokio::test]
async fn the_zone_itself_can_have_a_set() {
    for world in both().await {
        world.add_foreign();
        let (permit, set) = (&world.leadership.permit, changes([create("192.0.2.1")]));
        let made = world.client.apply(&account(), permit, &world.zone, ZONE, &set).await.unwrap();
        assert_eq!(a_records(&made.records), [(address("192.0.2.1"), 60)]);
        let read = world.client.read_records(&account(), &world.zone, ZONE).await.unwrap();
        assert_eq!(a_records(&read), [(address("192.0.2.1"), 60), (address("192.0.2.200"), 300)]);
        assert!(read.iter().any(|record| record.kind == "MX"));
        assert_eq!(world.cloud().a_records(world.provider, ZONE, ZONE), ["192.0.2.1", "192.0.2.200"]);
    }
}

#[tokio::test]
async fn every_record_of_the_name_is_read_and_never_the_zone() {
    for (world, page) in both().await.into_iter().zip([200, 1_000]) {
        for n in 0..400_u16 {
            let fqdn = format!("other{n}.example.com");
            world.add_record(&RecordView::new(&fqdn, "A", "192.0.2.1", 60));
        }
        let mut there = 0_u32;
        for count in [0, 1, 199, 200, 201, 400, page - 1, page, page + 1] {
            while there < count {
                let ip = Ipv4Addr::from(u32::from(address("10.0.0.0")) + there);
                world.add(&ip.to_string());
                there += 1;
            }
            let before = world.cloud().next_call();
            let read = world.read().await.unwrap();
            assert_eq!(a_records(&read).len(), usize::try_from(there).unwrap(), "{:?}", world.provider);
            let calls = u32::try_from(world.cloud().calls(before).len()).unwrap();
            assert_eq!(calls, there.div_ceil(page).max(1), "{there} records of {:?}", world.provider);
        }
    }
}

/// Follows the set at [`WWW`] record by record. Returns its size after each change.
async fn sizes(world: &World, set: &ChangeSet) -> Vec<usize> {
    let mut changes = world.cloud().changes();
    let mut size = world.addresses().len();
    world.apply(set).await.unwrap();
    let mut sizes = Vec::new();
    while let Ok(change) = changes.try_recv() {
        let ChangeKind::Record { verb, .. } = change.kind else { continue };
        match verb {
            RecordVerb::Created => size += 1,
            RecordVerb::Deleted => size -= 1,
            RecordVerb::Updated => {}
        }
        sizes.push(size);
    }
    sizes
}

#[tokio::test]
async fn a_change_never_leads_through_an_empty_set() {
    for world in both().await {
        let (a, b) = (world.add("192.0.2.1"), world.add("192.0.2.2"));
        let seen = sizes(&world, &changes([update(&a, "192.0.2.3"), delete(&b)])).await;
        assert_eq!(seen, [2, 1], "{:?}", world.provider);
        // Here no deletion is paired with a creation, but the set is never empty.
        let seen = sizes(&world, &changes([create("192.0.2.4"), delete(&a)])).await;
        assert_eq!(seen, [2, 1], "{:?}", world.provider);
    }
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_is_unknown_and_never_repeated() {
    for world in both().await {
        let spoilt = [
            (Fault::Reset(When::Before), false),
            (Fault::Reset(When::After), true),
            (Fault::Garble(Garble::MalformedJson), true),
            (Fault::Garble(Garble::Html), true),
            (Fault::Garble(Garble::Truncated), true),
            (Fault::Garble(Garble::Empty), true),
            (Fault::Garble(Garble::Null), true),
            (Fault::Garble(Garble::Oversized(5 << 20)), true),
            (Fault::status(503), false),
        ];
        for (number, (fault, arrives)) in spoilt.into_iter().enumerate() {
            let (ip, before) = (format!("192.0.2.{number}"), world.cloud().next_call());
            world.next(world.creates(), fault.clone());
            let (done, found) = world.apply_fault(&changes([create(&ip), create("192.0.2.99")])).await;
            assert_eq!((done, found.kind, found.outcome_unknown), (0, FaultKind::Transient, true), "{fault}");
            assert_eq!(world.addresses().contains(&ip), arrives, "{fault}");
            assert_eq!(world.cloud().calls(before).len(), 1, "{fault}");
            for record in world.read().await.unwrap() {
                assert!(world.cloud().delete_record(world.provider, ZONE, &record.id));
            }
        }
        world.next(world.creates(), Fault::Garble(Garble::UnknownFields));
        world.apply(&changes([create("192.0.2.1")])).await.unwrap();
    }
}

#[tokio::test]
async fn an_unreadable_list_is_no_empty_name() {
    for world in both().await {
        world.add("192.0.2.1");
        let answer =
            |body: &str| Fault::Answer { status: 200, headers: Vec::new(), body: body.as_bytes().to_vec() };
        for fault in [
            Fault::Garble(Garble::MalformedJson),
            Fault::Garble(Garble::Html),
            Fault::Garble(Garble::Truncated),
            Fault::Garble(Garble::Empty),
            Fault::Garble(Garble::Null),
            Fault::status(502),
            answer("{}"),
            answer("[]"),
            answer(r#"{"domain_records": null, "meta": {"total": 0}}"#),
            answer(r#"{"domain_records": [{"type": "A"}], "meta": {"total": 1}}"#),
            answer(r#"{"domain_records": [], "links": {"pages": {"next": "?page=2"}}}"#),
            answer(
                r#"{"domain_records": [], "links": {"pages": {"next": "?page=3"}}, "meta": {"total": 1}}"#,
            ),
            answer(r#"{"success": true, "result": null}"#),
            answer(r#"{"success": true, "result": {}}"#),
            answer(r#"{"success": true, "result": [{"type": "A"}]}"#),
            answer(r#"{"success": false, "result": [], "errors": []}"#),
            answer(&format!(r#"{{"success": false, "errors": [{{"code": 1, "message": "{TOKEN}"}}]}}"#)),
            // A server that does not filter. None of these records is ours.
            answer(
                r#"{"domain_records": [{"id": 1, "type": "A", "name": "x", "data": "192.0.2.1"}],
                "success": true, "result": [{"id": "1", "type": "A", "name": "x.example.com"}]}"#,
            ),
        ] {
            let (times, name) =
                (if matches!(fault, Fault::Answer { .. }) { 3 } else { 1 }, fault.to_string());
            for _ in 0..times {
                world.next(Op::ListRecords, fault.clone());
            }
            let found = world.read().await.unwrap_err();
            assert_eq!((found.kind, found.outcome_unknown), (FaultKind::Transient, false), "{name}");
            assert!(!found.message.contains(TOKEN), "{found}");
            world.cloud().withdraw_all();
        }
        world.next(Op::ListRecords, Fault::Garble(Garble::UnknownFields));
        assert_eq!(world.read().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn without_a_permit_nothing_is_sent() {
    for world in both().await {
        let id = world.add("192.0.2.1");
        world.leadership.source.revoke();
        let before = world.cloud().next_call();
        for set in
            [changes([delete(&id)]), changes([create("192.0.2.2")]), changes([update(&id, "192.0.2.2")])]
        {
            let not_sent = Unfinished { done: 0, cause: CallError::NotSent(PermitEnded) };
            assert_eq!(world.apply(&set).await, Err(not_sent));
        }
        assert_eq!(world.cloud().calls(before), []);
        assert_eq!(world.read().await.unwrap().len(), 1, "reading needs none");
    }
}

/// Each world, its write operation, a set that needs more than two full requests, and how many changes two requests
/// carry.
async fn long_rounds() -> [(World, Op, ChangeSet, usize); 2] {
    let creates = |count: u32| {
        let made = (1..=count).map(|number| create(&Ipv4Addr::from(0xC000_0200 + number).to_string()));
        changes(made.collect::<Vec<_>>())
    };
    let [digitalocean, cloudflare] = both().await;
    [(digitalocean, Op::CreateRecord, creates(5), 2), (cloudflare, Op::BatchRecords, creates(450), 400)]
}

#[tokio::test]
async fn a_round_is_not_gone_on_with_once_the_process_ends() {
    for (world, op, set, done) in long_rounds().await {
        let closing = async { world.leadership.source.close() };
        let applied = world.while_slow((op, 2), world.apply(&set), closing).await.unwrap();
        assert_eq!((applied.done, applied.records.len(), world.calls(op).len()), (done, done, 2));
        assert_eq!(a_records(&applied.records), a_records(&world.read().await.unwrap()));
    }
}

#[tokio::test]
async fn a_round_is_not_gone_on_with_while_the_token_has_to_be_left_alone() {
    for (world, op, set, done) in long_rounds().await {
        let refused = async {
            world.next(Op::ListRecords, Fault::Throttle { retry_after_s: Some(30) });
            assert_eq!(world.read().await.unwrap_err().kind, FaultKind::Throttled);
        };
        let applied = world.while_slow((op, 2), world.apply(&set), refused).await.unwrap();
        assert_eq!((applied.done, applied.records.len(), world.calls(op).len()), (done, done, 2));
    }
}

#[tokio::test]
async fn the_pages_of_a_list_are_not_gone_on_with_while_the_token_has_to_be_left_alone() {
    for (world, records) in both().await.into_iter().zip([201, 1_001]) {
        for number in 0..records {
            world.add(&Ipv4Addr::from(0x0A00_0000 + number).to_string());
        }
        let refused = async {
            world.next(world.creates(), Fault::Throttle { retry_after_s: Some(30) });
            let (_, fault) = world.apply_fault(&changes([create("192.0.2.1")])).await;
            assert_eq!(fault.kind, FaultKind::Throttled);
        };
        let fault = world.while_slow((Op::ListRecords, 1), world.read(), refused).await.unwrap_err();
        let wait = fault.retry_after_ms.unwrap_or_default();
        assert!(fault.kind == FaultKind::Throttled && (25_000..=30_000).contains(&wait), "{fault:?}");
        assert_eq!(world.calls(Op::ListRecords).len(), 1, "{:?}", world.provider);
    }
}

#[tokio::test]
async fn a_missing_zone_names_its_field() {
    let digitalocean = digitalocean(&["*"]).await;
    let gone = digitalocean.client.find_zone(&account(), "example.org.").await.unwrap();
    let fault = digitalocean.client.read_records(&account(), &gone, "www.example.org").await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotFound);
    assert!(fault.message.contains("example.org") && fault.message.contains("dnsRecordSet.zone"), "{fault}");

    let cloudflare = cloudflare(&["*"], Plan::Free).await;
    for (zone, kind) in [("example.org", FaultKind::NotFound), ("not-an-id", FaultKind::NotFound)] {
        let fault = cloudflare.client.find_zone(&account(), zone).await.unwrap_err();
        assert_eq!(fault.kind, kind, "{zone}");
        assert!(fault.message.contains("dnsRecordSet.zone"), "{fault}");
    }
    let foreign = "0123456789abcdef0123456789abcdef";
    let zone = cloudflare.client.find_zone(&account(), foreign).await.unwrap();
    assert_eq!(zone.name, None);
    let fault = cloudflare.client.read_records(&account(), &zone, WWW).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unauthorized);
    assert!(
        fault.message.contains("dnsRecordSet.zone") && fault.message.contains("Zone > DNS > Edit"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_bad_zone_or_name_is_told_without_any_call() {
    for world in both().await {
        let before = world.cloud().next_call();
        for zone in ["", ".", "example..com", "../v2/account", "example.com/x", "bücher.example"] {
            let fault = world.client.find_zone(&account(), zone).await.unwrap_err();
            assert_eq!(fault.kind, FaultKind::Invalid, "{zone}");
            assert!(fault.message.contains("dnsRecordSet.zone"), "{fault}");
        }
        let long = format!("aa.{}example.com", "a.".repeat(120));
        assert_eq!(long.len(), 254, "one more than a name in DNS can have");
        let fault = world.client.find_zone(&account(), &long).await.unwrap_err();
        assert!(fault.message.contains("is not a zone"), "{fault}");
        for fqdn in ["www.example.org", "badexample.com", "com"] {
            let fault = world.client.read_records(&account(), &world.zone, fqdn).await.unwrap_err();
            assert!(fault.message.contains("dnsRecordSet.recordName"), "{fault}");
            let (permit, set) = (&world.leadership.permit, changes([create("192.0.2.1")]));
            let result = world.client.apply(&account(), permit, &world.zone, fqdn, &set).await;
            let Err(Unfinished { done: 0, cause: CallError::Fault(fault) }) = result else {
                panic!("{result:?}")
            };
            assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Invalid, false));
        }
        assert_eq!(world.cloud().calls(before), []);
    }
}

#[tokio::test]
async fn the_longest_name_that_dns_allows_can_be_a_zone() {
    let world = digitalocean(&["*"]).await;
    let zone = format!("{}example.com", "a.".repeat(121));
    assert_eq!(zone.len(), 253);
    assert_eq!(world.client.find_zone(&account(), &zone).await.unwrap().id, zone);
}

#[tokio::test]
async fn a_cname_in_the_way_is_told_and_nothing_is_written() {
    for world in both().await {
        world.add_record(&RecordView::new(WWW, "CNAME", "elsewhere.example.", 300));
        let before = world.foreign();
        assert!(world.read().await.unwrap().iter().any(|record| record.kind == "CNAME"));
        let (done, fault) = world.apply_fault(&changes([create("192.0.2.1")])).await;
        assert_eq!((done, fault.kind, fault.outcome_unknown), (0, FaultKind::Invalid, false));
        assert!(fault.message.contains("CNAME") && fault.message.contains("remove it"), "{fault}");
        assert_eq!((world.addresses(), world.foreign()), (Vec::new(), before));
    }
}

#[tokio::test]
async fn a_ttl_that_the_provider_refuses_names_its_field() {
    for world in both().await {
        let set =
            changes([flipop_core::records::dns::Change::Create { ip: address("192.0.2.1").into(), ttl: 29 }]);
        let (_, fault) = world.apply_fault(&set).await;
        assert_eq!(fault.kind, FaultKind::Invalid);
        assert!(fault.message.contains("dnsRecordSet.ttl"), "{fault}");
    }
}

#[tokio::test]
async fn a_record_that_is_gone_can_be_deleted_but_not_updated() {
    for world in both().await {
        let id = world.add("192.0.2.1");
        assert!(world.cloud().delete_record(world.provider, ZONE, &id));
        let (done, fault) = world.apply_fault(&changes([update(&id, "192.0.2.2")])).await;
        assert_eq!((done, fault.kind, fault.outcome_unknown), (0, FaultKind::NotFound, false));
        assert!(fault.message.contains("gone"), "{fault}");
        if world.provider == Provider::DigitalOcean {
            world.apply(&changes([delete(&id)])).await.unwrap();
        }
    }
}

#[tokio::test]
async fn each_refusal_has_its_kind() {
    for world in both().await {
        for (refusal, kind) in [
            (Refusal::Unauthorized, FaultKind::Unauthorized),
            (Refusal::Forbidden, FaultKind::Unauthorized),
            (Refusal::Status(409, "wait".to_owned()), FaultKind::InProgress),
            (Refusal::Status(412, "no".to_owned()), FaultKind::Permanent),
            (Refusal::Status(500, "no".to_owned()), FaultKind::Transient),
        ] {
            world.next(Op::ListRecords, Fault::Refuse(refusal.clone()));
            assert_eq!(world.read().await.unwrap_err().kind, kind, "{refusal:?}");
            world.next(world.creates(), Fault::Refuse(refusal.clone()));
            let (_, fault) = world.apply_fault(&changes([create("192.0.2.1")])).await;
            assert_eq!(
                (fault.kind, fault.outcome_unknown),
                (kind, kind == FaultKind::Transient),
                "{refusal:?}"
            );
        }
        world.next(Op::ListRecords, Fault::redirect(302, &world.server.trap_url()));
        assert_eq!(world.read().await.unwrap_err().kind, FaultKind::Permanent);
        assert_eq!(world.server.trapped(), []);
    }
}

#[tokio::test]
async fn an_excess_blocks_the_token_for_the_time_that_is_told() {
    let clock = flipop::clock::Clock::system();
    for world in both().await {
        world.next(Op::ListRecords, Fault::Throttle { retry_after_s: Some(17) });
        let before = clock.now();
        let fault = world.read().await.unwrap_err();
        assert_eq!((fault.kind, fault.retry_after_ms), (FaultKind::Throttled, Some(17_000)));
        let until = world.client.api().rate().borrow().blocked_until.unwrap();
        assert!(until >= before.plus_millis(17_000), "{until:?}");
    }
}

#[tokio::test]
async fn a_zone_is_canonical_whoever_wrote_it() {
    let digitalocean = digitalocean(&["*"]).await;
    let expected = Zone { id: ZONE.to_owned(), name: Some(ZONE.to_owned()), shown: None, ttl_floor: 30 };
    assert_eq!(digitalocean.client.find_zone(&account(), "Example.COM.").await, Ok(expected));
    let cloudflare = cloudflare(&["*"], Plan::Enterprise).await;
    assert_eq!((cloudflare.zone.name.as_deref(), cloudflare.zone.ttl_floor), (Some(ZONE), 30));
    let zone = cloudflare.client.find_zone(&account(), "Example.COM.").await;
    assert_eq!(zone, Ok(cloudflare.zone.clone()));
    let upper = cloudflare.zone.id.to_ascii_uppercase();
    assert_eq!(cloudflare.client.find_zone(&account(), &upper).await, zone);
}

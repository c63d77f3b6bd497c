//! `DigitalOcean`'s bodies.

use super::corpus::replay;
use super::input::json_like;
use super::transport::{Canned, config, decent_read, decent_write, permit, run};
use flipop::provider::digitalocean::{DigitalOcean, droplet};
use flipop::provider::dns::DnsProvider;
use flipop::provider::{CallContext, IpProvider};
use flipop_core::model::{ActionId, ReservedIpList};
use flipop_core::records::dns::{Change, ChangeSet, Record, Zone};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

const IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn client(status: u16, body: &[u8]) -> DigitalOcean {
    DigitalOcean::new(config(Canned::new(status, body))).unwrap()
}

fn zone() -> Zone {
    Zone { id: "example.com".to_owned(), name: Some("example.com".to_owned()), shown: None, ttl_floor: 30 }
}

async fn list(body: &[u8]) -> Option<ReservedIpList> {
    match client(200, body).list_reserved_ips(&CallContext::account_wide()).await {
        Ok(list) => Some(list),
        Err(fault) => {
            decent_read(&fault);
            None
        }
    }
}

async fn records(body: &[u8]) -> Option<Vec<Record>> {
    let read = client(200, body);
    match read.read_records(&CallContext::account_wide(), &zone(), "www.example.com").await {
        Ok(records) => Some(records),
        Err(fault) => {
            decent_read(&fault);
            None
        }
    }
}

fn list_again(list: &ReservedIpList) -> Value {
    let entries = list.ips.values().map(|read| {
        json!({
            "ip": read.ip.to_string(), "region": {"slug": read.region}, "locked": read.locked,
            "droplet": read.machine.as_ref().map(|found| json!({"id": found.id().parse::<u64>().unwrap()})),
        })
    });
    json!({"reserved_ips": entries.collect::<Vec<_>>(), "meta": {"total": list.ips.len()}})
}

fn records_again(records: &[Record]) -> Value {
    let entries = records.iter().map(|record| {
        let Record { id, kind, data, ttl, proxied } = record;
        assert!(!proxied, "there is no such thing here");
        let id: u64 = id.parse().unwrap();
        json!({"id": id, "type": kind, "name": "www", "data": data, "ttl": ttl})
    });
    json!({"domain_records": entries.collect::<Vec<_>>(), "meta": {"total": records.len()}})
}

fn sound_list(body: &[u8]) -> bool {
    run(async {
        let Some(found) = list(body).await else { return false };
        assert!(found.ips.iter().all(|(ip, read)| *ip == read.ip));
        let again = list(list_again(&found).to_string().as_bytes()).await;
        // Written again with the total that it shows, it no longer contradicts itself.
        let sound = ReservedIpList { contradiction: None, ..found };
        assert_eq!(again, Some(sound));
        true
    })
}

fn sound_records(body: &[u8]) -> bool {
    run(async {
        let Some(found) = records(body).await else { return false };
        let again = records(records_again(&found).to_string().as_bytes()).await;
        assert_eq!(again.as_ref(), Some(&found));
        true
    })
}

/// One address, the proof of a scope, and a purchase.
fn sound_address(body: &[u8]) -> bool {
    run(async {
        let context = CallContext::account_wide();
        let one = client(200, body);
        let got = one.get_reserved_ip(&context, IP.into()).await.map(|read| assert_eq!(read.ip, IP.into()));
        let (_source, permit) = permit();
        let bought = one.create_reserved_ip(&context, &permit, "nyc3").await;
        if let Err(error) = &bought {
            decent_write(error, 200);
        }
        if let Err(fault) = &got {
            decent_read(fault);
        } else {
            assert!(bought.is_ok(), "what is enough of an address is enough of a new one, which is paid for");
        }
        got.is_ok()
    })
}

fn sound_action(body: &[u8]) -> bool {
    run(async {
        let context = CallContext::account_wide();
        let one = client(201, body);
        let (_source, permit) = permit();
        let assigned = one.assign(&context, &permit, IP.into(), droplet(7)).await;
        let unassigned = one.unassign(&context, &permit, IP.into()).await;
        for error in [assigned.as_ref().err(), unassigned.as_ref().err()].into_iter().flatten() {
            decent_write(error, 201);
        }
        let Ok(action) = assigned else { return false };
        assert_eq!(unassigned.ok(), Some(action));
        assert_eq!(one.get_action(&context, IP.into(), action.id).await, Ok(action));
        let other = one.get_action(&context, IP.into(), ActionId(action.id.0.wrapping_add(1))).await;
        decent_read(&other.unwrap_err());
        true
    })
}

/// Refusals, whose content need not be understood.
fn sound_refusal(status: u16, body: &[u8]) {
    run(async {
        let context = CallContext::account_wide();
        let one = client(status, body);
        let (_source, permit) = permit();
        decent_read(&one.list_reserved_ips(&context).await.unwrap_err());
        decent_read(&one.get_reserved_ip(&context, IP.into()).await.unwrap_err());
        if let Err(fault) = one.prove_machine_read(&context).await {
            decent_read(&fault);
        }
        decent_read(&one.is_switched_off(&context, &droplet(7)).await.unwrap_err());
        decent_write(&one.create_reserved_ip(&context, &permit, "nyc3").await.unwrap_err(), status);
        decent_write(&one.assign(&context, &permit, IP.into(), droplet(7)).await.unwrap_err(), status);
        let set = ChangeSet { changes: vec![Change::Create { ip: IP.into(), ttl: 60 }], survivor: false };
        let unfinished = one.apply(&context, &permit, &zone(), "www.example.com", &set).await.unwrap_err();
        assert_eq!(unfinished.done, 0);
        decent_write(&unfinished.cause, status);
    });
}

/// Changes of records, all with the same answer.
fn sound_change(body: &[u8]) -> bool {
    run(async {
        let context = CallContext::account_wide();
        let (_source, permit) = permit();
        let update = Change::Update { id: "1".to_owned(), ip: IP.into(), ttl: 60 };
        let changes = vec![update, Change::Create { ip: IP.into(), ttl: 60 }];
        let set = ChangeSet { changes, survivor: true };
        let result = client(200, body).apply(&context, &permit, &zone(), "www.example.com", &set).await;
        match result {
            Ok(applied) => {
                assert!(applied.records.iter().all(|record| record.address() == Some(IP.into())));
                true
            }
            Err(unfinished) => {
                assert!(unfinished.done <= set.changes.len());
                decent_write(&unfinished.cause, 200);
                false
            }
        }
    })
}

#[test]
fn the_samples_are_read_as_their_names_say() {
    replay("digitalocean-addresses", sound_list);
    replay("digitalocean-address", sound_address);
    replay("digitalocean-action", sound_action);
    replay("digitalocean-records", sound_records);
    replay("digitalocean-record", sound_change);
    replay("digitalocean-error", |body| {
        for status in [400, 401, 403, 404, 408, 409, 422, 429, 500, 503] {
            sound_refusal(status, body);
        }
        true
    });
}

proptest! {
    #[test]
    fn any_list_of_addresses_is_sound_or_refused(body in json_like("digitalocean-addresses")) {
        sound_list(&body);
    }

    #[test]
    fn any_address_is_sound_or_refused(body in json_like("digitalocean-address")) {
        sound_address(&body);
    }

    #[test]
    fn any_action_is_sound_or_refused(body in json_like("digitalocean-action")) {
        sound_action(&body);
    }

    #[test]
    fn any_list_of_records_is_sound_or_refused(body in json_like("digitalocean-records")) {
        sound_records(&body);
    }

    #[test]
    fn any_answer_to_a_change_is_sound_or_refused(body in json_like("digitalocean-record")) {
        sound_change(&body);
    }

    #[test]
    fn any_refusal_is_a_bounded_fault(status in 300..600_u16, body in json_like("digitalocean-error")) {
        sound_refusal(status, &body);
    }
}

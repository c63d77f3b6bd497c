//! Cloudflare's bodies.

use super::corpus::replay;
use super::input::json_like;
use super::transport::{Canned, config, decent, decent_read, decent_write, permit, run};
use flipop::provider::cloudflare::Cloudflare;
use flipop::provider::dns::DnsProvider;
use flipop::provider::{CallContext, CallError};
use flipop_core::records::dns::{Change, ChangeSet, Record, Zone};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

const IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const WWW: &str = "www.example.com";
const ID: &str = "023e105f4ecef8ad9ca31a8372d0c353";

fn client(status: u16, body: &[u8]) -> Cloudflare {
    Cloudflare::new(config(Canned::new(status, body))).unwrap()
}

fn zone() -> Zone {
    Zone { id: ID.to_owned(), name: Some("example.com".to_owned()), shown: None, ttl_floor: 60 }
}

async fn records(body: &[u8]) -> Option<Vec<Record>> {
    match client(200, body).read_records(&CallContext::account_wide(), &zone(), WWW).await {
        Ok(records) => Some(records),
        Err(fault) => {
            decent_read(&fault);
            None
        }
    }
}

fn records_again(records: &[Record]) -> Value {
    let entries = records.iter().map(|record| {
        let Record { id, kind, data, ttl, proxied } = record;
        json!({"id": id, "type": kind, "name": WWW, "content": data, "ttl": ttl, "proxied": proxied})
    });
    let info = json!({"total_count": records.len(), "per_page": 1_000});
    json!({"success": true, "result": entries.collect::<Vec<_>>(), "result_info": info})
}

fn sound_records(body: &[u8]) -> bool {
    run(async {
        let Some(found) = records(body).await else { return false };
        let again = records(records_again(&found).to_string().as_bytes()).await;
        assert_eq!(again.as_ref(), Some(&found));
        true
    })
}

/// A zone by its name and by its id.
fn sound_zone(body: &[u8]) -> bool {
    run(async {
        let context = CallContext::account_wide();
        let mut accepted = false;
        for written in ["example.com", ID] {
            match client(200, body).find_zone(&context, written).await {
                Ok(zone) => {
                    accepted = true;
                    let name = zone.name.as_deref().unwrap();
                    assert_eq!(name, name.to_ascii_lowercase());
                    assert!(written == ID || name == written, "{name:?}");
                }
                Err(fault) => decent_read(&fault),
            }
        }
        accepted
    })
}

fn sound_batch(body: &[u8]) -> bool {
    run(async {
        let context = CallContext::account_wide();
        let (_source, permit) = permit();
        let other = Ipv4Addr::new(192, 0, 2, 2);
        let changes = vec![
            Change::Update { id: "1".to_owned(), ip: IP.into(), ttl: 60 },
            Change::Create { ip: other.into(), ttl: 60 },
            Change::Delete { id: "2".to_owned() },
        ];
        let set = ChangeSet { changes, survivor: true };
        match client(200, body).apply(&context, &permit, &zone(), WWW, &set).await {
            Ok(applied) => {
                let left: Vec<_> = applied.records.iter().map(Record::address).collect();
                assert_eq!(left, [Some(IP.into()), Some(other.into())]);
                true
            }
            Err(unfinished) => {
                assert_eq!(unfinished.done, 0, "the one batch failed");
                let CallError::Fault(fault) = &unfinished.cause else { panic!("{unfinished}") };
                decent(fault);
                false
            }
        }
    })
}

fn sound_refusal(status: u16, body: &[u8]) {
    run(async {
        let context = CallContext::account_wide();
        let one = client(status, body);
        let (_source, permit) = permit();
        decent_read(&one.read_records(&context, &zone(), WWW).await.unwrap_err());
        for written in ["example.com", ID] {
            if let Err(fault) = one.find_zone(&context, written).await {
                decent_read(&fault);
            }
        }
        let set = ChangeSet { changes: vec![Change::Create { ip: IP.into(), ttl: 60 }], survivor: false };
        match one.apply(&context, &permit, &zone(), WWW, &set).await {
            // The token had to be left alone before the obstacle could be found.
            Ok(applied) => assert_eq!((applied.done, applied.records), (0, Vec::new())),
            Err(unfinished) => {
                assert_eq!(unfinished.done, 0);
                let CallError::Fault(fault) = &unfinished.cause else { panic!("{unfinished}") };
                decent(fault);
                if status >= 500 {
                    decent_write(&unfinished.cause, status);
                }
            }
        }
    });
}

#[test]
fn the_samples_are_read_as_their_names_say() {
    replay("cloudflare-records", sound_records);
    replay("cloudflare-zone", sound_zone);
    replay("cloudflare-batch", sound_batch);
    replay("cloudflare-error", |body| {
        for status in [400, 401, 403, 404, 409, 429, 500, 503] {
            sound_refusal(status, body);
        }
        sound_records(body)
    });
}

proptest! {
    #[test]
    fn any_list_of_records_is_sound_or_refused(body in json_like("cloudflare-records")) {
        sound_records(&body);
    }

    #[test]
    fn any_zone_is_sound_or_refused(body in json_like("cloudflare-zone")) {
        sound_zone(&body);
    }

    #[test]
    fn any_answer_to_a_batch_is_sound_or_refused(body in json_like("cloudflare-batch")) {
        sound_batch(&body);
    }

    #[test]
    fn any_refusal_is_a_bounded_fault(status in 300..600_u16, body in json_like("cloudflare-error")) {
        sound_refusal(status, &body);
    }
}

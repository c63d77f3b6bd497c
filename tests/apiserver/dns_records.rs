//! Other people's records: an obstacle is named, our records become exact, and all others stay.

use crate::dns::{BOTH, Name, RecordSet, external, externals, has, named, set_spec};
use crate::suite::{Case, cases};
use crate::world::{SOON, World, plain_spec, same};
use flipop_cloud::{Op, Plan, Provider, RecordView};
use flipop_envtest::Outcome;
use serde_json::json;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_cname_in_the_way_is_named_and_nothing_is_written_until_it_is_gone,
        foreign_addresses_are_made_exact_and_external_dns_is_warned_about,
        proxied_comment_and_tags_of_existing_records_stay,
    ]
}

/// After a refusal the next look follows a minute later.
const SLOW_RETRY: Duration = Duration::from_secs(100);

/// The records at `a-<name>` are read after the name was read again, up to 30 s after a write.
const MARK_READ: Duration = Duration::from_secs(75);

/// The place of external-dns' mark of the name: version 0.17's in one zone, and 0.18's in the other.
fn marked_at(name: &Name) -> String {
    match name.provider {
        Provider::DigitalOcean => name.fqdn.clone(),
        Provider::Cloudflare => format!("a-{}", name.fqdn),
    }
}

async fn a_cname_in_the_way_is_named_and_nothing_is_written_until_it_is_gone(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10]);
    world.public_node("alpha", 1).await?;
    let mut ids = Vec::new();
    for provider in BOTH {
        for name in ["nodes", "pool"] {
            let cname =
                RecordView::new(&format!("{name}.example.com"), "CNAME", "elsewhere.example.net", 300);
            ids.push((provider, world.cloud().add_record(provider, "example.com", &cname)));
        }
    }
    let operator = world.dns_operator().await?;
    for provider in BOTH {
        world.record_set(named(provider), &set_spec(provider, "nodes")).await?;
    }
    let mut spec = plain_spec(&[10]);
    spec["dnsRecordSet"] = json!({ "zone": "example.com", "recordName": "pool" });
    world.pool("p", &spec).await?;
    world.record_set("healthy", &set_spec(Provider::Cloudflare, "healthy")).await?;
    world.set_settles("healthy", &Name::new(Provider::Cloudflare, "healthy"), &externals(&[1])).await?;
    let words = ["CNAME", "elsewhere.example.net", "recordName"];
    for provider in BOTH {
        world
            .set_shows(named(provider), "the CNAME is named", SOON, |set| {
                set.is_current()?;
                same(set.text("state"), "error")?;
                same(set.addresses(), vec![])?;
                set.has("Ready", "False", "CNAME", &words)
            })
            .await?;
        world.event_says(named(provider), "CNAME", &words).await?;
    }
    world
        .pool_shows("p", "the CNAME is named, and the address is active", SOON, |pool| {
            same(pool.active().len(), 1)?;
            has(pool.status(), "RecordSetReady", "False", "CNAME", &words)
        })
        .await?;
    let writes: Vec<_> =
        world.dns_writes(0).into_iter().filter(|(_, body)| !body.contains("healthy")).collect();
    assert_eq!(writes, []);
    let warnings =
        operator.log().lines().filter(|line| line.contains("WARN") && line.contains("CNAME")).count();
    assert_eq!(warnings, 3, "one for each object:\n{}", operator.log_tail());
    for (provider, id) in ids {
        assert!(world.cloud().delete_record(provider, "example.com", &id.unwrap_or_default()));
    }
    // The next look, on the slow schedule, sees that.
    for provider in BOTH {
        let name = Name::new(provider, "nodes");
        let published = |set: &RecordSet| {
            same(set.text("state"), "active")?;
            same(name.addresses(world), externals(&[1]))
        };
        world.set_shows(named(provider), "it is published", SLOW_RETRY, published).await?;
    }
    Ok(())
}

async fn foreign_addresses_are_made_exact_and_external_dns_is_warned_about(world: &mut World) -> Outcome {
    world.zones();
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    let names = BOTH.map(|provider| Name::new(provider, "nodes"));
    let mut before = Vec::new();
    for name in &names {
        // A record that is right, one that is not, and one that is no valid address.
        name.write(world, external(2), 300);
        name.write(world, external(88), 300);
        let broken = RecordView::new(&name.fqdn, "A", "198.51.100.256", 300);
        world.cloud().add_record(name.provider, &name.zone, &broken);
        let mark = "\"heritage=external-dns,external-dns/owner=default\"";
        for (fqdn, kind, data) in [
            (&marked_at(name), "TXT", mark),
            (&name.fqdn, "AAAA", "2001:db8::1"),
            (&name.fqdn, "MX", "mail.example.com"),
        ] {
            let other = RecordView::new(fqdn, kind, data, 300);
            world.cloud().add_record(name.provider, &name.zone, &other);
        }
        before.push(name.others(world));
    }
    let mut followed = names.each_ref().map(|name| name.follow(world));
    let _operator = world.dns_operator().await?;
    for (name, before) in names.iter().zip(before) {
        let set = named(name.provider);
        world.record_set(set, &set_spec(name.provider, "nodes")).await?;
        world.set_settles(set, name, &externals(&[1, 2])).await?;
        assert_eq!(name.others(world), before);
        let all = world.cloud().records(name.provider, &name.zone);
        assert_eq!(all.len(), before.len() + 2, "what is no address is gone too: {all:?}");
        world
            .set_shows(set, "external-dns is warned about", MARK_READ, |set| {
                let stands = format!("has a TXT record at {}:", marked_at(name));
                set.has("ExternalDNS", "True", "OwnershipRecord", &["external-dns", "TXT", &stands])
            })
            .await?;
    }
    for followed in &mut followed {
        followed.was_never_empty();
    }
    assert_eq!(world.cloud().count(Provider::DigitalOcean, Op::CreateRecord), 0);
    assert_eq!(world.cloud().count(Provider::Cloudflare, Op::BatchRecords), 1);
    Ok(())
}

async fn proxied_comment_and_tags_of_existing_records_stay(world: &mut World) -> Outcome {
    let _id = world.cloud().add_zone("example.com", Plan::Enterprise);
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    let name = Name::new(Provider::Cloudflare, "nodes");
    let decorated = |last, ttl, proxied| RecordView {
        proxied,
        comment: Some(format!("kept {last}")),
        tags: vec![format!("owner:{last}")],
        ..RecordView::new(&name.fqdn, "A", &external(last).to_string(), ttl)
    };
    world.cloud().add_record(Provider::Cloudflare, "example.com", &decorated(1, 1, true));
    world.cloud().add_record(Provider::Cloudflare, "example.com", &decorated(9, 300, false));
    let found = world.cloud().records(Provider::Cloudflare, "example.com");
    let _operator = world.dns_operator().await?;
    let mut spec = set_spec(Provider::Cloudflare, "nodes");
    spec["dnsRecordSet"]["ttl"] = json!(120);
    world.record_set("nodes", &spec).await?;
    world.set_settles("nodes", &name, &externals(&[1, 2])).await?;
    let left = world.cloud().records(Provider::Cloudflare, "example.com");
    assert_eq!(left[0], found[0], "a proxied record has the TTL of the provider's choice");
    let moved = RecordView { data: external(2).to_string(), ttl: 120, ..found[1].clone() };
    assert_eq!(left[1], moved, "content and TTL, and nothing else");
    // Our records are not proxied.
    world.public_node("gamma", 3).await?;
    world.set_settles("nodes", &name, &externals(&[1, 2, 3])).await?;
    let all = world.cloud().records(Provider::Cloudflare, "example.com");
    let made = RecordView { id: all[2].id.clone(), ..RecordView::new(&name.fqdn, "A", "198.51.100.3", 120) };
    assert_eq!(all[2], made);
    // A proxied record that gets another address stays proxied.
    world.nodes.set_addresses("alpha", &[("ExternalIP", "198.51.100.4")]).await?;
    world.set_settles("nodes", &name, &externals(&[2, 3, 4])).await?;
    let all = world.cloud().records(Provider::Cloudflare, "example.com");
    assert_eq!(all[0], RecordView { data: external(4).to_string(), ..found[0].clone() });
    Ok(())
}

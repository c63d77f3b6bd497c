//! A record set follows every change: of nodes, their addresses and annotations, and each field of its spec.

use crate::dns::{BOTH, Followed, Name, ZONE, external, externals, internal, named, set_spec, sorted};
use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, SOON, TEAM, World, ip, plain_spec, same};
use flipop_cloud::{Op, Plan, Provider};
use flipop_envtest::Outcome;
use flipop_envtest::cluster::Kind;
use serde_json::json;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        addresses_annotation_and_address_type_are_followed,
        the_ttl_is_followed_and_without_one_existing_records_keep_theirs,
        another_zone_name_or_provider_is_filled_and_the_old_records_stay,
        the_criteria_are_followed_and_no_name_is_ever_empty,
        a_pool_s_record_set_follows_its_spec_and_outlives_it,
    ]
}

async fn addresses_annotation_and_address_type_are_followed(world: &mut World) -> Outcome {
    world.zones();
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    let _operator = world.dns_operator().await?;
    let names = BOTH.map(|provider| Name::new(provider, "nodes"));
    let sets = BOTH.map(named);
    for (set, provider) in sets.iter().zip(BOTH) {
        world.record_set(set, &set_spec(provider, "nodes")).await?;
    }
    let both = async |addresses: Vec<String>| -> Outcome {
        for (set, name) in sets.iter().zip(&names) {
            world.set_settles(set, name, &addresses).await?;
        }
        Ok(())
    };
    both(externals(&[1, 2])).await?;
    let mut followed = names.each_ref().map(|name| name.follow(world));
    // Another address, and a second one.
    world.nodes.set_addresses("alpha", &[("ExternalIP", "198.51.100.3"), ("InternalIP", "10.0.0.1")]).await?;
    both(externals(&[2, 3])).await?;
    let two = [("ExternalIP", "198.51.100.2"), ("ExternalIP", "198.51.100.9"), ("InternalIP", "10.0.0.2")];
    world.nodes.set_addresses("beta", &two).await?;
    both(externals(&[2, 3, 9])).await?;
    let retype = async |kind: &str| -> Outcome {
        for set in sets {
            world.edit_set(set, &json!({ "addressType": kind })).await?;
        }
        Ok(())
    };
    retype("InternalIP").await?;
    both(sorted([internal(1), internal(2)])).await?;
    // No node has the annotation yet, so the set stays.
    retype(ANNOTATION).await?;
    for set in sets {
        world
            .set_shows(set, "the records stay", SOON, |set| {
                set.is_current()?;
                set.has("Ready", "True", "Kept", &[])?;
                set.has("AddressMissing", "True", "NodeWithoutAddress", &[ANNOTATION])
            })
            .await?;
    }
    both_stay(world, &names, &sorted([internal(1), internal(2)]));
    world.nodes.set_annotation("alpha", ANNOTATION, Some("203.0.113.10")).await?;
    both(vec![ip(10).to_string()]).await?;
    world.nodes.set_annotation("beta", ANNOTATION, Some("203.0.113.11")).await?;
    world.nodes.set_annotation("alpha", ANNOTATION, Some("203.0.113.12")).await?;
    both(sorted([ip(11), ip(12)])).await?;
    world.nodes.set_annotation("alpha", ANNOTATION, None).await?;
    both(vec![ip(11).to_string()]).await?;
    retype("").await?;
    both(externals(&[2, 3, 9])).await?;
    followed.iter_mut().for_each(Followed::was_never_empty);
    Ok(())
}

#[track_caller]
fn both_stay(world: &World, names: &[Name], addresses: &[String]) {
    for name in names {
        assert_eq!(name.addresses(world), addresses, "{name:?}");
    }
}

async fn the_ttl_is_followed_and_without_one_existing_records_keep_theirs(world: &mut World) -> Outcome {
    world.zones();
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    let names = BOTH.map(|provider| Name::new(provider, "nodes"));
    for name in &names {
        name.write(world, external(1), 900);
    }
    let _operator = world.dns_operator().await?;
    for provider in BOTH {
        world.record_set(named(provider), &set_spec(provider, "nodes")).await?;
    }
    for (ttl, expected) in [
        (None, [900, 60]),
        (Some(120), [120, 120]),
        (Some(3_600), [3_600, 3_600]),
        // Zero means absent.
        (Some(0), [3_600, 3_600]),
    ] {
        for (provider, name) in BOTH.into_iter().zip(&names) {
            let set = named(provider);
            world.edit_set(set, &json!({ "dnsRecordSet": { "ttl": ttl } })).await?;
            world.set_settles(set, name, &externals(&[1, 2])).await?;
            let ttls: Vec<u64> = name.records(world).into_iter().map(|(_, ttl)| ttl).collect();
            assert_eq!(ttls, expected, "{ttl:?} at {set}");
        }
    }
    // A TTL below the minimum is raised, and the status says so.
    for (provider, asked, floor) in [(Provider::DigitalOcean, "1", 30), (Provider::Cloudflare, "59", 60)] {
        let set = named(provider);
        world.edit_set(set, &json!({ "dnsRecordSet": { "ttl": asked.parse::<u8>()? } })).await?;
        world
            .set_shows(set, "the floor is used", SOON, |set| {
                set.is_current()?;
                set.has("Ready", "True", "Published", &[])?;
                set.has("TTLRaised", "True", "BelowFloor", &[asked, &format!("{floor}")])?;
                let records = Name::new(provider, "nodes").records(world);
                same(records.into_iter().map(|(_, ttl)| ttl).collect::<Vec<_>>(), vec![floor, floor])
            })
            .await?;
    }
    // At Cloudflare one second means "automatic", and is not raised.
    world.edit_set("cloudflare", &json!({ "dnsRecordSet": { "ttl": 1 } })).await?;
    world
        .set_shows("cloudflare", "the TTL is automatic", SOON, |set| {
            set.is_current()?;
            same(set.condition("TTLRaised"), None)?;
            let records = names[1].records(world);
            same(records.into_iter().map(|(_, ttl)| ttl).collect::<Vec<_>>(), vec![1, 1])
        })
        .await?;
    assert_eq!(
        world.cloud().count(Provider::DigitalOcean, Op::DeleteRecord),
        0,
        "records are updated in place"
    );
    Ok(())
}

async fn another_zone_name_or_provider_is_filled_and_the_old_records_stay(world: &mut World) -> Outcome {
    let id = world.zones();
    world.cloud().add_domain("example.org");
    let _same_name = world.cloud().add_zone("example.org", Plan::Free);
    world.public_node("alpha", 1).await?;
    let operator = world.dns_operator().await?;
    world.record_set("moves", &set_spec(Provider::DigitalOcean, "nodes")).await?;
    let mut seen: Vec<(Name, Vec<String>)> = Vec::new();
    let org = |provider, fqdn: &str| Name { provider, zone: "example.org".to_owned(), fqdn: fqdn.to_owned() };
    let (digitalocean, cloudflare) = (Provider::DigitalOcean, Provider::Cloudflare);
    for (number, (change, name)) in (2..).zip([
        (json!({}), Name::new(digitalocean, "nodes")),
        (json!({ "recordName": "a.b" }), Name::new(digitalocean, "a.b")),
        (json!({ "zone": "Example.ORG." }), org(digitalocean, "a.b.example.org")),
        (json!({ "provider": "cloudflare" }), org(cloudflare, "a.b.example.org")),
        (json!({ "recordName": "@" }), org(cloudflare, "example.org")),
        (json!({ "zone": id, "recordName": "www" }), Name::new(cloudflare, "www")),
        (json!({ "zone": ZONE, "recordName": "WILD.example.com." }), Name::new(cloudflare, "wild")),
        (json!({ "recordName": "*" }), Name::new(cloudflare, "*")),
    ]) {
        world.edit_set("moves", &json!({ "dnsRecordSet": change })).await?;
        world.set_settles("moves", &name, &externals(&[number - 1])).await?;
        let labels = [("name", "moves"), ("provider", named(name.provider)), ("dns", name.fqdn.as_str())];
        let scrape = operator.scrape().await?;
        assert_eq!(scrape.sum("flipop_nodednsrecordset_records", &labels), Some(1.0));
        assert_eq!(scrape.series("flipop_nodednsrecordset_records", &[]).len(), 1);
        // The node's address changes before the next round, so no name can pass the check by accident.
        world.nodes.set_addresses("alpha", &[("ExternalIP", &external(number).to_string())]).await?;
        world.set_settles("moves", &name, &externals(&[number])).await?;
        for (old, addresses) in &seen {
            assert_eq!(old.addresses(world), *addresses, "{old:?} was touched");
        }
        seen.push((name, externals(&[number])));
    }
    // Records stay when the record set is removed from the spec, and when the object is deleted.
    let calls = world.cloud().next_call();
    world.edit_set("moves", &json!({ "dnsRecordSet": null })).await?;
    world
        .set_shows("moves", "it has no name", SOON, |set| {
            set.is_current()?;
            same(set.text("state"), "error")?;
            same(set.text("fqdn"), "")
        })
        .await?;
    world.cluster.delete(Kind::RecordSet, TEAM, "moves").await?;
    flipop_envtest::wait::eventually("its series are gone", SOON, || async {
        let series = operator.scrape().await?.sum("flipop_nodednsrecordset_records", &[]);
        same(series, None).map_err(flipop_envtest::Failure::new)
    })
    .await?;
    assert_eq!(world.dns_writes(calls), []);
    for (old, addresses) in &seen {
        assert_eq!(old.addresses(world), *addresses, "{old:?} was touched");
    }
    Ok(())
}

async fn the_criteria_are_followed_and_no_name_is_ever_empty(world: &mut World) -> Outcome {
    world.zones();
    world.public_node("alpha", 1).await?;
    world.node_with("beta", |new| new.address("ExternalIP", "198.51.100.2").label("tier", "gold")).await?;
    world
        .node_with("gamma", |new| new.address("ExternalIP", "198.51.100.3").taint("k", "NoSchedule"))
        .await?;
    world.pod("web-1", "alpha").await?;
    let _operator = world.dns_operator().await?;
    let names = BOTH.map(|provider| Name::new(provider, "nodes"));
    for provider in BOTH {
        world.record_set(named(provider), &set_spec(provider, "nodes")).await?;
    }
    let mut followed = Vec::new();
    for (matching, expected) in [
        (json!({}), &[1, 2][..]),
        (json!({ "nodeLabel": "tier=gold" }), &[2]),
        (json!({ "nodeLabel": "pool=work,tier!=gold" }), &[1]),
        (json!({ "nodeLabel": "", "tolerations": [{ "key": "k", "operator": "Exists" }] }), &[1, 2, 3]),
        (json!({ "podNamespace": "web", "podLabel": "app=web" }), &[1]),
        (json!({ "podNamespace": null, "podLabel": null }), &[1, 2, 3]),
    ] {
        for (provider, name) in BOTH.into_iter().zip(&names) {
            world.edit_set(named(provider), &json!({ "match": matching })).await?;
            world.set_settles(named(provider), name, &externals(expected)).await?;
        }
        if followed.is_empty() {
            followed = names.iter().map(|name| name.follow(world)).collect();
        }
    }
    // An invalid selector stops the set, which stays as it is.
    let calls = world.cloud().next_call();
    for provider in BOTH {
        world.edit_set(named(provider), &json!({ "match": { "nodeLabel": "a in (" } })).await?;
        world
            .set_shows(named(provider), "the selector is named", SOON, |set| {
                same(set.text("state"), "error")?;
                set.has("SpecValid", "False", "RecordSetIgnored", &["spec.match.nodeLabel"])
            })
            .await?;
    }
    world.nodes.set_ready("alpha", false).await?;
    for provider in BOTH {
        world.edit_set(named(provider), &json!({ "match": { "nodeLabel": "pool=work" } })).await?;
        world.set_settles(named(provider), &Name::new(provider, "nodes"), &externals(&[2, 3])).await?;
    }
    followed.iter_mut().for_each(Followed::was_never_empty);
    // One delete at DigitalOcean and one batch at Cloudflare: nothing happened while the selector was invalid.
    assert_eq!(world.dns_writes(calls).len(), 2, "{:?}", world.dns_writes(calls));
    Ok(())
}

async fn a_pool_s_record_set_follows_its_spec_and_outlives_it(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let operator = world.dns_operator().await?;
    let mut spec = plain_spec(&[10, 11]);
    spec["dnsRecordSet"] = json!({ "zone": ZONE, "recordName": "a" });
    world.pool("p", &spec).await?;
    let addresses = [ip(10).to_string(), ip(11).to_string()];
    let mut seen: Vec<Name> = Vec::new();
    for (change, name, ttl) in [
        (json!({}), Name::new(Provider::DigitalOcean, "a"), 60),
        (json!({ "ttl": 300 }), Name::new(Provider::DigitalOcean, "a"), 300),
        (json!({ "recordName": "b" }), Name::new(Provider::DigitalOcean, "b"), 300),
        (json!({ "provider": "cloudflare" }), Name::new(Provider::Cloudflare, "b"), 300),
        (json!({ "ttl": 0 }), Name::new(Provider::Cloudflare, "b"), 60),
    ] {
        world.cluster.patch_spec(Kind::Pool, TEAM, "p", &json!({ "dnsRecordSet": change })).await?;
        world
            .pool_shows("p", "the records follow", SOON, |pool| {
                pool.is_current()?;
                same(name.records(world), vec![(ip(10), ttl), (ip(11), ttl)])
            })
            .await?;
        world.pool_publishes("p", &name, &addresses).await?;
        let labels = [("name", "p"), ("dns", name.fqdn.as_str()), ("status", "assigned")];
        let assigned = operator.scrape().await?.sum("flipop_floatingippoolcontroller_node_status", &labels);
        assert_eq!(assigned, Some(2.0));
        seen.push(name);
    }
    let calls = world.cloud().next_call();
    world.cluster.patch_spec(Kind::Pool, TEAM, "p", &json!({ "dnsRecordSet": null })).await?;
    world
        .pool_shows("p", "it has no record set", SOON, |pool| {
            pool.is_current()?;
            same(&pool.status()["dnsRecordSet"], &json!(null))?;
            same(pool.conditions_with("RecordSet"), vec![])
        })
        .await?;
    world.cluster.delete(Kind::Pool, TEAM, "p").await?;
    world.annotation_settles("alpha", None).await?;
    assert_eq!(world.mutating_calls(calls), []);
    for name in &seen {
        assert_eq!(name.addresses(world), addresses, "{name:?}");
    }
    Ok(())
}

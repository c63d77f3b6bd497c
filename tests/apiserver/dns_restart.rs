//! A new process and the records that it finds: right ones are left alone, and half-done work is finished.

use crate::dns::{BOTH, Followed, Name, external, externals, named, set_spec};
use crate::suite::{Case, cases};
use crate::team::holder;
use crate::world::{ANNOTATION, REGION, SOON, World, ip, plain_spec, same};
use flipop_cloud::{Fault, Injection, Op, Provider, Target, When};
use flipop_envtest::nodes::NewNode;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_restart_writes_nothing_when_all_is_right,
        a_terminating_pod_or_an_annotated_stranger_at_start_up_makes_no_set_flicker,
        a_process_that_dies_in_the_middle_of_a_round_leaves_no_double_and_no_gap,
        sigterm_in_the_middle_of_a_round_lets_one_request_end_and_the_next_process_sends_the_rest,
        what_changed_while_nobody_looked_is_put_right_in_one_round,
    ]
}

/// Longer than one request, and much less than the longest wait.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Longer than the debounce of a change and the following status write.
const QUIET: Duration = Duration::from_secs(4);

/// Waits until an operator has read the records of each name since a call.
async fn read_again(world: &World, names: &[&Name], since: u64) -> Outcome {
    eventually("every name is read", SOON, || async {
        let calls = world.cloud().calls(since);
        let read = |name: &&&Name| {
            calls.iter().any(|call| {
                call.provider == name.provider
                    && call.op == Op::ListRecords
                    && call.status == Some(200)
                    && call.query.contains(&name.fqdn)
            })
        };
        let unread: Vec<_> = names.iter().filter(|name| !read(name)).collect();
        if unread.is_empty() { Ok(()) } else { Err(Failure::new(format!("{unread:?}"))) }
    })
    .await
}

/// A pool and a record set at each provider, settled.
async fn settled(world: &World) -> Outcome<(Operator, Vec<(String, Name)>)> {
    world.zones();
    world.reserve(&[10, 11]);
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    let operator = world.dns_operator().await?;
    let mut spec = plain_spec(&[10, 11]);
    spec["dnsRecordSet"] = json!({ "provider": "cloudflare", "zone": "example.com", "recordName": "pool" });
    world.pool("p", &spec).await?;
    let mut names = vec![("p".to_owned(), Name::new(Provider::Cloudflare, "pool"))];
    for provider in BOTH {
        let set = format!("on-{}", named(provider));
        world.record_set(&set, &set_spec(provider, "nodes")).await?;
        names.push((set, Name::new(provider, "nodes")));
    }
    world.pool_publishes("p", &names[0].1, &[ip(10).to_string(), ip(11).to_string()]).await?;
    for (set, name) in &names[1..] {
        world.set_settles(set, name, &externals(&[1, 2])).await?;
    }
    world.annotation_settles("alpha", Some(10)).await?;
    world.annotation_settles("beta", Some(11)).await?;
    Ok((operator, names))
}

async fn a_restart_writes_nothing_when_all_is_right(world: &mut World) -> Outcome {
    let (mut operator, names) = settled(world).await?;
    assert!(operator.terminate().await?.success());
    let (calls, writes) = (world.cloud().next_call(), world.server.audit().position()?);
    let mut followed: Vec<Followed> = names.iter().map(|(_, name)| name.follow(world)).collect();
    let mut operator = world.dns_operator().await?;
    let all: Vec<&Name> = names.iter().map(|(_, name)| name).collect();
    read_again(world, &all, calls).await?;
    tokio::time::sleep(QUIET).await;
    // The same again after a crash.
    operator.kill_9();
    world.cluster.delete_lease().await?;
    let again = world.cloud().next_call();
    let operator = world.dns_operator().await?;
    read_again(world, &all, again).await?;
    tokio::time::sleep(QUIET).await;
    assert_eq!(world.mutating_calls(calls), []);
    followed.iter_mut().for_each(Followed::rested);
    let written = world.server.audit().writes_of(flipop_envtest::cluster::USER, writes)?;
    let others: Vec<_> = written.iter().filter(|write| write.resource != "leases").collect();
    assert!(others.is_empty(), "{others:?}");
    for (set, name) in &names[1..] {
        let labels = [("name", set.as_str()), ("dns", name.fqdn.as_str())];
        assert_eq!(operator.scrape().await?.sum("flipop_nodednsrecordset_records", &labels), Some(2.0));
    }
    Ok(())
}

async fn a_terminating_pod_or_an_annotated_stranger_at_start_up_makes_no_set_flicker(
    world: &mut World,
) -> Outcome {
    world.zones();
    for (number, node) in [(1, "alpha"), (2, "beta"), (3, "gamma")] {
        let annotation = ip(10 + number).to_string();
        let labelled = |new: NewNode| {
            let new = new.address("ExternalIP", &external(number).to_string());
            new.annotation(ANNOTATION, &annotation)
        };
        world.node_with(node, labelled).await?;
        world.pod(node, node).await?;
    }
    // A Running and Ready pod that is terminating, and a node that has the address but not the label.
    world.nodes.terminate_pod("web", "gamma").await?;
    let droplet = world.cloud().add_droplet("delta", REGION);
    let stranger = NewNode::new("delta").droplet(droplet).annotation(ANNOTATION, &ip(14).to_string());
    world.nodes.create(&stranger.address("ExternalIP", &external(4).to_string())).await?;
    let names = BOTH.map(|provider| Name::new(provider, "nodes"));
    let annotated = BOTH.map(|provider| Name::new(provider, "annotated"));
    for (provider, (name, other)) in BOTH.into_iter().zip(names.iter().zip(&annotated)) {
        for number in [1, 2] {
            name.write(world, external(number), 60);
            other.write(world, ip(10 + number), 60);
        }
        let mut spec = set_spec(provider, "nodes");
        spec["match"] = json!({ "nodeLabel": "pool=work", "podNamespace": "web", "podLabel": "app=web" });
        world.record_set(&format!("on-{}", named(provider)), &spec).await?;
        spec["dnsRecordSet"]["recordName"] = json!("annotated");
        spec["addressType"] = json!(ANNOTATION);
        world.record_set(&format!("annotated-{}", named(provider)), &spec).await?;
    }
    let calls = world.cloud().next_call();
    let mut followed: Vec<Followed> = names.iter().chain(&annotated).map(|name| name.follow(world)).collect();
    for _start in 0..2 {
        let before = world.cloud().next_call();
        let mut operator = world.dns_operator().await?;
        let all: Vec<&Name> = names.iter().chain(&annotated).collect();
        read_again(world, &all, before).await?;
        for provider in BOTH {
            let (set, other) = (format!("on-{}", named(provider)), format!("annotated-{}", named(provider)));
            world.set_settles(&set, &Name::new(provider, "nodes"), &externals(&[1, 2])).await?;
            let addresses = [ip(11).to_string(), ip(12).to_string()];
            world.set_settles(&other, &Name::new(provider, "annotated"), &addresses).await?;
        }
        tokio::time::sleep(QUIET).await;
        followed.iter_mut().for_each(Followed::rested);
        assert_eq!(world.dns_writes(calls), []);
        operator.kill_9();
        world.cluster.delete_lease().await?;
    }
    Ok(())
}

async fn a_process_that_dies_in_the_middle_of_a_round_leaves_no_double_and_no_gap(
    world: &mut World,
) -> Outcome {
    world.zones();
    for number in 1..=8 {
        world.public_node(&format!("n{number}"), number).await?;
    }
    let names = BOTH.map(|provider| Name::new(provider, "nodes"));
    for name in &names {
        // One record that stays, and one that is to be deleted.
        name.write(world, external(1), 60);
        name.write(world, external(99), 60);
        world.record_set(&format!("on-{}", named(name.provider)), &set_spec(name.provider, "nodes")).await?;
    }
    let mut followed = names.each_ref().map(|name| name.follow(world));
    // The fourth write at one provider and the only one at the other take effect but are never answered.
    let hangs = [Op::CreateRecord, Op::BatchRecords];
    let nth = [4, 1];
    for (op, nth) in hangs.into_iter().zip(nth) {
        world.cloud().inject(Injection::nth(Target::op(op), nth, Fault::Hang(When::After)));
    }
    let mut operator = world.dns_operator().await?;
    eventually("both rounds hang", SOON, || async {
        let hang = |op| {
            let calls = world.cloud().calls(0);
            calls.iter().any(|call| call.op == op && call.fault.is_some() && call.effect)
        };
        if hangs.into_iter().all(hang) { Ok(()) } else { Err(Failure::new("not yet")) }
    })
    .await?;
    operator.kill_9();
    world.cluster.delete_lease().await?;
    let calls = world.cloud().next_call();
    let _operator = world.dns_operator().await?;
    let all = externals(&[1, 2, 3, 4, 5, 6, 7, 8]);
    for name in &names {
        world.set_settles(&format!("on-{}", named(name.provider)), name, &all).await?;
    }
    followed.iter_mut().for_each(Followed::was_never_empty);
    // One address took over the record that was to be deleted. Four more already existed.
    assert_eq!(world.cloud().count(Provider::DigitalOcean, Op::CreateRecord), 6);
    let cloudflare = world.dns_calls(Provider::Cloudflare, calls);
    assert!(cloudflare.iter().all(|call| !call.op.mutates()), "its batch was complete: {cloudflare:?}");
    Ok(())
}

async fn sigterm_in_the_middle_of_a_round_lets_one_request_end_and_the_next_process_sends_the_rest(
    world: &mut World,
) -> Outcome {
    world.zones();
    let last: Vec<u8> = (1..=10).collect();
    for number in &last {
        world.public_node(&format!("n{number}"), *number).await?;
    }
    let slow = Fault::Delay { before_ms: 0, after_ms: 1_000 };
    world.cloud().inject(Injection::always(Target::op(Op::CreateRecord), slow));
    let name = Name::new(Provider::DigitalOcean, "nodes");
    let mut operator = world.dns_operator().await?;
    world.record_set("nodes", &set_spec(name.provider, "nodes")).await?;
    let begun = eventually("a request of the round is under way", SOON, || async {
        let call = world.cloud().calls(0).into_iter().rfind(|call| call.op == Op::CreateRecord);
        call.filter(|call| call.ended_ms.is_none()).ok_or_else(|| Failure::new("not yet"))
    })
    .await?;
    let asked = Instant::now();
    assert!(operator.terminate().await?.success());
    assert!(asked.elapsed() < AT_ONCE, "ended after {:?}", asked.elapsed());
    assert_eq!(world.dns_writes(begun.seq + 1), [], "begun after the signal");
    assert!(holder(world).await.is_err(), "nothing is under way: the lease is given up");
    world.cloud().withdraw_all();
    let _operator = world.dns_operator().await?;
    world.set_settles("nodes", &name, &externals(&last)).await?;
    assert_eq!(world.cloud().count(Provider::DigitalOcean, Op::CreateRecord), 10);
    Ok(())
}

async fn what_changed_while_nobody_looked_is_put_right_in_one_round(world: &mut World) -> Outcome {
    let (mut operator, names) = settled(world).await?;
    assert!(operator.terminate().await?.success());
    world.nodes.delete("alpha").await?;
    world.public_node("gamma", 3).await?;
    names[1].1.write(world, external(77), 60);
    let calls = world.cloud().next_call();
    let mut followed: Vec<Followed> = names.iter().map(|(_, name)| name.follow(world)).collect();
    let _operator = world.dns_operator().await?;
    for (set, name) in &names[1..] {
        world.set_settles(set, name, &externals(&[2, 3])).await?;
    }
    followed.iter_mut().for_each(Followed::was_never_empty);
    world
        .pool_shows("p", "gamma has the address of alpha", SOON, |pool| {
            same(pool.active().into_values().collect::<Vec<_>>(), vec!["gamma".to_owned(), "beta".to_owned()])
        })
        .await?;
    // An update, a delete of somebody else's record, and one batch.
    let of = |provider| world.dns_calls(provider, calls).into_iter();
    let writes: Vec<Op> =
        of(Provider::DigitalOcean).filter(|call| call.op.mutates()).map(|call| call.op).collect();
    assert_eq!(writes, [Op::PutRecord, Op::DeleteRecord]);
    let batches = of(Provider::Cloudflare)
        .filter(|call| call.op.mutates() && call.body.contains(&external(3).to_string()));
    assert_eq!(batches.count(), 1);
    Ok(())
}

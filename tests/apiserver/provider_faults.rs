//! A provider that throttles, answers nonsense or keeps things locked, and nodes that change while it works.

use crate::dns::{Name, externals, set_spec};
use crate::suite::{Case, cases};
use crate::world::{REGION, SOON, World, ip, plain_spec, same};
use flipop_cloud::{Call, Fault, Garble, Injection, Op, Provider, Refusal, Target};
use flipop_envtest::Outcome;
use flipop_envtest::wait::eventually;
use serde_json::json;
use std::time::Duration;

/// How long the provider asks for silence.
const PAUSE_S: u64 = 12;

/// Calls with another token are not held up. The time is for a loaded machine, and shorter than the pause.
const NOT_HELD_UP: Duration = Duration::from_secs(8);

/// A status is a sentence about a pool, and a body is 50 MB. The process stays far below that size.
const MEMORY_KIB: u64 = 150 * 1_024;
const HUGE: usize = 50 << 20;

/// How long a lock or an action lasts.
const BUSY_MS: u64 = 6_000;

/// For the clocks of two processes and a loaded machine.
const TOLERANCE_MS: u64 = 300;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_throttled_token_is_silent_for_as_long_as_it_is_told_and_other_tokens_go_on,
        unreadable_answers_to_lists_leave_what_stands_as_it_is,
        unreadable_answers_to_assignments_are_looked_into_and_nothing_is_done_twice,
        what_is_locked_is_waited_for_and_is_no_error,
        droplets_that_cannot_take_an_address_let_the_next_node_have_it,
        a_node_that_flaps_while_its_address_moves_costs_one_move_per_cool_off,
        a_node_deleted_while_its_address_is_on_the_way_hands_it_on_afterwards,
    ]
}

/// The calls to one provider since a number.
fn calls_to(world: &World, provider: Provider, since: u64) -> Vec<Call> {
    world.cloud().calls(since).into_iter().filter(|call| call.provider == provider).collect()
}

/// The number of assignment errors in the metrics.
async fn assignment_errors(operator: &flipop_envtest::operator::Operator) -> Outcome<f64> {
    let errors = operator.scrape().await?.sum("flipop_floatingippoolcontroller_ip_assignment_errors", &[]);
    Ok(errors.unwrap_or_default())
}

async fn a_throttled_token_is_silent_for_as_long_as_it_is_told_and_other_tokens_go_on(
    world: &mut World,
) -> Outcome {
    let name = Name::new(Provider::Cloudflare, "www");
    world.zones();
    world.reserve(&[10, 11]);
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    world.node_with("gamma", |node| node.label("pool", "other")).await?;
    let _operator = world.dns_operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.record_set("s", &set_spec(Provider::Cloudflare, "www")).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.set_settles("s", &name, &externals(&[1, 2])).await?;
    let since = world.cloud().next_call();
    let throttle = Fault::Throttle { retry_after_s: Some(PAUSE_S) };
    let target = Target::op(Op::AssignIp).of(Provider::DigitalOcean);
    world.cloud().inject(Injection::once(target, throttle));
    world.nodes.set_ready("alpha", false).await?;
    let throttled = eventually("an assignment is throttled", SOON, || async {
        let calls = calls_to(world, Provider::DigitalOcean, since);
        let throttled = calls.into_iter().find(|call| call.status == Some(429));
        throttled.ok_or_else(|| flipop_envtest::Failure::new("not yet"))
    })
    .await?;
    // Another pool with the same token waits too; the other provider's token does not.
    let mut other = plain_spec(&[11]);
    other["match"]["nodeLabel"] = json!("pool=other");
    world.pool("q", &other).await?;
    world.public_node("delta", 4).await?;
    let published = externals(&[2, 4]);
    eventually("the record set follows", NOT_HELD_UP, || async {
        same(name.addresses(world), published.clone()).map_err(flipop_envtest::Failure::new)
    })
    .await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    world.pool_settles("q", &[(11, "gamma")]).await?;
    let next = calls_to(world, Provider::DigitalOcean, throttled.seq + 1);
    let due_ms = throttled.at_ms + PAUSE_S * 1_000 - TOLERANCE_MS;
    let early: Vec<_> = next.iter().filter(|call| call.at_ms < due_ms).collect();
    assert!(early.is_empty(), "throttled at {} ms, and then {early:?}", throttled.at_ms);
    assert!(calls_to(world, Provider::Cloudflare, since).iter().any(|call| call.at_ms < due_ms));
    assert_eq!(world.assigns(throttled.seq + 1).len(), 2);
    Ok(())
}

async fn unreadable_answers_to_lists_leave_what_stands_as_it_is(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node("beta").await?;
    world.plain_pool("p", &[10, 11]).await?;
    let mut operator = world.operator().await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    world.annotation_settles("beta", Some(11)).await?;
    assert!(operator.terminate().await?.success());
    let calls = world.cloud().next_call();
    let garbles =
        [Garble::Html, Garble::Oversized(HUGE), Garble::Null, Garble::Truncated, Garble::UnknownFields];
    for garble in &garbles {
        let target = Target::op(Op::ListReservedIps);
        world.cloud().inject(Injection::once(target, Fault::Garble(garble.clone())));
    }
    let mut operator = world.operator().await?;
    eventually("every list was garbled in its turn", SOON, || async {
        let lists = world.cloud().calls(calls).into_iter().filter(|call| call.op == Op::ListReservedIps);
        same(lists.count() >= garbles.len(), true).map_err(flipop_envtest::Failure::new)
    })
    .await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    assert_eq!(world.mutating_calls(calls), []);
    world.annotation_settles("beta", Some(11)).await?;
    let memory = operator.resident_kib()?;
    assert!(memory < MEMORY_KIB, "{memory} KiB");
    // It still works.
    world.node("gamma").await?;
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    assert!(operator.runs()?);
    Ok(())
}

async fn unreadable_answers_to_assignments_are_looked_into_and_nothing_is_done_twice(
    world: &mut World,
) -> Outcome {
    let garbles = [
        Garble::MalformedJson,
        Garble::Html,
        Garble::Truncated,
        Garble::Oversized(HUGE),
        Garble::Empty,
        Garble::Null,
        Garble::UnknownFields,
    ];
    let mut operator = world.operator().await?;
    let mut droplets = Vec::new();
    for (number, garble) in garbles.iter().enumerate() {
        let last = 10 + u8::try_from(number)?;
        let (pool, node) = (format!("p{number}"), format!("n{number}"));
        world.reserve(&[last]);
        droplets.push(world.node_with(&node, |new| new.label("only", &pool)).await?);
        for op in [Op::AssignIp, Op::GetReservedIp] {
            let target = Target::op(op).containing(&format!("/{}", ip(last)));
            world.cloud().inject(Injection::once(target, Fault::Garble(garble.clone())));
        }
        let mut spec = plain_spec(&[last]);
        spec["match"]["nodeLabel"] = json!(format!("only={pool}"));
        world.pool(&pool, &spec).await?;
    }
    for (number, garble) in garbles.iter().enumerate() {
        let last = 10 + u8::try_from(number)?;
        world.pool_settles(&format!("p{number}"), &[(last, &format!("n{number}"))]).await?;
        let assigns = world.assigns(0).into_iter().filter(|(address, _)| *address == ip(last));
        assert_eq!(assigns.collect::<Vec<_>>(), [(ip(last), droplets[number])], "{garble:?}");
    }
    let memory = operator.resident_kib()?;
    assert!(memory < MEMORY_KIB, "{memory} KiB");
    assert!(operator.runs()?);
    Ok(())
}

async fn what_is_locked_is_waited_for_and_is_no_error(world: &mut World) -> Outcome {
    let kinds = ["address", "droplet", "refused-address", "refused-droplet"];
    let mut droplets = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let last = 10 + u8::try_from(number)?;
        world.reserve(&[last]);
        droplets.push(world.node_with(kind, |node| node.label("only", kind).not_ready()).await?);
        let mut spec = plain_spec(&[last]);
        spec["match"]["nodeLabel"] = json!(format!("only={kind}"));
        world.pool(kind, &spec).await?;
    }
    let operator = world.operator().await?;
    for (number, kind) in kinds.iter().enumerate() {
        world
            .pool_shows(kind, "its address is known", SOON, |pool| {
                same(pool.state(10 + u8::try_from(number).unwrap_or_default()), "unassigned")
            })
            .await?;
    }
    let calls = world.cloud().next_call();
    world.cloud().lock_ip(ip(10), BUSY_MS);
    world.cloud().busy_droplet(droplets[1], BUSY_MS);
    let locked_ms = world.cloud().now_ms();
    for (last, refusal) in [(12, Refusal::PendingEventOnIp), (13, Refusal::PendingEventOnDroplet)] {
        let target = Target::op(Op::AssignIp).containing(&format!("/{}/", ip(last)));
        world.cloud().inject(Injection::times(target, 2, Fault::Refuse(refusal)));
    }
    for kind in kinds {
        world.nodes.set_ready(kind, true).await?;
    }
    for (number, kind) in kinds.iter().enumerate() {
        let last = 10 + u8::try_from(number)?;
        world.pool_settles(kind, &[(last, kind)]).await?;
        assert_eq!(world.cloud().ip(ip(last)).and_then(|view| view.droplet), Some(droplets[number]));
    }
    let effects = world.mutating_calls(calls).into_iter().filter(|call| call.effect);
    let effects: Vec<Call> = effects.collect();
    assert_eq!(effects.len(), kinds.len(), "each once: {effects:?}");
    for call in &effects {
        let waited = [ip(10), ip(11)].iter().any(|ip| call.path.contains(&ip.to_string()));
        assert!(!waited || call.at_ms >= locked_ms + BUSY_MS, "{call:?}");
    }
    assert!(world.mutating_calls(calls).len() <= 20, "no loop");
    same(assignment_errors(&operator).await?, 0.0).map_err(flipop_envtest::Failure::new)
}

async fn droplets_that_cannot_take_an_address_let_the_next_node_have_it(world: &mut World) -> Outcome {
    world.reserve(&[10, 99]);
    let destroyed = world.node("alpha").await?;
    world.cloud().destroy_droplet(destroyed);
    let taken = world.node("beta").await?;
    world.cloud().move_ip(ip(99), Some(taken))?;
    let good = world.node("gamma").await?;
    let _operator = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "gamma")]).await?;
    world
        .pool_shows("p", "what is wrong with the other nodes is told", SOON, |pool| {
            same(pool.names("nodeErrors"), vec!["alpha".to_owned(), "beta".to_owned()])
        })
        .await?;
    let assigns = world.assigns(0);
    let to = |droplet: u64| assigns.iter().filter(|(_, to)| *to == droplet).count();
    assert!(to(destroyed) <= 1 && to(taken) <= 1 && to(good) == 1, "{assigns:?}");
    assert_eq!(world.cloud().ip(ip(99)).and_then(|view| view.droplet), Some(taken), "it is foreign");
    Ok(())
}

async fn a_node_that_flaps_while_its_address_moves_costs_one_move_per_cool_off(world: &mut World) -> Outcome {
    const COOL_OFF_MS: u64 = 8_000;
    world.cloud().tune(|knobs| knobs.action_ms = 3_000);
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let _operator = world.operator().await?;
    let mut spec = plain_spec(&[10]);
    spec["assignmentCoolOffSeconds"] = json!(COOL_OFF_MS / 1_000);
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    // Each node in its own rhythm, so that every pair of states occurs.
    let (mut alpha, mut beta) = (true, true);
    for step in 0..40 {
        if step % 2 == 0 {
            alpha = !alpha;
            world.nodes.set_ready("alpha", alpha).await?;
        }
        if step % 3 == 0 {
            beta = !beta;
            world.nodes.set_ready("beta", beta).await?;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    world.nodes.set_ready("alpha", true).await?;
    world.nodes.set_ready("beta", true).await?;
    world
        .pool_shows("p", "the address is active on one of them", SOON, |pool| same(pool.active().len(), 1))
        .await?;
    let calls = world.cloud().calls(0).into_iter().filter(|call| call.op == Op::AssignIp);
    let calls: Vec<Call> = calls.collect();
    for pair in calls.windows(2) {
        let apart_ms = pair[1].at_ms - pair[0].at_ms;
        assert!(apart_ms + TOLERANCE_MS >= COOL_OFF_MS, "{apart_ms} ms apart: {calls:?}");
    }
    assert!(calls.len() >= 2, "it did move");
    assert!(calls.iter().all(|call| call.effect), "none while another was pending: {calls:?}");
    Ok(())
}

async fn a_node_deleted_while_its_address_is_on_the_way_hands_it_on_afterwards(world: &mut World) -> Outcome {
    let (_operator, beta) = world.on_alpha_beside_beta().await?;
    world.cloud().tune(|knobs| knobs.action_ms = BUSY_MS);
    let since = world.cloud().next_call();
    world.nodes.set_ready("alpha", false).await?;
    let sent = eventually("the address is on its way to beta", SOON, || async {
        let calls = world.mutating_calls(since);
        calls.into_iter().find(|call| call.effect).ok_or_else(|| flipop_envtest::Failure::new("not yet"))
    })
    .await?;
    let gamma = world.cloud().add_droplet("gamma", REGION);
    world.nodes.delete("beta").await?;
    let node = flipop_envtest::nodes::NewNode::new("gamma").droplet(gamma).label("pool", "work");
    world.nodes.create(&node).await?;
    world.pool_settles("p", &[(10, "gamma")]).await?;
    assert_eq!(world.assigns(since), [(ip(10), beta), (ip(10), gamma)]);
    let second = world.mutating_calls(sent.seq + 1);
    assert!(second.iter().all(|call| call.at_ms >= sent.at_ms + BUSY_MS), "{sent:?}, then {second:?}");
    Ok(())
}

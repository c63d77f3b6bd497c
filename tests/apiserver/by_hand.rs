//! Addresses that users move with an annotation on the pool.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, ip, path, same};
use flipop::clock::Clock;
use flipop_cloud::{Fault, Injection, Op, Target, When};
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::{eventually, throughout};
use flipop_envtest::{Failure, Outcome};
use serde_json::Value;
use std::time::Duration;

/// A new leader waits for a list that is half a minute newer than its first look.
const SETTLED: Duration = Duration::from_secs(90);

/// Long enough to see anything that is due at once.
const QUIET: Duration = Duration::from_secs(3);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        an_address_is_moved_with_an_annotation_and_stays_there,
        what_is_asked_for_while_nobody_leads_is_ignored_and_a_crash_makes_no_second_move,
        definitions_that_drop_the_answer_move_nothing,
    ]
}

/// Two addresses on alpha and beta; gamma has none.
async fn stage(world: &World) -> Outcome<Operator> {
    world.reserve(&[10, 11]);
    for node in ["alpha", "beta", "gamma"] {
        world.node(node).await?;
    }
    let operator = world.operator().await?;
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    Ok(operator)
}

async fn ask(world: &World, request: &str) -> Outcome {
    let request = format!("flipop.digitalocean.com/move={request}");
    world.kubectl.run(&["annotate", "floatingippools", "p", "-n", TEAM, "--overwrite", &request]).await?;
    Ok(())
}

fn last<'a>(pool: &'a crate::world::Pool, field: &str) -> &'a str {
    pool.status().pointer(&format!("/lastMove/{field}")).and_then(Value::as_str).unwrap_or_default()
}

async fn answered(world: &World, outcome: &str, within: Duration) -> Outcome {
    world.pool_shows("p", outcome, within, |pool| same(last(pool, "outcome"), outcome)).await
}

async fn told(world: &World, words: &[&str]) -> Outcome {
    eventually(&format!("an Event says {words:?}"), SOON, || async {
        let events = world.cluster.events(TEAM, "p").await?;
        let fits = |event: &&String| words.iter().all(|word| event.contains(word));
        if events.iter().any(|event| fits(&event)) {
            Ok(())
        } else {
            Err(Failure::new(format!("{events:#?}")))
        }
    })
    .await
}

async fn an_address_is_moved_with_an_annotation_and_stays_there(world: &mut World) -> Outcome {
    let _operator = stage(world).await?;
    let calls = world.cloud().next_call();
    ask(world, "203.0.113.10=gamma").await?;
    answered(world, "Done", SOON).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    world.annotation_settles("gamma", Some(10)).await?;
    world.annotation_settles("alpha", None).await?;
    let pool = world.get_pool("p").await?;
    let told_of = ["request", "ip", "from", "to"].map(|field| last(&pool, field));
    assert_eq!(told_of, ["203.0.113.10=gamma", "203.0.113.10", "alpha", "gamma"]);
    let time: jiff::Timestamp = last(&pool, "time").parse()?;
    let age = Clock::system().timestamp().duration_since(time);
    assert!(age.as_secs().abs() < 60, "{age:?}");
    told(world, &["Assigned", "203.0.113.10", "gamma"]).await?;
    assert_eq!(world.mutating_calls(calls).len(), 1);

    ask(world, "203.0.113.10=beta").await?;
    answered(world, "Refused", SOON).await?;
    told(world, &["MoveRefused", "beta already has 203.0.113.11"]).await?;
    ask(world, "203.0.113.10=delta").await?;
    told(world, &["MoveRefused", "no node named delta"]).await?;
    ask(world, "203.0.113.10=alpha#back").await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    throughout("nothing moves it back", QUIET, || async {
        let moves = world.mutating_calls(calls).len();
        if moves == 2 { Ok(()) } else { Err(Failure::new(format!("{moves} moves"))) }
    })
    .await
}

async fn what_is_asked_for_while_nobody_leads_is_ignored_and_a_crash_makes_no_second_move(
    world: &mut World,
) -> Outcome {
    let mut operator = stage(world).await?;
    for (when, request, outcome) in
        [(When::Before, "203.0.113.10=gamma#1", "Interrupted"), (When::After, "203.0.113.10=gamma#2", "Done")]
    {
        let (target, calls) = (Target::op(Op::AssignIp), world.cloud().next_call());
        let hang = world.cloud().inject(Injection::nth(target, 1, Fault::Hang(when)));
        ask(world, request).await?;
        eventually("the call hangs", SOON, || async {
            if world.cloud().injected(hang) { Err(Failure::new("not yet")) } else { Ok(()) }
        })
        .await?;
        answered(world, "Pending", SOON).await?;
        operator.kill_9();
        world.cloud().withdraw_all();
        world.cluster.delete_lease().await?;
        operator = world.operator().await?;
        answered(world, outcome, SETTLED).await?;
        let moved = world.cloud().calls(calls);
        let moved = moved.iter().filter(|call| call.op == Op::AssignIp && call.effect).count();
        assert_eq!(moved, usize::from(outcome == "Done"), "{request}");
    }
    told(world, &["MoveInterrupted", "the address is on alpha", "another text after #"]).await?;
    operator.kill_9();
    world.cluster.delete_lease().await?;
    ask(world, "203.0.113.10=alpha#3").await?;
    let calls = world.cloud().next_call();
    let _operator = world.operator().await?;
    answered(world, "Ignored", SOON).await?;
    told(world, &["MoveIgnored", "another text after #"]).await?;
    assert_eq!(world.mutating_calls(calls), []);
    let place = world.cloud().ip(ip(10)).and_then(|view| view.droplet);
    assert!(place.is_some());
    Ok(())
}

async fn definitions_that_drop_the_answer_move_nothing(world: &mut World) -> Outcome {
    let _operator = stage(world).await?;
    world.kubectl.run(&["apply", "-f", &path("tests/corpus/go-crds")]).await?;
    let calls = world.cloud().next_call();
    ask(world, "203.0.113.10=gamma").await?;
    told(world, &["MoveRefused", "the installed CRDs drop status.lastMove"]).await?;
    assert_eq!(world.mutating_calls(calls), []);
    world.kubectl.run(&["apply", "-f", &path("crds")]).await?;
    world.cluster.kinds_established().await?;
    Ok(())
}

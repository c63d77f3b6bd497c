//! An API server that throttles, fails, answers too late, refuses or hangs.

use crate::suite::{Case, cases};
use crate::team::holder;
use crate::world::{SOON, World, ip};
use flipop_envtest::api_proxy::{Answer, ApiProxy, Meet, Rule, RuleId};
use flipop_envtest::nodes::NewNode;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::{eventually, throughout};
use flipop_envtest::{Failure, Outcome};
use std::time::Duration;

/// After this long without a renewal no permit is left, even on a loaded machine.
const LAPSED_TIMEOUT: Duration = Duration::from_secs(25);

/// The plain-text answer of a server that sheds load.
const TOO_MANY: &str = "Too many requests, please try again later.\n";

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        writes_that_are_throttled_refused_lost_or_hung_are_made_good_without_a_needless_move,
        a_lease_call_that_fails_now_and_then_costs_no_leadership,
        while_the_lease_cannot_be_renewed_nothing_is_written_and_work_resumes_by_itself,
    ]
}

/// Every fault that a request may meet, and how often.
fn faults() -> Vec<(&'static str, Meet, u64)> {
    vec![
        ("throttled", Meet::Instead(Answer::retry_after(429, 1)), 2),
        ("throttled in clear text", Meet::Instead(Answer::retry_after(429, 1).with_body(TOO_MANY)), 2),
        ("unavailable", Meet::Instead(Answer::failure(503)), 2),
        ("timed out after its effect", Meet::After(Answer::failure(504)), 1),
        ("in conflict", Meet::Instead(Answer::failure(409)), 2),
        ("hung before its effect", Meet::Swallow, 1),
        ("hung after its effect", Meet::Mute, 1),
    ]
}

/// Waits until a rule has applied to this many requests.
#[track_caller]
fn met<'a>(
    proxy: &'a ApiProxy,
    rule: RuleId,
    times: u64,
    what: &str,
) -> impl Future<Output = Outcome> + use<'a> {
    eventually(&format!("{times} requests are {what}"), SOON, move || async move {
        let met = proxy.met(rule);
        if met >= times { Ok(()) } else { Err(Failure::new(format!("{met} were"))) }
    })
}

/// A pool with one address, which is on alpha, and two nodes. Returns the droplets.
async fn settled(world: &World) -> Outcome<[u64; 2]> {
    world.reserve(&[10]);
    let alpha = world.node("alpha").await?;
    let beta = world.node_with("beta", NewNode::not_ready).await?;
    world.plain_pool("p", &[10]).await?;
    Ok([alpha, beta])
}

/// Expects the address to move from the first node to the second with one assignment.
async fn moves(world: &World, from: &str, to: &str, droplet: u64, what: &str) -> Outcome {
    let calls = world.cloud().next_call();
    world.nodes.set_ready(to, true).await?;
    world.nodes.set_ready(from, false).await?;
    world.pool_settles("p", &[(10, to)]).await?;
    world.annotation_settles(to, Some(10)).await?;
    world.annotation_settles(from, None).await?;
    assert_eq!(world.assigns(calls), [(ip(10), droplet)], "{what}");
    Ok(())
}

async fn writes_that_are_throttled_refused_lost_or_hung_are_made_good_without_a_needless_move(
    world: &mut World,
) -> Outcome {
    let [alpha, beta] = settled(world).await?;
    let (proxy, mut operator) = world.operator_behind().await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let mut places = [("alpha", alpha), ("beta", beta)];
    for (what, meet, times) in faults() {
        let rules = [("update", "/floatingippools/p/status"), ("patch", "/api/v1/nodes/"), ("", "/events")]
            .map(|(verb, part)| proxy.meet(Rule::new(verb, part, meet.clone()).times(times)));
        let [(from, _), (to, droplet)] = places;
        moves(world, from, to, droplet, what).await?;
        for rule in rules {
            met(&proxy, rule, 1, what).await?;
            proxy.lift(rule);
        }
        places.swap(0, 1);
    }
    assert!(operator.runs()?, "{}", operator.log_tail());
    let errors = operator.scrape().await?.sum("flipop_floatingippoolcontroller_ip_assignment_errors", &[]);
    assert!(errors.is_none_or(|errors| errors == 0.0), "{errors:?}");
    Ok(())
}

/// Checks that the operator was never without a permit.
fn led_throughout(operator: &Operator, what: &str) {
    let log = operator.log();
    assert!(!log.contains("could not renew the lease"), "{what}:\n{}", operator.log_tail());
}

async fn a_lease_call_that_fails_now_and_then_costs_no_leadership(world: &mut World) -> Outcome {
    let [alpha, beta] = settled(world).await?;
    let (proxy, launch) = world.launch_behind().await?;
    // The first call already fails: the lease is created, but its creator does not learn of it.
    let made = proxy.meet(Rule::new("create", "/leases", Meet::After(Answer::failure(504))).times(1));
    let mut operator = world.start(&launch).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    assert_eq!(proxy.met(made), 1);
    let identity = holder(world).await?;
    let mut places = [("alpha", alpha), ("beta", beta)];
    for (what, meet, _) in faults() {
        let rule = proxy.meet(Rule::new("update", "/leases/", meet).times(1));
        met(&proxy, rule, 1, what).await?;
        let [(from, _), (to, droplet)] = places;
        moves(world, from, to, droplet, what).await?;
        led_throughout(&operator, what);
        places.swap(0, 1);
    }
    assert_eq!(holder(world).await?, identity);
    assert!(operator.runs()?);
    Ok(())
}

async fn while_the_lease_cannot_be_renewed_nothing_is_written_and_work_resumes_by_itself(
    world: &mut World,
) -> Outcome {
    let [_, beta] = settled(world).await?;
    let (proxy, mut operator) = world.operator_behind().await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let identity = holder(world).await?;
    let rule = proxy.meet(Rule::new("update", "/leases/", Meet::Instead(Answer::failure(503))));
    eventually("the permit has ended", LAPSED_TIMEOUT, || async {
        if operator.log().contains("could not renew the lease") {
            Ok(())
        } else {
            Err(Failure::new(operator.log_tail()))
        }
    })
    .await?;
    let (calls, writes) = (world.cloud().next_call(), proxy.seen().len());
    world.nodes.set_ready("beta", true).await?;
    world.nodes.set_ready("alpha", false).await?;
    throughout("nothing is written", Duration::from_secs(5), || async {
        let changes = world.mutating_calls(calls);
        if changes.is_empty() { Ok(()) } else { Err(Failure::new(format!("{changes:?}"))) }
    })
    .await?;
    let seen = proxy.seen();
    let others: Vec<_> = seen[writes..]
        .iter()
        .filter(|seen| matches!(seen.verb, "update" | "patch" | "create") && !seen.target.contains("/leases"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(operator.get("/healthz").await?.0, 200);
    proxy.lift(rule);
    world.pool_settles("p", &[(10, "beta")]).await?;
    assert_eq!(world.assigns(calls), [(ip(10), beta)]);
    assert_eq!(holder(world).await?, identity);
    assert!(operator.runs()?);
    Ok(())
}

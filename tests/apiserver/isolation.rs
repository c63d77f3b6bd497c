//! A hang or a failure in one place delays nothing elsewhere.

use crate::corpus::documents;
use crate::suite::{Case, cases};
use crate::world::{Pool, SOON, TEAM, World, ip, plain_spec, same};
use flipop_cloud::{ActionOutcome, ActionPlan, Fault, Garble, Injection, Op, Target, When};
use flipop_envtest::cluster::Kind;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The time for work that is not held up, on a loaded machine. A hanging call is given up after 10 s.
const NOT_HELD_UP: Duration = Duration::from_secs(4);

/// Retries after 1 s and again 1 s, with a read before each, on a loaded machine.
const REPAIRED: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_call_that_hangs_holds_up_no_other_address_pool_or_scrape,
        an_assignment_that_failed_is_tried_again,
        an_undecodable_pool_harms_no_other,
        each_object_of_the_corpus_is_told_of_itself_and_harms_no_other,
    ]
}

async fn a_call_that_hangs_holds_up_no_other_address_pool_or_scrape(world: &mut World) -> Outcome {
    world.reserve(&[10, 11, 12]);
    world.node("alpha").await?;
    world.node("beta").await?;
    world.node_with("gamma", |node| node.label("pool", "other")).await?;
    let operator = world.operator().await?;
    let target = Target::op(Op::AssignIp).containing("203.0.113.10");
    let hang = world.cloud().inject(Injection::always(target, Fault::Hang(When::Before)));
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles_within("p", &[(11, "beta")], NOT_HELD_UP).await?;
    let mut other = plain_spec(&[12]);
    other["match"]["nodeLabel"] = json!("pool=other");
    world.pool("q", &other).await?;
    world.pool_settles_within("q", &[(12, "gamma")], NOT_HELD_UP).await?;
    let calls = world.cloud().next_call();
    world.nodes.set_ready("gamma", false).await?;
    world.pool_shows("q", "gamma is gone", NOT_HELD_UP, |pool| same(pool.state(12), "no-match")).await?;
    operator.scrape().await?;
    assert_eq!(world.assigns(calls), []);
    assert!(world.cloud().withdraw(hang));
    world.pool_settles_within("p", &[(10, "alpha"), (11, "beta")], Duration::from_secs(40)).await
}

async fn an_assignment_that_failed_is_tried_again(world: &mut World) -> Outcome {
    let errored = ActionPlan { outcome: ActionOutcome::Errored, duration_ms: None };
    let faults = [
        Fault::status(500),
        Fault::Throttle { retry_after_s: Some(1) },
        Fault::Reset(When::Before),
        Fault::Reset(When::After),
        Fault::Garble(Garble::MalformedJson),
        Fault::Action(errored),
    ];
    let operator = world.operator().await?;
    for (number, fault) in faults.into_iter().enumerate() {
        let last = 10 + u8::try_from(number)?;
        let (pool, node) = (format!("p{number}"), format!("n{number}"));
        world.reserve(&[last]);
        let droplet = world.node_with(&node, |new| new.label("only", &pool)).await?;
        let id = world.cloud().inject(Injection::once(Target::op(Op::AssignIp), fault.clone()));
        let mut spec = plain_spec(&[last]);
        spec["match"]["nodeLabel"] = json!(format!("only={pool}"));
        world.pool(&pool, &spec).await?;
        world.pool_settles_within(&pool, &[(last, &node)], REPAIRED).await?;
        assert!(!world.cloud().injected(id), "{fault} did not strike");
        assert_eq!(world.cloud().ip(ip(last)).and_then(|view| view.droplet), Some(droplet), "{fault}");
    }
    let errors = operator.scrape().await?.sum("flipop_floatingippoolcontroller_ip_assignment_errors", &[]);
    assert!(errors.is_some_and(|errors| errors >= 3.0), "{errors:?}");
    Ok(())
}

async fn an_undecodable_pool_harms_no_other(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    let _operator = world.operator().await?;
    // The schema admits this, but hardly any type can hold it.
    let odd = json!({
        "provider": "digitalocean", "desiredIPs": 9_223_372_036_854_775_807_i64, "assignmentCoolOffSeconds": 1e300,
        "ips": ["", "\u{1f419}"], "match": { "tolerations": [{}] }, "dnsRecordSet": { "ttl": -9_007_199_254_740_993_i64 },
    });
    world.pool("odd", &odd).await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world
        .pool_shows("odd", "it says what is wrong", SOON, |pool| {
            if pool.error().is_empty() { Err("status.error is empty".to_owned()) } else { Ok(()) }
        })
        .await?;
    world.cluster.delete(Kind::Pool, TEAM, "odd").await
}

/// An object's verdict about its own spec: whether it is valid, and what is wrong.
async fn told(world: &World, kind: Kind, name: &str) -> Outcome<(bool, String)> {
    let what = format!("{} {name} is told of itself", kind.plural());
    eventually(&what, SOON, || async move {
        let object = world.cluster.get(kind, TEAM, name).await?;
        let status = &object["status"];
        if status["observedGeneration"] != object["metadata"]["generation"] {
            return Err(Failure::new(format!("status: {status}")));
        }
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let valid = conditions.iter().find(|condition| condition["type"] == "SpecValid");
        let valid = valid.ok_or_else(|| Failure::new(format!("no condition SpecValid: {status}")))?;
        Ok((valid["status"] == "True", status["error"].as_str().unwrap_or_default().to_owned()))
    })
    .await
}

async fn each_object_of_the_corpus_is_told_of_itself_and_harms_no_other(world: &mut World) -> Outcome {
    world.reserve(&[210, 211]);
    for node in ["alpha", "beta"] {
        world.node_with(node, |new| new.label("of", "good")).await?;
    }
    let _operator = world.operator().await?;
    // The oldest object, so that no other can claim its name or its addresses.
    let mut good = plain_spec(&[210, 211]);
    good["match"]["nodeLabel"] = json!("of=good");
    world.pool("good", &good).await?;
    world.pool_settles("good", &[(210, "alpha"), (211, "beta")]).await?;
    let calls = world.cloud().next_call();

    let corpus = [documents("tests/corpus")?, documents("tests/corpus/ours")?].concat();
    let mut wrong = 0;
    for object in &corpus {
        world.cluster.create_object(TEAM, object, false).await?;
        let kind = if object["kind"] == "FloatingIPPool" { Kind::Pool } else { Kind::RecordSet };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let (valid, error) = told(world, kind, name).await?;
        assert!(valid || !error.is_empty(), "{name} is wrong, and status.error does not say why");
        wrong += usize::from(!valid);
    }
    assert!(corpus.len() > 45 && wrong > 10, "{wrong} of {} have a mistake", corpus.len());

    // With all objects present.
    let ours = |call: &(Ipv4Addr, u64)| [ip(210), ip(211)].contains(&call.0);
    assert!(!world.assigns(calls).iter().any(ours), "nobody moves what is in use");
    world.nodes.set_ready("alpha", false).await?;
    let gone = |pool: &Pool| same(pool.state(210), "no-match");
    world.pool_shows("good", "alpha is gone", NOT_HELD_UP, gone).await?;
    world.nodes.set_ready("alpha", true).await?;
    world.pool_settles_within("good", &[(210, "alpha"), (211, "beta")], NOT_HELD_UP).await
}

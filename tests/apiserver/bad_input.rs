//! An administrator's mistakes: a clear error where they look, and no crash loop if waiting is right.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, path, same};
use flipop_envtest::cluster::Kind;
use flipop_envtest::large::{self, Large};
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use futures::future::try_join_all;
use std::cell::Cell;
use std::convert::Infallible;
use std::fs;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Forbidden calls are retried slowly, a minute apart.
const SLOW_RETRY: Duration = Duration::from_secs(100);

/// Large objects beside a healthy pool. Each has a fortieth of the largest size, far above the bounds: the API server
/// judges each of them at each change, and keeps a hundred versions.
const LARGE: usize = 20;
const SHARE: usize = 40;

/// How often each large object is rewritten before the node of the healthy pool fails, and at least until the end.
const REWRITTEN: u64 = 1;

/// The bound of the status of a large object, in bytes: a thousand addresses that the account does not have.
const LARGE_STATUS: usize = 128 << 10;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Bare: without_the_crds_it_waits_and_says_so_and_starts_when_they_come];
    cases.extend(cases![Installed:
        large_objects_that_are_rewritten_each_second_hold_up_no_other_pool,
    ]);
    cases.extend(cases![InstalledForOne:
        nodes_that_may_not_be_annotated_still_get_their_ips,
        events_that_may_not_be_written_harm_nothing,
        with_the_go_operators_crds_and_roles_ips_are_moved_and_nothing_is_bought,
    ]);
    cases
}

async fn says(operator: &Operator, words: &[&str], timeout: Duration) -> Outcome {
    eventually(&format!("the log says {words:?}"), timeout, || async {
        let log = operator.log();
        if log.lines().any(|line| words.iter().all(|word| line.contains(word))) {
            Ok(())
        } else {
            Err(Failure::new(operator.log_tail()))
        }
    })
    .await
}

async fn without_the_crds_it_waits_and_says_so_and_starts_when_they_come(world: &mut World) -> Outcome {
    let manifests = fs::read_dir(path("k8s"))?;
    world.cluster.namespace("flipop", Some("restricted")).await?;
    for manifest in manifests {
        let manifest = manifest?.path();
        if manifest.is_file() && !manifest.to_string_lossy().contains("/crd-") {
            world.kubectl.run(&["apply", "-n", "flipop", "-f", &manifest.display().to_string()]).await?;
        }
    }
    world.reserve(&[10]);
    world.node("alpha").await?;
    let mut operator = world.operator().await?;
    says(&operator, &["floatingippools"], SOON).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(operator.runs()?, "{}", operator.log_tail());
    assert_eq!(operator.get("/healthz").await?.0, 200);
    world.kubectl.run(&["apply", "-f", &path("crds")]).await?;
    world.cluster.kinds_established().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles_within("p", &[(10, "alpha")], Duration::from_mins(1)).await
}

/// Removes a verb on a resource from every rule of the operator's cluster role.
async fn forbid(world: &World, resource: &str, verb: &str) -> Outcome {
    let role = world.kubectl.run(&["get", "clusterrole", "flipop", "-o", "json"]).await?.stdout;
    let mut role: serde_json::Value = serde_json::from_str(&role)?;
    for rule in role["rules"].as_array_mut().into_iter().flatten() {
        let concerned = rule["resources"].as_array().into_iter().flatten().any(|one| one == resource);
        if concerned && let Some(verbs) = rule["verbs"].as_array_mut() {
            verbs.retain(|one| one != verb);
        }
    }
    // A rule without verbs is invalid.
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.retain(|rule| rule["verbs"] != serde_json::json!([]));
    }
    let rules = serde_json::json!({ "rules": role["rules"] }).to_string();
    world.kubectl.run(&["patch", "clusterrole", "flipop", "--type=merge", "-p", &rules]).await.map(drop)
}

async fn restore(world: &World) -> Outcome {
    world.kubectl.run(&["apply", "-n", "flipop", "-f", &path("k8s")]).await.map(drop)
}

async fn nodes_that_may_not_be_annotated_still_get_their_ips(world: &mut World) -> Outcome {
    forbid(world, "nodes", "patch").await?;
    world.reserve(&[10]);
    world.node("alpha").await?;
    let operator = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world
        .pool_shows("p", "a condition names what is forbidden", SOON, |pool| {
            pool.has_condition("AnnotationsDenied")
        })
        .await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let complaints =
        operator.log().lines().filter(|line| line.contains("WARN") && line.contains("nodes")).count();
    assert_eq!(complaints, 1, "one warning, not one for each attempt:\n{}", operator.log_tail());
    restore(world).await?;
    eventually("the node is annotated once that is allowed", SLOW_RETRY, || async {
        match world.nodes.annotation("alpha", crate::world::ANNOTATION).await? {
            Some(_) => Ok(()),
            None => Err(Failure::new("no annotation")),
        }
    })
    .await?;
    world
        .pool_shows("p", "the condition is gone", SOON, |pool| {
            same(pool.conditions_with("AnnotationsDenied"), vec![])
        })
        .await
}

async fn events_that_may_not_be_written_harm_nothing(world: &mut World) -> Outcome {
    forbid(world, "events", "create").await?;
    let (operator, _beta) = world.on_alpha_beside_beta().await?;
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    says(&operator, &["events", "forbidden"], SOON).await
}

async fn with_the_go_operators_crds_and_roles_ips_are_moved_and_nothing_is_bought(
    world: &mut World,
) -> Outcome {
    world.kubectl.run(&["apply", "-f", &path("tests/corpus/go-crds")]).await?;
    world.kubectl.run(&["apply", "-n", "flipop", "-f", &path("tests/corpus/go-install")]).await?;
    let (operator, _beta) = world.on_alpha_beside_beta().await?;
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    assert_eq!(world.nodes.annotation("beta", crate::world::ANNOTATION).await?, None);

    let desired = serde_json::json!({ "desiredIPs": 2 });
    world.cluster.patch_spec(Kind::Pool, TEAM, "p", &desired).await?;
    world
        .pool_shows("p", "it asks for the CRDs", SOON, |pool| {
            if pool.error().contains("CRDs") {
                Ok(())
            } else {
                Err(format!("status.error is {:?}", pool.error()))
            }
        })
        .await?;
    assert_eq!(world.cloud().ips().len(), 1, "nothing is bought that could not be remembered");
    let forbidden =
        operator.log().lines().filter(|line| line.contains("WARN") && line.contains("nodes")).count();
    assert_eq!(forbidden, 1, "{}", operator.log_tail());
    Ok(())
}

async fn large_objects_that_are_rewritten_each_second_hold_up_no_other_pool(world: &mut World) -> Outcome {
    let world = &*world;
    let (operator, _) = world.on_alpha_beside_beta().await?;
    let sorts = large::all(SHARE);
    let named = |(number, large): (usize, &Large)| (format!("{}-{number}", large.name), large.clone());
    let strangers: Vec<(String, Large)> = sorts.iter().cycle().take(LARGE).enumerate().map(named).collect();
    for (name, Large { kind, spec, .. }) in &strangers {
        world.cluster.create(*kind, TEAM, name, spec).await?;
    }
    let rounds = Cell::new(0);
    let failover = async {
        rewritten(&rounds, REWRITTEN).await?;
        world.nodes.set_ready("alpha", false).await?;
        world.pool_settles("p", &[(10, "beta")]).await?;
        rewritten(&rounds, 2 * REWRITTEN).await
    };
    tokio::select! {
        stopped = rewrite(world, &strangers, &rounds) => match stopped? {},
        done = failover => done?,
    }
    for (name, Large { kind, .. }) in &strangers {
        eventually(&format!("{name} is judged"), SOON, || async move {
            let object = world.cluster.get(*kind, TEAM, name).await?;
            is_judged(*kind, &object).map_err(Failure::new)
        })
        .await?;
    }
    // A watch that fails shows in both.
    assert_eq!(operator.get("/readyz").await?.0, 200, "{}", operator.log_tail());
    world.plain_pool("last", &[10]).await?;
    world.pool_shows("last", "it is seen", SOON, super::world::Object::is_current).await
}

/// Waits until every large object was rewritten this often.
async fn rewritten(rounds: &Cell<u64>, often: u64) -> Outcome {
    eventually(&format!("{often} rounds of rewriting"), SOON, || async move {
        if rounds.get() >= often { Ok(()) } else { Err(Failure::new(rounds.get())) }
    })
    .await
}

/// Rewrites every object once a second, or as often as the API server can.
async fn rewrite(world: &World, all: &[(String, Large)], rounds: &Cell<u64>) -> Outcome<Infallible> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Both kinds have this field, and another value is another generation of the spec.
        let spec = serde_json::json!({ "grace": { "nodeSeconds": 1 + rounds.get() % 2 } });
        let spec = &spec;
        let write = |(name, large): &(String, Large)| {
            let (kind, name) = (large.kind, name.clone());
            async move { world.cluster.patch_spec(kind, TEAM, &name, spec).await }
        };
        try_join_all(all.iter().map(write)).await?;
        rounds.set(rounds.get() + 1);
    }
}

/// `Err` unless the status of a large object is about its present spec, says what is wrong with it, and is small.
fn is_judged(kind: Kind, object: &serde_json::Value) -> Result<(), String> {
    let status = &object["status"];
    same(&status["observedGeneration"], &object["metadata"]["generation"])?;
    let reason = if kind == Kind::Pool { "TooLarge" } else { "RecordSetIgnored" };
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let valid =
        conditions.filter(|one| one["type"] == "SpecValid").map(|one| (&one["status"], &one["reason"]));
    same(valid.collect::<Vec<_>>(), vec![(&"False".into(), &reason.into())])?;
    let bytes = status.to_string().len();
    if bytes < LARGE_STATUS { Ok(()) } else { Err(format!("the status has {bytes} bytes")) }
}

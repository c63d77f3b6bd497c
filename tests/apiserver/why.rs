//! Why a pool has no node, why an address left one, and which addresses are idle, in an administrator's terms.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, plain_spec};
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// An Event about an object that stays unready comes after 5 s, but not in a process's first minute.
const AFTER_THE_FIRST_MINUTE: Duration = Duration::from_secs(90);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_wrong_label_a_taint_and_a_wrong_namespace_read_differently,
        a_holder_that_stops_matching_is_told_with_its_reason_and_what_comes_next,
        addresses_without_a_node_are_a_condition_and_an_event,
    ]
}

/// Waits for an Event with these words.
async fn told(world: &World, words: &[&str], within: Duration) -> Outcome {
    eventually(&format!("an Event says {words:?}"), within, || async {
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

async fn a_wrong_label_a_taint_and_a_wrong_namespace_read_differently(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    for name in ["alpha", "beta"] {
        world.node(name).await?;
        world.nodes.set_taints(name, &[("gpu", "true", "NoSchedule")]).await?;
    }
    let _operator = world.operator().await?;
    let matches = [
        (
            json!({ "nodeLabel": "pool=wrok" }),
            "no node matches spec.match (none of the cluster's 2 nodes matches nodeLabel pool=wrok)",
        ),
        (
            json!({ "nodeLabel": "pool=work" }),
            "no node matches spec.match (of 2 nodes that match nodeLabel pool=work: 2 have the taint gpu=true:NoSchedule \
             (alpha, beta))",
        ),
        (
            json!({ "nodeLabel": "pool=work", "podNamespace": "ingres", "podLabel": "app=web",
                "tolerations": [{ "operator": "Exists" }] }),
            "no node matches spec.match (of 2 nodes that match nodeLabel pool=work: 2 run no matching pod that is Ready \
             (alpha, beta); no pod in namespace ingres matches app=web)",
        ),
    ];
    for (number, (criteria, text)) in matches.into_iter().enumerate() {
        let name = format!("p{number}");
        let mut spec = plain_spec(&[10]);
        spec["match"] = criteria;
        world.pool(&name, &spec).await?;
        world.pool_shows(&name, text, SOON, |pool| pool.has_condition(text)).await?;
    }
    Ok(())
}

async fn a_holder_that_stops_matching_is_told_with_its_reason_and_what_comes_next(
    world: &mut World,
) -> Outcome {
    let (operator, _beta) = world.on_alpha_beside_beta().await?;
    world.nodes.set_ready("alpha", false).await?;
    told(world, &["MatchLost", "alpha is not Ready: 203.0.113.10 moves to beta"], SOON).await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    world.nodes.set_taints("beta", &[("node.kubernetes.io/unschedulable", "", "NoSchedule")]).await?;
    let stays = "203.0.113.10 stays there, because no other node matches";
    told(
        world,
        &["MatchLost", "beta has the taint node.kubernetes.io/unschedulable:NoSchedule", stays],
        SOON,
    )
    .await?;
    told(world, &["NotReady", "NoMatchingNode"], AFTER_THE_FIRST_MINUTE).await?;
    world.nodes.set_ready("alpha", true).await?;
    told(world, &["Recovered", "Ready is True"], SOON).await?;
    changes(&operator).await
}

/// Checks that `/debug` shows the move.
async fn changes(operator: &Operator) -> Outcome {
    let debug: serde_json::Value = serde_json::from_str(&operator.get("/debug").await?.1)
        .map_err(|error| Failure::new(error.to_string()))?;
    let moved = debug["changes"].as_array().into_iter().flatten().find(|change| change["to"] == "beta");
    let moved = moved.ok_or_else(|| Failure::new(debug.to_string()))?;
    assert_eq!(
        (&moved["from"], &moved["reason"]),
        (&json!("alpha"), &json!("alpha is not Ready")),
        "{moved}"
    );
    assert!(moved["phases"]["confirmedMs"].is_u64() && moved["time"].is_string(), "{moved}");
    Ok(())
}

async fn addresses_without_a_node_are_a_condition_and_an_event(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    let _operator = world.operator().await?;
    world.plain_pool("p", &[10, 11]).await?;
    let text = "203.0.113.11 is unassigned and billed: there are more addresses than matching nodes";
    world.pool_shows("p", text, SOON, |pool| pool.has_condition(text)).await?;
    told(world, &["AddressesIdle", text], SOON).await?;
    world.node("beta").await?;
    world
        .pool_shows("p", "nothing is idle any more", SOON, |pool| {
            match pool.conditions_with("AddressesIdle") {
                none if none.is_empty() => Ok(()),
                some => Err(format!("{some:?}")),
            }
        })
        .await
}

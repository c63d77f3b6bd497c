//! Watches that fall silent, break off, are answered with "gone" or miss changes. They are noticed in time, and nothing
//! is lost or moved without need.
//!
//! The operator speaks HTTP/1.1 to the API server, so HTTP/2's GOAWAY cannot reach it.

use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, REGION, SOON, World, binary, ip, met, plain_spec, same};
use flipop_envtest::api_proxy::{Answer, Meet, Rule};
use flipop_envtest::apiserver::kubeconfig_through;
use flipop_envtest::nodes::NewNode;
use flipop_envtest::operator::{Launch, Operator};
use flipop_envtest::proxy::{FaultProxy, Network};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// Identifies the requests for these tests' nodes.
const NODES: &str = "labelSelector=pool%3Dwork";

/// Identifies the requests for a later page of a list of them.
const PAGE_OF_NODES: &str = "labelSelector=pool%3Dwork&limit=500&continue=";

/// The operator's page size.
const LISTED_AT_ONCE: u32 = 500;

/// A silent watch is noticed within this time.
const SILENCE: Duration = Duration::from_secs(65);

/// How many bytes of a watch arrive before it breaks: more than one event, and hardly ever a whole number of events.
const FRAGMENT: usize = 3_001;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Installed:
        a_watch_that_falls_silent_is_noticed_within_65_seconds,
        watches_that_break_off_within_an_event_again_and_again_lose_nothing,
        a_node_made_again_unseen_under_its_name_is_served_as_the_machine_that_it_is,
        pools_with_selectors_of_their_own_share_a_watch_and_each_follows_its_own_labels,
    ];
    cases.extend(cases![InstalledForOne:
        a_history_that_was_compacted_while_the_watch_was_cut_is_answered_by_a_list,
        a_list_whose_next_page_is_forgotten_is_begun_anew_and_half_of_it_moves_nothing,
    ]);
    cases
}

/// How often a watch of nodes was restarted for this reason.
async fn restarts(operator: &Operator, reason: &str) -> Outcome<f64> {
    let labels = [("kind", "nodes"), ("reason", reason)];
    Ok(operator.scrape().await?.sum("flipop_watch_restarts_total", &labels).unwrap_or_default())
}

async fn a_watch_that_falls_silent_is_noticed_within_65_seconds(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node("beta").await?;
    world.node_with("gamma", |node| node.label("pool", "other")).await?;
    let (proxy, _operator) = world.operator_behind().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let nodes = proxy.meet(Rule::new("watch", NODES, Meet::Stall).times(1));
    let pools = proxy.meet(Rule::new("watch", "/floatingippools", Meet::Stall).times(1));
    let calls = world.cloud().next_call();
    proxy.cut();
    met(&proxy, nodes, 1).await?;
    met(&proxy, pools, 1).await?;
    let silent = tokio::time::Instant::now();
    world.nodes.set_ready("alpha", false).await?;
    let mut other = plain_spec(&[11]);
    other["match"]["nodeLabel"] = json!("pool=other");
    world.pool("q", &other).await?;
    world.pool_settles_within("p", &[(10, "beta")], SILENCE.saturating_sub(silent.elapsed())).await?;
    world.pool_settles_within("q", &[(11, "gamma")], SILENCE.saturating_sub(silent.elapsed())).await?;
    assert_eq!(world.assigns(calls).len(), 2, "one for each");
    Ok(())
}

async fn watches_that_break_off_within_an_event_again_and_again_lose_nothing(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    for node in ["alpha", "beta", "gamma"] {
        world.node(node).await?;
    }
    let (proxy, _operator) = world.operator_behind().await?;
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    let calls = world.cloud().next_call();
    let rule = proxy.meet(Rule::new("watch", "", Meet::Break(FRAGMENT)));
    proxy.cut();
    met(&proxy, rule, 1).await?;
    for number in 0..30 {
        // Changes without consequence.
        world.nodes.set_label("gamma", "noise", Some(&number.to_string())).await?;
        world.nodes.set_label("alpha", "noise", Some(&number.to_string())).await?;
        if number == 15 {
            assert_eq!(world.mutating_calls(calls), []);
            world.nodes.set_ready("alpha", false).await?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    // Nothing else ends a watch so soon.
    let seen = proxy.seen().into_iter();
    let broken = seen.filter(|seen| seen.verb == "watch" && seen.met && seen.target.contains(NODES)).count();
    assert!(broken >= 4, "{broken} watches of nodes broke");
    proxy.lift(rule);
    proxy.cut();
    world.nodes.set_ready("alpha", true).await?;
    world
        .pool_shows("p", "alpha waits", SOON, |pool| {
            same(pool.names("assignableNodes"), vec!["alpha".to_owned()])
        })
        .await?;
    assert_eq!(world.assigns(calls).len(), 1, "only the one that was needed");
    Ok(())
}

async fn a_history_that_was_compacted_while_the_watch_was_cut_is_answered_by_a_list(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10, 11]);
    for node in ["alpha", "beta", "gamma", "delta"] {
        world.node(node).await?;
    }
    let proxy = FaultProxy::start(world.server.address()).await?;
    let through = kubeconfig_through(&world.operator_kubeconfig().await?, proxy.address())?;
    let operator = world.start(&Launch::new(binary(), &through, &world.digitalocean_url())?).await?;
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    let calls = world.cloud().next_call();
    proxy.set(Network::Cut);
    // One address loses its node for good, the other only for a moment that is not seen.
    world.nodes.delete("alpha").await?;
    world.nodes.set_ready("beta", false).await?;
    world.nodes.set_ready("beta", true).await?;
    world.nodes.delete("delta").await?;
    world.server.stop();
    world.server.compact().await?;
    world.server.start_again().await?;
    proxy.set(Network::Good);
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    assert_eq!(world.assigns(calls).len(), 1, "beta was never seen to fail");
    // A loaded machine may need so long to start the server that the leadership has a gap, after which all is listed.
    eventually("nodes are listed because the watch's place or the leadership was lost", SOON, || async {
        let expired = restarts(&operator, "expired").await?;
        let listed = expired >= 1.0 || operator.log().contains("renewed the lease after a gap");
        if listed { Ok(()) } else { Err(Failure::new(operator.log_tail())) }
    })
    .await?;
    world.annotation_settles("gamma", Some(10)).await
}

async fn a_node_made_again_unseen_under_its_name_is_served_as_the_machine_that_it_is(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    let (proxy, operator) = world.operator_behind().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.annotation_settles("alpha", Some(10)).await?;
    let away = proxy.meet(Rule::new("watch", NODES, Meet::Instead(Answer::failure(503))));
    proxy.cut();
    met(&proxy, away, 1).await?;
    let calls = world.cloud().next_call();
    world.nodes.delete("alpha").await?;
    let droplet = world.cloud().add_droplet("alpha-2", REGION);
    world.nodes.create(&NewNode::new("alpha").droplet(droplet).label("pool", "work")).await?;
    let gone = proxy.meet(Rule::new("watch", NODES, Meet::Instead(Answer::failure(410))).times(1));
    proxy.lift(away);
    met(&proxy, gone, 1).await?;
    world
        .pool_shows("p", "the address is on the new machine", SOON, |pool| {
            same(pool.state(10), "active")?;
            same(pool.of_ip(&ip(10).to_string(), "providerID"), format!("digitalocean://{droplet}").as_str())
        })
        .await?;
    assert_eq!(world.assigns(calls), [(ip(10), droplet)]);
    eventually("the new node is annotated", SOON, || async {
        let annotation = world.nodes.annotation("alpha", ANNOTATION).await?;
        same(annotation, Some(ip(10).to_string())).map_err(Failure::new)
    })
    .await?;
    assert!(restarts(&operator, "expired").await? >= 1.0);
    Ok(())
}

async fn a_list_whose_next_page_is_forgotten_is_begun_anew_and_half_of_it_moves_nothing(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10]);
    for node in ["alpha", "zeta"] {
        world.node(node).await?;
    }
    let idle = (0..LISTED_AT_ONCE).map(|number| NewNode::new(&format!("idle-{number}")));
    let idle: Vec<_> = idle.map(|node| node.label("pool", "work").not_ready()).collect();
    for some in idle.chunks(8) {
        futures::future::try_join_all(some.iter().map(|node| world.nodes.create(node))).await?;
    }
    world.nodes.set_ready("alpha", false).await?;
    let (proxy, launch) = world.launch_behind().await?;
    let forgotten = Rule::new("get", PAGE_OF_NODES, Meet::Instead(Answer::failure(410)));
    world.plain_pool("p", &[10]).await?;
    let mut operator = world.start(&launch).await?;
    world.pool_settles("p", &[(10, "zeta")]).await?;
    world.nodes.set_ready("alpha", true).await?;
    world
        .pool_shows("p", "alpha waits", SOON, |pool| {
            same(pool.names("assignableNodes"), vec!["alpha".to_owned()])
        })
        .await?;
    let calls = world.cloud().next_call();

    // A new process sees only the first page, which lacks the node with the address.
    assert!(operator.terminate().await?.success());
    let rule = proxy.meet(forgotten.clone());
    operator = world.start(&launch).await?;
    met(&proxy, rule, 3).await?;
    assert_eq!(world.mutating_calls(calls), []);
    proxy.lift(rule);
    eventually("the list is read to its end", SOON, || async {
        same(operator.get("/readyz").await?.0, 200).map_err(Failure::new)
    })
    .await?;
    world.pool_settles("p", &[(10, "zeta")]).await?;
    assert_eq!(world.mutating_calls(calls), []);

    // A process that has seen everything before relies on that, and acts on missed changes once it can.
    let rule = proxy.meet(forgotten);
    let gone = proxy.meet(Rule::new("watch", NODES, Meet::Instead(Answer::failure(410))).times(1));
    proxy.cut();
    met(&proxy, gone, 1).await?;
    met(&proxy, rule, 2).await?;
    world.nodes.delete("zeta").await?;
    met(&proxy, rule, 3).await?;
    assert_eq!(world.mutating_calls(calls), []);
    proxy.lift(rule);
    world.pool_settles("p", &[(10, "alpha")]).await?;
    assert_eq!(world.assigns(calls).len(), 1);
    assert!(restarts(&operator, "expired").await? >= 3.0);
    Ok(())
}

async fn pools_with_selectors_of_their_own_share_a_watch_and_each_follows_its_own_labels(
    world: &mut World,
) -> Outcome {
    let last: Vec<u8> = (10..20).collect();
    world.reserve(&last);
    let (proxy, _operator) = world.operator_behind().await?;
    for last in &last {
        world.node_with(&format!("n{last}"), |node| node.label("pool", &format!("p{last}"))).await?;
        let mut spec = plain_spec(&[*last]);
        spec["match"]["nodeLabel"] = json!(format!("pool=p{last}"));
        world.pool(&format!("p{last}"), &spec).await?;
    }
    for last in &last {
        world.pool_settles(&format!("p{last}"), &[(*last, &format!("n{last}"))]).await?;
    }
    eventually("one watch asks for all nodes", SOON, || async {
        let of_all = |target: &str| target.contains("/nodes?") && !target.contains("labelSelector");
        Ok(proxy.seen().iter().any(|seen| seen.verb == "watch" && of_all(&seen.target)))
    })
    .await?;
    world.node_with("spare", |node| node.label("pool", "none")).await?;
    world.nodes.set_label("n10", "pool", Some("none")).await?;
    world.nodes.set_label("spare", "pool", Some("p10")).await?;
    world.pool_settles("p10", &[(10, "spare")]).await?;
    world.pool_settles("p11", &[(11, "n11")]).await
}

//! IPs get to the right nodes, and move when a node stops matching.
#![expect(clippy::print_stdout, reason = "the measured time is worth knowing")]

use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, SOON, World, ip, path, same};
use flipop_cloud::{Fault, Injection, Op, Target};
use flipop_envtest::nodes::NewPod;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// The README example has a cool-off of 20 s between its two assignments.
const EXAMPLE_TIMEOUT: Duration = Duration::from_secs(45);

/// An outage in which the waits between retries become longer than [`AFTER_OUTAGE_MS`].
const OUTAGE_MS: u64 = 40_000;

/// From the end of an outage to the request. The last two seconds are for a loaded machine.
const AFTER_OUTAGE_MS: u64 = 8_000;

/// The address of most tests.
const ONE: u8 = 10;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        the_readme_example_converges,
        an_ip_leaves_a_node_that_is_relabelled,
        a_node_without_a_provider_id_is_no_candidate_until_it_has_one,
        the_annotation_is_on_a_node_while_the_ip_is,
        an_address_whose_node_fails_in_an_outage_moves_within_seconds_of_its_end,
    ]
}

async fn the_readme_example_converges(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    world.cluster.namespace("ingress", None).await?;
    for name in ["alpha", "beta", "gamma"] {
        let edge = |node: flipop_envtest::nodes::NewNode| node.label("pool", "edge");
        world.node_with(name, edge).await?;
        let pod = NewPod::new("ingress", &format!("nginx-{name}"), name);
        let pod = pod.label("app", "nginx-ingress").label("component", "controller");
        world.nodes.create_pod(&pod).await?;
    }
    let operator = world.operator().await?;
    let applied = world.kubectl.run(&["apply", "-f", &path("examples/floatingippool.yaml")]).await?;
    assert_eq!(applied.stderr, "");
    world.pool_settles_within("ingress-pool", &[(10, "alpha"), (11, "beta")], EXAMPLE_TIMEOUT).await?;
    let third_waits =
        |pool: &crate::world::Object| same(pool.names("assignableNodes"), vec!["gamma".to_owned()]);
    world.pool_shows("ingress-pool", "the third node waits", SOON, third_waits).await?;
    world.annotation_settles("alpha", Some(10)).await?;
    world.annotation_settles("beta", Some(11)).await?;
    world.annotation_settles("gamma", None).await?;
    world.pool_shows("ingress-pool", "the status is current", SOON, crate::world::Object::is_current).await?;
    let table = world.kubectl.run(&["get", "fipool", "ingress-pool"]).await?;
    let mut lines = table.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let header = ["NAME", "DESIRED", "ACTIVE", "READY", "REASON", "DNS", "AGE"];
    assert_eq!(lines.next().unwrap_or_default(), header);
    let row = lines.next().unwrap_or_default();
    assert!(row.starts_with(&["ingress-pool", "2", "2", "True", "Assigned"]), "{row:?}");

    let labels = [("namespace", "default"), ("name", "ingress-pool"), ("provider", "digitalocean")];
    let scrape = operator.scrape().await?;
    let name = "flipop_floatingippoolcontroller_ip_assignments";
    assert_eq!((scrape.sum(name, &labels), scrape.kind(name)), (Some(2.0), Some("counter")));
    assert_eq!(world.assigns(0).len(), 2);
    Ok(())
}

async fn an_ip_leaves_a_node_that_is_relabelled(world: &mut World) -> Outcome {
    let _stage = world.on_alpha_beside_beta().await?;
    world.nodes.set_label("alpha", "pool", Some("rest")).await?;
    world.pool_settles("p", &[(ONE, "beta")]).await?;
    world.annotation_settles("beta", Some(ONE)).await?;
    world.annotation_settles("alpha", None).await?;
    assert_eq!(world.assigns(0).len(), 2, "one assignment each to alpha and beta");
    assert_eq!(world.mutating_calls(0).len(), 2, "assigning moves an address, nothing else is needed");
    Ok(())
}

async fn a_node_without_a_provider_id_is_no_candidate_until_it_has_one(world: &mut World) -> Outcome {
    world.reserve(&[ONE]);
    let droplet = world.cloud().add_droplet("alpha", crate::world::REGION);
    let node = flipop_envtest::nodes::NewNode::new("alpha").label("pool", "work");
    world.nodes.create(&node).await?;
    let operator = world.operator().await?;
    world.plain_pool("p", &[ONE]).await?;
    world
        .pool_shows("p", "the address waits for a node", SOON, |pool| {
            same(pool.state(ONE), "unassigned")?;
            same(pool.names("assignableNodes"), Vec::new())
        })
        .await?;
    assert_eq!(world.mutating_calls(0), []);
    assert!(
        operator
            .scrape()
            .await?
            .sum("flipop_floatingippoolcontroller_ip_state", &[("state", "unassigned")])
            .is_some()
    );
    world
        .nodes
        .patch("alpha", &json!({ "spec": { "providerID": format!("digitalocean://{droplet}") } }))
        .await?;
    world.pool_settles("p", &[(ONE, "alpha")]).await
}

async fn the_annotation_is_on_a_node_while_the_ip_is(world: &mut World) -> Outcome {
    let _stage = world.on_alpha_beside_beta().await?;
    world.annotation_settles("alpha", Some(ONE)).await?;
    let managers = world.nodes.get("alpha").await?.metadata.managed_fields.unwrap_or_default();
    let writer = managers.iter().find(|entry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.to_string().contains(ANNOTATION))
    });
    assert_eq!(writer.and_then(|entry| entry.manager.as_deref()), Some("flipop"));
    world.cluster.delete(flipop_envtest::cluster::Kind::Pool, crate::world::TEAM, "p").await?;
    world.annotation_settles("alpha", None).await?;
    // The address itself stays where it is.
    eventually("the address stays on its droplet", SOON, || async {
        let place = world.cloud().ip(ip(ONE)).and_then(|view| view.droplet);
        if place.is_some() { Ok(()) } else { Err(Failure::new("unassigned")) }
    })
    .await
}

async fn an_address_whose_node_fails_in_an_outage_moves_within_seconds_of_its_end(
    world: &mut World,
) -> Outcome {
    let (operator, _beta) = world.on_alpha_beside_beta().await?;
    let cloud = world.cloud();
    let begun_ms = cloud.now_ms();
    cloud.inject(Injection::always(Target::any(), Fault::status(503)));
    world.nodes.set_label("alpha", "pool", Some("rest")).await?;
    eventually("the account is out for long", SOON * 2, || async {
        let out = operator.scrape().await?.sum("flipop_providers_out", &[("provider", "digitalocean")]);
        // An outage that ends right after the account was tested takes the longest to be noticed.
        let test = cloud.calls(0).into_iter().rev().find(|call| call.op != Op::AssignIp);
        let lasted_ms = test.map_or(0, |call| call.at_ms.saturating_sub(begun_ms));
        let long = out == Some(1.0) && lasted_ms >= OUTAGE_MS;
        long.then_some(()).ok_or_else(|| Failure::new(format!("{out:?}, tested after {lasted_ms} ms")))
    })
    .await?;
    cloud.withdraw_all();
    let back_ms = cloud.now_ms();
    world.pool_settles("p", &[(ONE, "beta")]).await?;
    let assigns: Vec<u64> =
        cloud.calls(0).iter().filter(|call| call.op == Op::AssignIp).map(|call| call.at_ms).collect();
    let [_, failed, sent] = assigns[..] else {
        return Err(Failure::new(format!("an assignment that failed, and one that follows: {assigns:?}")));
    };
    println!("assigned {} ms after the end of an outage", sent.saturating_sub(back_ms));
    assert!((begun_ms..back_ms).contains(&failed), "{failed}");
    assert!(sent - back_ms <= AFTER_OUTAGE_MS, "the request follows {} ms after the end", sent - back_ms);
    eventually("the outage is over", SOON, || async {
        let out = operator.scrape().await?.sum("flipop_providers_out", &[("provider", "digitalocean")]);
        (out == Some(0.0)).then_some(()).ok_or_else(|| Failure::new(format!("{out:?}")))
    })
    .await
}

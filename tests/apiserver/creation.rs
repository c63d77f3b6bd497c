//! The operator makes addresses in the account, exactly as many as wanted and all recorded, and firewalls of pools.

use crate::suite::{Case, cases};
use crate::world::{Object, REGION, SOON, TEAM, World, plain_spec, same};
use flipop_cloud::{FirewallView, Op, Provider};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        missing_addresses_are_created_written_into_the_spec_and_assigned,
        a_manifest_that_is_applied_again_on_either_side_buys_nothing_again,
        ports_are_opened_before_the_address_comes_and_closed_when_nobody_asks_for_them,
    ]
}

fn created_spec(desired: u8) -> Value {
    let mut spec = plain_spec(&[]);
    spec["desiredIPs"] = json!(desired);
    spec
}

async fn nodes(world: &World) -> Outcome {
    for node in ["alpha", "beta", "gamma"] {
        world.node(node).await?;
    }
    Ok(())
}

fn creations(world: &World) -> u64 {
    world.cloud().count(Provider::DigitalOcean, Op::CreateReservedIp)
}

/// This many addresses are in `spec.ips` and on nodes.
fn complete(count: usize) -> impl Fn(&Object) -> Result<Vec<String>, String> {
    move |pool| {
        same(pool.spec_ips().len(), count)?;
        same(pool.active().len(), count)?;
        Ok(pool.spec_ips())
    }
}

async fn missing_addresses_are_created_written_into_the_spec_and_assigned(world: &mut World) -> Outcome {
    nodes(world).await?;
    let operator = world.operator().await?;
    world.pool("p", &created_spec(3)).await?;
    let written =
        world.pool_shows("p", "three addresses were created", Duration::from_mins(1), complete(3)).await?;
    let bought: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
    assert_eq!(written, bought, "in order of creation");
    assert!(world.cloud().ips().iter().all(|view| view.region == REGION));
    assert_eq!(creations(world), 3);
    let unfulfilled =
        operator.scrape().await?.sum("flipop_floatingippoolcontroller_unfulfilled_ips", &[("name", "p")]);
    assert_eq!(unfulfilled, Some(0.0));
    world.pool_shows("p", "the status is current", SOON, Object::is_current).await
}

async fn a_manifest_that_is_applied_again_on_either_side_buys_nothing_again(world: &mut World) -> Outcome {
    nodes(world).await?;
    let _operator = world.operator().await?;
    let manifest = json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1",
        "kind": "FloatingIPPool",
        "metadata": { "name": "p" },
        "spec": created_spec(2),
    })
    .to_string();
    let server_side = ["apply", "--server-side", "--force-conflicts", "-n", TEAM, "-f", "-"];
    let apply = async |arguments: &[&str]| {
        let ran = world.kubectl.attempt(arguments, Some(&manifest)).await?;
        same(ran.success, true).map_err(|error| Failure::new(format!("{error}: {ran:?}")))
    };
    apply(&["apply", "-n", TEAM, "-f", "-"]).await?;
    world.pool_shows("p", "two addresses were created", Duration::from_mins(1), complete(2)).await?;
    for arguments in [&["apply", "-n", TEAM, "-f", "-"][..], &server_side] {
        let before = world.get_pool("p").await?.generation();
        apply(arguments).await?;
        let remembered = |pool: &Object| {
            pool.is_current()?;
            same(pool.active().len(), 2)
        };
        world.pool_shows("p", "both are remembered", SOON, remembered).await?;
        let pool = world.get_pool("p").await?;
        assert_eq!(pool.spec_ips(), [""; 0], "{arguments:?} puts the spec back");
        assert!(pool.generation() >= before, "{arguments:?}");
    }
    assert_eq!((creations(world), world.cloud().ips().len()), (2, 2));
    Ok(())
}

fn walled_spec() -> Value {
    let mut spec = plain_spec(&[10]);
    spec["firewall"] = json!({
        "ports": [{"protocol": "tcp", "port": "443"}, {"protocol": "icmp"}],
        "sources": ["0.0.0.0/0", "::/0"],
    });
    spec
}

fn ours(world: &World) -> Vec<FirewallView> {
    world.cloud().firewalls().into_iter().filter(|wall| wall.name.starts_with("flipop-")).collect()
}

async fn holds(world: &World, members: &BTreeSet<u64>) -> Outcome {
    eventually("the firewall has its members", SOON, || async {
        match ours(world).as_slice() {
            [wall] if wall.droplets == *members => Ok(()),
            others => Err(Failure::new(format!("{others:?}"))),
        }
    })
    .await
}

async fn ports_are_opened_before_the_address_comes_and_closed_when_nobody_asks_for_them(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10]);
    world.cloud().tune(|knobs| knobs.firewall_ms = 300);
    let (alpha, beta) = (world.node("alpha").await?, world.node("beta").await?);
    assert!(world.cloud().add_firewall("base", &[], &["k8s"]).is_some());
    let before = world.cloud().firewalls()[0].whole.clone();
    let _operator = world.operator().await?;
    world.pool("p", &walled_spec()).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    holds(world, &[alpha, beta].into()).await?;
    let open: BTreeSet<String> =
        ["icmp/0/0.0.0.0/0", "icmp/0/::/0", "tcp/443/0.0.0.0/0", "tcp/443/::/0"].map(str::to_owned).into();
    assert_eq!(ours(world)[0].inbound, open);
    let calls = world.cloud().calls(0);
    let position = |op| calls.iter().position(|call| call.op == op);
    assert!(position(Op::CreateFirewall) < position(Op::AssignIp), "opened before it is assigned");
    let pool = world
        .pool_shows("p", "the ports are open", SOON, |pool| {
            let told = pool.conditions_with("FirewallReady");
            let applied = told.iter().any(|text| text.contains("\"Applied\""));
            applied.then(|| pool.status().clone()).ok_or_else(|| format!("{told:?}"))
        })
        .await?;
    assert_eq!(pool["firewalls"][0]["id"], json!(ours(world)[0].id));

    let patch = r#"[{"op": "remove", "path": "/spec/firewall"}]"#;
    world.kubectl.run(&["patch", "floatingippools", "p", "-n", TEAM, "--type=json", "-p", patch]).await?;
    eventually("ours is gone", SOON, || async {
        let all: Vec<Value> = world.cloud().firewalls().into_iter().map(|wall| wall.whole).collect();
        if all == [before.clone()] { Ok(()) } else { Err(Failure::new(format!("{all:?}"))) }
    })
    .await?;
    world
        .pool_shows("p", "nothing is remembered", SOON, |pool| {
            let left = pool.status()["firewalls"].clone();
            if left.is_null() { Ok(()) } else { Err(left.to_string()) }
        })
        .await
}

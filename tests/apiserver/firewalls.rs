//! Firewalls of pools: the real binary against the simulated `DigitalOcean`.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, plain_spec};
use flipop_cloud::{Fault, FirewallView, Injection, Op, Target, When};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        ports_are_opened_before_the_address_comes_and_closed_when_nobody_asks_for_them,
        a_process_that_dies_while_it_makes_a_firewall_makes_no_second_one,
    ]
}

fn spec() -> Value {
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
    world.pool("p", &spec()).await?;
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

async fn a_process_that_dies_while_it_makes_a_firewall_makes_no_second_one(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    let alpha = world.node("alpha").await?;
    assert!(world.cloud().add_firewall("base", &[], &["k8s"]).is_some());
    let mut operator = world.operator().await?;
    let hang =
        world.cloud().inject(Injection::nth(Target::op(Op::CreateFirewall), 1, Fault::Hang(When::After)));
    world.pool("p", &spec()).await?;
    eventually("the call hangs", SOON, || async {
        if world.cloud().injected(hang) { Err(Failure::new("not yet")) } else { Ok(()) }
    })
    .await?;
    operator.kill_9();
    world.cloud().withdraw_all();
    world.cluster.delete_lease().await?;
    let _operator = world.operator().await?;
    holds(world, &[alpha].into()).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let made = world.cloud().calls(0).into_iter().filter(|call| call.op == Op::CreateFirewall).count();
    assert_eq!(made, 1);
    Ok(())
}

//! A process dies at any call of a failover or of a pool's beginning. The next one finishes the work and does nothing
//! twice.

use crate::dns::{Name, externals, set_spec};
use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, ip, plain_spec, same};
use flipop_cloud::{Fault, Injection, Op, Provider, Target, When};
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_process_killed_at_any_call_of_a_failover_loses_nothing_and_does_nothing_twice,
        a_process_killed_at_any_call_of_a_pools_beginning_does_nothing_twice,
    ]
}

/// The nodes, each with the last number of its own address. The pool's first address moves between `alpha` and `gamma`,
/// and the second stays on `beta`.
const NODES: [(&str, u8); 3] = [("alpha", 1), ("beta", 2), ("gamma", 3)];

/// The node that never fails.
const STEADY: usize = 1;

/// Fewer calls than a failover has: the assignment, the poll of its action, and both names dropped and published.
const LEAST_CALLS: u64 = 5;

struct Names {
    pool: Name,
    nodes: Name,
}

impl Names {
    /// Whether the addresses are in place and published, and the addresses of these nodes too.
    async fn stand(&self, world: &World, holder: usize, ready: &[u8]) -> Outcome {
        let active = world.get_pool("p").await?.active();
        let wanted = [(10, holder), (11, STEADY)];
        let wanted = wanted.map(|(last, node)| (ip(last).to_string(), NODES[node].0.to_owned()));
        same(active, wanted.into_iter().collect()).map_err(Failure::new)?;
        let published = vec![ip(10).to_string(), ip(11).to_string()];
        same(self.pool.addresses(world), published).map_err(Failure::new)?;
        same(self.nodes.addresses(world), externals(ready)).map_err(Failure::new)?;
        let set = world.get(Kind::RecordSet, "nodes").await?;
        same(set.names("addresses"), externals(ready)).map_err(Failure::new)
    }

    async fn settle(&self, world: &World, holder: usize, ready: &[u8]) -> Outcome {
        eventually(&format!("{} has the address", NODES[holder].0), SOON, || self.stand(world, holder, ready))
            .await
    }
}

/// The end of a failover.
enum End {
    /// The process hangs in the call.
    Hangs,
    /// There was no such call.
    Done,
}

/// Waits until a process started at `since` has looked at both names twice. It does not rely on a single look, and a
/// failover has fewer calls until then.
async fn looked_twice(world: &World, since: u64) -> Outcome {
    let looks = |provider| {
        let calls = world.cloud().calls(since);
        calls.iter().filter(|call| call.op == Op::ListRecords && call.provider == provider).count()
    };
    eventually("both names were looked at twice", SOON, || async {
        let looks = [Provider::Cloudflare, Provider::DigitalOcean].map(looks);
        same(since == 0 || looks.iter().all(|looks| *looks >= 2), true).map_err(Failure::new)
    })
    .await
}

async fn scene(world: &World) -> Outcome<(Operator, Names)> {
    world.zones();
    world.reserve(&[10, 11]);
    for (name, number) in NODES {
        world.public_node(name, number).await?;
    }
    let operator = world.dns_operator().await?;
    let mut spec = plain_spec(&[10, 11]);
    spec["dnsRecordSet"] = json!({ "provider": "cloudflare", "zone": "example.com", "recordName": "pool" });
    world.pool("p", &spec).await?;
    world.record_set("nodes", &set_spec(Provider::DigitalOcean, "nodes")).await?;
    let names = Names {
        pool: Name::new(Provider::Cloudflare, "pool"),
        nodes: Name::new(Provider::DigitalOcean, "nodes"),
    };
    names.settle(world, 0, &[1, 2, 3]).await?;
    Ok((operator, names))
}

async fn a_process_killed_at_any_call_of_a_failover_loses_nothing_and_does_nothing_twice(
    world: &mut World,
) -> Outcome {
    let (mut operator, names) = scene(world).await?;
    let (mut holder, mut restarted_at) = (0, 0);
    for when in [When::Before, When::After] {
        for nth in 1.. {
            let (lost, other) = (holder, 2 - holder);
            let ready: &[u8] = if lost == 0 { &[2, 3] } else { &[1, 2] };
            let since = world.cloud().next_call();
            let hang = world.cloud().inject(Injection::nth(Target::any(), nth, Fault::Hang(when)));
            world.nodes.set_ready(NODES[lost].0, false).await?;
            let end = eventually("the call hangs, or all is done without it", SOON, || async {
                let hangs = || !world.cloud().injected(hang);
                if !hangs() {
                    names.stand(world, other, ready).await?;
                }
                // The last call may have come and taken effect while the names were read.
                Ok(if hangs() { End::Hangs } else { End::Done })
            })
            .await?;
            if matches!(end, End::Hangs) {
                operator.kill_9();
                world.cloud().withdraw_all();
                world.cluster.delete_lease().await?;
                restarted_at = world.cloud().next_call();
                operator = world.dns_operator().await?;
                names.settle(world, other, ready).await?;
            }
            let calls = world.cloud().calls(since);
            let moved = calls.iter().filter(|call| call.op == Op::AssignIp && call.effect).count();
            assert_eq!(moved, 1, "killed at call {nth}, {when:?} its effect");
            world.cloud().withdraw_all();
            world.nodes.set_ready(NODES[lost].0, true).await?;
            names.settle(world, other, &[1, 2, 3]).await?;
            looked_twice(world, restarted_at).await?;
            holder = other;
            if matches!(end, End::Done) {
                assert!(nth > LEAST_CALLS, "only {} calls", nth - 1);
                break;
            }
        }
    }
    Ok(())
}

/// The addresses of a new pool.
const BEGINNING: [u8; 3] = [10, 11, 12];

/// Fewer calls than a pool's beginning has: each address is assigned and published, which needs several reads.
const LEAST_BEGINNING: u64 = 12;

/// Whether all addresses of a pool are on nodes and published.
async fn all_stands(world: &World, pool: &str, name: &Name) -> Outcome {
    same(world.get_pool(pool).await?.active().len(), BEGINNING.len()).map_err(Failure::new)?;
    let published = BEGINNING.map(|last| ip(last).to_string()).to_vec();
    same(name.addresses(world), published).map_err(Failure::new)
}

/// Deletes the pool, ends the operator, and unassigns the addresses again.
async fn clear(world: &World, mut operator: Operator, pool: &str) -> Outcome {
    world.cluster.delete(Kind::Pool, TEAM, pool).await?;
    for (node, _) in NODES {
        world.annotation_settles(node, None).await?;
    }
    operator.kill_9();
    world.cluster.delete_lease().await?;
    for last in BEGINNING {
        world.cloud().move_ip(ip(last), None).map_err(|error| Failure::new(error.to_string()))?;
    }
    Ok(())
}

async fn a_process_killed_at_any_call_of_a_pools_beginning_does_nothing_twice(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&BEGINNING);
    for (node, number) in NODES {
        world.public_node(node, number).await?;
    }
    for when in [When::Before, When::After] {
        for nth in 1.. {
            let pool = format!("{}-{nth}", if when == When::Before { "before" } else { "after" });
            let name = Name::new(Provider::DigitalOcean, &pool);
            let mut spec = plain_spec(&BEGINNING);
            spec["dnsRecordSet"] =
                json!({ "provider": "digitalocean", "zone": "example.com", "recordName": pool });
            let since = world.cloud().next_call();
            let hang = world.cloud().inject(Injection::nth(Target::any(), nth, Fault::Hang(when)));
            world.pool(&pool, &spec).await?;
            let mut operator = world.dns_operator().await?;
            let end = eventually("the call hangs, or all is done without it", SOON, || async {
                let hangs = || !world.cloud().injected(hang);
                if !hangs() {
                    all_stands(world, &pool, &name).await?;
                }
                // The last call may have come and taken effect while the pool was read.
                Ok(if hangs() { End::Hangs } else { End::Done })
            })
            .await?;
            if matches!(end, End::Hangs) {
                operator.kill_9();
                world.cloud().withdraw_all();
                world.cluster.delete_lease().await?;
                operator = world.dns_operator().await?;
                eventually("the next process finishes", SOON, || all_stands(world, &pool, &name)).await?;
            }
            let calls = world.cloud().calls(since);
            for op in [Op::AssignIp, Op::CreateRecord] {
                let done = calls.iter().filter(|call| call.op == op && call.effect).count();
                assert_eq!(done, BEGINNING.len(), "{op:?}, killed at call {nth}, {when:?} its effect");
            }
            world.cloud().withdraw_all();
            clear(world, operator, &pool).await?;
            if matches!(end, End::Done) {
                assert!(nth > LEAST_BEGINNING, "only {} calls", nth - 1);
                break;
            }
        }
    }
    Ok(())
}

//! `spec.nodeCheck` with real sockets: nodes are network namespaces behind veth pairs, and a machine dies when its link
//! goes down.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]
#![expect(clippy::print_stdout, reason = "the measured time is worth knowing")]
#![expect(clippy::disallowed_methods, reason = "real time and tasks: what is waited for are other processes")]

use crate::suite::{Case, cases};
use crate::world::{SOON, World, ip, plain_spec, same};
use flipop::clock::Clock;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

pub(crate) fn cases() -> Vec<Case> {
    cases![InstalledWithNamespaces:
        a_machine_whose_link_goes_down_loses_its_address_within_sixteen_seconds,
        where_kubelets_renew_often_it_takes_few_seconds,
        a_machine_that_is_switched_off_loses_its_address_within_few_seconds_whatever_its_lease,
        a_node_that_refuses_and_one_whose_kubelet_is_silent_keep_their_addresses,
    ]
}

/// The rights and programs that the tests need.
pub(crate) const NEEDS: &str = "needs root, network namespaces and ip (iproute2)";

/// On a busy machine, in a cluster of three nodes, a death is noticed within this time.
const NOTICED: Duration = Duration::from_secs(16);

/// The same where Leases last 10 s, or where the provider says that the machine is off. The aim is 5 s on a machine
/// that is not busy.
const NOTICED_SOON: Duration = Duration::from_secs(8);

/// A node that neither answers nor renews its Lease is dead long before this.
const LONG_SILENCE: Duration = Duration::from_secs(20);

/// Whether this machine has what the tests need.
pub(crate) fn namespaces_work() -> bool {
    // Tests that run at once would make the same namespace.
    static WORK: LazyLock<bool> = LazyLock::new(|| {
        let name = format!("fc{}-probe", std::process::id());
        quiet(&["netns", "add", &name]) && quiet(&["netns", "del", &name])
    });
    *WORK
}

fn quiet(arguments: &[&str]) -> bool {
    let mut ip = Command::new("ip");
    ip.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    ip.status().is_ok_and(|status| status.success())
}

/// Machines: one namespace each, with one link to this machine. Dropping them removes them.
struct Machines {
    count: u8,
    /// The third part of their addresses, one for each process.
    net: u8,
    /// One for each test of the process.
    test: u8,
}

/// How many tests have made machines.
static TESTS: AtomicU8 = AtomicU8::new(0);

impl Machines {
    fn new(count: u8) -> Self {
        let net = u8::try_from(std::process::id() % 200).unwrap() + 20;
        let machines = Self { count, net, test: TESTS.fetch_add(1, Ordering::Relaxed) };
        for n in 1..=count {
            let (name, link) = (machines.name(n), machines.link(n));
            assert!(quiet(&["netns", "add", &name]), "{name}");
            let veth = ["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name];
            assert!(quiet(&veth), "{link}");
            let (here, there) =
                (format!("{}/30", machines.address(n, 1)), format!("{}/30", machines.address(n, 2)));
            assert!(quiet(&["addr", "add", &here, "dev", &link]) && quiet(&["link", "set", &link, "up"]));
            assert!(quiet(&["-n", &name, "addr", "add", &there, "dev", "eth0"]));
            assert!(quiet(&["-n", &name, "link", "set", "eth0", "up"]));
        }
        machines
    }

    fn name(&self, n: u8) -> String {
        format!("fc{}-{}-{}", self.net, self.test, n)
    }

    fn link(&self, n: u8) -> String {
        format!("fc{}l{}-{}", self.net, self.test, n)
    }

    fn address(&self, n: u8, last: u8) -> String {
        format!("10.97.{}.{}", self.net, 16 * self.test + 4 * n + last)
    }

    /// Takes the link down: nothing answers any more.
    fn die(&self, n: u8) {
        assert!(quiet(&["-n", &self.name(n), "link", "set", "eth0", "down"]));
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for n in 1..=self.count {
            quiet(&["netns", "del", &self.name(n)]);
            quiet(&["link", "del", &self.link(n)]);
        }
    }
}

/// Kubelets that renew the Leases of these nodes. They leave the Leases of silent nodes as they are.
struct Kubelets {
    silent: Arc<Mutex<BTreeSet<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn now() -> String {
    Clock::system().timestamp().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

impl Kubelets {
    async fn start(world: &World, nodes: &[&str], lease_s: u64) -> Outcome<Self> {
        let api: Api<Lease> = Api::namespaced(world.server.client().await?, "kube-node-lease");
        for node in nodes {
            let lease = json!({
                "metadata": { "name": node },
                "spec": { "holderIdentity": node, "leaseDurationSeconds": lease_s, "renewTime": now() },
            });
            api.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
        }
        let silent = Arc::new(Mutex::new(BTreeSet::new()));
        let (seen, nodes) = (Arc::clone(&silent), nodes.iter().map(ToString::to_string).collect::<Vec<_>>());
        let task = tokio::spawn(async move {
            for turn in 0_usize.. {
                let renewal = Duration::from_secs(lease_s) / 4;
                tokio::time::sleep(renewal / u32::try_from(nodes.len()).unwrap()).await;
                let node = &nodes[turn % nodes.len()];
                if !seen.lock().unwrap().contains(node) {
                    let patch = Patch::Merge(json!({ "spec": { "renewTime": now() } }));
                    api.patch(node, &PatchParams::default(), &patch).await.unwrap();
                }
            }
        });
        Ok(Self { silent, task })
    }

    fn silence(&self, node: &str) {
        self.silent.lock().unwrap().insert(node.to_owned());
    }
}

/// The operator's `/debug`.
async fn debug(operator: &Operator) -> Outcome<Value> {
    let (_, text) = operator.get("/debug").await?;
    Ok(serde_json::from_str(&text)?)
}

const NODES: [&str; 3] = ["alpha", "beta", "gamma"];

/// A pool with an address on `alpha` and one on `beta`, with a third node, all of them checked.
async fn checked(world: &World, lease_s: u64) -> Outcome<(Machines, Kubelets, Operator)> {
    world.kubectl.run(&["apply", "-f", &crate::world::path("k8s/nodecheck")]).await?;
    let machines = Machines::new(3);
    world.reserve(&[10, 11]);
    let kubelets = Kubelets::start(world, &NODES, lease_s).await?;
    let launch = world.launch().await?.env("NODE_NAME", "elsewhere");
    let operator = world.start(&launch).await?;
    let addressed = async |n: u8, node: &str| {
        let addresses = json!([{ "type": "InternalIP", "address": machines.address(n, 2) }]);
        world.nodes.patch_status(node, &json!({ "addresses": addresses })).await
    };
    world.node("alpha").await?;
    addressed(1, "alpha").await?;
    let mut spec = plain_spec(&[10, 11]);
    spec["nodeCheck"] = json!({});
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.node("beta").await?;
    addressed(2, "beta").await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    // A kubelet may register its node before a cloud controller has set the address.
    world.node("gamma").await?;
    world
        .pool_shows("p", "gamma matches", SOON, |pool| {
            same(pool.names("assignableNodes"), vec!["gamma".into()])
        })
        .await?;
    addressed(3, "gamma").await?;
    // Waits for the first answer of each machine, and then for the time that must pass after a list.
    eventually("all machines answer", SOON, || async {
        let checks = debug(&operator).await?["checks"].as_array().cloned().unwrap_or_default();
        let alive = checks.iter().filter(|check| check["standing"] == "alive").count();
        same(alive, 3).map_err(Failure::new)
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(13)).await;
    Ok((machines, kubelets, operator))
}

async fn a_machine_whose_link_goes_down_loses_its_address_within_sixteen_seconds(
    world: &mut World,
) -> Outcome {
    dies(world, 40, false, NOTICED).await
}

async fn where_kubelets_renew_often_it_takes_few_seconds(world: &mut World) -> Outcome {
    dies(world, 10, false, NOTICED_SOON).await
}

async fn a_machine_that_is_switched_off_loses_its_address_within_few_seconds_whatever_its_lease(
    world: &mut World,
) -> Outcome {
    dies(world, 40, true, NOTICED_SOON).await
}

/// A machine dies, and its address moves within this time. Its provider may say that it is off.
async fn dies(world: &World, lease_s: u64, off: bool, noticed: Duration) -> Outcome {
    let (machines, kubelets, _operator) = checked(world, lease_s).await?;
    let since = world.cloud().next_call();
    kubelets.silence("alpha");
    machines.die(1);
    if off {
        let droplet = world.cloud().ip(ip(10)).and_then(|view| view.droplet);
        world.cloud().power_droplet(droplet.unwrap(), false);
    }
    let died = Instant::now();
    let moved = || async {
        let assigns = world.assigns(since);
        same(assigns.len(), 1).map_err(Failure::new)
    };
    eventually("the address moves", noticed + SOON, moved).await?;
    let took = died.elapsed();
    println!("moved {took:?} after the death");
    assert!(took <= noticed, "{took:?}");
    let assigned: Vec<_> = world.assigns(since).into_iter().map(|(address, _)| address).collect();
    assert_eq!(assigned, [ip(10)]);
    Ok(())
}

async fn a_node_that_refuses_and_one_whose_kubelet_is_silent_keep_their_addresses(
    world: &mut World,
) -> Outcome {
    // No machine has a listener: every check is refused.
    let (machines, kubelets, operator) = checked(world, 40).await?;
    let since = world.cloud().next_call();
    kubelets.silence("alpha");
    machines.die(2);
    eventually("the failures of beta are doubted", LONG_SILENCE + SOON, || async {
        let checks = debug(&operator).await?["checks"].as_array().cloned().unwrap_or_default();
        let beta = checks.iter().find(|check| check["node"] == "beta").cloned().unwrap_or_default();
        let silent = Duration::from_millis(beta["lastPassedMs"].as_u64().unwrap_or_default());
        if beta["doubted"] == true && silent > LONG_SILENCE {
            Ok(())
        } else {
            Err(Failure::new(beta.to_string()))
        }
    })
    .await?;
    assert_eq!(world.assigns(since).len(), 0);
    Ok(())
}

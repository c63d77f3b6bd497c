//! A cluster, an account and the operator's binary between them, and the questions that figures ask of them.

use flipop_cloud::{Call, Change, Cloud, CloudServer, Fault, Injection, Op, Options, Provider, Target};
use flipop_envtest::apiserver::ApiServer;
use flipop_envtest::assets::{self, Assets};
use flipop_envtest::audit::Audit;
use flipop_envtest::cluster::{Cluster, Kind, NAMESPACE, SERVICE_ACCOUNT};
use flipop_envtest::nodes::{NewNode, Nodes};
use flipop_envtest::operator::{Launch, Operator, TOKEN};
use flipop_envtest::servers::{Installed, Servers};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};

/// The region of everything.
pub(crate) const REGION: &str = "nyc3";

/// Namespace of the pools.
pub(crate) const TEAM: &str = "default";

/// The pool that is measured.
pub(crate) const POOL: &str = "measured";

/// The tokens' names in the provider's call log.
pub(crate) const OPERATOR: &str = "operator";
pub(crate) const BARE: &str = "bare";

const CLOUDFLARE_TOKEN: &str = "bench-cloudflare-token";

/// Token of the bare client.
pub(crate) const BARE_TOKEN: &str = "bench-bare-token";

/// The time limit for work that involves no waiting by design.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The parts that all figures share.
#[derive(Debug)]
pub(crate) struct Stage {
    assets: Assets,
    binary: PathBuf,
}

impl Stage {
    /// Without a path, uses the release binary of this repository.
    pub(crate) fn new(assets: Assets, binary: Option<PathBuf>) -> Outcome<Self> {
        let binary = match binary {
            Some(binary) => binary.canonicalize()?,
            None => release_binary()?,
        };
        if !binary.is_file() {
            return Err(Failure::new(format!("no {}: cargo build --release --bin flipop", binary.display())));
        }
        Ok(Self { assets, binary })
    }

    /// The binary that is measured.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// A cluster with FLIPOP installed, and an account.
    pub(crate) async fn world(&self) -> Outcome<World> {
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s");
        let servers = Servers::new(&manifests.display().to_string());
        let server = servers.take(&self.assets, Installed::Manifests).await?;
        let client = server.client().await?;
        let cloud = CloudServer::start(Options::default()).await?;
        cloud.cloud().add_token(Provider::DigitalOcean, OPERATOR, TOKEN, &["*"]);
        cloud.cloud().add_token(Provider::DigitalOcean, BARE, BARE_TOKEN, &["*"]);
        let kubeconfig = server.service_account(NAMESPACE, SERVICE_ACCOUNT).await?;
        let launch = Launch::bare(&self.binary)
            .flag("--kubeconfig")
            .flag(&kubeconfig.display().to_string())
            .env("DIGITALOCEAN_ACCESS_TOKEN", TOKEN)
            .env("DIGITALOCEAN_API_URL", &cloud.digitalocean_url())
            .metrics()?;
        Ok(World {
            cluster: Cluster::new(client.clone()),
            nodes: Nodes::new(client.clone()),
            client,
            server,
            cloud,
            kubeconfig,
            launch,
        })
    }
}

/// `target/release/flipop` in the target folder of this program.
fn release_binary() -> Outcome<PathBuf> {
    Ok(assets::target_folder()?.join("release/flipop"))
}

/// See the module.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) cluster: Cluster,
    pub(crate) nodes: Nodes,
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) launch: Launch,
    cloud: CloudServer,
}

impl World {
    pub(crate) fn cloud(&self) -> &Cloud {
        self.cloud.cloud()
    }

    pub(crate) fn digitalocean_url(&self) -> String {
        self.cloud.digitalocean_url()
    }

    /// Gives the operator a Cloudflare account too.
    pub(crate) fn add_cloudflare(&mut self) {
        self.cloud().add_token(Provider::Cloudflare, OPERATOR, CLOUDFLARE_TOKEN, &["*"]);
        let launch = self.launch.clone().env("CLOUDFLARE_TOKEN", CLOUDFLARE_TOKEN);
        self.launch = launch.env("CLOUDFLARE_API_URL", &self.cloud.cloudflare_url());
    }

    pub(crate) fn audit(&self) -> Audit {
        self.server.audit()
    }

    /// Starts the operator as in production, without detailed logs.
    pub(crate) fn start(&self) -> Outcome<Operator> {
        self.launch.start(self.server.folder())
    }

    /// Starts the operator, and waits until it serves.
    pub(crate) async fn serving(&self) -> Outcome<Operator> {
        let mut operator = self.start()?;
        operator.healthy().await?;
        Ok(operator)
    }

    /// Creates a droplet and its Ready node with this value of the label `pool`.
    pub(crate) async fn node(&self, name: &str, pool: &str) -> Outcome<u64> {
        let droplet = self.cloud().add_droplet(name, REGION);
        self.nodes.create(&NewNode::new(name).droplet(droplet).label("pool", pool)).await?;
        Ok(droplet)
    }

    /// Creates a pool of these addresses for the nodes with this value of the label `pool`.
    pub(crate) async fn pool(&self, name: &str, ips: &[Ipv4Addr], pool: &str, pods: Option<&str>) -> Outcome {
        let ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
        let mut matching = json!({ "nodeLabel": format!("pool={pool}") });
        if let (Some(labels), Some(matching)) = (pods, matching.as_object_mut()) {
            matching.insert("podNamespace".to_owned(), json!("web"));
            matching.insert("podLabel".to_owned(), json!(labels));
        }
        let spec = json!({ "provider": "digitalocean", "region": REGION, "ips": ips, "match": matching });
        self.cluster.create(Kind::Pool, TEAM, name, &spec).await
    }

    /// Waits until the status of the measured pool is right. `Err` of `right` says what is wrong.
    pub(crate) async fn pool_shows(
        &self,
        what: &str,
        right: impl Fn(&Status) -> Result<(), String>,
    ) -> Outcome {
        let right = &right;
        eventually(what, SOON, move || async move {
            let pool = self.cluster.get(Kind::Pool, TEAM, POOL).await?;
            let status = Status(pool.get("status").cloned().unwrap_or_default());
            right(&status).map_err(|wrong| Failure::new(format!("{wrong}\n{}", status.0)))
        })
        .await
    }

    /// Waits until this many addresses of the measured pool are active.
    pub(crate) async fn all_active(&self, count: u8) -> Outcome {
        let all = |status: &Status| match status.active().len() {
            active if active == usize::from(count) => Ok(()),
            active => Err(format!("{active} are active")),
        };
        self.pool_shows("all addresses are active", all).await
    }

    /// Makes every call to the provider fail for a while, in which this node fails. Returns the time from the end of
    /// the outage to the assign request.
    pub(crate) async fn outage(&self, lasts: Duration, node: &str) -> Outcome<Duration> {
        let cloud = self.cloud();
        let outage = cloud.inject(Injection::always(Target::any(), Fault::status(503)));
        self.nodes.set_ready(node, false).await?;
        tokio::time::sleep(lasts).await;
        let (since, mut changes) = (cloud.next_call(), cloud.changes());
        cloud.withdraw(outage);
        let ended_us = cloud.now_us();
        let call = self.call(&mut changes, since, |call| is_assign(call, OPERATOR)).await?;
        Ok(Duration::from_micros(call.at_us.saturating_sub(ended_us)))
    }

    /// The node that has this address of the measured pool.
    pub(crate) async fn holder(&self, ip: Ipv4Addr) -> Outcome<String> {
        let pool = self.cluster.get(Kind::Pool, TEAM, POOL).await?;
        let status = Status(pool.get("status").cloned().unwrap_or_default());
        status.active().remove(&ip.to_string()).ok_or_else(|| Failure::new(format!("{ip} is on no node")))
    }

    /// Waits until a call has arrived. Subscribe to `changes` before its cause.
    pub(crate) async fn call(
        &self,
        changes: &mut broadcast::Receiver<Change>,
        since: u64,
        wanted: impl Fn(&Call) -> bool,
    ) -> Outcome<Call> {
        let arrival = async {
            loop {
                if let Some(call) = self.cloud().calls(since).into_iter().find(|call| wanted(call)) {
                    return Ok(call);
                }
                // Every effect of a call is a change. A call without an effect is found at the next look.
                match tokio::time::timeout(LOOK, changes.recv()).await {
                    Ok(Err(RecvError::Closed)) => return Err(Failure::new("the account is closed")),
                    Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => {}
                }
            }
        };
        match tokio::time::timeout(SOON, arrival).await {
            Ok(call) => call,
            Err(_) => Err(Failure::new(format!(
                "no such call within {SOON:?}; calls: {:#?}",
                self.cloud().calls(since)
            ))),
        }
    }

    pub(crate) async fn end(self) {
        self.cloud.stop().await;
    }
}

/// How often to look for a call that changed nothing.
const LOOK: Duration = Duration::from_millis(20);

/// Whether it is an assign request of this token.
pub(crate) fn is_assign(call: &Call, token: &str) -> bool {
    call.op == Op::AssignIp && call.token == token
}

/// The status of a pool.
#[derive(Debug)]
pub(crate) struct Status(Value);

impl Status {
    /// Active addresses and their nodes.
    pub(crate) fn active(&self) -> BTreeMap<String, String> {
        let entries = self.0.get("ips").and_then(Value::as_object);
        let text = |entry: &Value, field: &str| {
            entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        entries
            .into_iter()
            .flatten()
            .filter(|(_, entry)| text(entry, "state") == "active")
            .map(|(ip, entry)| (ip.clone(), text(entry, "nodeName")))
            .collect()
    }

    /// `Err` unless exactly this address is active, on this node, and these candidates wait.
    pub(crate) fn stands(&self, ip: Ipv4Addr, node: &str, waiting: &[&str]) -> Result<(), String> {
        let active = self.active();
        if active != BTreeMap::from([(ip.to_string(), node.to_owned())]) {
            return Err(format!("active: {active:?}"));
        }
        let names = self.0.get("assignableNodes").and_then(Value::as_array);
        let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
        if names == waiting { Ok(()) } else { Err(format!("waiting: {names:?}")) }
    }
}

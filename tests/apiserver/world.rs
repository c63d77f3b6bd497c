//! The tools of a test: a cluster, a `DigitalOcean`, and the operator's binary between them.

use flipop_cloud::{Call, Cloud, CloudServer, Op, Options, Provider};
use flipop_envtest::api_proxy::{ApiProxy, RuleId};
use flipop_envtest::apiserver::ApiServer;
use flipop_envtest::cluster::{Cluster, Kind, NAMESPACE, SERVICE_ACCOUNT};
use flipop_envtest::kubectl::Kubectl;
use flipop_envtest::nodes::{NewNode, NewPod, Nodes};
use flipop_envtest::operator::{CLOUDFLARE_TOKEN, Launch, Operator, TOKEN};
use flipop_envtest::process::{TAIL_LINES, tail};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The region of everything.
pub(crate) const REGION: &str = "nyc3";

/// The annotation that the operator writes.
pub(crate) const ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";

/// The namespace of the tests' pools.
pub(crate) const TEAM: &str = "default";

/// The time limit for work that involves no waiting, even on a heavily overloaded machine. It is shorter than the slow
/// schedule's first wait, so it tells the two apart.
pub(crate) const SOON: Duration = Duration::from_secs(45);

/// It logs a line per request to the API server, which would bury the rest.
const HTTP_TRACE: &str = "kube_client::client::builder";

/// The path of a file in this repository.
pub(crate) fn path(relative: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative).display().to_string()
}

/// The operator's binary, built by cargo for these tests.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_flipop"))
}

/// An address of the tests' account.
pub(crate) fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, last)
}

/// Waits until a rule has applied to this many requests.
#[track_caller]
pub(crate) fn met(proxy: &ApiProxy, rule: RuleId, times: u64) -> impl Future<Output = Outcome> + use<'_> {
    eventually(&format!("{times} requests are met"), SOON, move || async move {
        let met = proxy.met(rule);
        if met >= times { Ok(()) } else { Err(Failure::new(format!("{met} were"))) }
    })
}

/// A cluster, a simulated account, and their connections.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) cluster: Cluster,
    pub(crate) nodes: Nodes,
    pub(crate) kubectl: Kubectl,
    cloud: CloudServer,
}

impl World {
    pub(crate) async fn new(server: ApiServer) -> Outcome<Self> {
        let client = server.client().await?;
        let cloud = CloudServer::start(Options::default()).await?;
        cloud.cloud().add_token(Provider::DigitalOcean, "operator", TOKEN, &["*"]);
        cloud.cloud().add_token(Provider::Cloudflare, "operator-cf", CLOUDFLARE_TOKEN, &["*"]);
        let kubectl = server.kubectl()?;
        Ok(Self { server, cluster: Cluster::new(client.clone()), nodes: Nodes::new(client), kubectl, cloud })
    }

    /// Ends the test's own servers and returns the API server.
    pub(crate) async fn end(self) -> ApiServer {
        self.cloud.stop().await;
        self.server
    }

    /// The simulated account.
    pub(crate) fn cloud(&self) -> &Cloud {
        self.cloud.cloud()
    }

    /// The base URL of the simulated `DigitalOcean`.
    pub(crate) fn digitalocean_url(&self) -> String {
        self.cloud.digitalocean_url()
    }

    /// The base URL of the simulated Cloudflare.
    pub(crate) fn cloudflare_url(&self) -> String {
        self.cloud.cloudflare_url()
    }

    /// A kubeconfig for the operator's service account.
    pub(crate) async fn operator_kubeconfig(&self) -> Outcome<PathBuf> {
        self.server.service_account(NAMESPACE, SERVICE_ACCOUNT).await
    }

    /// How to start the operator in a cluster.
    pub(crate) async fn launch(&self) -> Outcome<Launch> {
        Launch::new(binary(), &self.operator_kubeconfig().await?, &self.digitalocean_url())
    }

    /// An operator that responds.
    pub(crate) async fn operator(&self) -> Outcome<Operator> {
        self.start(&self.launch().await?).await
    }

    /// The same with another launch.
    pub(crate) async fn start(&self, launch: &Launch) -> Outcome<Operator> {
        let mut operator = launch.start(self.server.folder())?;
        operator.healthy().await?;
        Ok(operator)
    }

    /// How to start an operator behind a proxy that can apply faults to its requests.
    pub(crate) async fn launch_behind(&self) -> Outcome<(ApiProxy, Launch)> {
        let kubeconfig = self.operator_kubeconfig().await?;
        let proxy = ApiProxy::start(&kubeconfig).await?;
        let launch = Launch::new(binary(), &proxy.kubeconfig(&kubeconfig)?, &self.digitalocean_url())?;
        Ok((proxy, launch))
    }

    /// An operator behind such a proxy.
    pub(crate) async fn operator_behind(&self) -> Outcome<(ApiProxy, Operator)> {
        let (proxy, launch) = self.launch_behind().await?;
        let operator = self.start(&launch).await?;
        Ok((proxy, operator))
    }

    /// Reserves addresses in the account.
    pub(crate) fn reserve(&self, last: &[u8]) {
        for last in last {
            self.cloud().add_ip(Some(ip(*last)), REGION);
        }
    }

    /// A droplet and its Ready node with the label `pool=work`. Returns the droplet's id.
    pub(crate) async fn node(&self, name: &str) -> Outcome<u64> {
        self.node_with(name, |node| node).await
    }

    /// The same, with changes.
    pub(crate) async fn node_with(
        &self,
        name: &str,
        change: impl FnOnce(NewNode) -> NewNode,
    ) -> Outcome<u64> {
        let droplet = self.cloud().add_droplet(name, REGION);
        let node = NewNode::new(name).droplet(droplet).label("pool", "work");
        self.nodes.create(&change(node)).await?;
        Ok(droplet)
    }

    /// A Ready pod with the label `app=web` in the namespace `web`.
    pub(crate) async fn pod(&self, name: &str, node: &str) -> Outcome {
        self.cluster.namespace("web", None).await?;
        self.nodes.create_pod(&NewPod::new("web", name, node).label("app", "web")).await
    }

    /// Creates a pool.
    pub(crate) async fn pool(&self, name: &str, spec: &Value) -> Outcome {
        self.cluster.create(Kind::Pool, TEAM, name, spec).await
    }

    /// Creates a pool of these addresses for the nodes with `pool=work`, without a cool-off.
    pub(crate) async fn plain_pool(&self, name: &str, last: &[u8]) -> Outcome {
        self.pool(name, &plain_spec(last)).await
    }

    /// A pool `p` whose only address is on `alpha`, and the droplet of `beta`, which could have it too.
    pub(crate) async fn on_alpha_beside_beta(&self) -> Outcome<(Operator, u64)> {
        self.reserve(&[10]);
        self.node("alpha").await?;
        let beta = self.node("beta").await?;
        let operator = self.operator().await?;
        self.plain_pool("p", &[10]).await?;
        self.pool_settles("p", &[(10, "alpha")]).await?;
        Ok((operator, beta))
    }

    /// Reads a pool.
    pub(crate) async fn get_pool(&self, name: &str) -> Outcome<Object> {
        self.get(Kind::Pool, name).await
    }

    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Outcome<Object> {
        Ok(Object(self.cluster.get(kind, TEAM, name).await?))
    }

    /// Waits until a pool is right. `Err` of `right` says what is wrong.
    #[track_caller]
    pub(crate) fn pool_shows<'a, T, Right>(
        &'a self,
        name: &'a str,
        what: &str,
        timeout: Duration,
        right: Right,
    ) -> impl Future<Output = Outcome<T>> + use<'a, T, Right>
    where
        Right: Fn(&Object) -> Result<T, String> + 'a,
        T: 'a,
    {
        self.shows(Kind::Pool, name, what, timeout, right)
    }

    /// Waits until an object is right. `Err` of `right` says what is wrong.
    #[track_caller]
    pub(crate) fn shows<'a, T, Right>(
        &'a self,
        kind: Kind,
        name: &'a str,
        what: &str,
        timeout: Duration,
        right: Right,
    ) -> impl Future<Output = Outcome<T>> + use<'a, T, Right>
    where
        Right: Fn(&Object) -> Result<T, String> + 'a,
        T: 'a,
    {
        let right = std::rc::Rc::new(right);
        eventually(&format!("{kind:?} {name}: {what}"), timeout, move || {
            let right = std::rc::Rc::clone(&right);
            async move {
                let object = self.get(kind, name).await?;
                right(&object)
                    .map_err(|wrong| Failure::new(format!("{wrong}\n  status: {}", object.status())))
            }
        })
    }

    /// Waits until exactly these addresses of a pool are active, on these nodes.
    #[track_caller]
    pub(crate) fn pool_settles<'a>(
        &'a self,
        name: &'a str,
        expected: &'a [(u8, &'a str)],
    ) -> impl Future<Output = Outcome> + use<'a> {
        self.pool_settles_within(name, expected, SOON)
    }

    /// The same with another timeout.
    #[track_caller]
    pub(crate) fn pool_settles_within<'a>(
        &'a self,
        name: &'a str,
        expected: &'a [(u8, &'a str)],
        timeout: Duration,
    ) -> impl Future<Output = Outcome> + use<'a> {
        let wanted: BTreeMap<String, String> =
            expected.iter().map(|(last, node)| (ip(*last).to_string(), (*node).to_owned())).collect();
        self.pool_shows(name, &format!("active are {wanted:?}"), timeout, move |pool| {
            let active = pool.active();
            if active == wanted { Ok(()) } else { Err(format!("active are {active:?}")) }
        })
    }

    /// Waits until a node has this value of the annotation, or none.
    #[track_caller]
    pub(crate) fn annotation_settles<'a>(
        &'a self,
        node: &'a str,
        expected: Option<u8>,
    ) -> impl Future<Output = Outcome> + use<'a> {
        let wanted = expected.map(|last| ip(last).to_string());
        eventually(&format!("node {node} has the annotation {wanted:?}"), SOON, move || {
            let wanted = wanted.clone();
            async move {
                let annotation = self.nodes.annotation(node, ANNOTATION).await?;
                if annotation == wanted { Ok(()) } else { Err(Failure::new(format!("{annotation:?}"))) }
            }
        })
    }

    /// The calls since a number that can change something at the provider.
    pub(crate) fn mutating_calls(&self, since: u64) -> Vec<Call> {
        self.cloud().calls(since).into_iter().filter(|call| call.op.mutates()).collect()
    }

    /// The assignments requested since a number: address and droplet.
    pub(crate) fn assigns(&self, since: u64) -> Vec<(Ipv4Addr, u64)> {
        let of = |call: &Call| {
            let address = call.path.split('/').nth(3)?.parse().ok()?;
            let body: Value = serde_json::from_str(&call.body).ok()?;
            Some((address, body.get("droplet_id")?.as_u64()?))
        };
        let calls = self.cloud().calls(since);
        calls.iter().filter(|call| call.op == Op::AssignIp).filter_map(of).collect()
    }

    /// Everything that helps to understand a failure.
    pub(crate) async fn describe(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = writeln!(text, "--- the account\n{:#?}", self.cloud().ips());
        let calls = self.cloud().calls(0);
        let _ = writeln!(text, "--- provider calls ({} in all, the last 30)", calls.len());
        for call in calls.iter().rev().take(30).rev() {
            let Call { seq, at_ms, op, path, status, fault, body, .. } = call;
            let _ = writeln!(text, "{seq} at {at_ms} ms {op:?} {path} {body} -> {status:?} {fault:?}");
        }
        for kind in ["nodes", "pods", "fipool,nodedns", "lease", "events"] {
            let output = if kind == "fipool,nodedns" { "yaml" } else { "wide" };
            let ran = self.kubectl.attempt(&["get", kind, "-A", "-o", output], None).await;
            let shown = ran.map_or_else(|failure| failure.to_string(), |ran| ran.stdout + &ran.stderr);
            let _ = writeln!(text, "--- kubectl get {kind}\n{}", tail(&shown, 3 * TAIL_LINES));
        }
        for log in operator_logs(self.server.folder()) {
            let content = fs::read_to_string(&log).unwrap_or_default();
            let own: Vec<&str> = content.lines().filter(|line| !line.contains(HTTP_TRACE)).collect();
            let _ = writeln!(text, "--- {}\n{}", log.display(), tail(&own.join("\n"), TAIL_LINES));
        }
        text
    }
}

fn operator_logs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut logs: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path().join("log")).filter(|log| log.is_file()).collect();
    logs.sort();
    logs
}

/// The spec of [`World::plain_pool`].
pub(crate) fn plain_spec(last: &[u8]) -> Value {
    let ips: Vec<String> = last.iter().map(|last| ip(*last).to_string()).collect();
    json!({ "provider": "digitalocean", "region": REGION, "ips": ips, "match": { "nodeLabel": "pool=work" } })
}

/// A pool or record set as it is on the API server.
#[derive(Debug, Clone)]
pub(crate) struct Object(Value);

impl Object {
    pub(crate) fn status(&self) -> &Value {
        &self.0["status"]
    }

    /// `spec.ips`.
    pub(crate) fn spec_ips(&self) -> Vec<String> {
        strings(&self.0["spec"]["ips"])
    }

    /// A text in the status.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.status()[field].as_str().unwrap_or_default()
    }

    /// `status.error`.
    pub(crate) fn error(&self) -> &str {
        self.text("error")
    }

    /// `Err` unless a condition has this status and reason, and these words in its message.
    pub(crate) fn has(&self, kind: &str, status: &str, reason: &str, words: &[&str]) -> Result<(), String> {
        let mut conditions = self.status()["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == kind);
        let found = found.ok_or_else(|| format!("no condition {kind}"))?;
        let says = |word: &&str| found["message"].as_str().is_some_and(|message| message.contains(word));
        if found["status"] == status && found["reason"] == reason && words.iter().all(says) {
            Ok(())
        } else {
            Err(format!("{kind} is {found} instead of {status}, {reason}, {words:?}"))
        }
    }

    /// A field of an address's status.
    pub(crate) fn of_ip(&self, address: &str, field: &str) -> &str {
        self.status()["ips"][address][field].as_str().unwrap_or_default()
    }

    /// An address's state.
    pub(crate) fn state(&self, last: u8) -> &str {
        self.of_ip(&ip(last).to_string(), "state")
    }

    /// A list of names in the status.
    pub(crate) fn names(&self, field: &str) -> Vec<String> {
        strings(&self.status()[field])
    }

    /// Active addresses and their nodes.
    pub(crate) fn active(&self) -> BTreeMap<String, String> {
        let entries = self.status()["ips"].as_object();
        entries
            .into_iter()
            .flatten()
            .filter(|(_, entry)| entry["state"] == "active")
            .map(|(ip, entry)| (ip.clone(), entry["nodeName"].as_str().unwrap_or_default().to_owned()))
            .collect()
    }

    /// The conditions, as text, with this text in type, reason or message.
    pub(crate) fn conditions_with(&self, part: &str) -> Vec<String> {
        let conditions = self.status()["conditions"].as_array();
        conditions.into_iter().flatten().map(Value::to_string).filter(|text| text.contains(part)).collect()
    }

    /// `Err` unless a condition contains this text.
    pub(crate) fn has_condition(&self, part: &str) -> Result<(), String> {
        if self.conditions_with(part).is_empty() {
            Err(format!("no condition with {part:?}"))
        } else {
            Ok(())
        }
    }

    /// How many specs there were.
    pub(crate) fn generation(&self) -> i64 {
        self.0["metadata"]["generation"].as_i64().unwrap_or_default()
    }

    /// `Err` unless the status describes the present spec.
    pub(crate) fn is_current(&self) -> Result<(), String> {
        same(&self.status()["observedGeneration"], &self.0["metadata"]["generation"])
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `Err` with both values if they differ.
#[expect(clippy::needless_pass_by_value, reason = "callers compare temporaries")]
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{found:?} instead of {wanted:?}")) }
}

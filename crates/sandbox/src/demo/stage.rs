//! The simulated servers on loopback, the cluster that the cast describes, and the operators that run in it.
//!
//! Invariants: the operators have their own front of the API server, so rights denied to them are denied to nobody
//! else. [`Stage::close`] stops everything and waits for its end.

use super::access::{Access, Reviews};
use super::cast::{Address, Cast, Node, Pod, USERS_FIREWALL};
use super::machines::Machines;
use super::manifest::{DEFAULT_NAMESPACE, Document};
use super::operators::{Operators, Surroundings};
use super::pools::{key, text};
use super::zones::Zone;
use super::{DemoError, sets};
use axum::Router;
use flipop::admin;
use flipop::clock::Clock;
use flipop_apiserver::{ApiServer, Key, PodSpec, ScenarioError, kubeconfig_yaml};
use flipop_cloud::{CloudServer, Options, Plan, Provider, RecordView};
use flipop_sandbox::advice::advice;
use flipop_simulation::furnish::{self, NAMESPACE};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Determines every invented value. Runs differ only in the order of their calls.
const SEED: u64 = 20_260_301;

/// About how long `DigitalOcean` takes for a move: long enough to be seen.
const ACTION_MS: u64 = 900;

/// How long a change of a firewall takes to reach its droplets.
const FIREWALL_MS: u64 = 500;

/// How long each answer of a provider takes.
const LATENCY_MS: u64 = 50;

/// How many reserved IPs the account may have: as many as a story can ask for.
const QUOTA: usize = 1_000;

/// The tokens of the simulated accounts. They open nothing else.
pub(super) const TOKEN: &str = "sandbox-token";
pub(super) const CLOUDFLARE_TOKEN: &str = "sandbox-cloudflare-token";

/// The record that each zone already has and must keep. The operator must ignore its text and TTL.
const OTHERS: (&str, &str, u64) = ("TXT", "v=spf1 -all", 3_600);

/// The operator's Deployment, and the label of its pods.
pub(super) const DEPLOYMENT: &str = "flipop";
const IMAGE: &str = "example.invalid/flipop";

/// The node of the operators: none of the nodes, so that checks leave none out.
const NODE_NAME: (&str, &str) = ("NODE_NAME", "sandbox");

/// The admission policies. The simulated API server stores them, and [`advice`] gives their warnings.
const POLICIES: [&str; 3] = [
    include_str!("../../../../k8s/policy-node-annotation.yaml"),
    include_str!("../../../../k8s/policy-warnings-floatingippools.yaml"),
    include_str!("../../../../k8s/policy-warnings-nodednsrecordsets.yaml"),
];

/// The operator's tokens in the simulated accounts.
pub(super) const TOKEN_NAME: &str = "operator";

/// The running world.
pub(super) struct Stage {
    pub(super) api: ApiServer,
    pub(super) cloud: CloudServer,
    /// The wall-clock time at 0 of the story's clock.
    pub(super) epoch: jiff::Timestamp,
    /// Droplets, with their nodes' names.
    pub(super) nodes: BTreeMap<u64, String>,
    /// The original nodes.
    planned: Vec<Node>,
    pub(super) machines: Machines,
    /// The zones of both accounts, each with other people's records.
    pub(super) zones: Vec<Zone>,
    others: Vec<Vec<RecordView>>,
    /// The file for kubectl.
    pub(super) kubeconfig: PathBuf,
    /// Contains the kubeconfigs.
    _directory: TempDir,
    servers: JoinSet<std::io::Result<()>>,
    stop: CancellationToken,
    pub(super) operators: Operators,
    /// The rights denied to the operators.
    pub(super) access: Access,
    /// The operators' way to the API server.
    pub(super) front: ApiServer,
}

impl Stage {
    /// An empty cluster and an empty account. `port` is the API server's port; 0 for any.
    pub(super) async fn open(port: u16) -> Result<Self, DemoError> {
        let options = Options { seed: SEED, epoch_ms: None };
        let cloud =
            CloudServer::start(options).await.map_err(machine("open a port for the simulated providers"))?;
        cloud.cloud().add_token(Provider::DigitalOcean, TOKEN_NAME, TOKEN, &["*"]);
        cloud.cloud().add_token(Provider::Cloudflare, TOKEN_NAME, CLOUDFLARE_TOKEN, &["*"]);
        cloud.cloud().tune(|knobs| {
            knobs.action_ms = ACTION_MS;
            knobs.firewall_ms = FIREWALL_MS;
            knobs.latency_ms = LATENCY_MS;
            knobs.reserved_ip_quota = QUOTA;
        });
        // Both simulations share the account's clock, which counts milliseconds from its beginning.
        let clock = cloud.cloud().clone();
        let epoch = before(Clock::system().timestamp(), clock.now_ms());
        let access = Access::default();
        let api = ApiServer::builder(SEED, move || after(epoch, clock.now_ms())).advice(advice).build();
        let api = api.with_interceptor(Arc::new(Reviews(access.clone())));
        let front = api.front().with_interceptor(Arc::new(access.clone()));
        let (stop, mut servers) = (CancellationToken::new(), JoinSet::new());
        let url = listen(&api, port, &stop, &mut servers).await?;
        let operators_url = listen(&front, 0, &stop, &mut servers).await?;
        let directory = tempfile::Builder::new()
            .prefix("flipop-sandbox-")
            .tempdir()
            .map_err(machine("make a temporary directory"))?;
        let file = |name: &str, url: &str, namespace: &str| {
            let path = directory.path().join(name);
            let written = std::fs::write(&path, kubeconfig_yaml(url, namespace));
            written.map(|()| path).map_err(machine("write a kubeconfig"))
        };
        let kubeconfig = file("kubeconfig", &url, DEFAULT_NAMESPACE)?;
        let surroundings = Surroundings {
            kubeconfig: file("operator", &operators_url, NAMESPACE)?,
            environment: vec![
                ("DIGITALOCEAN_ACCESS_TOKEN", TOKEN.to_owned()),
                ("DIGITALOCEAN_API_URL", cloud.digitalocean_url()),
                ("CLOUDFLARE_TOKEN", CLOUDFLARE_TOKEN.to_owned()),
                ("CLOUDFLARE_API_URL", cloud.cloudflare_url()),
                (NODE_NAME.0, NODE_NAME.1.to_owned()),
            ],
        };
        Ok(Self {
            api,
            cloud,
            epoch,
            nodes: BTreeMap::new(),
            planned: Vec::new(),
            machines: Machines::default(),
            zones: Vec::new(),
            others: Vec::new(),
            kubeconfig,
            _directory: directory,
            servers,
            stop,
            operators: Operators::new(surroundings),
            access,
            front,
        })
    }

    /// Installs FLIPOP's kinds, and creates nodes, pods, droplets and addresses.
    pub(super) fn populate(&mut self, cast: &Cast, documents: &[Document]) -> Result<(), DemoError> {
        furnish::install(&self.api)?;
        for policy in POLICIES {
            self.api.apply_yaml(policy, "")?;
        }
        self.api.create_object("apps/v1", "Deployment", NAMESPACE, deployment(), "sandbox")?;
        for namespace in cast.nodes.iter().filter_map(|node| node.pod.as_ref()).map(|pod| &pod.namespace) {
            self.ensure_namespace(namespace)?;
        }
        sets::create(&self.api, &cast.nodes)?;
        let (firewall, tag) = USERS_FIREWALL;
        self.cloud.cloud().add_firewall(firewall, &[], &[tag]);
        for node in &cast.nodes {
            self.add_node(node)?;
        }
        for namespace in documents.iter().map(|document| &document.key.namespace) {
            self.ensure_namespace(namespace)?;
        }
        for Address { ip, region, node } in &cast.addresses {
            let cloud = self.cloud.cloud();
            cloud.add_ip(Some(*ip), region);
            let droplet =
                self.nodes.iter().find(|(_, name)| Some(*name) == node.as_ref()).map(|(droplet, _)| *droplet);
            if droplet.is_some() && cloud.move_ip(*ip, droplet).is_err() {
                tracing::debug!(%ip, "left unassigned: its droplet is in another region");
            }
        }
        self.zones.clone_from(&cast.zones);
        self.others = cast.zones.iter().map(|zone| self.add_zone(zone)).collect();
        Ok(())
    }

    /// Creates a zone and returns its records.
    fn add_zone(&self, Zone { provider, name, id }: &Zone) -> Vec<RecordView> {
        let cloud = self.cloud.cloud();
        match (provider, id) {
            (Provider::DigitalOcean, _) => cloud.add_domain(name),
            (Provider::Cloudflare, Some(id)) => cloud.add_zone_with_id(id, name, Plan::Free),
            (Provider::Cloudflare, None) => drop(cloud.add_zone(name, Plan::Free)),
        }
        let (rtype, data, ttl) = OTHERS;
        cloud.add_record(*provider, name, &RecordView::new(name, rtype, data, ttl));
        cloud.records(*provider, name)
    }

    /// A zone in which somebody else's record is gone or changed.
    pub(super) fn spoilt_zone(&self) -> Option<&Zone> {
        let mut zones = self.zones.iter().zip(&self.others);
        let spoilt = zones.find(|(zone, others)| {
            let records = self.cloud.cloud().records(zone.provider, &zone.name);
            !others.iter().all(|other| records.contains(other))
        });
        spoilt.map(|(zone, _)| zone)
    }

    fn ensure_namespace(&self, name: &str) -> Result<(), ScenarioError> {
        let exists = name.is_empty() || self.api.object("v1", "Namespace", &Key::new("", name)).is_some();
        if exists {
            return Ok(());
        }
        let namespace = json!({ "metadata": { "name": name } });
        self.api.create_object("v1", "Namespace", "", namespace, "sandbox").map(drop)
    }

    fn add_node(&mut self, node: &Node) -> Result<(), ScenarioError> {
        let droplet = self.cloud.cloud().add_droplet(&node.name, &node.region);
        self.cloud.cloud().tag(droplet, &[USERS_FIREWALL.1]);
        self.nodes.insert(droplet, node.name.clone());
        self.planned.push(node.clone());
        let number = u32::try_from(self.nodes.len()).unwrap_or_default();
        furnish::add_node(&self.api, &node.name, droplet, node.labels.clone(), number)?;
        self.machines.add(&self.api, &node.name, number)?;
        node.pod.as_ref().map_or(Ok(()), |pod| self.add_pod(pod, &node.name))
    }

    /// Adds a node like this one, with room for one more pod in its set. Returns its name, or `None` if the sandbox did
    /// not make the other one.
    pub(super) fn add_node_like(&mut self, like: &str) -> Result<Option<String>, ScenarioError> {
        let Some(like) = self.planned.iter().find(|node| node.name == like).cloned() else {
            return Ok(None);
        };
        let base = like.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let name = |number: usize| format!("{base}{number}");
        let taken = |name: &String| self.nodes.values().any(|other| other == name);
        let name =
            (1..=self.nodes.len().saturating_add(1)).map(name).find(|name| !taken(name)).unwrap_or_default();
        self.add_node(&Node { name: name.clone(), pod: None, ..like.clone() })?;
        if let Some(pod) = &like.pod {
            sets::grow(&self.api, &Key::new(&pod.namespace, &pod.set))?;
            // The set starts its pod; another node like this one gets one too.
            if let Some(added) = self.planned.last_mut() {
                added.pod.clone_from(&like.pod);
            }
        }
        Ok(Some(name))
    }

    /// Serves these routes on a free port of this machine until the stage is closed.
    pub(super) async fn serve(&mut self, routes: Router) -> Result<SocketAddr, DemoError> {
        let what = "open a port for the web page";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(machine(what))?;
        let address = listener.local_addr().map_err(machine(what))?;
        let served = admin::serve(listener, routes, self.stop.clone());
        self.servers.spawn(async move {
            served.await;
            Ok(())
        });
        Ok(address)
    }

    /// Starts a pod on a node.
    pub(super) fn add_pod(&self, pod: &Pod, node: &str) -> Result<(), ScenarioError> {
        self.ensure_namespace(&pod.namespace)?;
        self.api.create_pod(&PodSpec {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            labels: pod.labels.clone(),
            node: node.to_owned(),
            ready: true,
            set: pod.set.clone(),
        })
    }

    /// Gives each operator a pod whose port leads to its endpoints, and stops an operator whose pod was deleted.
    ///
    /// # Errors
    /// If the API server refuses a pod.
    pub(super) fn turn_pods(&mut self) -> Result<(), ScenarioError> {
        let pods = self.api.objects("v1", "Pod");
        let own = |pod: &&Value| {
            text(pod, "/metadata/namespace") == NAMESPACE && text(pod, "/metadata/labels/app") == DEPLOYMENT
        };
        let mut present: BTreeSet<String> = pods.iter().filter(own).map(|pod| key(pod).name).collect();
        for (name, port) in self.operators.turn_pods(&mut present) {
            let container = json!({
                "name": DEPLOYMENT, "image": IMAGE, "ports": [{ "name": "prometheus", "containerPort": port }],
            });
            let pod = json!({
                "metadata": { "name": name, "labels": { "app": DEPLOYMENT } },
                "spec": { "nodeName": NODE_NAME.1, "containers": [container] },
            });
            self.api.create_object("v1", "Pod", NAMESPACE, pod, "sandbox")?;
            self.api.set_pod_ready(&Key::new(NAMESPACE, &name), true)?;
        }
        // The remaining pods belong to operators that have ended.
        present
            .iter()
            .try_for_each(|name| self.api.delete_object("v1", "Pod", &Key::new(NAMESPACE, name), true))
    }

    /// Stops the operators as SIGTERM does, and then the servers.
    pub(super) async fn close(mut self) -> Result<(), DemoError> {
        let closed = self.operators.close().await;
        self.stop.cancel();
        while self.servers.join_next().await.is_some() {}
        self.cloud.stop().await;
        closed
    }
}

/// Serves a front on loopback, and returns its URL.
async fn listen(
    front: &ApiServer,
    port: u16,
    stop: &CancellationToken,
    servers: &mut JoinSet<std::io::Result<()>>,
) -> Result<String, DemoError> {
    let what = "open a port for the simulated API server";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(machine(what))?;
    let address = listener.local_addr().map_err(machine(what))?;
    let (front, stopped) = (front.clone(), stop.clone());
    servers.spawn(async move { front.serve(listener, stopped).await });
    Ok(format!("http://{address}"))
}

/// The operator's Deployment, for `kubectl scale` and `kubectl rollout`.
fn deployment() -> Value {
    let labels = json!({ "app": DEPLOYMENT });
    json!({
        "metadata": { "name": DEPLOYMENT, "labels": labels },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": "flipop",
                    "containers": [{
                        "name": DEPLOYMENT, "image": IMAGE, "env": [{ "name": NODE_NAME.0, "value": NODE_NAME.1 }],
                    }],
                },
            },
        },
    })
}

fn machine(what: &'static str) -> impl FnOnce(std::io::Error) -> DemoError {
    move |error| DemoError::Machine(what, error)
}

fn span(ms: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

fn after(time: jiff::Timestamp, ms: u64) -> jiff::Timestamp {
    time.checked_add(span(ms)).unwrap_or(time)
}

fn before(time: jiff::Timestamp, ms: u64) -> jiff::Timestamp {
    time.checked_sub(span(ms)).unwrap_or(time)
}

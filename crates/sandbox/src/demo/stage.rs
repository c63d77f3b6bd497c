//! The simulated servers on loopback, the cluster that the cast describes, and the operator that runs among them.
//!
//! Invariants: the operator is the production one, configured as in a cluster (flags, a kubeconfig, the tokens and the
//! URLs of the providers' APIs); whatever the environment of this process says is not passed on to it; everything is
//! stopped and awaited by [`Stage::close`].

use super::DemoError;
use super::cast::{Address, Cast, Node, Pod};
use super::manifest::{DEFAULT_NAMESPACE, Document};
use super::zones::Zone;
use flipop::clock::Clock;
use flipop::config::Invocation;
use flipop::operator::{self, OperatorError};
use flipop_core::ids::DropletId;
use flipop_sandbox::apiserver::{ApiServer, Key, NodeSpec, PodSpec, ScenarioError, kubeconfig_yaml};
use flipop_sandbox::cloud::{CloudServer, Options, Plan, Provider, RecordView};
use jiff::SignedDuration;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Decides every invented value: runs differ only as far as the order of their calls does.
const SEED: u64 = 20_260_301;

/// What `DigitalOcean` takes for a move, more or less: long enough to be seen.
const ACTION_MS: u64 = 900;

/// How long each answer of a provider takes.
const LATENCY_MS: u64 = 50;

/// Reserved IPs that the account may have: as many as a story can ask for.
const QUOTA: usize = 1_000;

/// The tokens that the simulated accounts know. They open nothing else.
const TOKEN: &str = "sandbox-token";
const CLOUDFLARE_TOKEN: &str = "sandbox-cloudflare-token";

/// What each zone holds already, and must keep: neither the text nor the TTL is any of the operator's business.
const OTHERS: (&str, &str, u64) = ("TXT", "v=spf1 -all", 3_600);

/// Where the operator keeps its lease, as in an installation.
const OPERATOR_NAMESPACE: &str = "flipop";

/// How long the operator may take to start: it opens sockets and reads a file.
const START: Duration = Duration::from_secs(10);

/// How long everything may take to stop; the operator itself promises ten seconds.
const STOP: Duration = Duration::from_secs(12);

/// The running world.
pub(super) struct Stage {
    pub(super) api: ApiServer,
    pub(super) cloud: CloudServer,
    /// The wall-clock time at which the story's clock stood at 0.
    pub(super) epoch: jiff::Timestamp,
    /// Droplets with the names of their nodes.
    pub(super) nodes: BTreeMap<u64, String>,
    /// The zones of both accounts, each with the records that others made.
    pub(super) zones: Vec<Zone>,
    others: Vec<Vec<RecordView>>,
    /// For kubectl.
    pub(super) kubeconfig: PathBuf,
    directory: TempDir,
    url: String,
    servers: JoinSet<std::io::Result<()>>,
    stop: CancellationToken,
    operator: JoinSet<Result<(), OperatorError>>,
    shutdown: CancellationToken,
}

impl Stage {
    /// An empty cluster and an empty account. `port` is where the API server listens; 0 for any.
    pub(super) async fn open(port: u16) -> Result<Self, DemoError> {
        let options = Options { seed: SEED, epoch_ms: None };
        let cloud =
            CloudServer::start(options).await.map_err(machine("open a port for the simulated providers"))?;
        cloud.cloud().add_token(Provider::DigitalOcean, "operator", TOKEN, &["*"]);
        cloud.cloud().add_token(Provider::Cloudflare, "operator", CLOUDFLARE_TOKEN, &["*"]);
        cloud.cloud().tune(|knobs| {
            knobs.action_ms = ACTION_MS;
            knobs.latency_ms = LATENCY_MS;
            knobs.reserved_ip_quota = QUOTA;
        });
        // One clock for both simulations: the account's, which counts milliseconds from its beginning.
        let clock = cloud.cloud().clone();
        let epoch = before(Clock::system().timestamp(), clock.now_ms());
        let api = ApiServer::builder(SEED, move || after(epoch, clock.now_ms())).build();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(machine("open a port for the simulated API server"))?;
        let address = listener.local_addr().map_err(machine("open a port for the simulated API server"))?;
        let (stop, shutdown) = (CancellationToken::new(), CancellationToken::new());
        let mut servers = JoinSet::new();
        let (front, stopped) = (api.clone(), stop.clone());
        servers.spawn(async move { front.serve(listener, stopped).await });
        let url = format!("http://{address}");
        let directory = tempfile::Builder::new()
            .prefix("flipop-sandbox-")
            .tempdir()
            .map_err(machine("make a temporary directory"))?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_yaml(&url, DEFAULT_NAMESPACE))
            .map_err(machine("write a kubeconfig"))?;
        Ok(Self {
            api,
            cloud,
            epoch,
            nodes: BTreeMap::new(),
            zones: Vec::new(),
            others: Vec::new(),
            kubeconfig,
            directory,
            url,
            servers,
            stop,
            operator: JoinSet::new(),
            shutdown,
        })
    }

    /// Installs FLIPOP's kinds and makes nodes, pods, droplets and addresses.
    pub(super) fn populate(&mut self, cast: &Cast, documents: &[Document]) -> Result<(), DemoError> {
        for crd in flipop::api::crd::all() {
            self.api.apply_yaml(&crd.to_string(), "")?;
        }
        self.ensure_namespace(OPERATOR_NAMESPACE)?;
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

    /// Makes a zone and returns what is in it.
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

    /// A zone in which a record that others made is gone or altered.
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
        self.nodes.insert(droplet, node.name.clone());
        let low = u32::try_from(self.nodes.len()).unwrap_or_default();
        let address = |base: Ipv4Addr| Ipv4Addr::from_bits(base.to_bits().wrapping_add(low)).to_string();
        self.api.create_node(&NodeSpec {
            name: node.name.clone(),
            provider_id: DropletId(droplet).provider_id(),
            labels: node.labels.clone(),
            internal_ip: address(Ipv4Addr::new(10, 120, 0, 0)),
            external_ip: address(Ipv4Addr::new(198, 18, 0, 0)),
            ready: true,
        })?;
        node.pod.as_ref().map_or(Ok(()), |pod| self.add_pod(pod, &node.name))
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
        })
    }

    /// Starts the operator; returns where it serves metrics.
    pub(super) async fn start_operator(&mut self) -> Result<Option<SocketAddr>, DemoError> {
        let kubeconfig = self.directory.path().join("operator");
        std::fs::write(&kubeconfig, kubeconfig_yaml(&self.url, OPERATOR_NAMESPACE))
            .map_err(machine("write a kubeconfig"))?;
        let arguments = [
            "flipop".into(),
            "--kubeconfig".into(),
            kubeconfig.into_os_string(),
            "--metrics-bind-addr".into(),
            "127.0.0.1:0".into(),
        ];
        let (digitalocean, cloudflare) = (self.cloud.digitalocean_url(), self.cloud.cloudflare_url());
        let environment = |name: &str| match name {
            "DIGITALOCEAN_ACCESS_TOKEN" => Some(TOKEN.to_owned()),
            "DIGITALOCEAN_API_URL" => Some(digitalocean.clone()),
            "CLOUDFLARE_TOKEN" => Some(CLOUDFLARE_TOKEN.to_owned()),
            "CLOUDFLARE_API_URL" => Some(cloudflare.clone()),
            _ => None,
        };
        let config = match Invocation::from_parts(arguments, &environment) {
            Ok(Invocation::Run(config)) => *config,
            Ok(Invocation::Crd | Invocation::Version) => return Err(DemoError::OperatorEnded),
            Err(error) => return Err(DemoError::Unmet(format!("failed to configure the operator: {error}"))),
        };
        let (sender, started) = oneshot::channel();
        let shutdown = self.shutdown.clone();
        self.operator.spawn(operator::run(config, shutdown, move |started| {
            // Nobody waits any more only when the story is over.
            let _late = sender.send(started);
        }));
        match tokio::time::timeout(START, started).await {
            Ok(Ok(started)) => Ok(started.metrics),
            Ok(Err(_dropped)) => Err(self.operator_end().await),
            Err(_elapsed) => Err(DemoError::Unmet("the operator did not start in time".to_owned())),
        }
    }

    /// Waits until the operator ends, which it should not, and says why.
    pub(super) async fn operator_end(&mut self) -> DemoError {
        match self.operator.join_next().await {
            Some(Ok(Err(error))) => error.into(),
            Some(Ok(Ok(()))) => DemoError::OperatorEnded,
            Some(Err(error)) => DemoError::Unmet(format!("the operator ended: {error}")),
            None => std::future::pending().await,
        }
    }

    /// Shuts the operator down as SIGTERM does, then the servers.
    pub(super) async fn close(mut self) -> Result<(), DemoError> {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(STOP, self.operator.join_next()).await;
        self.stop.cancel();
        while self.servers.join_next().await.is_some() {}
        self.cloud.stop().await;
        match ended {
            Ok(None | Some(Ok(Ok(())))) => Ok(()),
            Ok(Some(Ok(Err(error)))) => Err(error.into()),
            Ok(Some(Err(error))) => Err(DemoError::Unmet(format!("the operator ended: {error}"))),
            Err(_elapsed) => Err(DemoError::Unmet("the operator did not shut down in time".to_owned())),
        }
    }
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

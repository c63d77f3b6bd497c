//! The API server that all tests share, and the agents of one test.

use crate::cases::Test;
use crate::lab::Lab;
use flipop_envtest::apiserver::ApiServer;
use flipop_envtest::assets::Assets;
use flipop_envtest::nodes::{NewNode, Nodes};
use flipop_envtest::process::{Process, Signal};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use kube::Client;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The annotation that the operator writes.
const ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";

/// Longest wait where no other bound applies.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The server with everything that tests need of it. It is made once, because several at a time would write the same
/// files.
pub(crate) struct Server {
    api: ApiServer,
    client: Client,
    /// The kubeconfig of the agent's account.
    account: Value,
}

/// Starts the server, with the manifests of the agent.
pub(crate) async fn server(assets: &Assets) -> Outcome<Server> {
    let server = ApiServer::start(assets).await?;
    let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/k8s/agent");
    server.kubectl()?.run(&["apply", "-f", manifests]).await?;
    let account = server.service_account("flipop-agent", "flipop-agent").await?;
    let account = serde_json::from_slice(&fs::read(account)?)?;
    Ok(Server { client: server.client().await?, account, api: server })
}

impl Server {
    /// Runs a test. Adds the logs of its agents to a failure.
    pub(crate) async fn run(&self, nodes: u32, test: Test) -> Outcome {
        let mut world = World::new(self, nodes).await?;
        let ran = test(&mut world).await;
        ran.map_err(|failure| Failure::new(format!("{failure}\n{}", world.describe())))
    }
}

/// One test's nodes, with their agents.
pub(crate) struct World {
    pub(crate) lab: Lab,
    pub(crate) nodes: Nodes,
    relays: Vec<Relay>,
    kubeconfigs: Vec<PathBuf>,
    agents: Vec<Option<Process>>,
    starts: AtomicUsize,
}

impl World {
    /// Nodes without reserved addresses, and no agents.
    async fn new(server: &Server, count: u32) -> Outcome<Self> {
        let lab = Lab::new(count)?;
        let nodes = Nodes::new(server.client.clone());
        let (mut relays, mut kubeconfigs) = (Vec::new(), Vec::new());
        for n in 1..=count {
            let name = lab.node_name(n);
            nodes.create(&NewNode::new(&name)).await?;
            let cidr = format!("10.244.{n}.0/24");
            nodes.patch(&name, &json!({ "spec": { "podCIDR": cidr, "podCIDRs": [cidr] } })).await?;
            let relay = Relay::start(&lab.management(n), server.api.address())?;
            let mut kubeconfig = server.account.clone();
            kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", relay.address));
            kubeconfig["clusters"][0]["cluster"]["tls-server-name"] = json!("127.0.0.1");
            let path = lab.path().join(format!("kubeconfig-{n}"));
            fs::write(&path, kubeconfig.to_string())?;
            relays.push(relay);
            kubeconfigs.push(path);
        }
        let agents = (0..count).map(|_| None).collect();
        Ok(Self { lab, nodes, relays, kubeconfigs, agents, starts: AtomicUsize::new(0) })
    }

    /// Starts the agent of a node.
    pub(crate) fn start(&mut self, n: u32, flags: &[&str]) -> Outcome {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        let log = self.lab.path().join(format!("agent-{n}-{number}.log"));
        let mut command = Command::new("ip");
        // For the figures of a release, this variable names a release build.
        let binary =
            std::env::var("FLIPOP_AGENT").unwrap_or_else(|_| env!("CARGO_BIN_EXE_flipop").to_owned());
        command
            .args(["netns", "exec", &self.lab.node(n), &binary, "agent", "--debug"])
            .arg(format!("--node-name={}", self.lab.node_name(n)))
            .arg(format!("--kubeconfig={}", self.kubeconfigs[index(n)].display()))
            .args(flags);
        self.agents[index(n)] = Some(Process::start("agent", &mut command, &log)?);
        Ok(())
    }

    /// The agent of a node.
    pub(crate) fn agent(&mut self, n: u32) -> Outcome<&mut Process> {
        self.agents[index(n)].as_mut().ok_or_else(|| Failure::new("no agent"))
    }

    /// Kills the agent.
    pub(crate) fn kill(&mut self, n: u32) {
        self.agents[index(n)] = None;
    }

    /// Tells the agent to end.
    pub(crate) async fn terminate(&mut self, n: u32) -> Outcome {
        let agent = self.agent(n)?;
        agent.signal(Signal::TERM)?;
        let status = agent.wait_end(PATIENCE).await?;
        self.agents[index(n)] = None;
        status.success().then_some(()).ok_or_else(|| Failure::new(status))
    }

    /// Sets whether a node can reach the API server.
    pub(crate) fn api(&self, n: u32, there: bool) {
        self.relays[index(n)].there.store(there, Ordering::SeqCst);
    }

    /// The agent's answer.
    pub(crate) fn get(&self, n: u32, path: &str) -> Outcome<(u16, String)> {
        let answer = self.lab.once(&self.lab.node(n), &["get", "127.0.0.1:8141", path])?;
        let (status, body) = answer.split_once('\n').unwrap_or((&answer, ""));
        Ok((status.parse()?, body.to_owned()))
    }

    /// Waits until the agent is ready, or until it is not.
    pub(crate) async fn ready(&self, n: u32, ready: bool) -> Outcome<String> {
        eventually(&format!("the agent of node {n} is ready: {ready}"), PATIENCE, || async {
            let (status, body) = self.get(n, "/readyz")?;
            if status == if ready { 200 } else { 503 } {
                Ok(body)
            } else {
                Err(Failure::new(format!("{status} {body}")))
            }
        })
        .await
    }

    /// Moves an address as the operator and the provider do: annotation, metadata and router at once.
    pub(crate) async fn give(&mut self, ip: &str, n: u32) -> Outcome {
        self.lab.assign(ip, Some(n))?;
        self.lab.metadata(n, Some(ip))?;
        self.annotate(n, Some(ip)).await
    }

    /// Takes an address off in the same way.
    pub(crate) async fn take(&mut self, ip: &str, n: u32) -> Outcome {
        self.annotate(n, None).await?;
        self.lab.metadata(n, None)?;
        self.lab.assign(ip, None)
    }

    pub(crate) async fn annotate(&self, n: u32, value: Option<&str>) -> Outcome {
        self.nodes.set_annotation(&self.lab.node_name(n), ANNOTATION, value).await
    }

    /// Waits until a node has no settings of the agent.
    pub(crate) async fn bare(&self, n: u32, within: Duration) -> Outcome {
        let bare = |state: &str| !state.contains("7141") && !state.contains("inet flipop");
        self.node_settles(n, "no settings are left", within, bare).await
    }

    /// Waits until the rules, routes and tables of node 1 are right.
    pub(crate) async fn settles(
        &self,
        what: &str,
        within: Duration,
        right: impl Fn(&str) -> bool,
    ) -> Outcome {
        self.node_settles(1, what, within, right).await
    }

    async fn node_settles(
        &self,
        n: u32,
        what: &str,
        within: Duration,
        right: impl Fn(&str) -> bool,
    ) -> Outcome {
        eventually(&format!("node {n}: {what}"), within, || async {
            let state = self.lab.state(n)?;
            right(&state).then_some(()).ok_or_else(|| Failure::new(state))
        })
        .await
    }

    /// Starts the agent of node 1, gives the node an address, and waits until its pod leaves through it.
    pub(crate) async fn leave_through(&mut self, ip: &str, flags: &[&str]) -> Outcome {
        self.start(1, flags)?;
        self.give(ip, 1).await?;
        self.lab.leaves_as(1, ip, PATIENCE).await
    }

    /// The logs for a failure.
    pub(crate) fn describe(&self) -> String {
        let logs = (1..=self.agents.len()).filter_map(|n| {
            let agent = self.agents[n - 1].as_ref()?;
            Some(format!("== agent {n}\n{}", agent.log_tail()))
        });
        logs.collect::<Vec<_>>().join("\n")
    }
}

fn index(n: u32) -> usize {
    usize::try_from(n - 1).unwrap()
}

/// Connects a node's namespace to the API server, while the server may be reached.
struct Relay {
    address: SocketAddr,
    there: Arc<AtomicBool>,
}

impl Relay {
    fn start(host: &str, target: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind(format!("{host}:0"))?;
        let (address, there) = (listener.local_addr()?, Arc::new(AtomicBool::new(true)));
        let up = Arc::clone(&there);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !up.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(target) else { continue };
                let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else {
                    continue;
                };
                for (from, to) in [(from_client, server), (from_server, client)] {
                    let up = Arc::clone(&up);
                    std::thread::spawn(move || copy(from, to, &up));
                }
            }
        });
        Ok(Self { address, there })
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, up: &AtomicBool) {
    let _set = from.set_read_timeout(Some(Duration::from_millis(100)));
    let mut buffer = [0; 16 << 10];
    while up.load(Ordering::SeqCst) {
        match from.read(&mut buffer) {
            Ok(length @ 1..) if to.write_all(&buffer[..length]).is_ok() => {}
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let _closed = from.shutdown(std::net::Shutdown::Both);
    let _closed = to.shutdown(std::net::Shutdown::Both);
}

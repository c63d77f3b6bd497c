//! The client that latencies are compared with. It only watches the nodes and posts one assign request.
//!
//! It is a separate process, like the operator, so both cross the same boundaries. It acts only on a failure whose
//! reason names it, as the operator acts only when an address has to move.

use crate::world::{BARE, BARE_TOKEN, World};
use clap::Args;
use flipop_cloud::Op;
use flipop_envtest::apiserver::connect;
use flipop_envtest::process::Process;
use flipop_envtest::{Failure, Outcome};
use futures::TryStreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;

/// The condition's reason that the bare client reacts to.
pub(crate) const REASON: &str = "Bare";

/// The path of the nodes.
const NODES: &str = "/api/v1/nodes";

/// The longest watch that kube's client asks for. The next watch continues where it ended.
const WATCH_SECONDS: u32 = 290;

/// The arguments of the client.
#[derive(Debug, Args)]
pub(crate) struct Bare {
    /// The cluster.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Label selector of the nodes.
    #[arg(long)]
    selector: String,
    /// Base URL of the provider.
    #[arg(long)]
    provider: String,
    /// The address that it moves.
    #[arg(long)]
    ip: Ipv4Addr,
    /// Between these two droplets.
    #[arg(long, num_args = 2)]
    droplets: Vec<u64>,
}

/// The parts of a node that are needed.
#[derive(Debug, Clone, Deserialize)]
struct Node {
    metadata: Version,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Deserialize, Default)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
}

impl Node {
    fn failed_for_us(&self) -> bool {
        let conditions = self.status.conditions.iter();
        conditions.into_iter().any(|one| one.kind == "Ready" && one.status == "False" && one.reason == REASON)
    }
}

#[derive(Debug, Deserialize)]
struct List {
    metadata: Version,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

impl Bare {
    /// Watches and posts until it is killed.
    pub(crate) async fn run(&self) -> Outcome {
        let Self { kubeconfig, selector, provider, ip, droplets } = self;
        let cluster = connect(kubeconfig).await?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        let authorization = format!("Bearer {BARE_TOKEN}");
        let address = format!("{provider}v2/reserved_ips/{ip}");

        let nodes = Request::new(NODES);
        let list: List = cluster.request(nodes.list(&ListParams::default().labels(selector))?).await?;
        let watch = WatchParams::default().labels(selector).timeout(WATCH_SECONDS);
        let mut version = list.metadata.resource_version;
        let mut droplets = droplets.iter().cycle();
        // Tells the benchmark that it is watching, and opens the connection that the operator has open too.
        let mut told = false;
        loop {
            let events = cluster.request_events::<Node>(nodes.watch(&watch, &version)?).await?;
            let mut events = pin!(events);
            if !told {
                http.get(&address).header(AUTHORIZATION, &authorization).send().await?.bytes().await?;
                told = true;
            }
            while let Some(event) = events.try_next().await? {
                let node = match event {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) | WatchEvent::Deleted(node) => node,
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => return Err(Failure::new(status.message)),
                };
                if node.failed_for_us() {
                    let droplet = droplets.next().ok_or_else(|| Failure::new("no droplets"))?;
                    let body = format!(r#"{{"type":"assign","droplet_id":{droplet}}}"#);
                    let request = http.post(format!("{address}/actions")).body(body);
                    let request = request
                        .header(AUTHORIZATION, &authorization)
                        .header(CONTENT_TYPE, "application/json");
                    request.send().await?.bytes().await?;
                }
                version = node.metadata.resource_version;
            }
        }
    }

    /// Starts the client as a process, and waits until it is watching.
    pub(crate) async fn start(world: &World, selector: &str, ip: Ipv4Addr) -> Outcome<Process> {
        let cloud = world.cloud();
        let region = crate::world::REGION;
        cloud.add_ip(Some(ip), region);
        let droplets = [cloud.add_droplet("bare-1", region), cloud.add_droplet("bare-2", region)];
        let since = cloud.next_call();
        let mut changes = cloud.changes();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("bare")
            .args(["--kubeconfig".as_ref(), world.kubeconfig.as_os_str()])
            .args(["--selector", selector, "--provider", &world.digitalocean_url()])
            .args(["--ip", &ip.to_string()])
            .arg("--droplets")
            .args(droplets.map(|droplet| droplet.to_string()));
        let log = world.server.folder().join("bare.log");
        let process = Process::start("the bare client", &mut command, &log)?;
        let ready = |call: &flipop_cloud::Call| call.token == BARE && call.op == Op::GetReservedIp;
        world.call(&mut changes, since, ready).await?;
        Ok(process)
    }
}

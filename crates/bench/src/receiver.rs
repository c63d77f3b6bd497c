//! The client that processor time is compared with. It receives the updates of pods, and reads nothing of them.
//!
//! It is a separate process with the operator's own connection, so it pays for TLS, HTTP and the wake-ups, and for
//! nothing else.

use crate::world::World;
use clap::Args;
use flipop_envtest::apiserver::connect;
use flipop_envtest::process::Process;
use flipop_envtest::{Failure, Outcome};
use futures::AsyncReadExt as _;
use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::Value;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;

/// The pods of the namespace of matching ones.
const PODS: &str = "/api/v1/namespaces/web/pods";

/// The form of events that the operator asks for.
const EVENTS: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// The longest watch that kube's client asks for. The next watch starts at the newest state again.
const WATCH_SECONDS: u32 = 290;

/// Its arguments.
#[derive(Debug, Args)]
pub(crate) struct Receiver {
    /// The cluster.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Label selector of the pods.
    #[arg(long)]
    selector: String,
}

impl Receiver {
    /// Receives until it is killed.
    pub(crate) async fn run(&self) -> Outcome {
        let cluster = connect(&self.kubeconfig).await?;
        let pods = Request::new(PODS);
        let mut piece = vec![0; 64 * 1_024];
        loop {
            let list: Value = cluster.request(pods.list(&ListParams::default().limit(1))?).await?;
            let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            let version = version.ok_or_else(|| Failure::new("a list without a resourceVersion"))?;
            let watch = WatchParams::default().labels(&self.selector).timeout(WATCH_SECONDS);
            let mut request = pods.watch(&watch, version)?;
            request.headers_mut().insert(ACCEPT, EVENTS);
            let mut events = pin!(cluster.request_stream(request).await?);
            while events.read(&mut piece).await? > 0 {}
        }
    }

    /// Starts the client as a process.
    pub(crate) fn start(world: &World, selector: &str) -> Outcome<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("receive")
            .args(["--kubeconfig".as_ref(), world.kubeconfig.as_os_str()])
            .args(["--selector", selector]);
        let log = world.server.folder().join("receiver.log");
        Process::start("the receiving client", &mut command, &log)
    }
}

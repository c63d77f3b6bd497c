//! One Lease behind an API, with a network that can fail for each client.

use crate::kube::stub;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;

/// The fault between a client and the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Good,
    /// Connections are refused.
    Refused,
    /// Requests get lost.
    Silent,
    /// Requests arrive, but answers to writes are lost.
    LosesReplies,
    /// Reads are answered. Every write fails on the server.
    FailsWrites,
    /// Like `Good`, but the role may not watch the lease.
    NoWatch,
    /// Like `Good`, but a watch ends after it shows the current state.
    ShortWatches,
}

#[derive(Default)]
struct World {
    lease: Option<Value>,
    version: u64,
    watchers: Vec<mpsc::UnboundedSender<Value>>,
    network: BTreeMap<&'static str, Network>,
    writes: Vec<String>,
    watches: usize,
}

#[derive(Clone, Default)]
pub(crate) struct LeaseApi(Arc<Mutex<World>>);

impl LeaseApi {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn client(&self, name: &'static str) -> Client {
        let api = self.clone();
        stub::client(move |request| {
            let api = api.clone();
            async move { api.answer(name, request).await }
        })
    }

    pub(crate) fn set_network(&self, client: &'static str, network: Network) {
        self.world().network.insert(client, network);
    }

    pub(crate) fn lease(&self) -> Value {
        self.world().lease.clone().unwrap_or_default()
    }

    pub(super) fn writes(&self) -> Vec<String> {
        self.world().writes.clone()
    }

    /// How often a watch of the lease was requested.
    pub(super) fn watches(&self) -> usize {
        self.world().watches
    }

    /// A write by someone other than the electors.
    pub(crate) fn put(&self, change: impl FnOnce(&mut Value)) {
        let mut world = self.world();
        let mut lease = world.lease.clone().unwrap_or_else(|| {
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": super::super::LEASE_NAME, "namespace": "flipop"}, "spec": {}})
        });
        change(&mut lease);
        world.store(lease);
    }

    pub(super) fn delete(&self) {
        let mut world = self.world();
        let lease = world.lease.take().unwrap();
        world.tell("DELETED", &lease);
    }

    async fn answer(&self, client: &'static str, request: Request<Vec<u8>>) -> stub::Answer {
        let network = self.world().network.get(client).copied().unwrap_or(Network::Good);
        match network {
            Network::Refused => return stub::broken(),
            Network::Silent => std::future::pending().await,
            Network::Good
            | Network::LosesReplies
            | Network::FailsWrites
            | Network::NoWatch
            | Network::ShortWatches => {}
        }
        let watches = request.uri().query().unwrap_or_default().contains("watch=true");
        if watches && network == Network::NoWatch {
            return stub::refusal(403, "Forbidden");
        }
        if watches && network == Network::ShortWatches {
            // A network takes time. Without this pause, a client that spins would stop the paused clock forever.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let answer = self.world().watch();
            self.world().watchers.clear();
            return answer;
        }
        let writes = request.method() != Method::GET;
        if writes && network == Network::FailsWrites {
            return stub::refusal(500, "InternalError");
        }
        let answer = if watches { self.world().watch() } else { self.world().serve(client, &request) };
        if writes && network == Network::LosesReplies {
            return stub::broken();
        }
        answer
    }
}

impl World {
    fn store(&mut self, mut lease: Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let event = if self.lease.is_some() { "MODIFIED" } else { "ADDED" };
        self.lease = Some(lease.clone());
        self.tell(event, &lease);
    }

    fn tell(&mut self, event: &str, lease: &Value) {
        self.watchers.retain(|watcher| watcher.send(json!({"type": event, "object": lease})).is_ok());
    }

    fn watch(&mut self) -> stub::Answer {
        self.watches += 1;
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(lease) = &self.lease {
            sender.send(json!({"type": "ADDED", "object": lease})).unwrap();
        }
        self.watchers.push(sender);
        stub::events(receiver)
    }

    fn serve(&mut self, client: &str, request: &Request<Vec<u8>>) -> stub::Answer {
        let found = self.lease.clone();
        if request.method() == Method::GET {
            return found.map_or_else(|| stub::refusal(404, "NotFound"), |lease| stub::object(&lease));
        }
        let new: Value = serde_json::from_slice(request.body()).unwrap();
        if request.method() == Method::POST {
            if found.is_some() {
                return stub::refusal(409, "AlreadyExists");
            }
        } else {
            let Some(found) = found else { return stub::refusal(404, "NotFound") };
            if found["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] {
                return stub::refusal(409, "Conflict");
            }
        }
        self.writes.push(format!("{client} {} {}", request.method(), new["spec"]["holderIdentity"]));
        self.store(new);
        stub::object(self.lease.as_ref().unwrap())
    }
}

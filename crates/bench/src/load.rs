//! Pods that change constantly, as in a busy cluster.

use crate::world::{SOON, World};
use flipop_envtest::nodes::NewPod;
use flipop_envtest::{Failure, Outcome};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Updates per second in total.
pub(crate) const RATE: u32 = 200;

/// Writers, which share the rate.
const WRITERS: usize = 4;

/// Pods that change in turn.
const PODS: u64 = 100;

/// A running load. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Load {
    writers: JoinSet<Outcome>,
    written: Arc<AtomicU64>,
    since: Instant,
}

impl Load {
    /// Creates pods with the label `app=web` on a node that is no candidate, and changes them at the full rate.
    pub(crate) async fn start(world: &World) -> Outcome<Self> {
        world.node("busy", "busy").await?;
        let names: Vec<String> = (0..PODS).map(|number| format!("busy-{number}")).collect();
        for name in &names {
            world.nodes.create_pod(&NewPod::new("web", name, "busy").label("app", "web")).await?;
        }
        Self::of(world, &names).await
    }

    /// Changes pods of the namespace `web` in turn, at the full rate.
    pub(crate) async fn of(world: &World, names: &[String]) -> Outcome<Self> {
        if names.len() < WRITERS {
            return Err(Failure::new(format!("{} matching pods are too few to change", names.len())));
        }
        let written = Arc::new(AtomicU64::new(0));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let pods: Api<Pod> = Api::namespaced(world.client.clone(), "web");
            let names = names.iter().skip(writer).step_by(WRITERS).cloned().collect();
            writers.spawn(write(pods, names, Arc::clone(&written)));
        }
        let load = Self { writers, written, since: Instant::now() };
        tokio::time::timeout(SOON, load.begun()).await.map_err(|_| Failure::new("no pod was written"))?;
        Ok(load)
    }

    async fn begun(&self) {
        while self.written.load(Ordering::Relaxed) < u64::from(RATE) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops the load, and returns the actual rate of updates per second.
    pub(crate) async fn end(mut self) -> Outcome<f64> {
        let written = u32::try_from(self.written.load(Ordering::Relaxed))?;
        let rate = f64::from(written) / self.since.elapsed().as_secs_f64();
        while let Some(ended) = self.writers.try_join_next() {
            // A writer ends only if a write failed.
            ended??;
        }
        self.writers.shutdown().await;
        Ok(rate)
    }
}

async fn write(pods: Api<Pod>, names: Vec<String>, written: Arc<AtomicU64>) -> Outcome {
    let mut ticks = interval(Duration::from_secs(1) * u32::try_from(WRITERS)? / RATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for (round, name) in names.iter().cycle().enumerate() {
        ticks.tick().await;
        let patch = json!({ "metadata": { "annotations": { "bench/round": round.to_string() } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        pods.patch_metadata(name, &params, &patch).await?;
        written.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

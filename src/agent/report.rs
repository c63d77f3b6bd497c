//! The agent's readiness and metrics, from a copy that waits for nothing.

use super::ready::NotReady;
use crate::process_metrics::{ProcessMetrics, counters, gauges, register};
use crate::version;
use prometheus::{Encoder, IntCounter, IntCounterVec, IntGaugeVec, Registry, TextEncoder};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

/// The state that the endpoints report.
pub struct Report {
    /// Name of the node.
    node: String,
    registry: Registry,
    readiness: IntGaugeVec,
    active: IntGaugeVec,
    writes: IntCounterVec,
    fetches: IntCounterVec,
    foreign: IntCounter,
    outside: IntGaugeVec,
    /// Why the agent is not ready. `None`: it is ready.
    trouble: Mutex<Option<String>>,
}

impl Report {
    /// Registers the metrics of the agent of a node.
    ///
    /// # Errors
    /// When a name or label is malformed.
    pub fn new(node: &str) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let gauge = |name, help, labels| gauges(&registry, name, labels, help);
        let counter = |name, help| {
            let counter = counters(&registry, name, &["outcome"], help)?;
            for outcome in ["success", "error"] {
                counter.with_label_values(&[outcome]).inc_by(0);
            }
            Ok::<_, prometheus::Error>(counter)
        };
        let readiness = gauge(
            "flipop_agent_ready",
            "1 while the agent is ready, 0 with the reason while it is not.",
            &["node", "reason"],
        )?;
        let active = gauge(
            "flipop_agent_active",
            "The reserved IP through which the node's pods leave (always 1).",
            &["node", "ip"],
        )?;
        let writes =
            counter("flipop_agent_kernel_writes_total", "Changes of the kernel's state by outcome.")?;
        let fetches = counter(
            "flipop_agent_metadata_reads_total",
            "Reads of the droplet's metadata service by outcome.",
        )?;
        let foreign = IntCounter::new(
            "flipop_agent_foreign_rules_total",
            "Kernel scans that found a foreign rule at one of the agent's priorities.",
        );
        let foreign = register(&registry, foreign)?;
        let outside = gauge(
            "flipop_agent_pods_outside",
            "1 while a bridge or a route to a pod is outside of the networks of pods that the agent knows.",
            &["node"],
        )?;
        let info = gauge(
            "flipop_build_info",
            "Version and commit of the build (always 1).",
            &["version", "commit"],
        )?;
        info.with_label_values(&[version::VERSION, version::COMMIT]).set(1);
        registry.register(Box::new(ProcessMetrics::new()?))?;
        let (node, trouble) = (node.to_owned(), Mutex::new(None));
        let report = Self { node, registry, readiness, active, writes, fetches, foreign, outside, trouble };
        report.outside(false);
        report.mark_not_ready(NotReady::Starting, "the agent has not read the kernel's state yet");
        Ok(report)
    }

    /// The text of `/metrics`.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn metrics(&self) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    /// Gives every metric a series, so that a list of the metrics is complete.
    pub fn show_all(&self) {
        self.mark_ready(Some(Ipv4Addr::UNSPECIFIED));
    }

    /// Why the agent is not ready. Empty: it is ready.
    pub fn not_ready(&self) -> Vec<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn mark_ready(&self, active: Option<Ipv4Addr>) {
        self.readiness.reset();
        self.readiness.with_label_values(&[self.node.as_str(), ""]).set(1);
        self.active.reset();
        if let Some(active) = active {
            self.active.with_label_values(&[self.node.as_str(), &active.to_string()]).set(1);
        }
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn mark_not_ready(&self, why: NotReady, detail: &str) {
        self.readiness.reset();
        self.readiness.with_label_values(&[self.node.as_str(), why.as_str()]).set(0);
        let text = format!("not ready ({}): {detail}", why.as_str());
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    pub(super) fn wrote(&self) {
        self.writes.with_label_values(&["success"]).inc();
    }

    pub(super) fn write_failed(&self) {
        self.writes.with_label_values(&["error"]).inc();
    }

    pub(super) fn read(&self, good: bool) {
        self.fetches.with_label_values(&[if good { "success" } else { "error" }]).inc();
    }

    /// Whether there are pods outside of the known networks. Returns whether that is new.
    pub(super) fn outside(&self, outside: bool) -> bool {
        let gauge = self.outside.with_label_values(&[self.node.as_str()]);
        let before = gauge.get() > 0;
        gauge.set(outside.into());
        outside && !before
    }

    pub(super) fn foreign_rules(&self) {
        self.foreign.inc();
    }
}

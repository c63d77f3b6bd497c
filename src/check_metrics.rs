//! Metrics of the checks of nodes.

use crate::process_metrics::{counters, histograms, register};
use flipop_core::model::CheckOutcome;
use prometheus::{HistogramVec, IntCounterVec, IntGauge, Registry};
use std::time::Duration;

/// Buckets for the seconds from the last answer of a node to the detection of its failure. Kubernetes takes 40 s to 55
/// s. The least is below the 4.5 s, 7 s and 12 s that Leases of 10 s, 20 s and 40 s take.
const BUCKETS: [f64; 11] = [2.0, 4.75, 5.0, 6.0, 7.5, 9.0, 12.5, 14.0, 20.0, 30.0, 60.0];

/// The stage of a detection by one process alone.
const STAGE: &str = "1";

/// The counts of node checks.
pub struct CheckMetrics {
    ended: IntCounterVec,
    stretched: IntGauge,
    detections: HistogramVec,
}

impl CheckMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If a name or label is malformed.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let ended = counters(
            registry,
            "flipop_node_checks_total",
            &["outcome"],
            "Checks of nodes by outcome: the machine answered (passed), it did not answer (failed), or something failed \
             on the side of FLIPOP, so that the check says nothing about the machine (error).",
        )?;
        for outcome in ["passed", "failed", "error"] {
            ended.with_label_values(&[outcome]);
        }
        let stretched = IntGauge::new(
            "flipop_node_checks_delayed",
            "Checks of nodes that are more than a period late because 500 others are under way.",
        );
        let stretched = register(registry, stretched)?;
        let detections = histograms(
            registry,
            "flipop_detection_seconds",
            &["stage"],
            &BUCKETS,
            "Time from the last answer of a node to the detection of its failure, in seconds. Stage 1 is the \
             detection by one process, by its checks and the Lease of the node.",
        )?;
        detections.with_label_values(&[STAGE]);
        Ok(Self { ended, stretched, detections })
    }

    /// Counts a check.
    pub fn ended(&self, outcome: &CheckOutcome) {
        let word = match outcome {
            CheckOutcome::Passed => "passed",
            CheckOutcome::Failed => "failed",
            CheckOutcome::NoVerdict(_) => "error",
        };
        self.ended.with_label_values(&[word]).inc();
    }

    /// Sets the number of checks that are more than a period late.
    pub fn set_delayed(&self, late: usize) {
        self.stretched.set(i64::try_from(late).unwrap_or(i64::MAX));
    }

    /// Takes in the time from each node's last answer to the detection of its failure.
    pub fn observe_detections(&self, detections_ms: &[u64]) {
        for ms in detections_ms {
            let seconds = Duration::from_millis(*ms).as_secs_f64();
            self.detections.with_label_values(&[STAGE]).observe(seconds);
        }
    }
}

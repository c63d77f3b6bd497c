//! Prometheus metrics. docs/reference/metrics.md lists them and is generated from a scrape.
//!
//! Each scrape rebuilds the gauges from the latest snapshots. So no lock is shared with the decisions, and an object
//! that left the snapshot leaves the scrape. Owns the counters of provider calls, and drops the series of objects that
//! are gone.

use crate::check_metrics::CheckMetrics;
use crate::clock::Clock;
use crate::debug::View;
use crate::kube::watch::WatchHealth;
use crate::process_metrics::{ProcessMetrics, counters, gauges, histograms, register};
use crate::provider::CallContext;
use crate::provider::observe::{Call, CallObserver, CallRecord, Outcome};
use arc_swap::ArcSwap;
use flipop_core::fleet::{Details, FailoverPhase, GraceCounts, PoolSnapshot, RecordSetSnapshot, Snapshot};
use flipop_core::mechanism::evidence::CheckedNode;
use flipop_core::model::{Condition, Moment, ObjectKind, ObjectName};
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Registry, TextEncoder,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Labels of every metric of a pool or record set.
const OBJECT_LABELS: [&str; 4] = ["namespace", "name", "provider", "dns"];

/// Buckets for the seconds from a change of nodes or pods to the confirmed assignment: from the duration of one call to
/// that of a backed-off retry.
const ASSIGNMENT_BUCKETS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

/// Longest wait for new details. A page that asks each second stays at ease with it.
const DETAILS_TIMEOUT: Duration = Duration::from_millis(200);

/// How long details are shown again. However many clients ask, the loop makes them once in this time.
const DETAILS_LAST_MS: u64 = 500;

/// Failed to build or encode metrics: a bug, since names and labels are constants.
#[derive(Debug, thiserror::Error)]
#[error("failed to gather metrics")]
pub struct MetricsError(#[from] prometheus::Error);

/// All metrics of the process.
pub struct Metrics {
    lasting: Registry,
    calls: IntCounterVec,
    durations: HistogramVec,
    assignment_seconds: Histogram,
    failover_seconds: HistogramVec,
    leader: IntGauge,
    objects: Mutex<Objects>,
    snapshot: ArcSwap<Snapshot>,
    health: WatchHealth,
    details: OnDemand,
    checks: CheckMetrics,
    checked: ArcSwap<Vec<CheckedNode>>,
    /// A dry run has shown that no admission policy limits our changes of nodes.
    unlimited: AtomicBool,
}

/// The objects that have series of their own.
#[derive(Default)]
struct Objects {
    /// The label sets of provider calls that have series.
    with_calls: BTreeSet<(&'static str, Call, CallContext)>,
    /// Whether the snapshot led, and its edition, when the series of other objects were last dropped. `None` once there
    /// may be more of them.
    reviewed: Option<(bool, u64)>,
}

/// Details that are made only when somebody asks for `/debug`.
#[derive(Default)]
struct OnDemand {
    asked: Notify,
    made: watch::Sender<Option<(Moment, Details)>>,
}

impl Metrics {
    /// Registers the lasting metrics.
    ///
    /// # Errors
    /// If a name or label is malformed.
    pub fn new(health: WatchHealth, version: &str) -> Result<Arc<Self>, MetricsError> {
        let lasting = Registry::new();
        let calls = counters(
            &lasting,
            "flipop_providers_calls_total",
            &["provider", "call", "outcome", "kind", "namespace", "name"],
            "Operations at a provider by outcome. One operation may be several HTTP requests.",
        )?;
        let durations = histograms(
            &lasting,
            "flipop_providers_call_duration_seconds",
            &["provider", "call", "kind", "namespace", "name"],
            prometheus::DEFAULT_BUCKETS,
            "Duration of operations at a provider, in seconds.",
        )?;
        let assignment_seconds = HistogramOpts::new(
            "flipop_assignment_seconds",
            "Time from a change of nodes or pods to the confirmed assignment that follows from it, in seconds.",
        );
        let assignment_seconds = assignment_seconds.buckets(ASSIGNMENT_BUCKETS.to_vec());
        let assignment_seconds = register(&lasting, Histogram::with_opts(assignment_seconds))?;
        let failover_seconds = histograms(
            &lasting,
            "flipop_failover_seconds",
            &["phase"],
            &ASSIGNMENT_BUCKETS,
            "Time from the moment when a node with an address lost its match, after any grace period, to the end \
             of each phase of the failover, in seconds.",
        )?;
        // An alert needs the series before the first failover.
        for phase in FailoverPhase::ALL {
            failover_seconds.with_label_values(&[phase.as_str()]);
        }
        let leader = "1 while this process holds the Lease and may write, else 0.";
        let leader = register(&lasting, IntGauge::new("flipop_leader", leader))?;
        let build = "Version of the operator. The value is 1.";
        let build = gauges(&lasting, "flipop_build_info", &["version"], build)?;
        build.with_label_values(&[version]).set(1);
        let checks = CheckMetrics::new(&lasting)?;
        lasting.register(Box::new(ProcessMetrics::new()?))?;
        Ok(Arc::new(Self {
            lasting,
            calls,
            durations,
            assignment_seconds,
            failover_seconds,
            leader,
            objects: Mutex::default(),
            snapshot: ArcSwap::default(),
            health,
            details: OnDemand::default(),
            checks,
            checked: ArcSwap::default(),
            unlimited: AtomicBool::default(),
        }))
    }

    /// Takes in the latest facts. Drops the series of objects that are gone.
    pub fn publish(&self, snapshot: Snapshot, latencies_ms: &[u64], failovers: &[(FailoverPhase, u64)]) {
        self.leader.set(i64::from(snapshot.leading && snapshot.permit));
        let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
        for ms in latencies_ms {
            self.assignment_seconds.observe(seconds(*ms));
        }
        for (phase, ms) in failovers {
            self.failover_seconds.with_label_values(&[phase.as_str()]).observe(seconds(*ms));
        }
        self.drop_calls_of_others(&snapshot);
        self.snapshot.store(Arc::new(snapshot));
    }

    fn drop_calls_of_others(&self, snapshot: &Snapshot) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = (snapshot.leading, snapshot.edition);
        if objects.reviewed.replace(seen) == Some(seen) {
            return;
        }
        let pools = snapshot.pools.iter().map(|pool| (ObjectKind::Pool, &pool.name));
        let record_sets = snapshot.record_sets.iter().map(|set| (ObjectKind::RecordSet, &set.name));
        let alive: BTreeSet<(ObjectKind, &ObjectName)> = pools.chain(record_sets).collect();
        objects.with_calls.retain(|(provider, call, context)| {
            let name = ObjectName::new(context.namespace.clone(), context.name.clone());
            let kinds = [ObjectKind::Pool, ObjectKind::RecordSet];
            let kind = kinds.into_iter().find(|kind| kind.as_str() == context.kind);
            if kind.is_none_or(|kind| alive.contains(&(kind, &name))) {
                return true;
            }
            let CallContext { kind, namespace, name } = context;
            let call = call.as_str();
            for outcome in Outcome::ALL {
                // Absent if the call never had this outcome.
                let outcome = outcome.as_str();
                let _absent =
                    self.calls.remove_label_values(&[provider, call, outcome, kind, namespace, name]);
            }
            let _absent = self.durations.remove_label_values(&[
                *provider,
                call,
                *kind,
                namespace.as_str(),
                name.as_str(),
            ]);
            false
        });
    }

    /// The text of a scrape. Never waits.
    ///
    /// # Errors
    /// If a metric is malformed.
    pub fn encode(&self) -> Result<Vec<u8>, MetricsError> {
        let snapshot = self.snapshot.load();
        let mut families = self.lasting.gather();
        families.extend(momentary(&snapshot, &self.health)?.gather());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(text)
    }

    /// Ends when somebody asks for details.
    pub async fn details_asked(&self) {
        self.details.asked.notified().await;
    }

    /// Takes in the details that were made now.
    pub fn publish_details(&self, details: Details, now: Moment) {
        self.details.made.send_replace(Some((now, details)));
    }

    /// Takes in the nodes that are checked, with the results.
    pub fn publish_checked(&self, checked: Vec<CheckedNode>) {
        self.checked.store(Arc::new(checked));
    }

    /// Takes in whether a dry run has shown that no admission policy limits our changes of nodes.
    pub fn publish_unlimited(&self, unlimited: bool) {
        self.unlimited.store(unlimited, Ordering::Relaxed);
    }

    /// The counts of node checks.
    pub const fn checks(&self) -> &CheckMetrics {
        &self.checks
    }

    /// The latest facts. Details are made now; those from a moment ago are shown again, and those of a process that is
    /// too busy to make new ones are shown with their age.
    pub(crate) async fn describe(&self, clock: &Clock) -> View {
        let mut made = self.details.made.subscribe();
        let age = |made: &Option<(Moment, Details)>| {
            let at = made.as_ref().map(|(at, _)| *at);
            at.map(|at| clock.now().millis_since(at))
        };
        if age(&made.borrow_and_update()).is_none_or(|age| age >= DETAILS_LAST_MS) {
            self.details.asked.notify_one();
            let _too_busy = tokio::time::timeout(DETAILS_TIMEOUT, made.changed()).await;
        }
        let (made, none) = (made.borrow(), Details::default());
        let details = (made.as_ref().map_or(&none, |(_, details)| details), age(&made));
        let unlimited = self.unlimited.load(Ordering::Relaxed);
        View::new(&self.snapshot.load(), details, (&self.checked.load(), unlimited), clock)
    }
}

impl CallObserver for Metrics {
    fn call_ended(&self, record: CallRecord<'_>) {
        let CallRecord { provider, call, context, outcome, duration } = record;
        let CallContext { kind, namespace, name } = context;
        let word = call.as_str();
        self.calls.with_label_values(&[provider, word, outcome.as_str(), kind, namespace, name]).inc();
        self.durations
            .with_label_values(&[provider, word, kind, namespace, name])
            .observe(duration.as_secs_f64());
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.with_calls.insert((provider, call, context.clone())) {
            // The object may be gone.
            objects.reviewed = None;
        }
    }
}

/// The current values, in a separate registry.
fn momentary(snapshot: &Snapshot, health: &WatchHealth) -> Result<Registry, MetricsError> {
    let registry = Registry::new();
    let restarts = counters(
        &registry,
        "flipop_watch_restarts_total",
        &["kind", "reason"],
        "Restarts of watches of the Kubernetes API, by the kind that is watched and the reason.",
    )?;
    for ((kind, reason), count) in health.restarts() {
        restarts.with_label_values(&[kind.as_str(), reason]).inc_by(count);
    }
    if !snapshot.leading {
        return Ok(registry);
    }
    suspicions(snapshot.grace, &registry)?;
    let left = IntCounter::new(
        "flipop_firewalls_left_total",
        "Firewalls that deleted pools left at the provider. FLIPOP no longer manages them.",
    );
    register(&registry, left)?.inc_by(snapshot.firewalls_left);
    let families = PoolFamilies::new(&registry)?;
    snapshot.pools.iter().for_each(|pool| families.add(pool));
    let records = gauges(
        &registry,
        "flipop_nodednsrecordset_records",
        &OBJECT_LABELS,
        "Number of addresses in the records of a NodeDNSRecordSet.",
    )?;
    for set in snapshot.record_sets.iter() {
        let RecordSetSnapshot { name: ObjectName { namespace, name }, provider, dns, records: count, .. } =
            &**set;
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        records.with_label_values(&[namespace, name, provider, dns]).set(count);
    }
    let remaining = gauges(
        &registry,
        "flipop_providers_rate_remaining",
        &["provider"],
        "Requests left in the quota of the token: per hour at DigitalOcean, per five minutes at Cloudflare. Absent \
         until the provider has reported it.",
    )?;
    let out = gauges(
        &registry,
        "flipop_providers_out",
        &["provider"],
        "1 while calls to the provider fail altogether: no connection, no answer, or errors of its own. Otherwise 0.",
    )?;
    for account in &snapshot.accounts {
        out.with_label_values(&[account.provider.as_str()]).set(i64::from(account.out_since_s.is_some()));
        if let Some(left) = account.rate_remaining.and_then(|left| i64::try_from(left).ok()) {
            remaining.with_label_values(&[account.provider.as_str()]).set(left);
        }
    }
    conditions(snapshot, &registry)?;
    Ok(registry)
}

/// How failures under `spec.grace` ended.
fn suspicions(
    GraceCounts { recovered, expired, overruled }: GraceCounts,
    registry: &Registry,
) -> Result<(), MetricsError> {
    let ended = counters(
        registry,
        "flipop_grace_total",
        &["outcome"],
        "Failures of nodes that served and had a grace period, by how they ended: the node matched again in time \
         (recovered), the grace period ended (expired), or a failure without a grace period came, such as a cordon \
         (overruled).",
    )?;
    for (outcome, count) in [("recovered", recovered), ("expired", expired), ("overruled", overruled)] {
        ended.with_label_values(&[outcome]).inc_by(count);
    }
    Ok(())
}

/// The conditions of all objects.
fn conditions(snapshot: &Snapshot, registry: &Registry) -> Result<(), MetricsError> {
    let gauge = gauges(
        registry,
        "flipop_condition",
        &["kind", "namespace", "name", "type", "status", "reason"],
        "A current condition of a FloatingIPPool or NodeDNSRecordSet. The value is 1.",
    )?;
    let pools = snapshot.pools.iter().map(|pool| (ObjectKind::Pool, &pool.name, &pool.conditions));
    let sets = snapshot.record_sets.iter().map(|set| (ObjectKind::RecordSet, &set.name, &set.conditions));
    for (kind, ObjectName { namespace, name }, conditions) in pools.chain(sets) {
        for Condition { kind: type_, status, reason, message: _ } in conditions {
            gauge.with_label_values(&[kind.as_str(), namespace, name, type_, status, reason]).set(1);
        }
    }
    Ok(())
}

struct PoolFamilies {
    nodes: IntGaugeVec,
    errors: IntCounterVec,
    assignments: IntCounterVec,
    ip_node: IntGaugeVec,
    ip_state: IntGaugeVec,
    unfulfilled: IntGaugeVec,
    moves: IntCounterVec,
}

impl PoolFamilies {
    fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let with = |labels: &[&'static str]| [&OBJECT_LABELS[..], labels].concat();
        let gauge = |name, labels: &[&'static str], help| gauges(registry, name, &with(labels), help);
        let counter = |name, help| counters(registry, name, &with(&["ip"]), help);
        Ok(Self {
            nodes: gauge(
                "flipop_floatingippoolcontroller_node_status",
                &["status"],
                "Number of nodes that match and have no address (status=\"available\"), and of used addresses that are \
                 on a droplet (status=\"assigned\").",
            )?,
            errors: counter(
                "flipop_floatingippoolcontroller_ip_assignment_errors",
                "Assignments of the address that failed.",
            )?,
            assignments: counter(
                "flipop_floatingippoolcontroller_ip_assignments",
                "Assignments of the address that succeeded.",
            )?,
            ip_node: gauge(
                "flipop_floatingippoolcontroller_ip_node",
                &["ip", "provider_id", "node"],
                "The matching node that has the address. The value is 1.",
            )?,
            ip_state: gauge(
                "flipop_floatingippoolcontroller_ip_state",
                &["ip", "state"],
                "The state of the address. The value is 1.",
            )?,
            unfulfilled: gauge(
                "flipop_floatingippoolcontroller_unfulfilled_ips",
                &[],
                "Number of addresses that the pool still has to create.",
            )?,
            moves: counters(
                registry,
                "flipop_moves_total",
                &["namespace", "name", "reason"],
                "Addresses that FLIPOP moved from one node to another, by reason: why the node that they left no longer \
                 matched, Manual for a move by hand, or Unseen for a node that no longer matched when this process began \
                 to lead.",
            )?,
        })
    }

    fn add(&self, pool: &PoolSnapshot) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let ObjectName { namespace, name } = &pool.name;
        let labels = [namespace.as_str(), name.as_str(), pool.provider.as_str(), pool.dns.as_str()];
        let [namespace, name, provider, dns] = labels;
        self.nodes
            .with_label_values(&[namespace, name, provider, dns, "available"])
            .set(count(pool.available));
        self.nodes.with_label_values(&[namespace, name, provider, dns, "assigned"]).set(count(pool.assigned));
        self.unfulfilled.with_label_values(&labels).set(count(pool.unfulfilled));
        for (reason, count) in &pool.moves {
            self.moves.with_label_values(&[namespace, name, reason]).inc_by(*count);
        }
        for ip in &pool.ips {
            let address = ip.ip.to_string();
            let address = address.as_str();
            let labels = [namespace, name, provider, dns, address];
            self.errors.with_label_values(&labels).inc_by(ip.errors);
            self.assignments.with_label_values(&labels).inc_by(ip.assignments);
            if !ip.state.is_empty() {
                self.ip_state.with_label_values(&[namespace, name, provider, dns, address, &ip.state]).set(1);
            }
            if !ip.node.is_empty() {
                let labels = [namespace, name, provider, dns, address, &ip.provider_id, &ip.node];
                self.ip_node.with_label_values(&labels).set(1);
            }
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;

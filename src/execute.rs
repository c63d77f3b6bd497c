//! Carries out what was decided. Decides nothing: each action names every detail and is answered by one outcome.
//!
//! Invariants: every action runs on a task of its own, so that a slow call delays nothing else; every task is
//! tracked and awaited at shutdown; a mutating call holds the permit.

use crate::api::{Condition, FloatingIPPool, FloatingIPPoolStatus, translate};
use crate::clock::Clock;
use crate::kube::events::{Events, Note, Severity};
use crate::kube::writes::{self, ObjectVersion, WriteError};
use crate::leader::permit::Permit;
use crate::provider::{Action as ProviderAction, CallContext, CallError, IpProvider};
use flipop_core::action::{
    Action, AnnotatedNode, CallFailure, Notice, ObjectRef, Outcome, WriteFailure, WrittenStatus,
};
use flipop_core::facts::ActionStatus;
use flipop_core::ids::{ActionId, Uid};
use flipop_core::pool::status::PoolStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, info_span};

/// Kind of the objects that provider calls are made for, as a metric label.
const POOL_KIND: &str = "FloatingIPPool";

/// Rights that are missing concern every pool alike: the reconcile loop and the writer of Events log them, once.
const LOGGED_ONCE: [&str; 3] = ["AnnotationsDenied", "EventsDenied", "WriteDenied"];

/// What came of an action.
#[derive(Debug)]
pub struct Done {
    /// For the decisions.
    pub outcome: Outcome,
    /// The conditions that a status write left, with their times.
    pub conditions: Option<(Uid, Vec<Condition>)>,
}

/// What actions need.
#[derive(Clone)]
pub struct Executor {
    /// Providers of addresses by name.
    pub providers: Arc<BTreeMap<String, Arc<dyn IpProvider>>>,
    /// Client for reads and writes of the API server.
    pub client: kube::Client,
    /// The right to write.
    pub permit: Permit,
    /// Time.
    pub clock: Clock,
    /// Kubernetes Events.
    pub events: Events,
    /// Where outcomes go.
    pub done: mpsc::Sender<Done>,
    /// Every task.
    pub tracker: TaskTracker,
    /// Mutating calls under way, to providers and to the API server.
    pub writing: Arc<AtomicUsize>,
}

/// Counts a mutating call while it lives, however its task ends.
struct Writing(Arc<AtomicUsize>);

impl Writing {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Executor {
    /// Starts an action. `before` are the conditions that stand on the object now.
    pub fn start(&self, action: Action, before: &[Condition]) {
        if let Action::Report(notice) = action {
            self.report(notice);
            return;
        }
        let span = span_of(&action);
        let writing = mutates(&action).then(|| Writing::begin(&self.writing));
        let executor = self.clone();
        let before = before.to_vec();
        self.tracker.spawn(
            async move {
                if let Some(done) = executor.run(action, &before).await {
                    // Nobody listens any more only when the process ends.
                    let _ended = executor.done.send(done).await;
                }
                drop(writing);
            }
            .instrument(span),
        );
    }

    fn report(&self, notice: Notice) {
        let Notice { object, warning, reason, subject, message } = notice;
        let action = format!("{reason}:{subject}");
        if LOGGED_ONCE.contains(&reason) {
            tracing::debug!(pool = %object.name, reason, "{message}");
        } else if warning {
            tracing::warn!(pool = %object.name, reason, "{message}");
        } else {
            tracing::info!(pool = %object.name, reason, "{message}");
        }
        let severity = if warning { Severity::Warning } else { Severity::Normal };
        let regarding = ObjectReference {
            api_version: Some(FloatingIPPool::api_version(&()).into_owned()),
            kind: Some(FloatingIPPool::kind(&()).into_owned()),
            namespace: Some(object.name.namespace),
            name: Some(object.name.name),
            uid: Some(object.uid.0),
            ..ObjectReference::default()
        };
        let note = Note { regarding, severity, reason, action, text: message };
        self.events.emit(&self.permit, note);
    }

    async fn run(&self, action: Action, before: &[Condition]) -> Option<Done> {
        let outcome = match action {
            Action::List { .. }
            | Action::Get { .. }
            | Action::ProveDropletRead { .. }
            | Action::Poll { .. }
            | Action::Assign { .. }
            | Action::Unassign { .. }
            | Action::Create { .. } => self.call_provider(action).await?,
            Action::WriteStatus { pool, resource_version, generation, status } => {
                return Some(self.write_status(pool, resource_version, generation, &status, before).await);
            }
            Action::WriteIps { pool, add } => self.write_ips(pool, add).await,
            Action::Annotate { node, uid, value } => {
                let result = writes::annotate_node(&self.client, &self.permit, &node, &uid, value).await;
                Outcome::Annotated { node, uid, value, result: result.map(|_node| ()).map_err(write_failure) }
            }
            Action::SweepAnnotations => {
                let result = writes::list_annotated_nodes(&self.client).await;
                Outcome::Swept(
                    result.map(|nodes| nodes.into_iter().map(annotated).collect()).map_err(write_failure),
                )
            }
            Action::Report(_) => return None,
        };
        Some(Done { outcome, conditions: None })
    }

    /// `None` only for a provider that does not exist, of which no pool can be live.
    async fn call_provider(&self, action: Action) -> Option<Outcome> {
        let begun = self.clock.now();
        Some(match action {
            Action::List { provider } => {
                let result = self.provider(&provider)?.list_reserved_ips(&CallContext::account_wide()).await;
                Outcome::Listed { provider, begun, result }
            }
            Action::Get { provider, pool, ip } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
                let result = self.provider(&provider)?.get_reserved_ip(&context, ip).await;
                Outcome::Got { provider, ip, begun, result }
            }
            Action::ProveDropletRead { provider } => {
                let result = self.provider(&provider)?.prove_droplet_read(&CallContext::account_wide()).await;
                Outcome::Proved { provider, result }
            }
            Action::Poll { provider, pool, ip, action } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
                let result = self.provider(&provider)?.get_action(&context, ip, action).await;
                Outcome::Polled { provider, ip, result: result.map(|action| action.status) }
            }
            Action::Assign { provider, pool, ip, droplet, .. } => {
                let result =
                    self.provider(&provider)?.assign(&context(&pool), &self.permit, ip, droplet).await;
                Outcome::Changed { provider, ip, result: changed(result) }
            }
            Action::Unassign { provider, pool, ip, .. } => {
                let result = self.provider(&provider)?.unassign(&context(&pool), &self.permit, ip).await;
                Outcome::Changed { provider, ip, result: changed(result) }
            }
            Action::Create { provider, pool, region } => {
                let result = self
                    .provider(&provider)?
                    .create_reserved_ip(&context(&pool), &self.permit, &region)
                    .await;
                Outcome::Created { provider, pool: pool.uid, result: result.map_err(call_failure) }
            }
            Action::WriteStatus { .. }
            | Action::WriteIps { .. }
            | Action::Annotate { .. }
            | Action::SweepAnnotations
            | Action::Report(_) => return None,
        })
    }

    fn provider(&self, name: &str) -> Option<&Arc<dyn IpProvider>> {
        self.providers.get(name)
    }

    async fn write_status(
        &self,
        pool: ObjectRef,
        resource_version: String,
        generation: i64,
        status: &PoolStatus,
        before: &[Condition],
    ) -> Done {
        let written = translate::written_status(status, generation, before, self.clock.timestamp());
        let object = ObjectVersion { name: pool.name, uid: pool.uid.clone(), resource_version };
        let body = serde_json::to_value(&written).unwrap_or_default();
        let result =
            writes::replace_status::<FloatingIPPool>(&self.client, &self.permit, &object, body).await;
        let kept = result.map_err(write_failure).and_then(|object| kept_status(&object));
        let conditions = kept.as_ref().ok().map(|(_, status)| (pool.uid.clone(), status.conditions.clone()));
        let result = kept.map(|(resource_version, status)| {
            Box::new(WrittenStatus { resource_version, status: translate::plain_status(&status) })
        });
        Done { outcome: Outcome::StatusWritten { pool: pool.uid, result }, conditions }
    }

    async fn write_ips(&self, pool: ObjectRef, add: Vec<Ipv4Addr>) -> Outcome {
        let missing = |current: &[String]| {
            let new = add.iter().map(ToString::to_string).filter(|ip| !current.contains(ip));
            let ips: Vec<String> = current.iter().cloned().chain(new).collect();
            (ips.len() > current.len()).then_some(ips)
        };
        let result = writes::replace_spec_ips::<FloatingIPPool, _>(
            &self.client,
            &self.permit,
            &pool.name,
            &pool.uid,
            missing,
        );
        let result = result.await.map(|_object| ()).map_err(write_failure);
        Outcome::IpsWritten { pool: pool.uid, add, result }
    }
}

fn mutates(action: &Action) -> bool {
    match action {
        Action::Assign { .. }
        | Action::Unassign { .. }
        | Action::Create { .. }
        | Action::WriteStatus { .. }
        | Action::WriteIps { .. }
        | Action::Annotate { .. } => true,
        Action::List { .. }
        | Action::Get { .. }
        | Action::ProveDropletRead { .. }
        | Action::Poll { .. }
        | Action::SweepAnnotations
        | Action::Report(_) => false,
    }
}

fn span_of(action: &Action) -> tracing::Span {
    match action {
        Action::Assign { pool, ip, node, droplet, .. } => {
            info_span!("assign", pool = %pool.name, %ip, node, %droplet)
        }
        Action::Unassign { pool, ip, droplet, .. } => {
            info_span!("unassign", pool = %pool.name, %ip, %droplet)
        }
        Action::Create { pool, region, .. } => info_span!("create", pool = %pool.name, region),
        Action::WriteStatus { pool, .. } => info_span!("write_status", pool = %pool.name),
        Action::WriteIps { pool, .. } => info_span!("write_ips", pool = %pool.name),
        Action::Annotate { node, .. } => info_span!("annotate", node),
        Action::Get { ip, .. } | Action::Poll { ip, .. } => info_span!("read", %ip),
        Action::List { provider } | Action::ProveDropletRead { provider } => info_span!("read", provider),
        Action::SweepAnnotations | Action::Report(_) => info_span!("sweep"),
    }
}

fn context(pool: &ObjectRef) -> CallContext {
    CallContext::object(POOL_KIND, pool.name.namespace.clone(), pool.name.name.clone())
}

fn changed(result: Result<ProviderAction, CallError>) -> Result<(ActionId, ActionStatus), CallFailure> {
    result.map(|action| (action.id, action.status)).map_err(call_failure)
}

fn call_failure(error: CallError) -> CallFailure {
    match error {
        CallError::NotSent(_) => CallFailure::NotSent,
        CallError::Fault(fault) => CallFailure::Fault(fault),
    }
}

/// What the server kept of a status.
fn kept_status(object: &serde_json::Value) -> Result<(String, FloatingIPPoolStatus), WriteFailure> {
    let version = object.pointer("/metadata/resourceVersion").and_then(serde_json::Value::as_str);
    let status = object.get("status").cloned().unwrap_or_default();
    let status: Option<FloatingIPPoolStatus> = serde_json::from_value(status)
        .map_err(|error| WriteFailure::Transient(format!("failed to read back: {error}")))?;
    Ok((version.unwrap_or_default().to_owned(), status.unwrap_or_default()))
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn write_failure(error: WriteError) -> WriteFailure {
    let message = error.to_string();
    match error {
        WriteError::PermitEnded { unknown: false, .. } => WriteFailure::NotSent,
        WriteError::PermitEnded { unknown: true, .. } | WriteError::Transient { .. } => {
            WriteFailure::Transient(message)
        }
        WriteError::Conflict => WriteFailure::Conflict,
        WriteError::NotFound => WriteFailure::Gone,
        WriteError::Forbidden { .. } => WriteFailure::Forbidden(message),
        WriteError::Invalid(_) => WriteFailure::Invalid(message),
    }
}

fn annotated(node: writes::AnnotatedNode) -> AnnotatedNode {
    let writes::AnnotatedNode { name, uid, value, ours } = node;
    AnnotatedNode { name, uid, value, ours }
}

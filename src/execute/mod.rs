//! Carries out what was decided. Decides nothing: each action names every detail and is answered by one outcome.
//!
//! Invariants: every action runs on a task of its own, so that a slow call delays nothing else; every task is
//! tracked and awaited at shutdown; a mutating call holds the permit.

mod kubernetes;
mod providers;
mod underway;

use crate::api::Condition;
use crate::clock::Clock;
use crate::kube::events::{Events, Note};
use crate::permit::Permit;
use crate::provider::{CallError, Providers};
use flipop_core::addresses::action::Call as OfAddresses;
use flipop_core::firewalls::action::Call as OfFirewalls;
use flipop_core::fleet::action::{Action, NodeReading, Outcome};
use flipop_core::mechanism::{Epoch, Notice, Request, TEST_DEADLINE_MS};
use flipop_core::model::catalog::events::EventReason;
use flipop_core::model::{CallFailure, Fault, FaultKind, ObjectKind, Owner, Uid};
use flipop_core::records::action::Call as OfRecords;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::field::display;
use tracing::{Instrument, info_span};
pub use underway::Underway;

/// Rights that are missing concern every object alike: the reconcile loop and the writer of Events log them, once.
const LOGGED_ONCE: [EventReason; 2] = [EventReason::AnnotationsDenied, EventReason::WriteDenied];

/// The result of an action.
#[derive(Debug)]
pub struct Done {
    /// For the decisions.
    pub outcome: Outcome,
    /// The conditions that a status write left, with their times.
    pub conditions: Option<((ObjectKind, Uid), Vec<Condition>)>,
    /// The call was given up, or failed so that a change may have its effect later.
    pub unknown: bool,
}

impl<O: Into<Outcome>> From<O> for Done {
    fn from(outcome: O) -> Self {
        let mut outcome = outcome.into();
        Self { unknown: underway::is_unknown(&mut outcome), outcome, conditions: None }
    }
}

/// The clients and settings that actions need.
#[derive(Clone)]
pub struct Executor {
    /// Clients of providers.
    pub providers: Arc<Providers>,
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
    /// Mutating calls under way, to providers and to the API server, Events too.
    pub underway: Arc<Underway>,
}

impl Executor {
    /// Starts an action. `before` are the conditions that stand on the object now.
    pub fn start(&self, action: Action, before: &[Condition]) {
        let span = span_of(&action);
        let writing = action.is_write().then(|| self.underway.begin());
        let executor = self.clone();
        let before = before.to_vec();
        self.tracker.spawn(
            async move {
                let is_status = matches!(action, Action::WriteStatus(_) | Action::WriteRecordSetStatus(_));
                let turn = if is_status { executor.underway.turn_of_a_status().await } else { None };
                // Boxed, because a task has room for everything that it may await, and many wait for their turn.
                let done = Box::pin(executor.run(action, &before)).await;
                drop(turn);
                if let Some(done) = done {
                    if done.unknown && writing.is_some() {
                        executor.underway.gave_up();
                    }
                    // Nobody listens any more only when the process ends.
                    let _ended = executor.done.send(done).await;
                }
                drop(writing);
            }
            .instrument(span),
        );
    }

    /// Tells users of a change.
    pub fn tell(&self, notice: Notice) {
        let Notice { kind, object, warning, reason, subject, message } = notice;
        let is_logged_once = LOGGED_ONCE.contains(&reason);
        let (kind, reason, name) = (kind.as_str(), reason.as_str(), &object.name);
        let action = format!("{reason}:{subject}");
        if is_logged_once {
            tracing::debug!(kind, object = %name, reason, "{message}");
        } else if warning {
            tracing::warn!(kind, object = %name, reason, "{message}");
        } else {
            tracing::info!(kind, object = %name, reason, "{message}");
        }
        let severity = if warning { EventType::Warning } else { EventType::Normal };
        let regarding = ObjectReference {
            api_version: Some(format!("{}/{}", crate::api::GROUP, crate::api::VERSION)),
            kind: Some(kind.to_owned()),
            namespace: Some(object.name.namespace),
            name: Some(object.name.name),
            uid: Some(object.uid.0.to_string()),
            ..ObjectReference::default()
        };
        let note = Note { regarding, severity, reason, action, text: message };
        self.events.emit(&self.permit, note);
    }

    async fn run(&self, action: Action, before: &[Condition]) -> Option<Done> {
        match action {
            Action::Addresses(call) => self.call_ip_provider(call).await.map(Done::from),
            Action::Records(call) => self.call_dns_provider(call).await.map(Done::from),
            Action::Firewalls(call) => self.call_firewall_provider(call).await.map(Done::from),
            Action::WriteStatus(write) => Some(self.write_pool_status(*write, before).await),
            Action::WriteRecordSetStatus(write) => Some(self.write_record_set_status(*write, before).await),
            Action::WriteIps { pool, add, remove } => Some(self.write_ips(pool, add, remove).await.into()),
            Action::WriteFinalizer { pool, present } => {
                Some(self.write_finalizer(pool, present).await.into())
            }
            Action::ListObjects { asked, sought } => Some(self.list_objects(asked, sought).await),
            Action::Annotate { node, uid, value } => Some(self.annotate(node, uid, value).await),
            Action::Label { node, uid, changes } => Some(self.label(node, uid, changes).await),
            Action::SweepAnnotations => Some(self.sweep_annotations().await),
            Action::CountNodes => Some(self.count_nodes().await),
            Action::ReadNode { object, node, asked, nodes, pods, lease } => {
                let (result, lease) = self.read_node(&node, &nodes, pods.as_ref(), lease).await;
                let read = NodeReading { node, asked, nodes, pods, result, lease };
                Some(Outcome::NodeRead(object.uid, Box::new(read)).into())
            }
        }
    }
}

fn span_of(action: &Action) -> tracing::Span {
    let account = |epoch: &Epoch| epoch.account_id.to_string();
    let owner = |owner: &Option<Owner>| {
        owner.as_ref().map(|owner| (owner.kind.as_str(), display(owner.object.name.to_string()))).unzip()
    };
    match action {
        Action::Addresses(Request { epoch, owner: of, call }) => match call {
            OfAddresses::Assign { ip, node, machine } => {
                info_span!("assign", pool = owner(of).1, %ip, node, machine = machine.id())
            }
            OfAddresses::Unassign(ip, machine) => {
                info_span!("unassign", pool = owner(of).1, %ip, machine = machine.id())
            }
            OfAddresses::Delete(ip) => info_span!("delete", pool = owner(of).1, %ip),
            OfAddresses::Create(region) => info_span!("create", pool = owner(of).1, region),
            OfAddresses::Get(ip) | OfAddresses::Poll(ip, _) => info_span!("read", %ip),
            OfAddresses::ReadMachine(machine, _) => info_span!("read", %machine),
            OfAddresses::List | OfAddresses::Test(_) | OfAddresses::ProveMachineRead => {
                info_span!("read", provider = account(epoch))
            }
        },
        Action::Records(Request { epoch, owner: of, call }) => {
            let (kind, object) = owner(of);
            match call {
                OfRecords::Test { .. } => info_span!("read", provider = account(epoch)),
                OfRecords::FindZone(zone) => info_span!("find_zone", kind, object, zone = zone.text()),
                OfRecords::ReadRecords { fqdn, .. } => info_span!("read_records", kind, object, fqdn),
                OfRecords::ApplyRecords { fqdn, .. } => info_span!("apply_records", kind, object, fqdn),
            }
        }
        Action::Firewalls(Request { epoch, owner: of, call }) => match call {
            OfFirewalls::Look { .. } => info_span!("look", provider = account(epoch)),
            OfFirewalls::Find(id) => info_span!("find_firewall", pool = owner(of).1, id),
            OfFirewalls::Create { name, .. } => {
                info_span!("create_firewall", pool = owner(of).1, firewall = name)
            }
            OfFirewalls::Change { name, .. } => {
                info_span!("change_firewall", pool = owner(of).1, firewall = name)
            }
        },
        Action::WriteStatus(write) => info_span!("write_status", pool = %write.object.name),
        Action::WriteRecordSetStatus(write) => {
            info_span!("write_status", record_set = %write.object.name)
        }
        Action::WriteIps { pool, .. } => info_span!("write_ips", pool = %pool.name),
        Action::WriteFinalizer { pool, .. } => info_span!("write_finalizer", pool = %pool.name),
        Action::Annotate { node, .. } => info_span!("annotate", node),
        Action::Label { node, .. } => info_span!("label", node),
        Action::SweepAnnotations => info_span!("sweep"),
        Action::CountNodes => info_span!("count_nodes"),
        Action::ListObjects { .. } => info_span!("list_objects"),
        Action::ReadNode { object, node, .. } => info_span!("read_node", object = %object.name, node),
    }
}

/// The result of a test of an account that is out. Its answer comes sooner than that of another call, or too late.
async fn tested<T>(read: impl Future<Output = Result<T, Fault>>) -> Result<(), CallFailure> {
    let deadline = Duration::from_millis(TEST_DEADLINE_MS);
    let late = |_| {
        let message = format!("no answer to a test within {} s", deadline.as_secs());
        Err(Fault { whole: true, ..Fault::new(FaultKind::Transient, message) })
    };
    let result = tokio::time::timeout(deadline, read).await.unwrap_or_else(late);
    result.map(|_| ()).map_err(CallFailure::Fault)
}

fn call_failure(error: CallError) -> CallFailure {
    match error {
        CallError::NotSent(_) => CallFailure::NotSent,
        CallError::Fault(fault) => CallFailure::Fault(fault),
    }
}

#[cfg(test)]
mod tests;

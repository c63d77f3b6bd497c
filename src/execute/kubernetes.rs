//! Writes to the API server, the sweep of annotations, and the count of nodes.

use super::{Done, Executor};
use crate::api::translate::{pool, record_set};
use crate::api::{Condition, FloatingIPPool, FloatingIPPoolStatus, NodeDNSRecordSet, NodeDNSRecordSetStatus};
use crate::kube::node_read;
use crate::kube::writes::{self, ObjectVersion, WriteError};
use flipop_core::addresses::pool::status::PoolStatus;
use flipop_core::fleet::action::{MarkedNode, Outcome};
use flipop_core::mechanism::effects::WrittenStatus;
use flipop_core::model::facts::{NodeFacts, PodFacts};
use flipop_core::model::fault::WriteFailure;
use flipop_core::model::ids::{Address, ObjectKind, ObjectRef, Uid};
use flipop_core::model::matching::WatchKey;
use flipop_core::model::node_labels::LabelChanges;
use flipop_core::records::status::RecordSetStatus;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Executor {
    pub(super) async fn write_pool_status(
        &self,
        object: ObjectRef,
        resource_version: String,
        (generation, status): (i64, &PoolStatus),
        before: &[Condition],
    ) -> Done {
        let status = pool::written_status(status, generation, before, self.clock.timestamp());
        let uid = object.uid.clone();
        let kept = self
            .replace_status::<FloatingIPPool, FloatingIPPoolStatus>(object, resource_version, &status)
            .await;
        let conditions = conditions_of(ObjectKind::Pool, &uid, kept.as_ref().ok(), |kept| &kept.conditions);
        let result = kept.map(|(resource_version, kept)| {
            Box::new(WrittenStatus { resource_version, status: pool::plain_status(&kept) })
        });
        Done { conditions, ..Outcome::StatusWritten { pool: uid, result }.into() }
    }

    pub(super) async fn write_record_set_status(
        &self,
        object: ObjectRef,
        resource_version: String,
        (generation, status): (i64, &RecordSetStatus),
        before: &[Condition],
    ) -> Done {
        let status = record_set::written_status(status, generation, before, self.clock.timestamp());
        let uid = object.uid.clone();
        let kept = self
            .replace_status::<NodeDNSRecordSet, NodeDNSRecordSetStatus>(object, resource_version, &status)
            .await;
        let conditions =
            conditions_of(ObjectKind::RecordSet, &uid, kept.as_ref().ok(), |kept| &kept.conditions);
        let result = kept.map(|(resource_version, kept)| {
            Box::new(WrittenStatus { resource_version, status: record_set::plain_status(&kept) })
        });
        Done { conditions, ..Outcome::RecordSetStatusWritten { record_set: uid, result }.into() }
    }

    pub(super) async fn annotate(&self, node: String, uid: Uid, value: Option<Address>) -> Done {
        let result = writes::annotate_node(&self.client, &self.permit, &node, &uid, value).await;
        let unknown = result.as_ref().is_err_and(WriteError::is_unknown);
        let result = result.map(|_node| ()).map_err(write_failure);
        Done { unknown, ..Outcome::Annotated { node, uid, value, result }.into() }
    }

    pub(super) async fn label(&self, node: String, uid: Uid, changes: LabelChanges) -> Done {
        let result = writes::label_node(&self.client, &self.permit, &node, &uid, &changes).await;
        let unknown = result.as_ref().is_err_and(WriteError::is_unknown);
        let result = result.map(|_node| ()).map_err(write_failure);
        Done { unknown, ..Outcome::Labelled { node, uid, changes, result }.into() }
    }

    pub(super) async fn sweep_annotations(&self) -> Done {
        let result = writes::list_marked_nodes(&self.client).await;
        let result = result.map(|nodes| nodes.into_iter().map(marked).collect());
        Outcome::Swept(result.map_err(write_failure)).into()
    }

    pub(super) async fn count_nodes(&self) -> Done {
        Outcome::NodesCounted(writes::count_nodes(&self.client).await.map_err(write_failure)).into()
    }

    pub(super) async fn read_node(
        &self,
        node: &str,
        nodes: &WatchKey,
        pods: Option<&WatchKey>,
    ) -> Result<(Option<NodeFacts>, Vec<PodFacts>), WriteFailure> {
        node_read::read_node(&self.client, node, nodes, pods).await.map_err(write_failure)
    }

    /// Writes the status of an object of kind `K`, and reads what the server kept of it.
    async fn replace_status<K, S>(
        &self,
        object: ObjectRef,
        resource_version: String,
        status: &S,
    ) -> Result<(String, S), WriteFailure>
    where
        K: Resource<DynamicType = ()>,
        S: Serialize + DeserializeOwned + Default,
    {
        let version = ObjectVersion { name: object.name, uid: object.uid, resource_version };
        let body = serde_json::to_value(status).unwrap_or_default();
        let written = writes::replace_status::<K>(&self.client, &self.permit, &version, body).await;
        kept(&written.map_err(write_failure)?)
    }

    pub(super) async fn write_ips(&self, pool: ObjectRef, add: Vec<Address>) -> Outcome {
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

/// The conditions that a write left, as the reconcile loop keeps them.
fn conditions_of<S>(
    kind: ObjectKind,
    uid: &Uid,
    kept: Option<&(String, S)>,
    conditions: impl Fn(&S) -> &Vec<Condition>,
) -> Option<((ObjectKind, Uid), Vec<Condition>)> {
    kept.map(|(_version, status)| ((kind, uid.clone()), conditions(status).clone()))
}

/// The version and the status of an object as the server answered it.
fn kept<S: DeserializeOwned + Default>(object: &serde_json::Value) -> Result<(String, S), WriteFailure> {
    let version = object.pointer("/metadata/resourceVersion").and_then(serde_json::Value::as_str);
    let status = object.get("status").cloned().unwrap_or_default();
    let status: Option<S> = serde_json::from_value(status)
        .map_err(|error| WriteFailure::Transient(format!("failed to read back: {error}")))?;
    Ok((version.unwrap_or_default().to_owned(), status.unwrap_or_default()))
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn write_failure(error: WriteError) -> WriteFailure {
    let message = error.to_string();
    match error {
        WriteError::PermitEnded { unknown: false, .. } => WriteFailure::NotSent,
        WriteError::Transient { retry_after_ms: Some(wait_ms), .. } => {
            WriteFailure::Throttled { message, wait_ms }
        }
        WriteError::PermitEnded { unknown: true, .. } | WriteError::Transient { .. } => {
            WriteFailure::Transient(message)
        }
        WriteError::Conflict => WriteFailure::Conflict,
        WriteError::NotFound => WriteFailure::Gone,
        WriteError::Forbidden { .. } => WriteFailure::Forbidden(message),
        WriteError::Invalid(_) => WriteFailure::Invalid(message),
    }
}

fn marked(node: writes::MarkedNode) -> MarkedNode {
    let writes::MarkedNode { name, uid, value, ours, labels } = node;
    MarkedNode { name, uid, value, ours, labels }
}

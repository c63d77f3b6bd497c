//! Writes to the API server, the sweep of annotations, and the count of nodes.

use super::{Done, Executor};
use crate::api::translate::{pool, record_set};
use crate::api::{
    Condition, Conditioned, FloatingIPPool, FloatingIPPoolStatus, NodeDNSRecordSet, NodeDNSRecordSetStatus,
};
use crate::kube::objects::NodeSlim;
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::kube::watch::list_once;
use crate::kube::writes::{self, ObjectVersion, WriteError};
use crate::metrics::Metrics;
use flipop_core::addresses::pool::status::{FINALIZER, PoolStatus};
use flipop_core::fleet::action::{Objects, Outcome};
use flipop_core::mechanism::{StatusWrite, WrittenStatus};
use flipop_core::model::node_labels::LabelChanges;
use flipop_core::model::{
    Address, LeaseFacts, Moment, NodeFacts, ObjectKind, ObjectRef, PodFacts, Uid, WatchKey, WriteFailure,
};
use flipop_core::records::status::RecordSetStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Executor {
    pub(super) async fn write_pool_status(
        &self,
        StatusWrite { object, resource_version, generation, status }: StatusWrite<PoolStatus>,
        before: &[Condition],
    ) -> Done {
        let status = pool::written_status(&status, generation, before, self.clock.timestamp());
        let uid = object.uid.clone();
        let kept = |kept: &FloatingIPPoolStatus| (pool::plain_status(kept), kept.conditions.clone());
        let (conditions, result) =
            self.replace_status::<FloatingIPPool, _, _>(object, resource_version, &status, kept).await;
        Done { conditions, ..Outcome::StatusWritten(uid, result).into() }
    }

    pub(super) async fn write_record_set_status(
        &self,
        StatusWrite { object, resource_version, generation, status }: StatusWrite<RecordSetStatus>,
        before: &[Condition],
    ) -> Done {
        let status = record_set::written_status(&status, generation, before, self.clock.timestamp());
        let uid = object.uid.clone();
        let kept = |kept: &NodeDNSRecordSetStatus| (record_set::plain_status(kept), kept.conditions.clone());
        let (conditions, result) =
            self.replace_status::<NodeDNSRecordSet, _, _>(object, resource_version, &status, kept).await;
        Done { conditions, ..Outcome::RecordSetStatusWritten(uid, result).into() }
    }

    /// Writes the status of an object of kind `K`. Returns the conditions and the status that the server stored.
    async fn replace_status<K: Conditioned, S: Serialize + DeserializeOwned + Default, P>(
        &self,
        ObjectRef { name, uid }: ObjectRef,
        resource_version: String,
        status: &S,
        plain: fn(&S) -> (P, Vec<Condition>),
    ) -> (Option<((ObjectKind, Uid), Vec<Condition>)>, Result<Box<WrittenStatus<P>>, WriteFailure>) {
        let version = ObjectVersion { name, uid, resource_version };
        match writes::replace_status::<K, S>(&self.client, &self.permit, &version, status).await {
            Ok((resource_version, kept)) => {
                let (status, conditions) = plain(&kept);
                let written = Box::new(WrittenStatus { resource_version, status });
                (Some(((K::KIND, version.uid), conditions)), Ok(written))
            }
            Err(error) => (None, Err(write_failure(error))),
        }
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

    /// Finds out, beside everything else, whether an admission policy limits our changes of nodes. A refusal of any
    /// kind is as it should be.
    pub fn probe_node_policy(&self, node: String, metrics: Arc<Metrics>) {
        let executor = self.clone();
        self.tracker.spawn(async move {
            let probed = writes::probe_node_policy(&executor.client, &executor.permit, &node).await;
            metrics.publish_unlimited(probed.is_ok());
            if probed.is_ok() {
                tracing::warn!(
                    node,
                    "no admission policy limits what this account may change on nodes: apply \
                     k8s/policy-node-annotation.yaml, with this account in its matchConditions"
                );
            }
        });
    }

    pub(super) async fn sweep_annotations(&self) -> Done {
        let result = writes::sweep_nodes(&self.client).await;
        Outcome::Swept(result.map_err(write_failure)).into()
    }

    /// Lists without a version are consistent reads. A kind that is not installed counts as having no objects.
    pub(super) async fn list_objects(&self, asked: Moment, sought: BTreeSet<Address>) -> Done {
        let pools = list_once::pools_naming(&self.client, &sought);
        let record_sets = list_once::resources::<NodeDNSRecordSet>(&self.client, None);
        let (pools, record_sets) = futures::join!(pools, record_sets);
        let result = installed(pools).and_then(|pools| {
            Ok(Box::new(Objects {
                pools: pools.iter().map(|(seen, named)| pool::naming(seen, named)).collect(),
                record_sets: installed(record_sets)?.iter().map(record_set::record_set_object).collect(),
            }))
        });
        Outcome::ObjectsListed(asked, result).into()
    }

    pub(super) async fn count_nodes(&self) -> Done {
        Outcome::NodesCounted(writes::count::<NodeSlim>(&self.client, "").await.map_err(write_failure)).into()
    }

    pub(super) async fn read_node(
        &self,
        node: &str,
        nodes: &WatchKey,
        pods: Option<&WatchKey>,
        lease: bool,
    ) -> (Result<(Option<NodeFacts>, Vec<PodFacts>), WriteFailure>, Option<LeaseFacts>) {
        let of_lease = async { if lease { writes::read_lease(&self.client, node).await } else { Ok(None) } };
        let of_node = writes::read_node(&self.client, node, nodes, pods);
        match futures::try_join!(of_node, of_lease) {
            Ok((found, lease)) => (Ok(found), lease),
            Err(error) => (Err(write_failure(error)), None),
        }
    }

    pub(super) async fn write_finalizer(&self, pool: ObjectRef, present: bool) -> Outcome {
        let result = writes::replace_finalizer::<FloatingIPPool>(
            &self.client,
            &self.permit,
            (&pool.name, &pool.uid),
            (FINALIZER, present),
        );
        let result = result.await.map_err(write_failure);
        Outcome::FinalizerWritten { pool: pool.uid, present, result }
    }

    pub(super) async fn write_ips(
        &self,
        pool: ObjectRef,
        add: Vec<Address>,
        remove: BTreeSet<Address>,
    ) -> Outcome {
        let edited = |current: &[String]| {
            let new = add.iter().map(ToString::to_string).filter(|ip| !current.contains(ip));
            let stays = |ip: &&String| Address::v4(ip).is_none_or(|ip| !remove.contains(&ip));
            let ips: Vec<String> = current.iter().filter(stays).cloned().chain(new).collect();
            (ips != current).then_some(ips)
        };
        let result = writes::replace_spec_ips::<FloatingIPPool, _>(
            &self.client,
            &self.permit,
            &pool.name,
            &pool.uid,
            edited,
        );
        let result = result.await.map(|_object| ()).map_err(write_failure);
        Outcome::IpsWritten { pool: pool.uid, add, remove, result }
    }
}

/// The objects of a kind. Empty if the kind is not installed.
fn installed<T>(listed: Result<Vec<T>, Trouble>) -> Result<Vec<T>, WriteFailure> {
    match listed {
        Ok(objects) => Ok(objects),
        Err(trouble) if trouble.kind == TroubleKind::NotFound => Ok(Vec::new()),
        Err(trouble) if trouble.kind == TroubleKind::Forbidden => {
            Err(WriteFailure::Forbidden(trouble.message))
        }
        Err(Trouble { message, retry_after_ms: Some(wait_ms), .. }) => {
            Err(WriteFailure::Throttled { message, wait_ms })
        }
        Err(trouble) => Err(WriteFailure::Transient(trouble.message)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_refused_for_a_while_is_not_asked_for_sooner() {
        let refused = |retry_after_ms| {
            let message = "too many requests".to_owned();
            let trouble =
                Trouble { kind: TroubleKind::Throttled, message, retry_after_ms, fields: Vec::new() };
            installed::<()>(Err(trouble))
        };
        let throttled = refused(Some(2_000));
        assert!(matches!(throttled, Err(WriteFailure::Throttled { wait_ms: 2_000, .. })), "{throttled:?}");
        assert!(matches!(refused(None), Err(WriteFailure::Transient(_))));
    }
}

//! A copy of the cluster, read once: our objects, and the nodes and pods that FLIPOP watches for them.

use super::CommandError;
use super::session::Session;
use crate::api::translate::pool::pool_object;
use crate::api::translate::record_set::record_set_object;
use crate::api::{Conditioned, FloatingIPPool, NodeDNSRecordSet, Seen};
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::kube::watch::list_once;
use crate::provider::descriptors;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::model::provider::Providers;
use flipop_core::model::spec::SpecProblem;
use flipop_core::model::{
    Condition, Criteria, NodeFacts, NodeStore, ObjectKind, ObjectName, Observed, PodFacts, PodStore, WatchKey,
};
use flipop_core::records::spec::NodeSetSpec;
use flipop_core::records::status::RecordSetObject;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use std::collections::{BTreeMap, BTreeSet};

/// Lists that are read at the same time. More of one namespace are read as one.
const AT_A_TIME: usize = 8;

/// Our objects in the cluster.
#[derive(Debug, Default, Clone)]
pub(super) struct Objects {
    /// Pools.
    pub(super) pools: Vec<Seen<FloatingIPPool>>,
    /// Record sets.
    pub(super) record_sets: Vec<Seen<NodeDNSRecordSet>>,
    /// Kinds that are not installed.
    pub(super) absent: Vec<&'static str>,
}

/// Nodes and pods as FLIPOP's watches for the objects show them.
#[derive(Debug, Default, Clone)]
pub(super) struct Lists {
    /// By selector.
    pub(super) nodes: BTreeMap<WatchKey, Vec<NodeFacts>>,
    /// By namespace and selector.
    pub(super) pods: BTreeMap<WatchKey, Vec<PodFacts>>,
}

impl Objects {
    /// Reads both kinds in a namespace (`None`: in all namespaces).
    pub(super) async fn read(session: &Session, namespace: Option<&str>) -> Result<Self, CommandError> {
        let mut absent = Vec::new();
        let (pools, record_sets) = futures::join!(
            list_once::resources::<FloatingIPPool>(&session.client, namespace),
            list_once::resources::<NodeDNSRecordSet>(&session.client, namespace),
        );
        let pools = present(pools, &mut absent)?;
        let record_sets = present(record_sets, &mut absent)?;
        Ok(Self { pools, record_sets, absent })
    }

    /// The objects in the form that decisions use.
    pub(super) fn plain(&self) -> (Vec<PoolObject>, Vec<RecordSetObject>) {
        let pools = self.pools.iter().map(pool_object).collect();
        (pools, self.record_sets.iter().map(record_set_object).collect())
    }
}

fn present<K: Conditioned>(
    listed: Result<Vec<Seen<K>>, Trouble>,
    absent: &mut Vec<&'static str>,
) -> Result<Vec<Seen<K>>, CommandError> {
    match listed {
        Ok(listed) => Ok(listed),
        Err(trouble) if trouble.kind == TroubleKind::NotFound => {
            absent.push(K::KIND.as_str());
            Ok(Vec::new())
        }
        Err(trouble) => Err(CommandError::read(K::plural(&()), trouble)),
    }
}

/// Every known provider, as if each had its token. A command checks specs against these.
pub(super) fn every_provider(keep_last_record: bool) -> Providers {
    Providers::new(descriptors().map(|descriptor| (descriptor, true)), keep_last_record)
}

/// The parsed spec of a pool. `None` if the object cannot be read.
pub(super) fn pool_spec(pool: &PoolObject, providers: &Providers) -> Option<PoolSpec> {
    pool.spec.as_ref().ok().map(|raw| PoolSpec::parse(raw, providers))
}

/// The parsed spec of a record set. `None` if the object cannot be read.
pub(super) fn set_spec(set: &RecordSetObject, providers: &Providers) -> Option<NodeSetSpec> {
    set.spec.as_ref().ok().map(|raw| NodeSetSpec::parse(raw, providers))
}

/// An object of either kind.
pub(super) struct Judged<'a> {
    /// Its kind.
    pub(super) kind: ObjectKind,
    /// Its name.
    pub(super) name: &'a ObjectName,
    /// The mistakes in its spec, or why it cannot be read.
    pub(super) problems: Vec<String>,
    /// The nodes that it asks for.
    pub(super) criteria: Option<Criteria>,
    /// The conditions in its status.
    pub(super) conditions: &'a [Condition],
    /// Whether its status describes the present spec.
    pub(super) is_current: bool,
}

/// The pools, and then the record sets.
pub(super) fn judged<'a>(
    pools: impl IntoIterator<Item = &'a PoolObject>,
    sets: impl IntoIterator<Item = &'a RecordSetObject>,
    providers: &Providers,
) -> Vec<Judged<'a>> {
    let problems = |unread: Option<&String>, known: Option<&[SpecProblem]>| {
        let known = known.into_iter().flatten().map(ToString::to_string);
        unread.cloned().into_iter().chain(known).collect()
    };
    let of_pool = |pool: &'a PoolObject| {
        let spec = pool_spec(pool, providers);
        Judged {
            kind: ObjectKind::Pool,
            name: &pool.object.name,
            problems: problems(pool.spec.as_ref().err(), spec.as_ref().map(|spec| spec.problems.as_slice())),
            criteria: spec.and_then(|spec| spec.criteria),
            conditions: &pool.status.conditions,
            is_current: pool.status.observed_generation == pool.generation,
        }
    };
    let of_set = |set: &'a RecordSetObject| {
        let spec = set_spec(set, providers);
        Judged {
            kind: ObjectKind::RecordSet,
            name: &set.object.name,
            problems: problems(set.spec.as_ref().err(), spec.as_ref().map(|spec| spec.problems.as_slice())),
            criteria: spec.and_then(|spec| spec.criteria),
            conditions: &set.status.conditions,
            is_current: set.status.observed_generation == set.generation,
        }
    };
    pools.into_iter().map(of_pool).chain(sets.into_iter().map(of_set)).collect()
}

/// The watches that these criteria ask for.
pub(super) fn keys<'a>(criteria: impl IntoIterator<Item = &'a Criteria>) -> BTreeSet<WatchKey> {
    let criteria = criteria.into_iter();
    criteria.flat_map(Criteria::watches).cloned().collect()
}

impl Lists {
    /// Reads each list once. The nodes come from one list, and the pods of a namespace too if there are many keys.
    pub(super) async fn read(session: &Session, keys: BTreeSet<WatchKey>) -> Result<Self, CommandError> {
        let (mut of_nodes, mut of_pods) = (Vec::new(), BTreeMap::<String, Vec<WatchKey>>::new());
        for key in keys {
            match &key {
                WatchKey::Nodes { .. } => of_nodes.push(key),
                WatchKey::Pods { namespace, .. } => of_pods.entry(namespace.clone()).or_default().push(key),
            }
        }
        let requests = of_pods.into_iter().flat_map(|(namespace, keys)| {
            let together = if keys.len() > AT_A_TIME { keys.len() } else { 1 };
            let requests = keys.chunks(together).map(|keys| (namespace.clone(), keys.to_vec()));
            requests.collect::<Vec<_>>()
        });
        let read = |(namespace, keys): (String, Vec<WatchKey>)| async move {
            list_once::pods_by_key(&session.client, &namespace, keys).await
        };
        let pods = stream::iter(requests).map(read).buffer_unordered(AT_A_TIME).try_concat();
        let (nodes, pods) = futures::join!(list_once::nodes_by_key(&session.client, of_nodes), pods);
        Ok(Self {
            nodes: nodes.map_err(|trouble| CommandError::read("nodes", trouble))?,
            pods: pods.map_err(|trouble| CommandError::read("pods", trouble))?,
        })
    }

    /// The nodes that these criteria select by label.
    pub(super) fn nodes_of(&self, criteria: &Criteria) -> NodeStore {
        let mut store = NodeStore::default();
        let listed = self.nodes.get(criteria.node_watch()).cloned().unwrap_or_default();
        store.observe(Observed::Reset(listed));
        store
    }

    /// The pods that these criteria select, if pods matter.
    pub(super) fn pods_of(&self, criteria: &Criteria) -> Option<PodStore> {
        let key = criteria.pod_watch()?;
        let mut store = PodStore::default();
        store.observe(Observed::Reset(self.pods.get(key).cloned().unwrap_or_default()));
        Some(store)
    }
}

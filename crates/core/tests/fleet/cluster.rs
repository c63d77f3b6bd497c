//! Acts of users and kubelets on the objects of the small world.

use crate::catalogued;
use crate::faults::{nodes_key, pods_key};
use crate::world::{World, droplet};
use crate::zones::{external, internal};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::addresses::pool::status::{PoolObject, PoolStatus};
use flipop_core::fleet::Input;
use flipop_core::fleet::action::{MarkedNode, Outcome, Sweep};
use flipop_core::mechanism::WrittenStatus;
use flipop_core::model::{
    Address, MachineId, NodeFacts, ObjectKind, ObjectName, ObjectRef, Observed, PodFacts, Readiness, Taint,
    Uid, WriteFailure,
};
use std::collections::BTreeSet;

impl World {
    pub(crate) fn add_pool(&mut self, name: &str, spec: RawPoolSpec) {
        self.version += 1;
        let pool = PoolObject {
            object: ObjectRef {
                uid: Uid(format!("uid-{name}-{}", self.version).into()),
                name: ObjectName::new("ns", name),
            },
            created_at_s: i64::try_from(self.version).unwrap(),
            generation: 1,
            resource_version: self.version.to_string(),
            deleting: false,
            guarded: false,
            paused: None,
            spec: Ok(spec),
            move_request: None,
            status: PoolStatus::default(),
        };
        self.pools.insert(name.to_owned(), pool.clone());
        self.observe(Input::Pools(Observed::Apply(pool)));
    }

    pub(crate) fn edit(&mut self, name: &str, edit: impl FnOnce(&mut RawPoolSpec)) {
        let seen = self.change_spec(name, edit);
        self.observe(seen);
    }

    pub(crate) fn change_spec(&mut self, name: &str, edit: impl FnOnce(&mut RawPoolSpec)) -> Input {
        self.version += 1;
        let pool = self.pools.get_mut(name).unwrap();
        edit(pool.spec.as_mut().unwrap());
        pool.generation += 1;
        pool.resource_version = self.version.to_string();
        Input::Pools(Observed::Apply(pool.clone()))
    }

    /// Somebody asks for a move by hand, or takes the request back.
    pub(crate) fn ask(&mut self, name: &str, request: Option<&str>) {
        self.version += 1;
        let pool = self.pools.get_mut(name).unwrap();
        pool.move_request = request.map(str::to_owned);
        pool.resource_version = self.version.to_string();
        let seen = Input::Pools(Observed::Apply(pool.clone()));
        self.observe(seen);
    }

    /// Stores an object as somebody else left it.
    pub(crate) fn put_pool(&mut self, mut pool: PoolObject) {
        self.version += 1;
        pool.generation += 1;
        pool.resource_version = self.version.to_string();
        self.pools.insert(pool.object.name.name.clone(), pool.clone());
        self.observe(Input::Pools(Observed::Apply(pool)));
    }

    /// Somebody deletes a pool. It is gone at once unless the finalizer keeps it.
    pub(crate) fn begin_deletion(&mut self, name: &str) {
        if !self.pools[name].guarded {
            return self.delete_pool(name);
        }
        self.version += 1;
        let pool = self.pools.get_mut(name).unwrap();
        pool.deleting = true;
        pool.resource_version = self.version.to_string();
        let seen = Input::Pools(Observed::Apply(pool.clone()));
        self.observe(seen);
    }

    pub(crate) fn delete_pool(&mut self, name: &str) {
        if let Some(pool) = self.pools.remove(name) {
            self.observe(Input::Pools(Observed::Delete(pool)));
        }
    }

    pub(crate) fn set_node(&mut self, n: u8, ready: bool) {
        let uid = Uid(format!("uid-node-{n}").into());
        self.put_node(n, uid, droplet(n), ready);
    }

    /// Puts a node on a droplet whose number is not that of the node.
    pub(crate) fn set_node_on(&mut self, n: u8, on: u8) {
        self.set_node_on_as(n, on, true);
    }

    pub(crate) fn set_node_on_as(&mut self, n: u8, on: u8, ready: bool) {
        self.put_node(n, Uid(format!("uid-node-{n}").into()), droplet(on), ready);
    }

    /// Replaces a node by another one of the same name. Nobody sees the deletion.
    pub(crate) fn replace_node(&mut self, n: u8, on: u8) {
        self.version += 1;
        self.annotations.remove(&format!("node-{n}"));
        self.labels.remove(&format!("node-{n}"));
        self.put_node(n, Uid(format!("uid-{}", self.version).into()), droplet(on), true);
    }

    fn put_node(&mut self, n: u8, uid: Uid, on: MachineId, ready: bool) {
        let name = format!("node-{n}");
        let now_s = i64::try_from(self.now.as_millis() / 1_000).unwrap();
        let node = NodeFacts {
            created_at_s: Some(*self.born.entry(uid.clone()).or_insert(now_s)),
            uid,
            provider_id: on.provider_id(),
            machine: Some(on),
            ready: ready.into(),
            region: Some("nyc3".into()),
            external_ips: vec![external(n)],
            internal_ips: vec![internal(n)],
            annotation: self.annotations.get(&name).cloned(),
            annotation_ours: !self.foreign.contains(&name),
            labels: self.labels.get(&name).cloned().unwrap_or_default(),
            name: name.clone(),
            ..NodeFacts::default()
        };
        self.nodes.insert(name, node.clone());
        self.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    }

    pub(crate) fn taint(&mut self, n: u8, taints: Vec<Taint>) {
        let node = self.nodes.get_mut(&format!("node-{n}")).unwrap();
        (node.ready, node.taints) = (Readiness::Ready, taints);
        let node = node.clone();
        self.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    }

    pub(crate) fn delete_node(&mut self, n: u8) {
        if let Some(node) = self.nodes.remove(&format!("node-{n}")) {
            self.annotations.remove(&node.name);
            self.labels.remove(&node.name);
            self.observe(Input::Nodes(nodes_key(), Observed::Delete(node)));
        }
    }

    /// Lets the writes of statuses that were held on their way arrive, and no longer holds any.
    pub(crate) fn release_status_writes(&mut self) {
        for (pool, version, status) in self.faults.held_status_writes.take().unwrap_or_default() {
            self.write_status(&pool, &version, status);
        }
    }

    pub(crate) fn write_status(&mut self, pool: &ObjectRef, resource_version: &str, mut status: PoolStatus) {
        catalogued::check_conditions(ObjectKind::Pool, &status.conditions);
        if let Some(held) = &mut self.faults.held_status_writes {
            held.push((pool.clone(), resource_version.to_owned(), status));
            return;
        }
        self.status_writes += 1;
        if self.go_crds {
            status = PoolStatus {
                conditions: Vec::new(),
                observed_generation: 0,
                memory: None,
                last_move: None,
                record_set: None,
                firewalls: Vec::new(),
                ..status
            };
        }
        let intent = status.memory.as_mut().and_then(|memory| memory.intent.as_mut());
        if let Some(intent) = intent.filter(|_| self.faults.drops_numbers) {
            intent.number = 0;
        }
        status.last_move.take_if(|_| self.faults.drops_moves);
        let denied = self.denied.contains(&pool.name.name);
        let denied = denied.then(|| WriteFailure::Forbidden("status".into()));
        let unwritten = self.faults.unwritten.clone().filter(|(name, _)| *name == pool.name.name);
        let denied = denied.or(unwritten.map(|(_, failure)| failure));
        let refused = self.faults.status_writes.pop_front().or(denied);
        let result = match self.pools.get_mut(&pool.name.name) {
            _ if refused.is_some() => Err(refused.unwrap()),
            None => Err(WriteFailure::Gone),
            Some(object) if object.resource_version != resource_version => Err(WriteFailure::Conflict),
            Some(object) => {
                self.version += 1;
                object.resource_version = self.version.to_string();
                object.status = status.clone();
                let object = object.clone();
                let kept = WrittenStatus { resource_version: object.resource_version.clone(), status };
                self.show(Input::Pools(Observed::Apply(object)));
                Ok(Box::new(kept))
            }
        };
        self.answer(Outcome::StatusWritten(pool.uid.clone(), result));
    }

    /// A watch shows its events in order. So its present event shows the present node, and none follows the deletion of
    /// its object.
    pub(crate) fn in_order(&self, input: Input) -> Option<Input> {
        match input {
            Input::Nodes(key, Observed::Apply(old)) => {
                let node = self.nodes.get(&old.name)?.clone();
                Some(Input::Nodes(key, Observed::Apply(node)))
            }
            Input::Pools(Observed::Apply(pool)) => {
                let exists = self.pools.values().any(|present| present.object.uid == pool.object.uid);
                exists.then_some(Input::Pools(Observed::Apply(pool)))
            }
            Input::RecordSets(Observed::Apply(set)) => {
                let exists = self.record_sets.values().any(|present| present.object.uid == set.object.uid);
                exists.then_some(Input::RecordSets(Observed::Apply(set)))
            }
            input => Some(input),
        }
    }

    /// Puts a pod on a node, with labels that every pool asks for.
    pub(crate) fn set_pod(&mut self, name: &str, node: u8, serving: bool) {
        let pod = PodFacts {
            namespace: "ns".into(),
            name: name.into(),
            node: format!("node-{node}"),
            serving,
            fails_since_s: None,
        };
        self.pods.insert(name.into(), pod.clone());
        self.observe(Input::Pods(pods_key(), Observed::Apply(pod)));
    }

    /// Lets time pass in small steps while something holds, for at most ten minutes.
    pub(crate) fn run_while(&mut self, step_ms: u64, holds: impl Fn(&Self) -> bool) {
        let end = self.now.plus_millis(600_000);
        while holds(self) {
            assert!(self.now < end, "the awaited event does not happen");
            self.run_until(self.now.plus_millis(step_ms));
        }
    }

    pub(crate) fn annotate(&mut self, node: String, uid: Uid, value: Option<Address>) {
        let found = self.nodes.get(&node).is_some_and(|facts| facts.uid == uid);
        self.faults.writes_to_gone_nodes += usize::from(!found);
        let result = if found { Ok(()) } else { Err(WriteFailure::Gone) };
        let result = self.faults.annotations.pop_front().map_or(result, Err);
        if let Some(facts) = self.nodes.get_mut(&node).filter(|_| result.is_ok()) {
            facts.annotation = value.map(|ip| ip.to_string());
            let facts = facts.clone();
            match value {
                Some(ip) => self.annotations.insert(node.clone(), ip.to_string()),
                None => self.annotations.remove(&node),
            };
            self.show(Input::Nodes(nodes_key(), Observed::Apply(facts)));
        }
        self.answer(Outcome::Annotated { node, uid, value, result });
    }

    pub(crate) fn show_node(&mut self, facts: NodeFacts) {
        self.show(Input::Nodes(nodes_key(), Observed::Apply(facts)));
    }

    pub(crate) fn sweep(&mut self) {
        let names: BTreeSet<&String> = self.annotations.keys().chain(self.labels.keys()).collect();
        let nodes = names.into_iter().filter_map(|name| {
            let uid = self.nodes.get(name)?.uid.clone();
            let ours = !self.foreign.contains(name);
            let labels = self.labels.get(name).cloned().unwrap_or_default();
            let value = self.annotations.get(name).cloned();
            Some(MarkedNode { name: name.clone(), uid, value, ours, labels })
        });
        let marked = nodes.collect();
        let names = self.nodes.keys().cloned().collect();
        self.answer(Outcome::Swept(Ok(Sweep { names, marked })));
    }

    /// Reads a node as it is now, whatever the watches show.
    pub(crate) fn read_node(&self, name: &str) -> Result<(Option<NodeFacts>, Vec<PodFacts>), WriteFailure> {
        if let Some(failure) = &self.faults.node_reads {
            return Err(failure.clone());
        }
        let pods = self.pods.values().filter(|pod| pod.node == name).cloned().collect();
        Ok((self.nodes.get(name).cloned(), pods))
    }

    /// Changes a node without any watch that shows it.
    pub(crate) fn change_node_unseen(&mut self, n: u8, change: impl FnOnce(&mut NodeFacts)) {
        change(self.nodes.get_mut(&format!("node-{n}")).unwrap());
    }

    pub(crate) fn delete_pod(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap();
        self.observe(Input::Pods(pods_key(), Observed::Delete(pod)));
    }
}

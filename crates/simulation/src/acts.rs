//! Applies acts to the simulated world.

use super::bed::{Bed, Undo};
use super::judge::Process;
use super::judge::pauses::ANNOTATION;
use super::plan::{Act, Side};
use super::scene::{API_VERSION, HOME, POOL, REGION, TAG, USER_NAMESPACE, zone_of};
use super::{furnish, machines};
use flipop_apiserver::{ApiServer, Key, PodSpec, Readiness, ScenarioError, View};
use flipop_cloud::{Provider, RecordView};
use flipop_core::addresses::pool::manual_move::result::MOVE_ANNOTATION;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// All scopes that the operator needs at `DigitalOcean`.
const SCOPES: [&str; 13] = [
    "droplet:read",
    "reserved_ip:read",
    "reserved_ip:create",
    "reserved_ip:update",
    "reserved_ip:delete",
    "domain:read",
    "domain:create",
    "domain:update",
    "tag:read",
    "firewall:read",
    "firewall:create",
    "firewall:update",
    "firewall:delete",
];

impl Bed {
    /// Applies an act.
    pub(super) fn act(&mut self, act: &Act) {
        self.network.tell("world", &serde_json::to_string(act).unwrap_or_default());
        if let Err(error) = self.try_act(act) {
            // In a drawn or shrunk plan, a step may make no sense in the world as it is.
            self.network.tell("world", &format!("which makes no sense now: {error}"));
        }
        self.network.judge(|_judge| ());
    }

    /// # Errors
    /// If it makes no sense in the world as it is.
    fn try_act(&mut self, act: &Act) -> Result<(), ScenarioError> {
        match act {
            Act::AddNode { node } => self.add_node(node)?,
            Act::ShareDroplet { node, of } => self.share_droplet(node, of)?,
            Act::DeleteNode { node } => self.api.delete_node(node)?,
            Act::DestroyDroplet { node } => {
                self.destroy_droplet(node);
                self.api.delete_node(node)?;
            }
            Act::LoseDroplet { node } => self.lose_droplet(node),
            Act::ShowOff { node, off } => self.power(node, !off),
            Act::SetReady { node, ready } => self.api.set_node_ready(node, Readiness::of(*ready))?,
            Act::Die { node, dead } => self.network.set_dead(node, *dead),
            Act::LoseContact { node } => self.api.set_node_ready(node, Readiness::Unknown)?,
            Act::SetTaint { node, key, on } => self.taint(node, key, "NoSchedule", *on)?,
            Act::PowerOff { node, off } => {
                self.power(node, !off);
                self.api.set_node_ready(node, if *off { Readiness::Unknown } else { Readiness::Ready })?;
            }
            Act::Drain { node, drained } => self.taint(node, "drain", "NoExecute", *drained)?,
            Act::SetRole { node, role } => self.api.set_node_label(node, "role", role.as_deref())?,
            Act::AddPod { pod, app, node } => self.add_pod(pod, app, node)?,
            Act::DeletePod { pod } => self.api.delete_object("v1", "Pod", &key(pod), true)?,
            Act::SetPodReady { pod, ready } => self.api.set_pod_ready(&key(pod), *ready)?,
            Act::Create { kind, name, spec } => self.create(kind, name, spec)?,
            Act::Edit { kind, name, spec } => self.patch(kind, name, json!({ "spec": spec }))?,
            Act::Ask { name, ip, node, nonce } => {
                let request = format!("{ip}={node}#{nonce}");
                self.annotate(POOL, name, MOVE_ANNOTATION, Some(&request))?;
            }
            Act::Delete { kind, name } => self.api.delete_object(API_VERSION, kind, &key(name), false)?,
            Act::PauseObject { kind, name, text, for_ms } => self.pause_object(kind, name, text, *for_ms)?,
            Act::RevertIps { name, ips } => self.edit_pool(name, &json!({ "ips": ips }))?,
            Act::WipeStatus { name } => self.wipe_status(name)?,
            Act::Release { name } => self.release(name)?,
            Act::Trade { one, other } => self.trade(one, other)?,
            Act::AddIp { ip } => _ = self.cloud.add_ip(Some(*ip), REGION),
            Act::MoveIp { ip, node } => self.move_ip(*ip, node.as_deref()),
            Act::DeleteIp { ip } => _ = self.cloud.delete_ip(*ip),
            Act::LockIp { ip, for_ms } => self.cloud.lock_ip(*ip, *for_ms),
            Act::BusyDroplet { node, for_ms } => {
                self.droplet(node).into_iter().for_each(|droplet| self.cloud.busy_droplet(droplet, *for_ms));
            }
            Act::RevokeToken { provider, for_ms } => self.revoke_token(*provider, *for_ms),
            Act::NarrowToken { without, for_ms } => self.narrow_token(without, *for_ms),
            Act::ActionTime { ms } => self.cloud.tune(|knobs| knobs.action_ms = *ms),
            Act::Quota { addresses } => self.cloud.tune(|knobs| knobs.reserved_ip_quota = *addresses),
            Act::ListLag { ms } => self.cloud.tune(|knobs| knobs.list_lag_ms = *ms),
            Act::EditRecord { provider, name, data } => self.edit_record(*provider, name, *data),
            Act::PlaceRecord { provider, name, rtype, data, for_ms } => {
                let fqdn = format!("{name}.{}", zone_of(*provider));
                self.place_record(*provider, &RecordView::new(&fqdn, rtype, data, 300), *for_ms);
            }
            Act::AddFirewall { .. }
            | Act::DropFirewall { .. }
            | Act::SetTag { .. }
            | Act::EditFirewalls { .. }
            | Act::DropFirewallsOf { .. }
            | Act::FirewallTime { .. } => self.act_on_firewalls(act),
            Act::Crash { replica, restart_ms } => self.crash(*replica, *restart_ms),
            Act::Stop { replica, restart_ms } => self.stop(*replica, *restart_ms),
            Act::Pause { replica, for_ms } => self.pause(*replica, *for_ms),
            Act::Cut { replica, side, for_ms } => self.cut(*replica, *side, *for_ms),
            Act::Lag { replica, for_ms, lists } => self.lag(*replica, *for_ms, *lists),
            Act::CutWatches { replica } => {
                self.fronts.get(*replica).into_iter().for_each(ApiServer::cut_watches);
            }
            Act::Compact => self.api.compact(),
        }
        Ok(())
    }

    fn add_node(&mut self, name: &str) -> Result<(), ScenarioError> {
        let droplet = self.cloud.add_droplet(name, REGION);
        self.cloud.tag(droplet, &[TAG]);
        self.droplets.insert(name.to_owned(), droplet);
        self.network.set_dead(name, false);
        if self.api.object("v1", "Node", &Key::new("", name)).is_some() {
            self.api.delete_node(name)?;
        }
        self.register(name, droplet)?;
        if self.network.plan().machines.kubelets {
            let kubelet = machines::kubelet(self.network.clone(), self.api.clone(), name.to_owned());
            self.network.tracker().spawn(kubelet);
        }
        Ok(())
    }

    fn register(&self, name: &str, droplet: u64) -> Result<(), ScenarioError> {
        let labels = [("role".to_owned(), "edge".to_owned())].into();
        let number = u32::try_from(droplet % 250 + 1).unwrap_or_default();
        furnish::add_node(&self.api, name, droplet, labels, number)
    }

    fn share_droplet(&self, node: &str, of: &str) -> Result<(), ScenarioError> {
        self.droplet(of).map_or(Ok(()), |droplet| self.register(node, droplet))
    }

    pub(super) fn droplet(&self, node: &str) -> Option<u64> {
        self.droplets.get(node).copied()
    }

    fn power(&self, node: &str, on: bool) {
        self.droplet(node).into_iter().for_each(|droplet| self.cloud.power_droplet(droplet, on));
    }

    fn taint(&self, node: &str, key: &str, effect: &str, on: bool) -> Result<(), ScenarioError> {
        self.api.set_node_taint(node, key, "", on.then_some(effect))
    }

    fn lose_droplet(&mut self, node: &str) {
        self.network.set_dead(node, true);
        self.destroy_droplet(node);
    }

    fn destroy_droplet(&mut self, node: &str) {
        if let Some(droplet) = self.droplets.remove(node) {
            if let Some(view) = self.cloud.ips().into_iter().find(|view| view.droplet == Some(droplet)) {
                self.network.judge_now(|judge, now_ms| judge.moved_by_hand(now_ms, view.ip));
            }
            self.cloud.destroy_droplet(droplet);
        }
    }

    fn add_pod(&self, pod: &str, app: &str, node: &str) -> Result<(), ScenarioError> {
        if self.api.object("v1", "Pod", &key(pod)).is_some() {
            self.api.delete_object("v1", "Pod", &key(pod), true)?;
        }
        self.api.create_pod(&PodSpec {
            namespace: USER_NAMESPACE.to_owned(),
            name: pod.to_owned(),
            labels: [("app".to_owned(), app.to_owned())].into(),
            node: node.to_owned(),
            ready: true,
            set: String::new(),
        })
    }

    fn create(&self, kind: &str, name: &str, spec: &Value) -> Result<(), ScenarioError> {
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        self.api.create_object(API_VERSION, kind, USER_NAMESPACE, object, "user").map(drop)
    }

    fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<(), ScenarioError> {
        self.api.patch_object((API_VERSION, kind), &key(name), "", patch, "user").map(drop)
    }

    fn edit_pool(&self, name: &str, spec: &Value) -> Result<(), ScenarioError> {
        self.patch(POOL, name, json!({ "spec": spec }))
    }

    /// Sets or removes an annotation of an object.
    pub(super) fn annotate(
        &self,
        kind: &str,
        name: &str,
        annotation: &str,
        text: Option<&str>,
    ) -> Result<(), ScenarioError> {
        self.patch(kind, name, json!({ "metadata": { "annotations": { annotation: text } } }))
    }

    fn pause_object(&mut self, kind: &str, name: &str, text: &str, for_ms: u64) -> Result<(), ScenarioError> {
        self.annotate(kind, name, ANNOTATION, Some(text))?;
        self.later(for_ms, Undo::Resume { kind: kind.to_owned(), name: name.to_owned() });
        Ok(())
    }

    fn wipe_status(&self, name: &str) -> Result<(), ScenarioError> {
        let patch = json!({ "status": Value::Null });
        self.api.patch_object((API_VERSION, POOL), &key(name), "status", patch, "user").map(drop)
    }

    fn pool(&self, name: &str) -> Value {
        self.api.object(API_VERSION, POOL, &key(name)).unwrap_or_default()
    }

    fn release(&self, name: &str) -> Result<(), ScenarioError> {
        released(&self.pool(name)).map_or(Ok(()), |spec| self.edit_pool(name, &spec))
    }

    fn trade(&self, one: &str, other: &str) -> Result<(), ScenarioError> {
        let [pool, other_pool] = [one, other].map(|name| self.pool(name));
        let Some((mine, theirs)) = created_last(&pool).zip(created_last(&other_pool)) else { return Ok(()) };
        // An address is named before it is released, so that no pool is short of one meanwhile.
        let exchanged = |pool: &Value, goes: &Value, comes: &Value| {
            let ips: Vec<Value> = array(pool, "ips").into_iter().filter(|ip| ip != goes).collect();
            json!({ "ips": with(ips, comes), "releasedIPs": with(array(pool, "releasedIPs"), goes) })
        };
        self.edit_pool(other, &json!({ "ips": with(array(&other_pool, "ips"), &mine) }))?;
        self.edit_pool(one, &exchanged(&pool, &mine, &theirs))?;
        self.edit_pool(other, &exchanged(&other_pool, &theirs, &mine))
    }

    fn move_ip(&self, ip: Ipv4Addr, node: Option<&str>) {
        if self.cloud.move_ip(ip, node.and_then(|node| self.droplet(node))).is_ok() {
            self.network.judge_now(|judge, now_ms| judge.moved_by_hand(now_ms, ip));
        }
    }

    fn revoke_token(&mut self, provider: Provider, for_ms: u64) {
        self.cloud.revoke_token(provider.name(), true);
        self.later(for_ms, Undo::LetIn { provider });
    }

    fn narrow_token(&mut self, without: &str, for_ms: u64) {
        let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != without).collect();
        self.let_in(HOME, &scopes);
        self.later(for_ms, Undo::LetIn { provider: HOME });
    }

    fn edit_record(&self, provider: Provider, name: &str, data: Option<Ipv4Addr>) {
        let zone = zone_of(provider);
        let fqdn = format!("{name}.{zone}");
        let records = self.cloud.records(provider, zone).into_iter();
        let mut ours = records.filter(|record| record.rtype == "A" && record.fqdn == fqdn);
        // The last record stays, so that every emptied name is the operator's doing.
        let Some(record) = ours.next() else { return };
        if data.is_none() && ours.next().is_none() {
            return;
        }
        self.cloud.delete_record(provider, zone, &record.id);
        if let Some(data) = data {
            self.cloud.add_record(provider, zone, &RecordView { data: data.to_string(), ..record });
        }
        self.network.judge_now(|judge, now_ms| judge.others_wrote(now_ms, Some((provider, fqdn))));
    }

    fn place_record(&mut self, provider: Provider, record: &RecordView, for_ms: u64) {
        let Some(id) = self.cloud.add_record(provider, zone_of(provider), record) else { return };
        let mut records = self.cloud.records(provider, zone_of(provider)).into_iter();
        self.foreign.entry(provider).or_default().extend(records.find(|record| record.id == id));
        self.network.judge_now(|judge, now_ms| judge.others_wrote(now_ms, None));
        self.later(for_ms, Undo::Lift { provider, id });
    }

    fn crash(&self, replica: usize, restart_ms: u64) {
        let incarnation = self.network.link(replica).map(|link| link.latest().incarnation);
        if let Some(incarnation) = incarnation.filter(|incarnation| *incarnation > 0) {
            self.network.kill(Process { replica, incarnation }, restart_ms);
        }
    }

    fn stop(&self, replica: usize, restart_ms: u64) {
        if let Some(stops) = self.stops.get(replica) {
            // A replica that is not running has nothing to stop.
            let _unheard = stops.send(restart_ms);
        }
    }

    fn pause(&mut self, replica: usize, for_ms: u64) {
        self.network.relink(replica, |link| link.paused = true);
        self.later(for_ms, Undo::Wake { replica });
    }

    fn cut(&mut self, replica: usize, side: Side, for_ms: u64) {
        self.network.relink(replica, |link| link.set_cut(side, true));
        self.later(for_ms, Undo::Mend { replica, side });
    }

    fn lag(&mut self, replica: usize, for_ms: u64, lists: bool) {
        let now = self.api.revision();
        self.show(replica, View::CacheAt(now), lists.then_some(now));
        self.later(for_ms, Undo::CatchUp { replica });
    }
}

fn key(name: &str) -> Key {
    Key::new(USER_NAMESPACE, name)
}

/// The list with one more item.
fn with(mut list: Vec<Value>, item: &Value) -> Vec<Value> {
    list.push(item.clone());
    list
}

/// The pool's spec without the address that it created last, and with one fewer desired.
fn released(pool: &Value) -> Option<Value> {
    let last = created_last(pool)?;
    let ips: Vec<Value> = array(pool, "ips").into_iter().filter(|ip| *ip != last).collect();
    let desired = pool.pointer("/spec/desiredIPs").and_then(Value::as_u64).unwrap_or_default().max(2) - 1;
    let released = with(array(pool, "releasedIPs"), &last);
    Some(json!({ "ips": ips, "releasedIPs": released, "desiredIPs": desired }))
}

/// The address that a pool created last.
fn created_last(pool: &Value) -> Option<Value> {
    pool.pointer("/status/createdIPs")?.as_array()?.last()?.get("ip").cloned()
}

/// A list in a pool's spec.
fn array(pool: &Value, name: &str) -> Vec<Value> {
    pool.pointer(&format!("/spec/{name}")).and_then(Value::as_array).cloned().unwrap_or_default()
}

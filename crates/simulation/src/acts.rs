//! Applies acts to the simulated world.

use super::bed::{Bed, Undo};
use super::judge::pauses::ANNOTATION;
use super::plan::{Act, Side};
use super::scene::{API_VERSION, HOME, REGION, TAG, USER_NAMESPACE, zone_of};
use super::{furnish, machines};
use flipop_apiserver::{Key, PodSpec, Readiness, ScenarioError, View};
use flipop_cloud::RecordView;
use flipop_core::addresses::pool::manual_move::result::MOVE_ANNOTATION;
use serde_json::{Value, json};

/// All scopes that the operator needs at `DigitalOcean`.
const SCOPES: [&str; 12] = [
    "droplet:read",
    "reserved_ip:read",
    "reserved_ip:create",
    "reserved_ip:update",
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
            Act::AddNode { .. }
            | Act::ShareDroplet { .. }
            | Act::DeleteNode { .. }
            | Act::DestroyDroplet { .. }
            | Act::SetReady { .. }
            | Act::LoseContact { .. }
            | Act::Die { .. }
            | Act::ShowOff { .. }
            | Act::LoseDroplet { .. }
            | Act::SetTaint { .. }
            | Act::PowerOff { .. }
            | Act::Drain { .. }
            | Act::SetRole { .. }
            | Act::AddPod { .. }
            | Act::DeletePod { .. }
            | Act::SetPodReady { .. } => self.act_on_nodes(act),
            Act::Create { .. }
            | Act::Edit { .. }
            | Act::Ask { .. }
            | Act::Delete { .. }
            | Act::PauseObject { .. }
            | Act::RevertIps { .. }
            | Act::WipeStatus { .. }
            | Act::Release { .. }
            | Act::Trade { .. } => self.act_on_objects(act),
            Act::AddIp { .. }
            | Act::MoveIp { .. }
            | Act::DeleteIp { .. }
            | Act::LockIp { .. }
            | Act::BusyDroplet { .. }
            | Act::RevokeToken { .. }
            | Act::NarrowToken { .. }
            | Act::ActionTime { .. }
            | Act::Quota { .. }
            | Act::ListLag { .. } => {
                self.act_on_account(act);
                Ok(())
            }
            Act::EditRecord { .. } | Act::PlaceRecord { .. } => {
                self.act_on_names(act);
                Ok(())
            }
            Act::AddFirewall { .. }
            | Act::DropFirewall { .. }
            | Act::SetTag { .. }
            | Act::EditFirewalls { .. }
            | Act::DropFirewallsOf { .. }
            | Act::FirewallTime { .. } => {
                self.act_on_firewalls(act);
                Ok(())
            }
            Act::Crash { .. }
            | Act::Stop { .. }
            | Act::Pause { .. }
            | Act::Cut { .. }
            | Act::Lag { .. }
            | Act::CutWatches { .. }
            | Act::Compact => {
                self.act_on_replicas(act);
                Ok(())
            }
        }
    }

    fn add_node(&mut self, name: &str) -> Result<(), ScenarioError> {
        let droplet = self.cloud.add_droplet(name, REGION);
        self.cloud.tag(droplet, &[TAG]);
        self.droplets.insert(name.to_owned(), droplet);
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

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_nodes(&mut self, act: &Act) -> Result<(), ScenarioError> {
        let pod_key = |pod: &str| Key::new(USER_NAMESPACE, pod);
        match act {
            Act::AddNode { node } => self.add_node(node),
            Act::ShareDroplet { node, of } => {
                self.droplets.get(of).map_or(Ok(()), |droplet| self.register(node, *droplet))
            }
            Act::DeleteNode { node } => self.api.delete_node(node),
            Act::DestroyDroplet { node } => {
                self.destroy_droplet(node);
                self.api.delete_node(node)
            }
            Act::LoseDroplet { node } => {
                self.network.set_dead(node, true);
                self.destroy_droplet(node);
                Ok(())
            }
            Act::ShowOff { node, off } => {
                if let Some(droplet) = self.droplets.get(node) {
                    self.cloud.power_droplet(*droplet, !off);
                }
                Ok(())
            }
            Act::SetReady { node, ready } => self.api.set_node_ready(node, Readiness::of(*ready)),
            Act::Die { node, dead } => {
                self.network.set_dead(node, *dead);
                Ok(())
            }
            Act::LoseContact { node } => self.api.set_node_ready(node, Readiness::Unknown),
            Act::SetTaint { node, key, on } => {
                self.api.set_node_taint(node, key, "", on.then_some("NoSchedule"))
            }
            Act::PowerOff { node, off } => {
                if let Some(droplet) = self.droplets.get(node) {
                    self.cloud.power_droplet(*droplet, !off);
                }
                self.api.set_node_ready(node, if *off { Readiness::Unknown } else { Readiness::Ready })
            }
            Act::Drain { node, drained } => {
                self.api.set_node_taint(node, "drain", "", drained.then_some("NoExecute"))
            }
            Act::SetRole { node, role } => self.api.set_node_label(node, "role", role.as_deref()),
            Act::AddPod { pod, app, node } => {
                if self.api.object("v1", "Pod", &pod_key(pod)).is_some() {
                    self.api.delete_object("v1", "Pod", &pod_key(pod), true)?;
                }
                self.api.create_pod(&PodSpec {
                    namespace: USER_NAMESPACE.to_owned(),
                    name: pod.clone(),
                    labels: [("app".to_owned(), app.clone())].into(),
                    node: node.clone(),
                    ready: true,
                    set: String::new(),
                })
            }
            Act::DeletePod { pod } => self.api.delete_object("v1", "Pod", &pod_key(pod), true),
            Act::SetPodReady { pod, ready } => self.api.set_pod_ready(&pod_key(pod), *ready),
            _ => Ok(()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_objects(&mut self, act: &Act) -> Result<(), ScenarioError> {
        let key = |name: &str| Key::new(USER_NAMESPACE, name);
        let edit = |kind: &str, name: &str, subresource: &str, patch: Value| {
            self.api.patch_object((API_VERSION, kind), &key(name), subresource, patch, "user").map(drop)
        };
        match act {
            Act::Create { kind, name, spec } => {
                let object = json!({ "metadata": { "name": name }, "spec": spec });
                self.api.create_object(API_VERSION, kind, USER_NAMESPACE, object, "user").map(drop)
            }
            Act::Edit { kind, name, spec } => edit(kind, name, "", json!({ "spec": spec })),
            Act::Ask { name, ip, node, nonce } => {
                let annotations = json!({ MOVE_ANNOTATION: format!("{ip}={node}#{nonce}") });
                edit("FloatingIPPool", name, "", json!({ "metadata": { "annotations": annotations } }))
            }
            Act::Delete { kind, name } => self.api.delete_object(API_VERSION, kind, &key(name), false),
            Act::PauseObject { kind, name, text, for_ms } => {
                self.annotate(kind, name, Some(text))?;
                self.later(*for_ms, Undo::Resume { kind: kind.clone(), name: name.clone() });
                Ok(())
            }
            Act::RevertIps { name, ips } => {
                edit("FloatingIPPool", name, "", json!({ "spec": { "ips": ips } }))
            }
            Act::WipeStatus { name } => {
                edit("FloatingIPPool", name, "status", json!({ "status": Value::Null }))
            }
            Act::Release { name } => {
                let pool = self.api.object(API_VERSION, "FloatingIPPool", &key(name)).unwrap_or_default();
                released(&pool)
                    .map_or(Ok(()), |spec| edit("FloatingIPPool", name, "", json!({ "spec": spec })))
            }
            Act::Trade { one, other } => {
                let spec = |name: &str| {
                    let pool = self.api.object(API_VERSION, "FloatingIPPool", &key(name)).unwrap_or_default();
                    Some((created_last(&pool)?, array(&pool, "ips"), array(&pool, "releasedIPs")))
                };
                let Some(((mine, ips, released), (theirs, others, others_released))) =
                    spec(one).zip(spec(other))
                else {
                    return Ok(());
                };
                // An address is named before it is released, so that no pool is short of one meanwhile.
                let exchanged = |ips: &[Value], goes: &Value, comes: &Value| -> Vec<Value> {
                    ips.iter().filter(|ip| *ip != goes).chain([comes]).cloned().collect()
                };
                let write =
                    |name: &str, spec: Value| edit("FloatingIPPool", name, "", json!({ "spec": spec }));
                let named: Vec<&Value> = others.iter().chain([&mine]).collect();
                write(other, json!({ "ips": named }))?;
                let released: Vec<&Value> = released.iter().chain([&mine]).collect();
                write(one, json!({ "ips": exchanged(&ips, &mine, &theirs), "releasedIPs": released }))?;
                let released: Vec<&Value> = others_released.iter().chain([&theirs]).collect();
                write(other, json!({ "ips": exchanged(&others, &theirs, &mine), "releasedIPs": released }))
            }
            _ => Ok(()),
        }
    }

    /// Sets or removes the annotation that pauses an object.
    pub(super) fn annotate(&self, kind: &str, name: &str, text: Option<&str>) -> Result<(), ScenarioError> {
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: text } } });
        let key = Key::new(USER_NAMESPACE, name);
        self.api.patch_object((API_VERSION, kind), &key, "", patch, "user").map(drop)
    }

    fn destroy_droplet(&mut self, node: &str) {
        if let Some(droplet) = self.droplets.remove(node) {
            self.note_by_hand(droplet);
            self.cloud.destroy_droplet(droplet);
        }
    }

    fn note_by_hand(&self, droplet: u64) {
        let now_ms = self.network.now_ms();
        let held = self.cloud.ips().into_iter().find(|view| view.droplet == Some(droplet));
        if let Some(view) = held {
            self.network.judge(|judge| judge.moved_by_hand(now_ms, view.ip));
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_account(&mut self, act: &Act) {
        let now_ms = self.network.now_ms();
        match act {
            Act::AddIp { ip } => {
                self.cloud.add_ip(Some(*ip), REGION);
            }
            Act::MoveIp { ip, node } => {
                let droplet = node.as_ref().and_then(|node| self.droplets.get(node)).copied();
                if self.cloud.move_ip(*ip, droplet).is_ok() {
                    self.network.judge(|judge| judge.moved_by_hand(now_ms, *ip));
                }
            }
            Act::DeleteIp { ip } => {
                self.cloud.delete_ip(*ip);
            }
            Act::LockIp { ip, for_ms } => self.cloud.lock_ip(*ip, *for_ms),
            Act::BusyDroplet { node, for_ms } => {
                if let Some(droplet) = self.droplets.get(node) {
                    self.cloud.busy_droplet(*droplet, *for_ms);
                }
            }
            Act::RevokeToken { provider, for_ms } => {
                self.cloud.revoke_token(provider.name(), true);
                self.later(*for_ms, Undo::LetIn { provider: *provider });
            }
            Act::NarrowToken { without, for_ms } => {
                let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| scope != without).collect();
                self.let_in(HOME, &scopes);
                self.later(*for_ms, Undo::LetIn { provider: HOME });
            }
            Act::ActionTime { ms } => self.cloud.tune(|knobs| knobs.action_ms = *ms),
            Act::Quota { addresses } => self.cloud.tune(|knobs| knobs.reserved_ip_quota = *addresses),
            Act::ListLag { ms } => self.cloud.tune(|knobs| knobs.list_lag_ms = *ms),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_replicas(&mut self, act: &Act) {
        match *act {
            Act::Crash { replica, restart_ms } => {
                let incarnation = self.network.link(replica).map(|link| link.latest().incarnation);
                if let Some(incarnation) = incarnation.filter(|incarnation| *incarnation > 0) {
                    self.network.kill(super::judge::Process { replica, incarnation }, restart_ms);
                }
            }
            Act::Stop { replica, restart_ms } => {
                if let Some(stops) = self.stops.get(replica) {
                    // A replica that is not running has nothing to stop.
                    let _unheard = stops.send(restart_ms);
                }
            }
            Act::Pause { replica, for_ms } => {
                self.network.relink(replica, |link| link.paused = true);
                self.later(for_ms, Undo::Wake { replica });
            }
            Act::Cut { replica, side, for_ms } => {
                self.network.relink(replica, |link| match side {
                    Side::Kube => link.kube_cut = true,
                    Side::Cloud => link.cloud_cut = true,
                });
                self.later(for_ms, Undo::Mend { replica, side });
            }
            Act::Lag { replica, for_ms, lists } => {
                let now = self.api.revision();
                if let Some(front) = self.fronts.get(replica) {
                    front.set_view(View::CacheAt(now));
                }
                self.network.show_past(replica, lists.then_some(now));
                self.later(for_ms, Undo::CatchUp { replica });
            }
            Act::CutWatches { replica } => {
                if let Some(front) = self.fronts.get(replica) {
                    front.cut_watches();
                }
            }
            Act::Compact => self.api.compact(),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_names(&mut self, act: &Act) {
        match act {
            Act::EditRecord { provider, name, data } => {
                let zone = zone_of(*provider);
                let fqdn = format!("{name}.{zone}");
                let records = self.cloud.records(*provider, zone).into_iter();
                let mut ours = records.filter(|record| record.rtype == "A" && record.fqdn == fqdn);
                // The last record stays, so that every emptied name is the operator's doing.
                let Some(record) = ours.next() else { return };
                if data.is_none() && ours.next().is_none() {
                    return;
                }
                self.cloud.delete_record(*provider, zone, &record.id);
                if let Some(data) = data {
                    let edited = RecordView { data: data.to_string(), ..record };
                    self.cloud.add_record(*provider, zone, &edited);
                }
                let now_ms = self.network.now_ms();
                self.network.judge(|judge| judge.others_wrote(now_ms, Some((*provider, fqdn))));
            }
            Act::PlaceRecord { provider, name, rtype, data, for_ms } => {
                let zone = zone_of(*provider);
                let record = RecordView::new(&format!("{name}.{zone}"), rtype, data, 300);
                let Some(id) = self.cloud.add_record(*provider, zone, &record) else { return };
                let placed = self.cloud.records(*provider, zone).into_iter().find(|record| record.id == id);
                self.foreign.entry(*provider).or_default().extend(placed);
                let now_ms = self.network.now_ms();
                self.network.judge(|judge| judge.others_wrote(now_ms, None));
                self.later(*for_ms, Undo::Lift { provider: *provider, id });
            }
            _ => {}
        }
    }
}

/// The pool's spec without the address that it created last, and with one fewer desired.
fn released(pool: &Value) -> Option<Value> {
    let last = created_last(pool)?;
    let ips: Vec<Value> = array(pool, "ips").into_iter().filter(|ip| *ip != last).collect();
    let mut released = array(pool, "releasedIPs");
    released.push(last);
    let desired = pool.pointer("/spec/desiredIPs").and_then(Value::as_u64).unwrap_or_default().max(2) - 1;
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

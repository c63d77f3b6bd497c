//! Acts of people on firewalls in the account: on their own, and on those of pools.

use super::bed::Bed;
use super::judge::Judge;
use super::plan::Act;
use super::scene::{API_VERSION, TAG, USER_NAMESPACE, firewall_prefix};
use flipop_apiserver::Key;
use flipop_cloud::FirewallView;

impl Bed {
    /// Applies an act, and tells the judge that it was somebody else's.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    pub(super) fn act_on_firewalls(&self, act: &Act) {
        match act {
            Act::AddFirewall { name, nodes, tagged } => {
                let droplets: Vec<u64> = nodes.iter().filter_map(|node| self.droplet(node)).collect();
                let tags: &[&str] = if *tagged { &[TAG] } else { &[] };
                self.cloud.add_firewall(name, &droplets, tags);
            }
            Act::DropFirewall { name } => {
                self.cloud.firewalls().iter().filter(|found| found.name == *name).for_each(|found| {
                    self.cloud.delete_firewall(&found.id);
                });
            }
            Act::SetTag { node, on } => {
                if let Some(droplet) = self.droplets.get(node) {
                    self.cloud.tag(*droplet, if *on { &[TAG] } else { &[] });
                }
            }
            Act::EditFirewalls { pool, port, open } => {
                for found in self.firewalls_of(pool) {
                    if *open {
                        self.cloud.open_port(&found.id, "tcp", port, "0.0.0.0/0");
                    } else {
                        self.cloud.close_port(&found.id, "tcp", port);
                    }
                }
            }
            Act::DropFirewallsOf { pool } => self.firewalls_of(pool).iter().for_each(|found| {
                self.cloud.delete_firewall(&found.id);
            }),
            Act::FirewallTime { ms } => self.cloud.tune(|knobs| knobs.firewall_ms = *ms),
            _ => {}
        }
        self.network.judge_now(Judge::firewalls_by_hand);
    }

    fn firewalls_of(&self, pool: &str) -> Vec<FirewallView> {
        let object = self.api.object(API_VERSION, "FloatingIPPool", &Key::new(USER_NAMESPACE, pool));
        let uid = object.as_ref().and_then(|object| object.pointer("/metadata/uid")?.as_str());
        let Some(prefix) = uid.map(firewall_prefix) else { return Vec::new() };
        self.cloud.firewalls().into_iter().filter(|found| found.name.starts_with(&prefix)).collect()
    }
}

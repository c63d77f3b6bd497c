//! The small world's part in giving addresses back, and the rules for every deletion.

use crate::faults::fault;
use crate::world::{Trick, World};
use flipop_core::addresses::pool::memory::{Intent, Name, Purchased};
use flipop_core::fleet::Input;
use flipop_core::fleet::action::{Objects, Outcome};
use flipop_core::model::{
    Address, CallFailure, FaultKind, Moment, ObjectKind, ObjectRef, Observed, Owner, WriteFailure,
};
use std::collections::BTreeSet;

impl World {
    /// The entry of a bought address in the status of its pool.
    pub(crate) fn bought(&self, pool: &str, ip: Address) -> Option<&Purchased> {
        self.status(pool).memory.as_ref()?.purchase_of(ip)
    }

    /// Whether a pool asks for an address to be given back.
    pub(crate) fn is_given_back(&self, pool: &ObjectRef, ip: Address) -> bool {
        let Some(pool) = self.pools.get(&pool.name.name) else { return false };
        let spec = pool.spec.as_ref().unwrap();
        let released = pool.deleting || spec.released_ips.contains(&ip.to_string());
        spec.reclaim_policy == "Delete" && released && self.bought(&pool.object.name.name, ip).is_some()
    }

    fn holds(&self, name: &Name, ip: Address) -> bool {
        let zone = (name.account_id.provider.clone(), name.zone.clone());
        let records = self.dns.records.get(&zone).into_iter().flatten();
        records.filter(|(fqdn, _)| *fqdn == name.fqdn).any(|(_, record)| record.address() == Some(ip))
    }

    /// Checks the rules for every deletion, whatever happened before.
    pub(crate) fn delete_checked(&mut self, pool: &ObjectRef, ip: Address) -> (u64, Result<(), CallFailure>) {
        self.check_pause(pool);
        let name = &pool.name.name;
        assert!(self.is_given_back(pool, ip), "{ip} is deleted, and nobody asks for that");
        let bought = self.bought(name, ip).cloned().unwrap();
        assert!(bought.deleting, "{ip} is not marked");
        assert_eq!(bought.uid, pool.uid, "{ip} was bought for another object");
        assert!(!bought.names.iter().any(|name| self.holds(name, ip)), "a record holds {ip}");
        for other in self.pools.values().filter(|other| other.object.uid != pool.uid && !other.deleting) {
            let named = other.spec.iter().any(|spec| spec.ips.contains(&ip.to_string()));
            assert!(!named, "{ip} is named by {}", other.object.name);
        }
        let read = self.cloud.get(&ip);
        assert!(read.is_none_or(|read| read.machine.is_none() && !read.locked), "{ip} is in use");
        assert!(!self.annotations.values().any(|value| *value == ip.to_string()), "{ip} is in an annotation");
        let intent = self.pools.values().filter_map(|pool| pool.status.memory.as_ref()?.intent.as_ref());
        assert!(!intent.into_iter().any(Intent::is_open), "a purchase is open");
        self.call(format!("delete {ip}"));
        let trick = self.tricks.pop_front().unwrap_or(Trick::Fine);
        let exists = self.cloud.contains_key(&ip);
        if matches!(trick, Trick::Fine | Trick::Slow(_) | Trick::Lost(true)) {
            self.cloud.remove(&ip);
        }
        let result = match trick {
            Trick::Refused(kind) => Err(CallFailure::Fault(fault(kind, false))),
            Trick::Lost(_) => Err(CallFailure::Fault(fault(FaultKind::Transient, true))),
            _ if !exists => Err(CallFailure::Fault(fault(FaultKind::NotFound, false))),
            _ => Ok(()),
        };
        let wait_ms = if let Trick::Slow(seconds) = trick { seconds * 1_000 } else { 50 };
        (wait_ms, result)
    }

    pub(crate) fn write_ips(&mut self, pool: ObjectRef, add: Vec<Address>, remove: BTreeSet<Address>) {
        self.call("name");
        let mut result = Ok(());
        if let Some(failure) = self.faults.ips_writes.clone() {
            result = Err(failure);
        } else {
            let name = pool.name.name.clone();
            let gone: Vec<String> = remove.iter().map(ToString::to_string).collect();
            let seen = self.change_spec(&name, |spec| {
                let new = add.iter().map(ToString::to_string);
                let new: Vec<String> = new.filter(|ip| !spec.ips.contains(ip)).collect();
                spec.ips.extend(new);
                spec.ips.retain(|ip| !gone.contains(ip));
            });
            self.show(seen);
        }
        self.answer(Outcome::IpsWritten { pool: pool.uid, add, remove, result });
    }

    pub(crate) fn write_finalizer(&mut self, pool: &ObjectRef, present: bool) {
        self.call(format!("finalizer {present}"));
        let name = &pool.name.name;
        let mut result = self.faults.finalizers.clone().map_or(Ok(()), Err);
        if self.pools.get(name).is_none_or(|known| known.object.uid != pool.uid) {
            result = Err(WriteFailure::Gone);
        }
        if result.is_ok() {
            self.version += 1;
            let object = self.pools.get_mut(name).unwrap();
            assert!(!(present && object.deleting), "an object that is being deleted gets no finalizer");
            object.guarded = present;
            object.resource_version = self.version.to_string();
            let object = object.clone();
            if object.deleting && !present {
                self.pools.remove(name);
                self.show(Input::Pools(Observed::Delete(object)));
            } else {
                self.show(Input::Pools(Observed::Apply(object)));
            }
        }
        self.answer(Outcome::FinalizerWritten { pool: pool.uid.clone(), present, result });
    }

    /// Lists the objects as they are, whatever the watches show.
    pub(crate) fn list_objects(&mut self, asked: Moment, sought: &BTreeSet<Address>) {
        self.call("list objects");
        let mut pools: Vec<_> = self.pools.values().cloned().collect();
        for pool in &mut pools {
            let hidden = self.hidden.get(&pool.object.name.name).into_iter().flatten();
            let found = hidden.filter(|ip| sought.contains(ip)).map(ToString::to_string);
            if let Ok(spec) = &mut pool.spec {
                spec.ips.extend(found);
            }
        }
        let record_sets = self.record_sets.values().cloned().collect();
        let result = match self.faults.object_lists.clone() {
            Some(failure) => Err(failure),
            None => Ok(Box::new(Objects { pools, record_sets })),
        };
        self.answer(Outcome::ObjectsListed(asked, result));
    }

    /// Checks that a set is emptied only in two cases. Either its spec allows that and no node matches, or all its
    /// addresses are about to be deleted in the account.
    pub(crate) fn check_emptied(&self, owner: &Owner, stood: &[Address]) {
        let given_back = |ip: &Address| self.pools.values().any(|pool| self.is_given_back(&pool.object, *ip));
        if stood.iter().all(given_back) {
            return;
        }
        let name = &owner.object.name.name;
        let when_empty = match owner.kind {
            ObjectKind::Pool => {
                self.pools[name].spec.as_ref().unwrap().record_set.clone().unwrap().when_empty
            }
            ObjectKind::RecordSet => {
                let spec = self.record_sets[name].spec.as_ref().unwrap();
                let when_empty = spec.record_set.clone().unwrap().when_empty;
                if when_empty.is_empty() { "Delete".to_owned() } else { when_empty }
            }
        };
        assert_eq!(when_empty, "Delete", "{name} was emptied");
        assert!(
            self.nodes.values().all(|node| !node.ready.is_ready()),
            "{name} was emptied while nodes match"
        );
    }
}

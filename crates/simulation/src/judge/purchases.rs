//! The purchases that are allowed, and the pools that they serve.

use super::Judge;
use super::truth::Pool;

impl Judge {
    /// A bought address belongs to nobody once its pool is deleted and no other pool mentions it.
    pub(super) fn pool_deleted(&mut self, now_ms: u64, name: &str) {
        let others: Vec<&Pool> =
            self.truth.pools.iter().filter(|(other, _)| *other != name).map(|(_, pool)| pool).collect();
        let nobodys = self.created.iter().filter(|ip| !others.iter().any(|pool| pool.mentions(**ip)));
        self.nobodys.extend(nobodys);
        self.pool_deleted_ms = Some(now_ms);
    }

    /// Notes the most addresses that each pool ever lacked.
    pub(super) fn note_lacks(&mut self) {
        for pool in self.truth.pools.values() {
            let given = pool.spec_ips().iter().filter(|ip| !self.created.contains(*ip)).count();
            let lacks = pool.desired().saturating_sub(given) + pool.let_go();
            let most = self.lacked.entry(pool.uid.clone()).or_default();
            *most = lacks.max(*most);
        }
    }
}

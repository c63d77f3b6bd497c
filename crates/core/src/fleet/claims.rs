//! The addresses that pools name, and which pool owns each. They change with specs, purchases and deletions, and not
//! with a failover, so they are kept from plan to plan.

use crate::addresses::account::Account;
use crate::addresses::pool::Pool;
use crate::model::{AccountId, Address, ObjectKind, ObjectRef, Seniority, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The addresses that one pool names.
#[derive(Debug, PartialEq, Eq)]
struct Claim {
    object: ObjectRef,
    created_at_s: i64,
    account_id: AccountId,
    deleting: bool,
    effective: Vec<Address>,
    /// The first ones of them are used.
    used: usize,
    created: Vec<Address>,
    /// Those that are no longer effective, or were not at the last plan.
    earlier: BTreeSet<Address>,
    former: BTreeSet<Address>,
    bought: Vec<(AccountId, Address)>,
}

impl Claim {
    fn of(pool: &Pool) -> Self {
        let effective = pool.effective();
        let earlier = pool.effective_before().iter().filter(|ip| !effective.contains(ip)).copied();
        Self {
            object: pool.object.clone(),
            created_at_s: pool.created_at_s,
            account_id: pool.spec.account_id.clone(),
            deleting: pool.deleting,
            used: pool.spec.desired.map_or(effective.len(), |desired| desired.min(effective.len())),
            created: pool.created().collect(),
            earlier: earlier.collect(),
            former: pool.former(),
            bought: pool.purchased().map(|bought| (bought.account_id.clone(), bought.ip)).collect(),
            effective,
        }
    }

    fn seniority(&self) -> Seniority<'_> {
        Seniority::of(self.created_at_s, ObjectKind::Pool, &self.object)
    }
}

/// The addresses that matter for one account.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Those that any pool names.
    pub(super) named: Arc<BTreeSet<Address>>,
    /// Those of the account's pools.
    pub(super) watched: BTreeSet<Address>,
    /// Those that are forgotten once they are gone.
    pub(super) remembered: BTreeSet<Address>,
}

/// The addresses that pools name.
#[derive(Debug, Default)]
pub(super) struct Claims {
    by_pool: BTreeMap<Uid, Claim>,
    /// Counts changes.
    pub(super) version: u64,
    owners: Option<Arc<BTreeMap<Address, ObjectRef>>>,
    names: BTreeMap<AccountId, Arc<Names>>,
    /// The version that each account was told.
    told: BTreeMap<AccountId, u64>,
}

impl Claims {
    /// Looks again at these pools, among them all new ones. Returns whether anything has changed.
    pub(super) fn review(&mut self, pools: &BTreeMap<Uid, Box<Pool>>, uids: &BTreeSet<Uid>) -> bool {
        let mut changed = false;
        for (uid, pool) in uids.iter().filter_map(|uid| Some((uid, pools.get(uid)?))) {
            let claim = Claim::of(pool);
            if self.by_pool.get(uid) != Some(&claim) {
                self.by_pool.insert(uid.clone(), claim);
                changed = true;
            }
        }
        if self.by_pool.len() > pools.len() {
            self.by_pool.retain(|uid, _| pools.contains_key(uid));
            changed = true;
        }
        if changed {
            self.forget();
        }
        changed
    }

    /// Forgets everything that follows from the claims.
    pub(super) fn forget(&mut self) {
        self.version = self.version.wrapping_add(1);
        self.owners = None;
        self.names.clear();
    }

    fn by_age(&self) -> Vec<&Claim> {
        let mut claims: Vec<&Claim> = self.by_pool.values().filter(|claim| !claim.deleting).collect();
        claims.sort_by_key(|claim| claim.seniority());
        claims
    }

    /// Each address belongs to the oldest pool that names it, valid or not.
    pub(super) fn owners(&mut self) -> Arc<BTreeMap<Address, ObjectRef>> {
        if let Some(owners) = &self.owners {
            return Arc::clone(owners);
        }
        let mut owners = BTreeMap::new();
        for claim in self.by_age() {
            for ip in &claim.effective {
                owners.entry(*ip).or_insert_with(|| claim.object.clone());
            }
        }
        Arc::clone(self.owners.insert(Arc::new(owners)))
    }

    /// The pools of an account that are not being deleted.
    fn members<'a>(&'a self, account_id: &'a AccountId) -> impl Iterator<Item = &'a Claim> {
        self.by_pool.values().filter(move |claim| !claim.deleting && claim.account_id == *account_id)
    }

    /// Whether any address that counts for a pool of the account is so.
    pub(super) fn any_effective(&self, account_id: &AccountId, is_so: impl Fn(Address) -> bool) -> bool {
        self.members(account_id).any(|claim| claim.effective.iter().any(|ip| is_so(*ip)))
    }

    /// The used addresses of an account's pools, the oldest pool first.
    pub(super) fn used(&self, account_id: &AccountId) -> impl Iterator<Item = (&ObjectRef, Address)> {
        let members = self.by_age().into_iter().filter(|claim| claim.account_id == *account_id);
        members.flat_map(|claim| claim.effective.iter().take(claim.used).map(|ip| (&claim.object, *ip)))
    }

    /// The pool of an account that uses an address, if it owns the address. `owners` are those of the present names.
    pub(super) fn user<'a>(
        &self,
        account_id: &AccountId,
        owners: &'a BTreeMap<Address, ObjectRef>,
        ip: Address,
    ) -> Option<&'a ObjectRef> {
        let owner = owners.get(&ip)?;
        let claim = self.by_pool.get(&owner.uid).filter(|claim| claim.account_id == *account_id)?;
        claim.effective.iter().take(claim.used).any(|used| *used == ip).then_some(owner)
    }

    /// The owners by the last plan, unless names have changed since.
    pub(super) fn known_owners(&self) -> Option<&BTreeMap<Address, ObjectRef>> {
        self.owners.as_deref()
    }

    /// Whether an account that is known has been told these names, and keeps beliefs about no other addresses.
    pub(super) fn was_told(&self, account: &Account, names: &Names) -> bool {
        let told = self.told.get(&account.epoch().account_id) == Some(&self.version);
        told && account.is_known() && account.believes_in(names.watched.len())
    }

    /// Notes that an account was told the present names.
    pub(super) fn tell(&mut self, account: &Account) {
        self.told.insert(account.epoch().account_id.clone(), self.version);
    }

    /// The addresses that matter for an account.
    pub(super) fn names(&mut self, account_id: &AccountId) -> Arc<Names> {
        if let Some(names) = self.names.get(account_id) {
            return Arc::clone(names);
        }
        let bought = self.by_pool.values().flat_map(|claim| &claim.bought);
        let bought: BTreeSet<Address> =
            bought.filter(|(at, _)| at == account_id).map(|(_, ip)| *ip).collect();
        let of_all = self.by_pool.values().filter(|claim| !claim.deleting).flat_map(|claim| &claim.effective);
        let named = Arc::new(of_all.chain(&bought).copied().collect());
        let watched = |claim: &Claim| {
            [&claim.former, &claim.earlier].into_iter().flatten().copied().collect::<Vec<_>>()
        };
        let watched = self.members(account_id).flat_map(watched).chain(bought.iter().copied());
        let effective = self.members(account_id).flat_map(|claim| claim.effective.iter().copied());
        let watched = watched.chain(effective).collect();
        let remembered = self.members(account_id).flat_map(|claim| claim.created.iter().chain(&claim.former));
        let remembered = remembered.chain(&bought).copied().collect();
        let of_account = Arc::new(Names { named, watched, remembered });
        self.names.insert(account_id.clone(), Arc::clone(&of_account));
        of_account
    }
}

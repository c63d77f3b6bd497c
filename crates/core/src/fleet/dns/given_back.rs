//! Records of addresses that are about to be deleted: their names, and the removal at names that no object asks for
//! any more.
//!
//! Invariant: at a name without an owner, only these addresses are removed.

use super::{Accounts, Dns, Drive, Next};
use crate::addresses::pool::memory::{Name, Purchased};
use crate::addresses::pool::reclaim::Records;
use crate::mechanism::Effects;
use crate::model::provider::ZoneForm;
use crate::model::{Address, Moment, Owner};
use crate::records::action::Action;
use crate::records::diff::{Target, TtlRule, Wanted};
use crate::records::dns::Zone;
use crate::records::name::Zones;
use crate::records::set::Set;
use crate::records::site::{Site, SiteKey};
use crate::records::status::described;
use std::collections::{BTreeMap, BTreeSet};

/// Clients may remember a record for this long if the provider chooses its TTL.
const AUTOMATIC_MS: u64 = 300_000;

/// Clients may remember a record for this long if its TTL was not seen.
const UNSEEN_MS: u64 = 3_600_000;

/// Addresses that have to leave a name.
#[derive(Debug)]
pub(in crate::fleet) struct Leaving {
    /// The object that gives them back.
    pub(in crate::fleet) owner: Owner,
    /// The addresses.
    pub(in crate::fleet) ips: BTreeSet<Address>,
    /// Reads of the name count only from this moment on.
    pub(in crate::fleet) since: Option<Moment>,
}

/// The site of a name.
pub(in crate::fleet) fn site_of(name: &Name) -> SiteKey {
    SiteKey { account_id: name.account_id.clone(), zone: name.zone.clone(), fqdn: name.fqdn.clone() }
}

impl Dns {
    /// The names at which records hold these addresses, as far as known. Notes for how long clients may remember them.
    /// `all` says that no others were bought.
    pub(in crate::fleet) fn names_of(
        &mut self,
        ips: &BTreeSet<Address>,
        all: bool,
    ) -> BTreeMap<Address, BTreeSet<Name>> {
        let mut held: BTreeMap<Address, BTreeSet<Name>> = BTreeMap::new();
        self.remembered_ms.retain(|(ip, _), _| !all || ips.contains(ip));
        if ips.is_empty() {
            return held;
        }
        for (key, site) in &self.sites {
            let rules = self.accounts.get(&key.account_id).map(crate::records::account::DnsAccount::rules);
            let automatic = rules.and_then(|rules| rules.ttl_automatic);
            for (ip, ttl) in site.ttls().filter(|(ip, _)| ips.contains(ip)) {
                let ttl = ttl.filter(|ttl| Some(*ttl) != automatic);
                let ms = ttl.map_or(AUTOMATIC_MS, |ttl| u64::from(ttl) * 1_000);
                let longest = self.remembered_ms.entry((ip, key.clone())).or_default();
                *longest = ms.max(*longest);
                let SiteKey { account_id, zone, fqdn } = key.clone();
                held.entry(ip).or_default().insert(Name { account_id, zone, fqdn });
            }
        }
        held
    }

    /// The addresses that records hold at a name.
    pub(in crate::fleet) fn held_at(&self, key: &SiteKey) -> impl Iterator<Item = Address> {
        self.sites.get(key).into_iter().flat_map(Site::ttls).map(|(ip, _)| ip)
    }

    /// Asks for reads of the names that an address waits for.
    pub(super) fn read_anew(&mut self, leaving: &BTreeMap<SiteKey, Leaving>) {
        for (key, Leaving { since, .. }) in leaving {
            if let (Some(site), Some(since)) = (self.sites.get_mut(key), since) {
                site.want_read(*since);
            }
        }
    }

    /// Takes addresses out of names that no object asks for.
    pub(super) fn clear_unowned(
        &mut self,
        leaving: &BTreeMap<SiteKey, Leaving>,
        owners: &BTreeMap<SiteKey, Owner>,
        (accounts, permit, now): (&mut Accounts, bool, Moment),
        out: &mut Effects<Action>,
    ) {
        for (key, Leaving { owner, ips, .. }) in leaving.iter().filter(|(key, _)| !owners.contains_key(*key))
        {
            let Some(account) = self.accounts.get_mut(&key.account_id) else { continue };
            let named = account.rules().zone_form == ZoneForm::Name;
            let name = Some(key.zone.clone()).filter(|_| named);
            let zone = Zone { id: key.zone.clone(), name, shown: None, ttl_floor: 0 };
            if barred(&self.zones, key, named).is_some() {
                continue;
            }
            let target = Target::Without(ips.clone());
            let wanted = Wanted { target, undecided: BTreeSet::new(), ttl: TtlRule::default() };
            let site = self.sites.entry(key.clone()).or_default();
            let mut set = Set::default();
            let mut scene = Drive { site, set: &mut set, account, accounts, permit, now, out };
            match scene.drive(owner, key, &zone, &wanted) {
                Some(Next::Reread) => scene.read(owner, key, &zone),
                Some(Next::Rest(at)) => scene.out.later(at),
                None => {}
            }
        }
    }

    /// The records that hold an address, at all names that ever held it.
    pub(in crate::fleet) fn records_of(&self, bought: &Purchased) -> Records {
        let mut all = Records::None { ttl_ms: 0, read: None };
        for name in &bought.names {
            match (self.record_at(bought.ip, name), &mut all) {
                (Records::None { ttl_ms, read }, Records::None { ttl_ms: longest, read: oldest }) => {
                    *longest = ttl_ms.max(*longest);
                    *oldest = oldest.map_or(read, |oldest| read.map(|read| read.min(oldest)));
                }
                (Records::None { .. }, _) => {}
                (claimed @ Records::Claimed(_), _) => return claimed,
                (other, all) => *all = other,
            }
        }
        all
    }

    fn record_at(&self, ip: Address, name: &Name) -> Records {
        let key = site_of(name);
        if !self.accounts.contains_key(&key.account_id) {
            return Records::Unread(Some(format!("{}: there is no token for {}", key.fqdn, key.account_id)));
        }
        let named =
            self.accounts.get(&key.account_id).is_some_and(|of| of.rules().zone_form == ZoneForm::Name);
        if let Some(why) = barred(&self.zones, &key, named) {
            return Records::Unread(Some(format!("{}: {why}", key.fqdn)));
        }
        let Some(site) = self.sites.get(&key) else { return Records::Unread(None) };
        let owner = self.owners.get(&key);
        let holds = site.addresses().is_some_and(|addresses| addresses.contains(&ip));
        if holds && site.is_known() {
            let keeps = |owner: &&Owner| {
                let set = self.sets.get(&owner.object.uid);
                !site.is_busy() && set.is_none_or(|set| set.keeps(ip))
            };
            let claimed = owner.filter(keeps).map(|owner| {
                let who = described(owner.kind, &owner.object.name);
                format!("{} holds it, because {who} publishes it there", key.fqdn)
            });
            return claimed.map_or(Records::Held, Records::Claimed);
        }
        if holds || !site.is_known() || site.is_changing() {
            let failed = site.failure().map(|(_, _, message)| format!("{}: {message}", key.fqdn));
            return Records::Unread(failed);
        }
        let seen = self.remembered_ms.get(&(ip, key)).copied();
        // The result of a write starts the wait for clients, but the address is deleted only after a read.
        let read = site.read_at().filter(|_| site.is_confirmed()).unwrap_or_default();
        Records::None { ttl_ms: seen.unwrap_or_else(|| unseen_ms(site)), read: Some(read) }
    }
}

/// Why nothing may be written at a name, if nothing may. The name of a zone with an id may be unknown, and then the
/// name of the records stands for it.
fn barred(zones: &Zones, key: &SiteKey, named: bool) -> Option<String> {
    let name = if named { &key.zone } else { &key.fqdn };
    zones.refusal(&Zone { id: key.zone.clone(), name: Some(name.clone()), shown: None, ttl_floor: 0 })
}

/// The time for which clients may remember a record that was gone at this process's first look. It is that of the
/// other records there, if there are any.
fn unseen_ms(site: &Site) -> u64 {
    let others = site.ttls().map(|(_, ttl)| ttl.map_or(AUTOMATIC_MS, |ttl| u64::from(ttl) * 1_000));
    others.max().unwrap_or(UNSEEN_MS)
}

//! The accounts of a rehearsal: the places of addresses, the records, and the changes of the rehearsal.
//!
//! Owns the copies. They begin with the statuses of objects, or with one read of the providers.

use crate::provider::{CallContext, Providers, descriptors};
use flipop_core::model::{
    AccountId, Address, CallFailure, Fault, FaultKind, MachineId, ReservedIp, ReservedIpList,
};
use flipop_core::records::dns::{ADDRESS_KIND, Change, Record, Zone};
use flipop_core::records::name::ZoneRef;
use std::collections::BTreeMap;

/// The rehearsal takes bought addresses from this block, which no provider assigns.
const BOUGHT: [u8; 3] = [240, 0, 0];

/// The key of records: provider and name.
pub(super) type NameKey = (String, String);

/// The accounts. By default, they know only the facts from the `assume_` functions.
#[derive(Default)]
pub(super) struct Account {
    providers: Providers,
    /// The addresses of each account. An account that is read is absent until then.
    addresses: BTreeMap<AccountId, Result<ReservedIpList, Fault>>,
    /// Records of names.
    records: BTreeMap<NameKey, Result<Vec<Record>, Fault>>,
    zones: BTreeMap<NameKey, Result<Zone, Fault>>,
    /// The addresses before the rehearsal.
    pub(super) first_addresses: BTreeMap<Address, ReservedIp>,
    /// The records before the rehearsal.
    pub(super) first_records: BTreeMap<NameKey, Vec<Record>>,
    serial: u32,
    bought: u8,
}

impl Account {
    /// Accounts that are read where one of these clients can read them. All others are assumed.
    pub(super) fn read(providers: Providers, notes: &mut Vec<String>) -> Self {
        let names: Vec<&str> = providers.accounts().map(|(id, _)| id.provider.as_str()).collect();
        for descriptor in descriptors() {
            if !names.contains(&descriptor.name) {
                notes.push(format!(
                    "{} is not read, because there is no token in {}: its addresses and records are taken from the \
                     status of the objects",
                    descriptor.name, descriptor.token_variable
                ));
            }
        }
        Self { providers, ..Self::default() }
    }

    /// States where an address is, unless the account is read.
    pub(super) fn assume_address(&mut self, id: &AccountId, read: ReservedIp) {
        if self.providers.ips.contains_key(id) {
            return;
        }
        let list = self.addresses.entry(id.clone()).or_insert_with(|| Ok(ReservedIpList::default()));
        if let Ok(list) = list {
            self.first_addresses.entry(read.ip).or_insert_with(|| read.clone());
            list.ips.entry(read.ip).or_insert(read);
        }
    }

    /// States which addresses a name holds, unless the provider is read.
    pub(super) fn assume_records(&mut self, id: &AccountId, fqdn: &str, addresses: &[Address], ttl: u32) {
        if self.providers.dns.contains_key(id) {
            return;
        }
        let key = (id.provider.clone(), fqdn.to_owned());
        let records: Vec<Record> = addresses.iter().map(|ip| self.record(*ip, ttl)).collect();
        self.first_records.insert(key.clone(), records.clone());
        self.records.insert(key, Ok(records));
    }

    /// States the name of a zone that a spec names by its id, unless the provider is read.
    pub(super) fn assume_zone(&mut self, id: &AccountId, zone: &ZoneRef, name: &str) {
        let zone_name =
            Zone { id: zone.text().to_owned(), name: Some(name.to_owned()), shown: None, ttl_floor: 0 };
        self.zones.entry((id.provider.clone(), zone.text().to_owned())).or_insert(Ok(zone_name));
    }

    fn record(&mut self, ip: Address, ttl: u32) -> Record {
        self.serial = self.serial.saturating_add(1);
        Record {
            id: format!("plan-{}", self.serial),
            kind: ADDRESS_KIND.to_owned(),
            data: ip.to_string(),
            ttl,
            proxied: false,
        }
    }

    /// Every address.
    pub(super) async fn list(&mut self, id: &AccountId) -> Result<ReservedIpList, CallFailure> {
        if !self.addresses.contains_key(id) {
            let read = match self.providers.ips.get(id) {
                Some(client) => client.list_reserved_ips(&CallContext::account_wide()).await,
                None => Ok(ReservedIpList::default()),
            };
            if let Ok(list) = &read {
                self.first_addresses.extend(list.ips.clone());
            }
            self.addresses.insert(id.clone(), read);
        }
        let read = self.addresses.get(id).cloned().unwrap_or_else(|| Ok(ReservedIpList::default()));
        read.map_err(CallFailure::Fault)
    }

    /// One address.
    pub(super) async fn get(&mut self, id: &AccountId, ip: Address) -> Result<ReservedIp, CallFailure> {
        self.list(id).await?.ips.get(&ip).cloned().ok_or_else(|| missing(&ip.to_string()))
    }

    /// Whether the token may read machines.
    pub(super) async fn may_read_machines(&self, id: &AccountId) -> Result<bool, CallFailure> {
        let Some(client) = self.providers.ips.get(id) else { return Ok(true) };
        client.prove_machine_read(&CallContext::account_wide()).await.map_err(CallFailure::Fault)
    }

    /// Puts an address on a machine, or takes it off.
    pub(super) fn place(
        &mut self,
        id: &AccountId,
        ip: Address,
        machine: Option<MachineId>,
    ) -> Result<(), CallFailure> {
        let list = self.addresses.get_mut(id).and_then(|read| read.as_mut().ok());
        let known = list.and_then(|list| list.ips.get_mut(&ip)).ok_or_else(|| missing(&ip.to_string()))?;
        known.machine = machine;
        Ok(())
    }

    /// Buys an address.
    pub(super) fn buy(&mut self, id: &AccountId, region: &str) -> Result<Address, CallFailure> {
        let list = self.addresses.entry(id.clone()).or_insert_with(|| Ok(ReservedIpList::default()));
        let Ok(list) = list else { return Err(missing("the account")) };
        self.bought = self.bought.checked_add(1).ok_or_else(|| missing("more than 255 new addresses"))?;
        let [a, b, c] = BOUGHT;
        let ip = Address::from([a, b, c, self.bought]);
        list.ips.insert(ip, ReservedIp { ip, region: region.to_owned(), machine: None, locked: false });
        Ok(ip)
    }

    /// Deletes an address.
    pub(super) fn delete(&mut self, id: &AccountId, ip: Address) -> Result<(), CallFailure> {
        let Some(Ok(list)) = self.addresses.get_mut(id) else { return Err(missing("the account")) };
        list.ips.remove(&ip).map(|_| ()).ok_or_else(|| missing(&format!("the address {ip}")))
    }

    /// The zone that a spec names.
    pub(super) async fn find_zone(&mut self, id: &AccountId, zone: &ZoneRef) -> Result<Zone, CallFailure> {
        let key = (id.provider.clone(), zone.text().to_owned());
        if let Some(client) = self.providers.dns.get(id)
            && !self.zones.contains_key(&key)
        {
            let found = client.find_zone(&CallContext::account_wide(), zone.text()).await;
            self.zones.insert(key.clone(), found);
        }
        if let Some(found) = self.zones.get(&key) {
            return found.clone().map_err(CallFailure::Fault);
        }
        let name = match zone {
            ZoneRef::Name(name) => Some(name.clone()),
            ZoneRef::Id(_) => None,
        };
        Ok(Zone { id: zone.text().to_owned(), name, shown: None, ttl_floor: 0 })
    }

    /// Every record at a name.
    pub(super) async fn records(
        &mut self,
        id: &AccountId,
        zone: &Zone,
        fqdn: &str,
    ) -> Result<Vec<Record>, CallFailure> {
        let key = (id.provider.clone(), fqdn.to_owned());
        if !self.records.contains_key(&key) {
            let read = match self.providers.dns.get(id) {
                Some(client) => client.read_records(&CallContext::account_wide(), zone, fqdn).await,
                None => Ok(Vec::new()),
            };
            self.first_records.insert(key.clone(), read.clone().unwrap_or_default());
            self.records.insert(key.clone(), read);
        }
        self.records.get(&key).cloned().unwrap_or_else(|| Ok(Vec::new())).map_err(CallFailure::Fault)
    }

    /// Makes changes of the records at a name. Returns the records after updates and creations.
    pub(super) fn change(&mut self, id: &AccountId, fqdn: &str, changes: &[Change]) -> Vec<Record> {
        let key = (id.provider.clone(), fqdn.to_owned());
        let mut records = self.records.remove(&key).and_then(Result::ok).unwrap_or_default();
        let mut left = Vec::new();
        for change in changes {
            match change {
                Change::Create { ip, ttl } => {
                    let record = self.record(*ip, *ttl);
                    left.push(record.clone());
                    records.push(record);
                }
                Change::Update { id, ip, ttl } => {
                    if let Some(record) = records.iter_mut().find(|record| record.id == *id) {
                        (record.data, record.ttl) = (ip.to_string(), *ttl);
                        left.push(record.clone());
                    }
                }
                Change::Delete { id } => records.retain(|record| record.id != *id),
            }
        }
        self.records.insert(key, Ok(records));
        left
    }

    /// The present addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &ReservedIp> {
        self.addresses.values().flatten().flat_map(|list| list.ips.values())
    }

    /// The present records at a name.
    pub(super) fn records_now(&self, key: &NameKey) -> &[Record] {
        self.records.get(key).and_then(|read| read.as_ref().ok()).map_or(&[], Vec::as_slice)
    }

    /// Whether the rehearsal bought this address.
    pub(super) fn is_bought(ip: Address) -> bool {
        let [a, b, c] = BOUGHT;
        ip.as_v4().is_some_and(|ip| ip.octets().starts_with(&[a, b, c]))
    }

    /// The failed reads.
    pub(super) fn faults(&self) -> Vec<String> {
        let addresses =
            self.addresses.iter().filter_map(|(id, read)| Some((id.to_string(), read.as_ref().err()?)));
        let zones = self.zones.iter().filter_map(|((provider, zone), read)| {
            Some((format!("zone {zone} at {provider}"), read.as_ref().err()?))
        });
        let records = self.records.iter().filter_map(|((provider, fqdn), read)| {
            Some((format!("{fqdn} at {provider}"), read.as_ref().err()?))
        });
        addresses.chain(zones).chain(records).map(|(what, fault)| format!("{what}: {fault}")).collect()
    }
}

fn missing(what: &str) -> CallFailure {
    CallFailure::Fault(Fault::new(FaultKind::NotFound, format!("{what} is not in the account")))
}

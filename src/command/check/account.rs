//! Tokens, scopes, zones, quotas and marks of external-dns, as far as reads can prove them.

use super::Finding;
use crate::command::copy::{self, Objects};
use crate::command::session::Session;
use crate::command::{CommandError, session};
use crate::config::ProviderVariables;
use crate::provider::dns::DnsProvider;
use crate::provider::{CallContext, PROVIDERS, Provider, Providers, WriteScopes};
use flipop_core::addresses::pool::spec::{PoolSpec, ReclaimPolicy};
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::firewalls::spec::FirewallSpec;
use flipop_core::model::provider::Descriptor;
use flipop_core::model::{AccountId, Address, Fault, FaultKind, ObjectName};
use flipop_core::records::diff::is_marked_by_external_dns;
use flipop_core::records::dns::{Record, Zone};
use flipop_core::records::mark::name_of_mark;
use flipop_core::records::name::{ZoneRef, qualify};
use flipop_core::records::spec::SetSpec;
use std::collections::{BTreeMap, BTreeSet};

/// The objects' demands on the providers.
#[derive(Default)]
struct Demands {
    /// The accounts of pools.
    ips: BTreeMap<AccountId, OfPools>,
    /// Record sets ask for checks of nodes.
    checks: bool,
    /// Zones, with the names in each.
    zones: BTreeMap<(AccountId, ZoneRef), BTreeSet<String>>,
}

/// The demands of the pools of one account.
#[derive(Default)]
struct OfPools {
    /// The addresses that pools list, each with one of them.
    listed: BTreeMap<Address, ObjectName>,
    /// The number of addresses still to be created.
    lacking: usize,
    creates: bool,
    deletes: bool,
    has_firewalls: bool,
    /// The scope that reading machines needs.
    machine_scope: &'static str,
}

impl Demands {
    fn of(objects: &Objects) -> Self {
        let providers = copy::every_provider(false);
        let (pools, sets) = objects.plain();
        let mut demands = Self::default();
        for (pool, spec) in pools.iter().filter_map(|pool| Some((pool, copy::pool_spec(pool, &providers)?))) {
            if !spec.account_id.is_unknown() {
                let of_pools = demands.ips.entry(spec.account_id.clone()).or_default();
                of_pools.listed.extend(spec.ips.iter().map(|ip| (*ip, pool.object.name.clone())));
                of_pools.lacking = of_pools.lacking.saturating_add(to_create(pool, &spec));
                of_pools.machine_scope = spec.machines.map_or("", |machines| machines.read_scope);
                of_pools.creates |= spec.may_create();
                of_pools.deletes |= spec.reclaim == ReclaimPolicy::Delete;
                of_pools.has_firewalls |=
                    spec.firewall != FirewallSpec::None || !pool.status.firewalls.is_empty();
            }
            demands.zone(spec.record_set.as_ref());
        }
        for spec in sets.iter().filter_map(|set| copy::set_spec(set, &providers)) {
            demands.zone(Some(&spec.set));
            demands.checks |= spec.check.is_some();
        }
        demands
    }

    fn zone(&mut self, set: Option<&SetSpec>) {
        if let Some(place) = set.and_then(|set| set.place.as_ref()) {
            let key = (place.account_id.clone(), place.zone.clone());
            self.zones.entry(key).or_default().insert(place.record_name.clone());
        }
    }

    /// The scopes that a token needs to write.
    fn write_scopes(&self, id: &AccountId, provider: &Provider) -> Vec<&'static str> {
        let WriteScopes { assign, create, delete, firewalls, records } = provider.write_scopes;
        let pools = self.ips.get(id);
        let needed = [
            (pools.is_some(), assign),
            (pools.is_some_and(|pools| pools.creates), create),
            (pools.is_some_and(|pools| pools.deletes), delete),
            (pools.is_some_and(|pools| pools.has_firewalls), firewalls),
            (self.zones.keys().any(|(of, _)| of == id), records),
        ];
        needed.into_iter().filter(|(needed, _)| *needed).map(|(_, scope)| scope).collect()
    }
}

/// One line for each scope and zone.
pub(super) async fn check(
    session: &Session,
    variables: &ProviderVariables,
    objects: &Objects,
) -> Result<Vec<Finding>, CommandError> {
    let providers = session::clients(variables, &session.proxies, &session.clock)?;
    let demands = Demands::of(objects);
    let mut findings = Vec::new();
    for provider in &PROVIDERS {
        let id = AccountId::from(provider.descriptor.name);
        let scopes = demands.write_scopes(&id, provider);
        if scopes.is_empty() {
            continue;
        }
        findings.push(Finding::doubtful(
            format!("the write scopes of {id} are unknown, because only a write proves them"),
            format!("make sure that its token has {}", scopes.join(", ")),
        ));
        if !providers.accounts().any(|(known, _)| *known == id) {
            findings.push(Finding::doubtful(
                format!("the token of {id} is not checked"),
                format!("set {} here, or use --env-file", provider.descriptor.token_variable),
            ));
        }
    }
    for (id, of_pools) in &demands.ips {
        findings.extend(addresses(&providers, id, of_pools).await);
        if of_pools.has_firewalls {
            findings.extend(firewalls(&providers, id).await);
        }
    }
    for provider in PROVIDERS.iter().filter(|of| of.descriptor.tells_power && demands.checks) {
        let id = AccountId::from(provider.descriptor.name);
        if !demands.ips.contains_key(&id) {
            findings.extend(machines(&providers, &id, &provider.descriptor).await);
        }
    }
    for ((id, zone), names) in &demands.zones {
        findings.extend(self::zone(&providers, id, zone, names).await);
    }
    for (id, account) in providers.accounts() {
        let rate = account.rate();
        let quota = rate.borrow().quota;
        if let Some(quota) = quota {
            let left = format!("{} requests are left in the quota of the token of {id}", quota.remaining);
            let low = quota.limit.is_some_and(|limit| quota.remaining < limit / 10);
            findings.push(if low {
                Finding::doubtful(left, "wait, or give FLIPOP a token of its own")
            } else {
                Finding::good(left)
            });
        }
    }
    Ok(findings)
}

/// The number of addresses that a pool lacks to reach `desiredIPs`.
fn to_create(pool: &PoolObject, spec: &PoolSpec) -> usize {
    if !spec.may_create() {
        return 0;
    }
    let created = pool.status.memory.iter().flat_map(|memory| &memory.created).map(|created| created.ip);
    let has: BTreeSet<_> = spec.ips.iter().copied().chain(created).collect();
    spec.desired.unwrap_or_default().saturating_sub(has.len())
}

async fn addresses(providers: &Providers, id: &AccountId, of_pools: &OfPools) -> Vec<Finding> {
    let Some(client) = providers.ips.get(id) else { return Vec::new() };
    let context = CallContext::account_wide();
    let (list, machines) =
        futures::join!(client.list_reserved_ips(&context), client.prove_machine_read(&context));
    let mut findings = Vec::new();
    match list {
        Ok(list) => {
            findings.push(Finding::good(format!("the token of {id} reads its {} addresses", list.ips.len())));
            let is_absent = |ip: &Address| list.contradiction.is_none() && !list.ips.contains_key(ip);
            let absent = of_pools.listed.iter().filter(|(ip, _)| is_absent(ip));
            findings.extend(absent.map(|(ip, pool)| {
                Finding::bad(
                    format!("{ip} of FloatingIPPool {pool} is not in the account of the token of {id}"),
                    "correct spec.ips, or use the token of the account that has the address",
                )
            }));
        }
        Err(fault) => {
            findings
                .push(Finding::bad(format!("the token of {id} cannot read its addresses"), fault.message));
        }
    }
    let lacks = |remedy| Finding::bad(format!("the token of {id} cannot read machines"), remedy);
    findings.push(match machines {
        Ok(true) => Finding::good(format!("the token of {id} reads its machines")),
        Ok(false) => lacks(format!(
            "give it the scope {}: without it every address looks unassigned",
            of_pools.machine_scope
        )),
        Err(fault) => lacks(fault.message),
    });
    if of_pools.lacking > 0 {
        findings.push(Finding::doubtful(
            format!(
                "pools will create {} more addresses at {id}, whose limit cannot be read",
                of_pools.lacking
            ),
            "ask for a higher limit if a creation is refused: CreationFailed has the reason Quota then",
        ));
    }
    findings
}

/// Whether the token can read the machines of record sets that ask for checks of nodes.
async fn machines(providers: &Providers, id: &AccountId, descriptor: &Descriptor) -> Option<Finding> {
    let client = providers.ips.get(id)?;
    let what = format!("the token of {id} cannot read machines");
    Some(match client.prove_machine_read(&CallContext::account_wide()).await {
        Ok(true) => Finding::good(format!("the token of {id} reads its machines")),
        Ok(false) => Finding::doubtful(
            what,
            format!(
                "give it {}: without it node checks do not notice that a machine is off or deleted",
                descriptor.machines?.read_scope
            ),
        ),
        Err(fault) => Finding::doubtful(what, fault.message),
    })
}

/// Whether the token can read everything that decisions about firewalls need.
async fn firewalls(providers: &Providers, id: &AccountId) -> Option<Finding> {
    let client = providers.firewalls.get(id)?;
    Some(match client.look(&CallContext::account_wide(), true).await {
        Ok(sight) if sight.missing.is_empty() => Finding::good(format!(
            "the token of {id} reads its {} firewalls, and the tags of its machines",
            sight.firewalls.len()
        )),
        Ok(sight) => {
            let scopes: Vec<&str> = sight.missing.into_iter().collect();
            Finding::bad(
                format!("the token of {id} lacks {}", scopes.join(", ")),
                "give it these scopes: without them FLIPOP changes no firewall",
            )
        }
        Err(fault) => Finding::bad(format!("the token of {id} cannot read its firewalls"), fault.message),
    })
}

async fn zone(
    providers: &Providers,
    id: &AccountId,
    zone: &ZoneRef,
    names: &BTreeSet<String>,
) -> Vec<Finding> {
    let Some(client) = providers.dns.get(id) else { return Vec::new() };
    let context = CallContext::account_wide();
    let found = match client.find_zone(&context, zone.text()).await {
        Ok(found) => found,
        Err(fault) => return vec![unread(id, zone, fault)],
    };
    let mut findings = Vec::new();
    for name in names {
        let fqdn = match qualify(name, found.name.as_deref()) {
            Ok(fqdn) => fqdn,
            Err(problem) => {
                findings.push(Finding::bad(
                    format!("{name} is not a name in the zone {}", zone.text()),
                    problem.to_string(),
                ));
                continue;
            }
        };
        match client.read_records(&context, &found, &fqdn).await {
            Ok(records) => findings.extend(self::name(client.as_ref(), id, (&found, &fqdn), &records).await),
            // Some providers tell only here that the zone is absent.
            Err(fault) if fault.kind == FaultKind::NotFound => return vec![unread(id, zone, fault)],
            Err(fault) => {
                findings.push(Finding::bad(format!("{fqdn} at {id} cannot be read"), fault.message));
            }
        }
    }
    findings
}

fn unread(id: &AccountId, zone: &ZoneRef, fault: Fault) -> Finding {
    let verdict = if fault.kind == FaultKind::NotFound { "is not at" } else { "cannot be read at" };
    Finding::bad(format!("the zone {} {verdict} {id}", zone.text()), fault.message)
}

/// The records at a name, and where external-dns marks the name.
async fn name(
    client: &dyn DnsProvider,
    id: &AccountId,
    (zone, fqdn): (&Zone, &str),
    records: &[Record],
) -> Vec<Finding> {
    let alias = records.iter().any(|record| record.kind == "CNAME");
    let mut findings = vec![if alias {
        let what = format!("{fqdn} at {id} has a CNAME record");
        Finding::bad(what, "remove it, or choose another recordName")
    } else {
        Finding::good(format!("{fqdn} at {id} can be read"))
    }];
    let mut marked = is_marked_by_external_dns(records);
    if let Some(mark) = name_of_mark(fqdn, zone).filter(|_| !marked) {
        let read = client.read_records(&CallContext::account_wide(), zone, &mark).await;
        marked = read.is_ok_and(|records| is_marked_by_external_dns(&records));
    }
    if marked {
        let what = format!("external-dns has an ownership TXT record for {fqdn} at {id}");
        findings.push(Finding::doubtful(what, "let only one of the two manage that name"));
    }
    findings
}

//! Tokens, scopes, zones, quotas and marks of external-dns, as far as reads can prove them.

use super::Finding;
use crate::command::copy::{self, Objects};
use crate::command::reach::Reach;
use crate::command::{CommandError, accounts};
use crate::config::ProviderVariables;
use crate::provider::dns::DnsProvider;
use crate::provider::{CallContext, Providers, descriptors};
use flipop_core::addresses::pool::object::PoolObject;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::firewalls::spec::FirewallSpec;
use flipop_core::model::fault::FaultKind;
use flipop_core::model::ids::AccountId;
use flipop_core::model::provider::Descriptor;
use flipop_core::records::diff::is_marked_by_external_dns;
use flipop_core::records::dns::Zone;
use flipop_core::records::mark::name_of_mark;
use flipop_core::records::name::{ZoneRef, qualify};
use flipop_core::records::spec::SetSpec;
use std::collections::{BTreeMap, BTreeSet};

/// The part that reads cannot prove.
const WRITE_SCOPES: &str = "a token proves its write scopes only by writing";

/// The objects' demands on the providers.
#[derive(Default)]
struct Demands {
    /// Providers of addresses, with the number of addresses still to buy there.
    ips: BTreeMap<AccountId, usize>,
    /// Accounts in which pools have firewalls.
    firewalls: BTreeSet<AccountId>,
    /// Record sets ask for checks of nodes.
    checks: bool,
    /// Zones, with the names in each.
    zones: BTreeMap<(AccountId, ZoneRef), BTreeSet<String>>,
}

impl Demands {
    fn of(objects: &Objects) -> Self {
        let providers = copy::every_provider(false);
        let (pools, sets) = objects.plain();
        let mut demands = Self::default();
        for (pool, spec) in pools.iter().filter_map(|pool| Some((pool, copy::pool_spec(pool, &providers)?))) {
            if !spec.account_id.is_unknown() {
                let lacking = demands.ips.entry(spec.account_id.clone()).or_default();
                *lacking = lacking.saturating_add(to_buy(pool, &spec));
                if spec.firewall != FirewallSpec::None || !pool.status.firewalls.is_empty() {
                    demands.firewalls.insert(spec.account_id.clone());
                }
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

    fn asks_of(&self, id: &AccountId) -> bool {
        self.ips.contains_key(id) || self.zones.keys().any(|(of, _)| of == id)
    }
}

/// One line for each scope and zone.
pub(super) async fn check(
    reach: &Reach,
    variables: &ProviderVariables,
    objects: &Objects,
) -> Result<Vec<Finding>, CommandError> {
    let providers = accounts::clients(variables, &reach.proxies, &reach.clock)?;
    let demands = Demands::of(objects);
    let mut findings = Vec::new();
    for descriptor in descriptors() {
        let id = AccountId::from(descriptor.name);
        let has_token = providers.accounts().any(|(known, _)| *known == id);
        if !has_token && demands.asks_of(&id) {
            findings.push(Finding::doubtful(
                format!("the token of {} is not checked", descriptor.name),
                format!("set {} here, or use --env-file", descriptor.token_variable),
            ));
        }
    }
    for (id, lacking) in &demands.ips {
        findings.extend(addresses(&providers, id, *lacking).await);
    }
    for descriptor in descriptors().filter(|of| of.tells_power && demands.checks) {
        let id = AccountId::from(descriptor.name);
        if !demands.ips.contains_key(&id) {
            findings.extend(machines(&providers, &id, &descriptor).await);
        }
    }
    for id in &demands.firewalls {
        findings.extend(firewalls(&providers, id).await);
    }
    for ((id, zone), names) in &demands.zones {
        findings.extend(self::zone(&providers, id, zone, names).await);
    }
    for (id, account) in providers.accounts().filter(|(id, _)| demands.asks_of(id)) {
        findings.push(Finding::doubtful(format!("the write scopes of {id} are unknown"), WRITE_SCOPES));
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
fn to_buy(pool: &PoolObject, spec: &PoolSpec) -> usize {
    if !spec.may_create() {
        return 0;
    }
    let created = pool.status.memory.iter().flat_map(|memory| &memory.created).map(|created| created.ip);
    let has: BTreeSet<_> = spec.ips.iter().copied().chain(created).collect();
    spec.desired.unwrap_or_default().saturating_sub(has.len())
}

async fn addresses(providers: &Providers, id: &AccountId, lacking: usize) -> Vec<Finding> {
    let Some(client) = providers.ips.get(id) else { return Vec::new() };
    let context = CallContext::account_wide();
    let (list, machines) =
        futures::join!(client.list_reserved_ips(&context), client.prove_machine_read(&context));
    let list = match list {
        Ok(list) => Finding::good(format!("the token of {id} reads its {} addresses", list.ips.len())),
        Err(fault) => Finding::bad(format!("the token of {id} cannot read its addresses"), fault.message),
    };
    let machines = match machines {
        Ok(true) => Finding::good(format!("the token of {id} reads its machines")),
        Ok(false) => Finding::bad(
            format!("the token of {id} cannot read machines"),
            "give it that scope: without it every address looks unassigned",
        ),
        Err(fault) => Finding::bad(format!("the token of {id} cannot read machines"), fault.message),
    };
    let mut findings = vec![list, machines];
    if lacking > 0 {
        findings.push(Finding::doubtful(
            format!("pools will buy {lacking} more addresses at {id}, whose limit cannot be read"),
            "ask for a higher limit if a purchase is refused: CreationFailed has the reason Quota then",
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
        Err(fault) => {
            let verdict = if fault.kind == FaultKind::NotFound { "is not at" } else { "cannot be read at" };
            let what = format!("the zone {} {verdict} {id}", zone.text());
            return vec![Finding::bad(what, fault.message)];
        }
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
        findings.extend(self::name(client.as_ref(), id, &found, &fqdn).await);
    }
    findings
}

/// The records at a name, and where external-dns marks the name.
async fn name(client: &dyn DnsProvider, id: &AccountId, zone: &Zone, fqdn: &str) -> Vec<Finding> {
    let context = CallContext::account_wide();
    let records = match client.read_records(&context, zone, fqdn).await {
        Ok(records) => records,
        Err(fault) => return vec![Finding::bad(format!("{fqdn} at {id} cannot be read"), fault.message)],
    };
    let alias = records.iter().any(|record| record.kind == "CNAME");
    let mut findings = vec![if alias {
        let what = format!("{fqdn} at {id} is an alias (CNAME)");
        Finding::bad(what, "remove it, or choose another recordName")
    } else {
        Finding::good(format!("{fqdn} at {id} can be read"))
    }];
    let mut marked = is_marked_by_external_dns(&records);
    if let Some(mark) = name_of_mark(fqdn, zone).filter(|_| !marked) {
        let read = client.read_records(&context, zone, &mark).await;
        marked = read.is_ok_and(|records| is_marked_by_external_dns(&records));
    }
    if marked {
        let what = format!("external-dns has marked {fqdn} at {id} as its own");
        findings.push(Finding::doubtful(what, "let one of the two write that name"));
    }
    findings
}

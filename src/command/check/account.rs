//! Tokens, scopes and zones, as far as reading proves them.

use super::Finding;
use crate::command::copy::{self, Objects};
use crate::command::reach::Reach;
use crate::command::{CommandError, accounts};
use crate::config::ProviderVariables;
use crate::provider::{CallContext, DESCRIPTORS, Providers};
use flipop_core::model::ids::AccountId;
use flipop_core::records::name::{ZoneRef, qualify};
use flipop_core::records::spec::SetSpec;
use std::collections::{BTreeMap, BTreeSet};

/// What stays unknown by reading alone.
const WRITE_SCOPES: &str = "a token proves its write scopes only by writing";

/// What the objects ask of the providers.
#[derive(Default)]
struct Demands {
    /// Providers of addresses.
    ips: BTreeSet<AccountId>,
    /// Zones, with the names in each.
    zones: BTreeMap<(AccountId, ZoneRef), BTreeSet<String>>,
}

impl Demands {
    fn of(objects: &Objects) -> Self {
        let providers = copy::every_provider(false);
        let (pools, sets) = objects.plain();
        let mut demands = Self::default();
        for spec in pools.iter().filter_map(|pool| copy::pool_spec(pool, &providers)) {
            if !spec.account_id.is_unknown() {
                demands.ips.insert(spec.account_id.clone());
            }
            demands.zone(spec.record_set.as_ref());
        }
        for spec in sets.iter().filter_map(|set| copy::set_spec(set, &providers)) {
            demands.zone(Some(&spec.set));
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
        self.ips.contains(id) || self.zones.keys().any(|(of, _)| of == id)
    }
}

/// One line for each scope and zone.
pub(super) async fn check(
    reach: &Reach,
    variables: &ProviderVariables,
    objects: &Objects,
) -> Result<Vec<Finding>, CommandError> {
    let providers = accounts::clients(variables, &reach.clock)?;
    let demands = Demands::of(objects);
    let mut findings = Vec::new();
    for descriptor in DESCRIPTORS {
        let id = AccountId::from(descriptor.name);
        let has_token = providers.accounts().any(|(known, _)| *known == id);
        if !has_token && demands.asks_of(&id) {
            findings.push(Finding::doubtful(
                format!("the token of {} is not checked", descriptor.name),
                format!("set {} here, or use --env-file", descriptor.token_variable),
            ));
        }
    }
    for id in &demands.ips {
        findings.extend(addresses(&providers, id).await);
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

async fn addresses(providers: &Providers, id: &AccountId) -> Vec<Finding> {
    let Some(client) = providers.ips.get(id) else { return Vec::new() };
    let context = CallContext::account_wide();
    let (list, machines) =
        futures::join!(client.list_reserved_ips(&context), client.prove_machine_read(&context));
    let list = match list {
        Ok(list) => Finding::good(format!("the token of {id} reads its {} addresses", list.ips.len())),
        Err(fault) => Finding::bad(format!("the token of {id} does not read its addresses"), fault.message),
    };
    let machines = match machines {
        Ok(true) => Finding::good(format!("the token of {id} reads its machines")),
        Ok(false) => Finding::bad(
            format!("the token of {id} does not read machines"),
            "give it that scope: without it every address looks unassigned",
        ),
        Err(fault) => Finding::bad(format!("the token of {id} does not read machines"), fault.message),
    };
    vec![list, machines]
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
            return vec![Finding::bad(format!("the zone {} is not at {id}", zone.text()), fault.message)];
        }
    };
    let mut findings = Vec::new();
    for name in names {
        let fqdn = match qualify(name, found.name.as_deref()) {
            Ok(fqdn) => fqdn,
            Err(problem) => {
                findings.push(Finding::bad(
                    format!("{name} is no name in the zone {}", zone.text()),
                    problem.to_string(),
                ));
                continue;
            }
        };
        match client.read_records(&context, &found, &fqdn).await {
            Ok(records) => {
                let alias = records.iter().any(|record| record.kind == "CNAME");
                findings.push(if alias {
                    let what = format!("{fqdn} at {id} is an alias (CNAME)");
                    Finding::bad(what, "remove it, or choose another recordName")
                } else {
                    Finding::good(format!("{fqdn} at {id} can be read"))
                });
                let mark = |data: &str| data.contains("heritage=external-dns");
                if records.iter().any(|record| record.kind == "TXT" && mark(&record.data)) {
                    findings.push(Finding::doubtful(
                        format!("external-dns has marked {fqdn} at {id} as its own"),
                        "let one of the two write that name",
                    ));
                }
            }
            Err(fault) => {
                findings.push(Finding::bad(format!("{fqdn} at {id} cannot be read"), fault.message));
            }
        }
    }
    findings
}

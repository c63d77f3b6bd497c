//! Calls to providers of addresses, firewalls and DNS.

use super::{Executor, call_failure, tested};
use crate::provider::dns::{Applied, DnsProvider, Unfinished};
use crate::provider::firewalls::{FirewallProvider, NewFirewall};
use crate::provider::observe::{self, Call, Record};
use crate::provider::{Action as ProviderAction, CallContext, CallError, IpProvider};
use flipop_core::addresses::action as addresses;
use flipop_core::firewalls::action as firewalls;
use flipop_core::mechanism::epoch::Epoch;
use flipop_core::model::facts::ActionStatus;
use flipop_core::model::fault::CallFailure;
use flipop_core::model::ids::{ActionId, ObjectKind, ObjectRef, Owner};
use flipop_core::records::action as records;
use std::sync::Arc;

impl Executor {
    /// `None` if the account does not exist. No live object can use such an account.
    pub(super) async fn call_ip_provider(&self, action: addresses::Action) -> Option<addresses::Outcome> {
        use addresses::{Action, Outcome};
        let begun = self.clock.now();
        Some(match action {
            Action::List { epoch } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&epoch)?.list_reserved_ips(&context).await;
                Outcome::Listed { epoch, begun, result: result.map_err(CallFailure::Fault) }
            }
            Action::Get { epoch, pool, ip } => {
                let context = pool.as_ref().map(of_pool).unwrap_or_default();
                let result = self.ip_provider(&epoch)?.get_reserved_ip(&context, ip).await;
                Outcome::Got { epoch, ip, begun, result: result.map_err(CallFailure::Fault) }
            }
            Action::Test { epoch, ip } => {
                let (context, client) = (CallContext::account_wide(), self.ip_provider(&epoch)?);
                let result = match ip {
                    Some(ip) => tested(client.get_reserved_ip(&context, ip)).await,
                    None => tested(client.prove_machine_read(&context)).await,
                };
                Outcome::Tested { epoch, begun, result }
            }
            Action::ProveMachineRead { epoch } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&epoch)?.prove_machine_read(&context).await;
                Outcome::Proved { epoch, result: result.map_err(CallFailure::Fault) }
            }
            Action::ReadMachine { epoch, machine, asked } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&epoch)?.is_switched_off(&context, &machine).await;
                Outcome::MachineRead { epoch, machine, asked, result: result.map_err(CallFailure::Fault) }
            }
            Action::Poll { epoch, pool, ip, action } => {
                let context = pool.as_ref().map(of_pool).unwrap_or_default();
                let result = self.ip_provider(&epoch)?.get_action(&context, ip, action).await;
                let result = result.map(|action| action.status).map_err(CallFailure::Fault);
                Outcome::Polled { epoch, ip, begun, result }
            }
            Action::Assign { epoch, pool, ip, machine, .. } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.assign(&of_pool(&pool), &self.permit, ip, machine).await;
                Outcome::Changed { epoch, ip, result: changed(result) }
            }
            Action::Unassign { epoch, pool, ip, .. } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.unassign(&of_pool(&pool), &self.permit, ip).await;
                Outcome::Changed { epoch, ip, result: changed(result) }
            }
            Action::Create { epoch, pool, region } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.create_reserved_ip(&of_pool(&pool), &self.permit, &region).await;
                Outcome::Created { epoch, pool, result: result.map_err(call_failure) }
            }
            Action::Delete { epoch, pool, ip } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.delete_reserved_ip(&of_pool(&pool), &self.permit, ip).await;
                Outcome::Deleted { epoch, pool, ip, result: result.map_err(call_failure) }
            }
        })
    }

    fn ip_provider(&self, epoch: &Epoch) -> Option<&Arc<dyn IpProvider>> {
        self.providers.ips.get(&epoch.account_id)
    }

    /// `None` if the account has no firewalls. No pool asks for any there.
    pub(super) async fn call_firewall_provider(
        &self,
        action: firewalls::Action,
    ) -> Option<firewalls::Outcome> {
        use firewalls::{Action, Change, Outcome};
        let begun = self.clock.now();
        Some(match action {
            Action::Look { epoch, machines } => {
                let context = CallContext::account_wide();
                let result = self.firewall_provider(&epoch)?.look(&context, machines).await;
                Outcome::Looked { epoch, begun, result: result.map_err(CallFailure::Fault) }
            }
            Action::Find { epoch, pool, id } => {
                let result = self.firewall_provider(&epoch)?.has_firewall(&of_pool(&pool), &id).await;
                Outcome::Found { epoch, pool, id, result: result.map_err(CallFailure::Fault) }
            }
            Action::Create { epoch, pool, name, rules, machines } => {
                let new = NewFirewall { name: name.clone(), rules, machines };
                let client = self.firewall_provider(&epoch)?;
                let result = client.create_firewall(&of_pool(&pool), &self.permit, &new).await;
                Outcome::Created { epoch, pool, name, result: result.map_err(call_failure) }
            }
            Action::Change { epoch, pool, name, id, change } => {
                let client = self.firewall_provider(&epoch)?;
                let result = client.change_firewall(&of_pool(&pool), &self.permit, &id, &change).await;
                let deleted = change == Change::Delete;
                Outcome::Changed { epoch, pool, name, deleted, result: result.map_err(call_failure) }
            }
        })
    }

    fn firewall_provider(&self, epoch: &Epoch) -> Option<&Arc<dyn FirewallProvider>> {
        self.providers.firewalls.get(&epoch.account_id)
    }

    /// `None` if the account does not exist; no live object can use such an account.
    pub(super) async fn call_dns_provider(&self, action: records::Action) -> Option<records::Outcome> {
        use records::{Action, Outcome};
        let begun = self.clock.now();
        let context = |owner: &Owner| context(owner.kind, &owner.object);
        Some(match action {
            Action::Test { epoch, owner, name, zone } => {
                let (context, client) = (context(&owner), self.dns_provider(&epoch)?);
                let result = match &name {
                    Some((zone, fqdn)) => tested(client.read_records(&context, zone, fqdn)).await,
                    None => tested(client.find_zone(&context, zone.text())).await,
                };
                Outcome::Tested { epoch, begun, result }
            }
            Action::FindZone { epoch, owner, zone } => {
                let result = self.dns_provider(&epoch)?.find_zone(&context(&owner), zone.text()).await;
                Outcome::ZoneFound { epoch, begun, zone, result: result.map_err(CallFailure::Fault) }
            }
            Action::ReadRecords { epoch, owner, zone, fqdn, mark_of } => {
                let client = self.dns_provider(&epoch)?;
                let result = client.read_records(&context(&owner), &zone, &fqdn).await;
                let result = result.map_err(CallFailure::Fault);
                Outcome::RecordsRead { epoch, begun, zone: zone.id, fqdn, mark_of, result }
            }
            Action::ApplyRecords { epoch, owner, zone, fqdn, set } => {
                let client = self.dns_provider(&epoch)?;
                let context = context(&owner);
                let record = Record {
                    provider: client.provider(),
                    call: Call::EnsureDnsARecordSet,
                    context: &context,
                    clock: &self.clock,
                    observer: self.observer.as_ref(),
                };
                let applied = client.apply(&context, &self.permit, &zone, &fqdn, &set);
                let result = observe::recorded(record, applied).await;
                let result = match result {
                    Ok(Applied { done, records }) if done == set.changes.len() => Ok(records),
                    Ok(Applied { done, records }) => {
                        Err(records::Unfinished { done, records, cause: CallFailure::NotSent })
                    }
                    Err(Unfinished { done, cause }) => {
                        Err(records::Unfinished { done, records: Vec::new(), cause: call_failure(cause) })
                    }
                };
                Outcome::RecordsApplied { epoch, begun, zone: zone.id, fqdn, result }
            }
        })
    }

    fn dns_provider(&self, epoch: &Epoch) -> Option<&Arc<dyn DnsProvider>> {
        self.providers.dns.get(&epoch.account_id)
    }
}

fn context(kind: ObjectKind, object: &ObjectRef) -> CallContext {
    CallContext::object(kind.as_str(), object.name.namespace.clone(), object.name.name.clone())
}

fn of_pool(pool: &ObjectRef) -> CallContext {
    context(ObjectKind::Pool, pool)
}

fn changed(result: Result<ProviderAction, CallError>) -> Result<(ActionId, ActionStatus), CallFailure> {
    result.map(|action| (action.id, action.status)).map_err(call_failure)
}

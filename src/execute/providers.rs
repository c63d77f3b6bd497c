//! Calls to providers of addresses, firewalls and DNS.

use super::{Executor, call_failure, tested};
use crate::provider::dns::{Applied, Unfinished};
use crate::provider::observe::Call as ObservedCall;
use crate::provider::{Action, CallContext, CallError, NewFirewall};
use flipop_core::addresses::action as addresses;
use flipop_core::firewalls::action as firewalls;
use flipop_core::mechanism::{Answer, Request};
use flipop_core::model::{ActionId, ActionStatus, CallFailure, ObjectRef, Owner};
use flipop_core::records::action as records;

impl Executor {
    /// `None` if the account does not exist. No live object can use such an account.
    pub(super) async fn call_ip_provider(&self, request: addresses::Action) -> Option<addresses::Outcome> {
        use addresses::{Call, Reply};
        let Request { epoch, owner, call } = request;
        let (begun, context) = (self.clock.now(), context(owner.as_ref()));
        let client = self.providers.ips.get(&epoch.account_id)?;
        let reply = match call {
            Call::List => Reply::Listed(client.list_reserved_ips(&context).await.map_err(CallFailure::Fault)),
            Call::Get(ip) => {
                Reply::Got(ip, client.get_reserved_ip(&context, ip).await.map_err(CallFailure::Fault))
            }
            Call::Test(Some(ip)) => Reply::Tested(tested(client.get_reserved_ip(&context, ip)).await),
            Call::Test(None) => Reply::Tested(tested(client.prove_machine_read(&context)).await),
            Call::ProveMachineRead => {
                Reply::Proved(client.prove_machine_read(&context).await.map_err(CallFailure::Fault))
            }
            Call::ReadMachine(machine, asked) => {
                let result = client.is_switched_off(&context, &machine).await;
                Reply::MachineRead(machine, asked, result.map_err(CallFailure::Fault))
            }
            Call::Poll(ip, action) => {
                let result = client.get_action(&context, ip, action).await;
                Reply::Polled(ip, result.map(|action| action.status).map_err(CallFailure::Fault))
            }
            Call::Assign { ip, machine, .. } => {
                Reply::Changed(ip, changed(client.assign(&context, &self.permit, ip, machine).await))
            }
            Call::Unassign(ip, _) => {
                Reply::Changed(ip, changed(client.unassign(&context, &self.permit, ip).await))
            }
            Call::Create(region) => {
                let result = client.create_reserved_ip(&context, &self.permit, &region).await;
                Reply::Created(result.map_err(call_failure))
            }
            Call::Delete(ip) => {
                let result = client.delete_reserved_ip(&context, &self.permit, ip).await;
                Reply::Deleted(ip, result.map_err(call_failure))
            }
        };
        Some(Answer { epoch, owner, begun, reply })
    }

    /// `None` if the account has no firewalls. No pool asks for any there.
    pub(super) async fn call_firewall_provider(
        &self,
        request: firewalls::Action,
    ) -> Option<firewalls::Outcome> {
        use firewalls::{Call, Change, Reply};
        let Request { epoch, owner, call } = request;
        let (begun, context) = (self.clock.now(), context(owner.as_ref()));
        let client = self.providers.firewalls.get(&epoch.account_id)?;
        let reply = match call {
            Call::Look { machines } => {
                Reply::Looked(client.look(&context, machines).await.map_err(CallFailure::Fault))
            }
            Call::Find(id) => {
                let result = client.has_firewall(&context, &id).await;
                Reply::Found(id, result.map_err(CallFailure::Fault))
            }
            Call::Create { name, rules, machines } => {
                let new = NewFirewall { name, rules, machines };
                let result = client.create_firewall(&context, &self.permit, &new).await;
                Reply::Created(new.name, result.map_err(call_failure))
            }
            Call::Change { name, id, change } => {
                let result = client.change_firewall(&context, &self.permit, &id, &change).await;
                let deleted = change == Change::Delete;
                Reply::Changed { name, deleted, result: result.map_err(call_failure) }
            }
        };
        Some(Answer { epoch, owner, begun, reply })
    }

    /// `None` if the account does not exist; no live object can use such an account.
    pub(super) async fn call_dns_provider(&self, request: records::Action) -> Option<records::Outcome> {
        use records::{Call, Reply};
        let Request { epoch, owner, call } = request;
        let (begun, context) = (self.clock.now(), context(owner.as_ref()));
        let client = self.providers.dns.get(&epoch.account_id)?;
        let reply = match call {
            Call::Test { name: Some((zone, fqdn)), .. } => {
                Reply::Tested(tested(client.read_records(&context, &zone, &fqdn)).await)
            }
            Call::Test { name: None, zone } => {
                Reply::Tested(tested(client.find_zone(&context, zone.text())).await)
            }
            Call::FindZone(zone) => {
                let result = client.find_zone(&context, zone.text()).await;
                Reply::ZoneFound(zone, result.map_err(CallFailure::Fault))
            }
            Call::ReadRecords { zone, fqdn, mark_of } => {
                let result = client.read_records(&context, &zone, &fqdn).await;
                let result = result.map_err(CallFailure::Fault);
                Reply::RecordsRead { zone: zone.id, fqdn, mark_of, result }
            }
            Call::ApplyRecords { zone, fqdn, set } => {
                let applied = client.apply(&context, &self.permit, &zone, &fqdn, &set);
                let call = ObservedCall::EnsureDnsARecordSet;
                let result = match client.api().operation(call, &context, applied).await {
                    Ok(Applied { done, records }) if done == set.changes.len() => Ok(records),
                    Ok(Applied { done, records }) => {
                        Err(records::Unfinished { done, records, cause: CallFailure::NotSent })
                    }
                    Err(Unfinished { done, cause }) => {
                        Err(records::Unfinished { done, records: Vec::new(), cause: call_failure(cause) })
                    }
                };
                Reply::RecordsApplied { zone: zone.id, fqdn, result }
            }
        };
        Some(Answer { epoch, owner, begun, reply })
    }
}

fn context(owner: Option<&Owner>) -> CallContext {
    let Some(Owner { kind, object: ObjectRef { name, .. } }) = owner else {
        return CallContext::account_wide();
    };
    CallContext::object(kind.as_str(), name.namespace.clone(), name.name.clone())
}

fn changed(result: Result<Action, CallError>) -> Result<(ActionId, ActionStatus), CallFailure> {
    result.map(|action| (action.id, action.status)).map_err(call_failure)
}

//! Calls to DNS providers.

use super::{Executor, call_failure, tested};
use crate::provider::CallContext;
use crate::provider::dns::{Applied, DnsProvider, Unfinished};
use crate::provider::observe::{self, Call, Record};
use flipop_core::mechanism::epoch::Epoch;
use flipop_core::model::fault::CallFailure;
use flipop_core::model::ids::Owner;
use flipop_core::records::action::{self, Action, Outcome};
use std::sync::Arc;

impl Executor {
    /// `None` if the account does not exist; no live object can use such an account.
    pub(super) async fn call_dns_provider(&self, action: Action) -> Option<Outcome> {
        let begun = self.clock.now();
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
                        Err(action::Unfinished { done, records, cause: CallFailure::NotSent })
                    }
                    Err(Unfinished { done, cause }) => {
                        Err(action::Unfinished { done, records: Vec::new(), cause: call_failure(cause) })
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

fn context(owner: &Owner) -> CallContext {
    let name = &owner.object.name;
    CallContext::object(owner.kind.as_str(), name.namespace.clone(), name.name.clone())
}

//! Calls to providers of addresses.

use super::{Executor, call_failure, tested};
use crate::provider::{Action as ProviderAction, CallContext, CallError, IpProvider};
use flipop_core::addresses::action::{Action, Outcome};
use flipop_core::mechanism::epoch::Epoch;
use flipop_core::model::facts::ActionStatus;
use flipop_core::model::fault::CallFailure;
use flipop_core::model::ids::{ActionId, ObjectKind, ObjectRef};
use std::sync::Arc;

impl Executor {
    /// `None` if the account does not exist. No live object can use such an account.
    pub(super) async fn call_ip_provider(&self, action: Action) -> Option<Outcome> {
        let begun = self.clock.now();
        Some(match action {
            Action::List { epoch } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&epoch)?.list_reserved_ips(&context).await;
                Outcome::Listed { epoch, begun, result: result.map_err(CallFailure::Fault) }
            }
            Action::Get { epoch, pool, ip } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
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
            Action::Poll { epoch, pool, ip, action } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
                let result = self.ip_provider(&epoch)?.get_action(&context, ip, action).await;
                let result = result.map(|action| action.status).map_err(CallFailure::Fault);
                Outcome::Polled { epoch, ip, begun, result }
            }
            Action::Assign { epoch, pool, ip, machine, .. } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.assign(&context(&pool), &self.permit, ip, machine).await;
                Outcome::Changed { epoch, ip, result: changed(result) }
            }
            Action::Unassign { epoch, pool, ip, .. } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.unassign(&context(&pool), &self.permit, ip).await;
                Outcome::Changed { epoch, ip, result: changed(result) }
            }
            Action::Create { epoch, pool, region } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.create_reserved_ip(&context(&pool), &self.permit, &region).await;
                Outcome::Created { epoch, pool, result: result.map_err(call_failure) }
            }
            Action::Delete { epoch, pool, ip } => {
                let client = self.ip_provider(&epoch)?;
                let result = client.delete_reserved_ip(&context(&pool), &self.permit, ip).await;
                Outcome::Deleted { epoch, pool, ip, result: result.map_err(call_failure) }
            }
        })
    }

    fn ip_provider(&self, epoch: &Epoch) -> Option<&Arc<dyn IpProvider>> {
        self.providers.ips.get(&epoch.account_id)
    }
}

fn context(pool: &ObjectRef) -> CallContext {
    CallContext::object(ObjectKind::Pool.as_str(), pool.name.namespace.clone(), pool.name.name.clone())
}

fn changed(result: Result<ProviderAction, CallError>) -> Result<(ActionId, ActionStatus), CallFailure> {
    result.map(|action| (action.id, action.status)).map_err(call_failure)
}

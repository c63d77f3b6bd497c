//! Calls to providers of addresses.

use super::{Executor, call_failure};
use crate::provider::{Action as ProviderAction, CallContext, CallError, IpProvider};
use flipop_core::addresses::action::{Action, Outcome};
use flipop_core::model::facts::ActionStatus;
use flipop_core::model::fault::CallFailure;
use flipop_core::model::ids::{AccountId, ActionId, ObjectKind, ObjectRef};
use std::sync::Arc;

impl Executor {
    /// `None` for an account that does not exist, of which no object can be live.
    pub(super) async fn call_ip_provider(&self, action: Action) -> Option<Outcome> {
        let begun = self.clock.now();
        Some(match action {
            Action::List { account_id } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&account_id)?.list_reserved_ips(&context).await;
                Outcome::Listed { account_id, begun, result }
            }
            Action::Get { account_id, pool, ip } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
                let result = self.ip_provider(&account_id)?.get_reserved_ip(&context, ip).await;
                Outcome::Got { account_id, ip, begun, result }
            }
            Action::ProveMachineRead { account_id } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&account_id)?.prove_machine_read(&context).await;
                Outcome::Proved { account_id, result }
            }
            Action::Poll { account_id, pool, ip, action } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
                let result = self.ip_provider(&account_id)?.get_action(&context, ip, action).await;
                Outcome::Polled { account_id, ip, begun, result: result.map(|action| action.status) }
            }
            Action::Assign { account_id, pool, ip, machine, .. } => {
                let client = self.ip_provider(&account_id)?;
                let result = client.assign(&context(&pool), &self.permit, ip, machine).await;
                Outcome::Changed { account_id, ip, result: changed(result) }
            }
            Action::Unassign { account_id, pool, ip, .. } => {
                let client = self.ip_provider(&account_id)?;
                let result = client.unassign(&context(&pool), &self.permit, ip).await;
                Outcome::Changed { account_id, ip, result: changed(result) }
            }
            Action::Create { account_id, pool, region } => {
                let client = self.ip_provider(&account_id)?;
                let result = client.create_reserved_ip(&context(&pool), &self.permit, &region).await;
                Outcome::Created { account_id, pool, result: result.map_err(call_failure) }
            }
        })
    }

    fn ip_provider(&self, account_id: &AccountId) -> Option<&Arc<dyn IpProvider>> {
        self.providers.ips.get(account_id)
    }
}

fn context(pool: &ObjectRef) -> CallContext {
    CallContext::object(ObjectKind::Pool.as_str(), pool.name.namespace.clone(), pool.name.name.clone())
}

fn changed(result: Result<ProviderAction, CallError>) -> Result<(ActionId, ActionStatus), CallFailure> {
    result.map(|action| (action.id, action.status)).map_err(call_failure)
}

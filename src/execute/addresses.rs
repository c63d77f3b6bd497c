//! Calls to providers of addresses.

use super::{Executor, call_failure};
use crate::provider::{Action as ProviderAction, CallContext, CallError, IpProvider};
use flipop_core::addresses::action::{Action, Outcome};
use flipop_core::model::facts::ActionStatus;
use flipop_core::model::fault::CallFailure;
use flipop_core::model::ids::{ActionId, ObjectKind, ObjectRef};
use std::sync::Arc;

impl Executor {
    /// `None` for a provider that does not exist, of which no object can be live.
    pub(super) async fn call_ip_provider(&self, action: Action) -> Option<Outcome> {
        let begun = self.clock.now();
        Some(match action {
            Action::List { provider } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&provider)?.list_reserved_ips(&context).await;
                Outcome::Listed { provider, begun, result }
            }
            Action::Get { provider, pool, ip } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
                let result = self.ip_provider(&provider)?.get_reserved_ip(&context, ip).await;
                Outcome::Got { provider, ip, begun, result }
            }
            Action::ProveDropletRead { provider } => {
                let context = CallContext::account_wide();
                let result = self.ip_provider(&provider)?.prove_droplet_read(&context).await;
                Outcome::Proved { provider, result }
            }
            Action::Poll { provider, pool, ip, action } => {
                let context = pool.as_ref().map(context).unwrap_or_default();
                let result = self.ip_provider(&provider)?.get_action(&context, ip, action).await;
                Outcome::Polled { provider, ip, begun, result: result.map(|action| action.status) }
            }
            Action::Assign { provider, pool, ip, droplet, .. } => {
                let client = self.ip_provider(&provider)?;
                let result = client.assign(&context(&pool), &self.permit, ip, droplet).await;
                Outcome::Changed { provider, ip, result: changed(result) }
            }
            Action::Unassign { provider, pool, ip, .. } => {
                let client = self.ip_provider(&provider)?;
                let result = client.unassign(&context(&pool), &self.permit, ip).await;
                Outcome::Changed { provider, ip, result: changed(result) }
            }
            Action::Create { provider, pool, region } => {
                let client = self.ip_provider(&provider)?;
                let result = client.create_reserved_ip(&context(&pool), &self.permit, &region).await;
                Outcome::Created { provider, pool, result: result.map_err(call_failure) }
            }
        })
    }

    fn ip_provider(&self, name: &str) -> Option<&Arc<dyn IpProvider>> {
        self.providers.ips.get(name)
    }
}

fn context(pool: &ObjectRef) -> CallContext {
    CallContext::object(ObjectKind::Pool.as_str(), pool.name.namespace.clone(), pool.name.name.clone())
}

fn changed(result: Result<ProviderAction, CallError>) -> Result<(ActionId, ActionStatus), CallFailure> {
    result.map(|action| (action.id, action.status)).map_err(call_failure)
}

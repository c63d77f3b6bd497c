//! Calls to providers of firewalls.

use super::{Executor, call_failure};
use crate::provider::CallContext;
use crate::provider::firewalls::{FirewallProvider, NewFirewall};
use flipop_core::firewalls::action::{Action, Change, Outcome};
use flipop_core::mechanism::epoch::Epoch;
use flipop_core::model::fault::CallFailure;
use flipop_core::model::ids::{ObjectKind, ObjectRef};
use std::sync::Arc;

impl Executor {
    /// `None` if the account has no firewalls. No pool asks for any there.
    pub(super) async fn call_firewall_provider(&self, action: Action) -> Option<Outcome> {
        let begun = self.clock.now();
        Some(match action {
            Action::Look { epoch, machines } => {
                let context = CallContext::account_wide();
                let result = self.firewall_provider(&epoch)?.look(&context, machines).await;
                Outcome::Looked { epoch, begun, result: result.map_err(CallFailure::Fault) }
            }
            Action::Find { epoch, pool, id } => {
                let result = self.firewall_provider(&epoch)?.has_firewall(&context(&pool), &id).await;
                Outcome::Found { epoch, pool, id, result: result.map_err(CallFailure::Fault) }
            }
            Action::Create { epoch, pool, name, rules, machines } => {
                let new = NewFirewall { name: name.clone(), rules, machines };
                let client = self.firewall_provider(&epoch)?;
                let result = client.create_firewall(&context(&pool), &self.permit, &new).await;
                Outcome::Created { epoch, pool, name, result: result.map_err(call_failure) }
            }
            Action::Change { epoch, pool, name, id, change } => {
                let client = self.firewall_provider(&epoch)?;
                let result = client.change_firewall(&context(&pool), &self.permit, &id, &change).await;
                let deleted = change == Change::Delete;
                Outcome::Changed { epoch, pool, name, deleted, result: result.map_err(call_failure) }
            }
        })
    }

    fn firewall_provider(&self, epoch: &Epoch) -> Option<&Arc<dyn FirewallProvider>> {
        self.providers.firewalls.get(&epoch.account_id)
    }
}

fn context(pool: &ObjectRef) -> CallContext {
    CallContext::object(ObjectKind::Pool.as_str(), pool.name.namespace.clone(), pool.name.name.clone())
}

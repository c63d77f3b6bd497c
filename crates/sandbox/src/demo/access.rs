//! What the operator's account may not do in the simulated cluster: nothing, until somebody takes a right away.

use flipop_apiserver::{ApiError, Before, Call, Interceptor, Verb};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A right as RBAC words it: a verb, and a resource with its subresource, for example `floatingippools/status`.
type Right = (String, String);

/// The rights that are taken away. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub(super) struct Access {
    denied: Arc<Mutex<BTreeSet<Right>>>,
}

impl Access {
    /// Takes a right away.
    pub(super) fn deny(&self, verb: &str, resource: &str) {
        let right = (verb.to_owned(), resource.to_owned());
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).insert(right);
    }

    /// Gives all rights back.
    pub(super) fn allow_all(&self) {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn denies(&self, verb: &str, resource: &str) -> bool {
        let right = (verb.to_owned(), resource.to_owned());
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).contains(&right)
    }
}

/// The verbs of RBAC that can be denied.
pub(super) const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

fn word(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
        Verb::Other => "",
    }
}

impl Interceptor for Access {
    fn before(&self, call: &Call) -> Before {
        let resource = match call.subresource.as_str() {
            "" => call.resource.clone(),
            sub => format!("{}/{sub}", call.resource),
        };
        let verb = word(call.verb);
        if !self.denies(verb, &resource) {
            return Before::Proceed;
        }
        let group = &call.group;
        let why = format!(
            "User \"system:serviceaccount:flipop:flipop\" cannot {verb} resource \"{resource}\" in API group \"{group}\""
        );
        Before::Fail(ApiError::forbidden(group, &call.resource, &call.name, &why))
    }
}

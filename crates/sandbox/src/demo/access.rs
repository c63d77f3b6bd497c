//! The rights that the operator's account lacks in the simulated cluster: none, until somebody denies one.

use flipop_apiserver::{ApiError, Call, Interceptor, Verb};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A right in RBAC's terms: a verb, and a resource with its subresource, for example `floatingippools/status`.
type Right = (String, String);

/// The operator's account.
const ACCOUNT: &str = "system:serviceaccount:flipop:flipop";

/// The denied rights. Clones share the list.
#[derive(Debug, Clone, Default)]
pub(super) struct Access {
    denied: Arc<Mutex<BTreeSet<Right>>>,
}

impl Access {
    /// Denies a right.
    pub(super) fn deny(&self, verb: &str, resource: &str) {
        let right = (verb.to_owned(), resource.to_owned());
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).insert(right);
    }

    /// Allows everything again.
    pub(super) fn allow_all(&self) {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn denies(&self, verb: &str, resource: &str) -> bool {
        let right = (verb.to_owned(), resource.to_owned());
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).contains(&right)
    }
}

/// The RBAC verbs that can be denied.
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
    fn allows(&self, _user: &str, verb: &str, resource: &str) -> bool {
        !self.denies(verb, resource)
    }

    fn before(&self, call: &Call) -> Result<(), ApiError> {
        let resource = match call.subresource.as_str() {
            "" => call.resource.clone(),
            sub => format!("{}/{sub}", call.resource),
        };
        let verb = word(call.verb);
        if !self.denies(verb, &resource) {
            return Ok(());
        }
        let group = &call.group;
        let why =
            format!("User \"{ACCOUNT}\" cannot {verb} resource \"{resource}\" in API group \"{group}\"");
        Err(ApiError::forbidden(group, &call.resource, &call.name, &why))
    }
}

/// Answers the access reviews of everybody else. Only the operator's account lacks rights.
pub(super) struct Reviews(pub(super) Access);

impl Interceptor for Reviews {
    fn allows(&self, user: &str, verb: &str, resource: &str) -> bool {
        user != ACCOUNT || self.0.allows(user, verb, resource)
    }
}

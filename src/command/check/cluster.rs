//! The cluster-wide parts of an installation: CRDs and admission policies.

use super::Finding;
use super::rights::Account;
use crate::api::crd;
use crate::command::output::first_of;
use crate::command::session::Session;
use crate::debug::View;
use crate::kube::trouble::{Trouble, TroubleKind};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::Value;

/// The policies of `k8s/`, and the optional one of `k8s/tenants`.
const POLICIES: [&str; 4] =
    [NARROWING, "flipop-warnings-floatingippools", "flipop-warnings-nodednsrecordsets", TENANTS];

/// The policy that narrows the operator's rights, and the one that limits everybody else. Both name its account.
const NARROWING: &str = "flipop-node-annotation";
const TENANTS: &str = "flipop-tenants";

/// The most fields of a CRD that a message names.
const MAX_NAMED: usize = 5;

/// Whether each CRD exists, with every field that this version has.
pub(super) async fn crds(session: &Session) -> Vec<Finding> {
    let api: Api<CustomResourceDefinition> = Api::all(session.client.clone());
    let mut findings = Vec::new();
    for ours in crd::all() {
        let name = ours.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let installed = match api.get(name).await {
            Ok(installed) => serde_json::to_value(&installed).unwrap_or_default(),
            Err(error) => {
                findings.push(unread(name, Trouble::from(error)));
                continue;
            }
        };
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        let (wanted, found) = (ours.pointer(schema), served(&installed));
        let mut missing = Vec::new();
        if let Some((wanted, found)) = wanted.zip(found) {
            compare(wanted, found, "", &mut missing);
        }
        findings.push(match missing.as_slice() {
            _ if found.is_none() => Finding::bad(
                format!("the CRD {name} does not serve v1alpha1"),
                "apply the CRDs of this version: flipop crd | kubectl apply --server-side -f -",
            ),
            [] => Finding::good(format!(
                "the CRD {name} has every field of version {}",
                crate::version::VERSION
            )),
            missing => {
                let lacks = first_of(missing, MAX_NAMED);
                Finding::bad(
                    format!("the CRD {name} is of another version: it lacks {lacks}"),
                    "apply the CRDs of this version: flipop crd | kubectl apply --server-side -f -",
                )
            }
        });
    }
    findings
}

fn unread(name: &str, trouble: Trouble) -> Finding {
    if trouble.kind == TroubleKind::NotFound {
        let what = format!("the CRD {name} is not installed");
        return Finding::bad(what, "flipop crd | kubectl apply --server-side -f -");
    }
    let what = format!("the CRD {name} cannot be checked");
    Finding::unknown(what, trouble, "get customresourcedefinitions", None)
}

fn served(installed: &Value) -> Option<&Value> {
    let versions = installed.pointer("/spec/versions")?.as_array()?;
    let ours = |version: &&Value| {
        version.get("name").and_then(Value::as_str) == Some(crate::api::VERSION)
            && version.get("served").and_then(Value::as_bool) == Some(true)
    };
    versions.iter().find(ours)?.pointer("/schema/openAPIV3Schema")
}

/// Collects fields of one schema that the other lacks.
fn compare(wanted: &Value, found: &Value, path: &str, missing: &mut Vec<String>) {
    if let Some(fields) = wanted.get("properties").and_then(Value::as_object) {
        for (name, wanted) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match found.get("properties").and_then(|known| known.get(name)) {
                Some(found) => compare(wanted, found, &path, missing),
                None => missing.push(path),
            }
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some((wanted, found)) = wanted.get(key).zip(found.get(key)) {
            compare(wanted, found, path, missing);
        }
    }
}

/// The finding of the leader's dry run. It counts more than the text of the policies.
pub(super) fn unlimited(view: Option<&View>) -> Option<Finding> {
    view?.unlimited.then(|| {
        Finding::bad(
            "no admission policy limits what the operator may change on nodes: the API server accepts a dry run",
            format!("apply the policy {NARROWING} with its binding, and with the operator's account in it"),
        )
    })
}

/// Whether the policies exist, are bound, and name the right account.
pub(super) async fn policies(session: &Session, account: &Account) -> Vec<Finding> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(session.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(session.client.clone());
    let Account { user, installed, .. } = account;
    let mut findings = Vec::new();
    for name in POLICIES {
        let found = installed.beside(name);
        let (policy, binding) = futures::join!(policies.get(&found), bindings.get(&found));
        let (policy, binding) = match (policy, binding) {
            (Ok(policy), Ok(binding)) => (policy, binding),
            // The other policies tell why it cannot be read.
            (Err(_), _) if name == TENANTS => continue,
            (Err(error), _) | (_, Err(error)) => {
                let trouble = Trouble::from(error);
                let what = format!("the admission policy {name}");
                findings.push(if trouble.kind == TroubleKind::NotFound {
                    let remedy = "apply the policies of k8s/, with their bindings";
                    Finding::doubtful(format!("{what} or its binding is not installed"), remedy)
                } else {
                    let right = "get validatingadmissionpolicies and validatingadmissionpolicybindings";
                    Finding::unknown(format!("{what} cannot be checked"), trouble, right, None)
                });
                continue;
            }
        };
        let conditions = policy.spec.and_then(|spec| spec.match_conditions).unwrap_or_default();
        let denies = |actions: &[String]| actions.iter().any(|action| action == "Deny");
        let is_strict = [NARROWING, TENANTS].contains(&name);
        let bound =
            binding.spec.policy_name == found && (!is_strict || denies(&binding.spec.validation_actions));
        let names_it = conditions.iter().any(|condition| condition.expression.contains(&format!("'{user}'")));
        findings.push(if !bound {
            Finding::doubtful(
                format!("the binding {name} binds another admission policy, or denies nothing"),
                "apply the policies of k8s/, with their bindings",
            )
        } else if is_strict && !names_it {
            Finding::bad(
                format!("the admission policy {name} is for another account than {user}"),
                "write the operator's namespace and account into its matchConditions",
            )
        } else {
            Finding::good(format!("the admission policy {name} is there and bound"))
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::output::Tone;

    #[test]
    fn a_leader_whose_changes_of_nodes_nothing_limits_is_told_of() {
        let found = |unlimited| super::unlimited(Some(&View { unlimited, ..View::default() }));
        let finding = found(true).unwrap();
        assert_eq!(finding.tone, Tone::Bad);
        assert!(finding.remedy.contains(NARROWING), "{}", finding.remedy);
        assert!(found(false).is_none());
        assert!(unlimited(None).is_none());
    }
}

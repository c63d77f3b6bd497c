//! The rights of the operator's account. The API server answers for each of them.

use super::Finding;
use crate::command::leader::{self, Installed};
use crate::command::session::Session;
use crate::kube::objects::lease;
use crate::kube::trouble::Trouble;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::PostParams;
use serde_json::Value;

/// The roles that the operator needs, as they are installed.
const ROLES: [(&str, bool); 2] =
    [(include_str!("../../../k8s/cluster-role.yaml"), false), (include_str!("../../../k8s/role.yaml"), true)];

/// Questions that are asked at the same time.
const AT_A_TIME: usize = 8;

/// The extra role that checks of nodes need.
const NODE_CHECK: &str = include_str!("../../../k8s/nodecheck/role.yaml");

/// A service account.
pub(super) struct Account {
    /// Its user name.
    pub(super) user: String,
    groups: Vec<String>,
    /// The Deployment that names it, or nothing.
    pub(super) installed: Installed,
    /// Why that cannot be read.
    pub(super) assumed: Option<String>,
}

/// The operator's account: the one that its Deployment names, or `flipop` if that cannot be read.
pub(super) async fn account(session: &Session) -> Account {
    let (installed, assumed) = match Installed::find(session).await {
        Ok(installed) => (installed, None),
        Err(why) => (Installed::default(), Some(why)),
    };
    let name = installed.pod.service_account_name.clone().unwrap_or_else(|| leader::NAME.to_owned());
    let namespace = &session.operator;
    Account {
        assumed,
        installed,
        user: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
    }
}

/// One line for each resource.
pub(super) async fn check(session: &Session, account: &Account, checks_nodes: bool) -> Vec<Finding> {
    let own = |namespaced: bool| namespaced.then(|| session.operator.clone());
    let rules = rules().into_iter().map(|(rule, namespaced)| (rule, own(namespaced)));
    let of_leases = rules_of(NODE_CHECK).into_iter().filter(|_| checks_nodes);
    let of_leases = of_leases.map(|rule| (rule, Some(lease::NAMESPACE.to_owned())));
    let rules: Vec<(PolicyRule, Option<String>)> = rules.chain(of_leases).collect();
    let resources = rules.iter().flat_map(|(rule, namespace)| {
        rule.resources.iter().flatten().map(move |resource| (rule, resource, namespace.as_deref()))
    });
    let asked = stream::iter(resources)
        .map(|(rule, resource, namespace)| of_resource(session, account, rule, resource, namespace))
        .buffered(AT_A_TIME);
    let asked: Result<Vec<Finding>, Trouble> = asked.try_collect().await;
    let assumed = account.assumed.as_ref().map(|why| {
        let what = format!("the account of the operator is assumed to be {}", account.user);
        Finding::doubtful(what, format!("its Deployment cannot be read: {why}"))
    });
    let findings = asked.unwrap_or_else(|trouble| {
        let what = format!("the rights of {} cannot be checked", account.user);
        vec![Finding::unknown(what, trouble, "create subjectaccessreviews", None)]
    });
    assumed.into_iter().chain(findings).collect()
}

async fn of_resource(
    session: &Session,
    account: &Account,
    rule: &PolicyRule,
    resource: &str,
    namespace: Option<&str>,
) -> Result<Finding, Trouble> {
    let group = rule.api_groups.iter().flatten().next().cloned().unwrap_or_default();
    let (mut missing, mut granted) = (Vec::new(), Vec::new());
    for verb in &rule.verbs {
        let name = rule.resource_names.iter().flatten().next().cloned();
        if allowed(session, account, (&group, resource, verb), namespace.map(ToOwned::to_owned), name).await?
        {
            granted.push(verb.as_str());
        } else {
            missing.push(verb.as_str());
        }
    }
    let shown = if group.is_empty() { resource.to_owned() } else { format!("{resource} ({group})") };
    let of_nodes = namespace == Some(lease::NAMESPACE);
    let shown = if of_nodes { format!("{shown} in {}", lease::NAMESPACE) } else { shown };
    let remedy = if of_nodes {
        "apply k8s/nodecheck, which spec.nodeCheck needs"
    } else {
        "apply the roles and bindings of k8s/, for the account of the Deployment"
    };
    Ok(if missing.is_empty() {
        Finding::good(format!("{} may {} {shown}", account.user, granted.join(", ")))
    } else {
        Finding::bad(format!("{} may not {} {shown}", account.user, missing.join(", ")), remedy)
    })
}

async fn allowed(
    session: &Session,
    account: &Account,
    (group, resource, verb): (&str, &str, &str),
    namespace: Option<String>,
    name: Option<String>,
) -> Result<bool, Trouble> {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (resource, None),
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.user.clone()),
            groups: Some(account.groups.clone()),
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                verb: Some(verb.to_owned()),
                namespace,
                name,
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(session.client.clone());
    let answer = api.create(&PostParams::default(), &review).await.map_err(Trouble::from)?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// The rules of the roles in `k8s/`, and whether each applies only in the operator's namespace.
fn rules() -> Vec<(PolicyRule, bool)> {
    let mut rules = Vec::new();
    for (text, namespaced) in ROLES {
        rules.extend(rules_of(text).into_iter().map(|rule| (rule, namespaced)));
    }
    rules
}

/// The rules of the roles in a manifest.
fn rules_of(text: &str) -> Vec<PolicyRule> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    let of_roles = documents.iter().filter_map(|document| document.get("rules")?.as_array());
    of_roles.flatten().filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_manifests_is_asked_for() {
        let rules = rules();
        let lines: usize = ROLES.iter().map(|(text, _)| text.matches("\n- apiGroups").count()).sum();
        assert_eq!(rules.len(), lines);
        assert!(rules.iter().all(|(rule, _)| !rule.verbs.is_empty() && rule.resources.is_some()));
    }
}

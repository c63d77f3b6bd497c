//! The rights of the operator's service account, according to the API server itself.

use crate::suite::{Case, cases};
use crate::world::World;
use flipop_envtest::Outcome;
use flipop_envtest::apiserver::connect;
use flipop_envtest::cluster::{LEASE, NAMESPACE};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed: the_service_account_may_do_what_the_operator_does_and_no_more]
}

/// Group, resource with subresource, namespace and name ("" means any), then the verbs.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

const OURS: &str = "flipop.digitalocean.com";

const ALLOWED: [Row; 9] = [
    ("", "nodes", "", "", "list watch patch"),
    ("", "pods", "", "", "list watch"),
    (OURS, "floatingippools", "", "", "get list watch update"),
    (OURS, "floatingippools/status", "", "", "update"),
    (OURS, "nodednsrecordsets", "", "", "list watch"),
    (OURS, "nodednsrecordsets/status", "", "", "update"),
    ("events.k8s.io", "events", "team", "", "create patch"),
    ("coordination.k8s.io", "leases", NAMESPACE, LEASE, "get watch update"),
    ("coordination.k8s.io", "leases", NAMESPACE, "", "create"),
];

const DENIED: [Row; 20] = [
    ("", "nodes", "", "", "get create update delete deletecollection"),
    ("", "nodes/status", "", "", "get patch update"),
    ("", "nodes/proxy", "", "", "get create"),
    ("", "pods", "", "", "get create update patch delete"),
    ("", "pods/exec", "", "", "create get"),
    ("", "pods/log", "", "", "get"),
    ("", "secrets", "", "", "get list watch create update patch delete"),
    ("", "secrets", NAMESPACE, "flipop", "get list watch"),
    ("", "configmaps", NAMESPACE, "", "get list watch create update"),
    ("", "serviceaccounts/token", NAMESPACE, "flipop", "create"),
    ("", "namespaces", "", "", "get list watch create delete"),
    (OURS, "floatingippools", "", "", "create patch delete deletecollection"),
    (OURS, "floatingippools/status", "", "", "get list watch patch"),
    (OURS, "nodednsrecordsets", "", "", "get create update patch delete"),
    (OURS, "nodednsrecordsets/status", "", "", "get list watch patch"),
    ("coordination.k8s.io", "leases", NAMESPACE, LEASE, "list patch delete"),
    ("coordination.k8s.io", "leases", NAMESPACE, "another", "get update patch delete"),
    ("coordination.k8s.io", "leases", "kube-system", LEASE, "get list watch create update delete"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "", "get create update patch delete"),
    ("rbac.authorization.k8s.io", "clusterroles", "", "", "bind escalate create update patch"),
];

async fn the_service_account_may_do_what_the_operator_does_and_no_more(world: &mut World) -> Outcome {
    let client = connect(&world.operator_kubeconfig().await?).await?;
    let mut wrong = Vec::new();
    for (rows, expected) in [(&ALLOWED[..], true), (&DENIED[..], false)] {
        for row in rows {
            for verb in row.4.split(' ') {
                if allowed(&client, row, verb).await? != expected {
                    let (group, resource, namespace, name, _) = row;
                    wrong.push(format!(
                        "{verb} {resource}.{group} in {namespace:?} named {name:?}: not {expected}"
                    ));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}

async fn allowed(client: &Client, row: &Row, verb: &str) -> Outcome<bool> {
    let (group, resource, namespace, name, _) = *row;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let some = |text: &str| Some(text.to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: some(group),
                resource: some(resource),
                subresource: some(subresource),
                namespace: some(namespace),
                name: some(name),
                verb: some(verb),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer =
        Api::<SelfSubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

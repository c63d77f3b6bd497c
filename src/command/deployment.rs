//! The operator's Deployment, which names its account, its flags and its variables.

use super::leader;
use super::reach::Reach;
use crate::kube::trouble::{Trouble, TroubleKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use kube::Api;
use kube::api::ListParams;

/// The Deployment of `k8s/`.
pub(super) const NAME: &str = "flipop";

/// The operator's Deployment as it is installed.
#[derive(Default)]
pub(super) struct Installed {
    name: String,
    /// Its pod template.
    pub(super) pod: PodSpec,
}

impl Installed {
    /// Finds it by its name, or by its label if a kustomize overlay gave it a prefix or a suffix.
    pub(super) async fn find(reach: &Reach) -> Result<Self, Trouble> {
        let api: Api<Deployment> = Api::namespaced(reach.client.clone(), &reach.operator);
        let deployment = match api.get(NAME).await.map_err(Trouble::from) {
            Err(trouble) if trouble.kind == TroubleKind::NotFound => {
                let labelled = api.list(&ListParams::default().labels("app=flipop")).await;
                let mut labelled = labelled.into_iter().flat_map(|found| found.items);
                let renamed = |of: &Deployment| of.metadata.name.iter().any(|name| name.contains(NAME));
                labelled.find(renamed).ok_or(trouble)?
            }
            found => found?,
        };
        let name = deployment.metadata.name.unwrap_or_default();
        Ok(Self { name, pod: deployment.spec.template.spec.unwrap_or_default() })
    }

    /// The name that another object of `k8s/` has beside it: with the same prefix and suffix.
    pub(super) fn beside(&self, name: &str) -> String {
        let (prefix, suffix) = self.name.rsplit_once(NAME).unwrap_or_default();
        format!("{prefix}{name}{suffix}")
    }
}

/// Why it cannot be read.
pub(super) fn why(reach: &Reach, trouble: &Trouble) -> String {
    leader::missing_right(trouble, "get", "deployments", Some(&reach.operator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_and_a_suffix_are_those_of_every_object() {
        for (deployment, policy) in [
            ("flipop", "flipop-node-annotation"),
            ("prod-flipop-eu", "prod-flipop-node-annotation-eu"),
            ("flipop-prod-flipop", "flipop-prod-flipop-node-annotation"),
            ("", "flipop-node-annotation"),
        ] {
            let installed = Installed { name: deployment.to_owned(), ..Installed::default() };
            assert_eq!(installed.beside("flipop-node-annotation"), policy);
        }
    }
}

//! The operator's Deployment, which names its account, its flags and its variables.

use super::leader;
use super::session::Session;
use crate::kube::trouble::{Trouble, TroubleKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use kube::Api;
use kube::api::ListParams;

/// The Deployment of `k8s/`.
pub(super) const NAME: &str = "flipop";

/// The label of that Deployment and of its pods.
pub(super) const LABEL: &str = "app=flipop";

/// The operator's Deployment as it is installed.
#[derive(Default)]
pub(super) struct Installed {
    name: String,
    /// Its pod template.
    pub(super) pod: PodSpec,
}

impl Installed {
    /// Finds it by its name, or by its label if a kustomize overlay gave it a prefix or a suffix.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn find(session: &Session) -> Result<Self, String> {
        let why = |trouble: &Trouble, verb| {
            leader::missing_right(trouble, verb, "deployments", Some(&session.operator))
        };
        let api: Api<Deployment> = Api::namespaced(session.client.clone(), &session.operator);
        let deployment = match api.get(NAME).await.map_err(Trouble::from) {
            Err(trouble) if trouble.kind == TroubleKind::NotFound => {
                let labelled = api.list(&ListParams::default().labels(LABEL)).await;
                let labelled = labelled.map_err(|error| why(&Trouble::from(error), "list"))?;
                let renamed = |of: &Deployment| of.metadata.name.iter().any(|name| name.contains(NAME));
                labelled.items.into_iter().find(renamed).ok_or_else(|| why(&trouble, "get"))?
            }
            found => found.map_err(|trouble| why(&trouble, "get"))?,
        };
        let name = deployment.metadata.name.unwrap_or_default();
        Ok(Self { name, pod: deployment.spec.template.spec.unwrap_or_default() })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The name that another object of `k8s/` has beside it: with the same prefix and suffix.
    pub(super) fn beside(&self, name: &str) -> String {
        let (prefix, suffix) = self.name.rsplit_once(NAME).unwrap_or_default();
        format!("{prefix}{name}{suffix}")
    }
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

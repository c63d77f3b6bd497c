//! The node on which an agent runs, reduced to the facts that the agent needs.

use crate::api::resource::resource;
use flipop_core::model::RESERVED_IP_ANNOTATION;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A node as the API server sends it to an agent.
#[derive(Debug, Clone, Deserialize)]
pub struct OwnNode {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "crate::api::lenient::or_default")]
    spec: Spec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
}

/// The facts about its node that an agent needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnNodeFacts {
    /// The annotation with the reserved IP, verbatim.
    pub annotation: Option<String>,
    /// `spec.podCIDRs`, or `spec.podCIDR` if that is missing.
    pub pod_cidrs: Vec<String>,
}

impl OwnNode {
    /// Reduces it to its facts.
    pub fn into_facts(self) -> OwnNodeFacts {
        let annotations = self.metadata.annotations.unwrap_or_default();
        let first = self.spec.pod_cidr.filter(|cidr| !cidr.is_empty());
        OwnNodeFacts {
            annotation: annotations.get(RESERVED_IP_ANNOTATION).cloned(),
            pod_cidrs: self.spec.pod_cidrs.unwrap_or_else(|| first.into_iter().collect()),
        }
    }
}

resource!(OwnNode, ClusterResourceScope, ["Node", "", "v1", "nodes"]);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(node: Value) -> OwnNodeFacts {
        serde_json::from_value::<OwnNode>(node).unwrap().into_facts()
    }

    #[test]
    fn a_node_is_cut_to_its_annotation_and_the_networks_of_its_pods() {
        let node = json!({
            "metadata": {"name": "a", "annotations": {RESERVED_IP_ANNOTATION: "203.0.113.10"}},
            "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]},
        });
        let OwnNodeFacts { annotation, pod_cidrs } = facts(node);
        assert_eq!((annotation.as_deref(), pod_cidrs.len()), (Some("203.0.113.10"), 2));
        let old = json!({"metadata": {"name": "a"}, "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": null}});
        assert_eq!(facts(old), OwnNodeFacts { annotation: None, pod_cidrs: vec!["10.0.0.0/24".to_owned()] });
        assert_eq!(facts(json!({"metadata": {"name": "a"}, "spec": null})), OwnNodeFacts::default());
    }
}

//! The agents of nodes (`flipop agent`): whether each is able to do its work, by its readiness.

use super::Finding;
use crate::command::leader;
use crate::command::reach::Reach;
use crate::kube::trouble::Trouble;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

/// The label of the agents' pods in the manifests and in the chart.
const LABEL: &str = "app=flipop-agent";

/// One line for each agent that is not able, or one line for all. Nothing if no agent runs.
pub(super) async fn check(reach: &Reach) -> Vec<Finding> {
    let api: Api<Pod> = Api::all(reach.client.clone());
    match api.list(&ListParams::default().labels(LABEL)).await {
        Ok(pods) => of(&pods.items),
        Err(error) => {
            let why = leader::missing_right(&Trouble::from(error), "list", "pods", None);
            vec![Finding::doubtful("the agents of nodes cannot be listed", why)]
        }
    }
}

fn of(pods: &[Pod]) -> Vec<Finding> {
    let failing: Vec<Finding> = pods.iter().filter(|pod| !is_ready(pod)).map(not_able).collect();
    if failing.is_empty() && !pods.is_empty() {
        return vec![Finding::good(format!(
            "each of the {} agents of nodes is able to do its work",
            pods.len()
        ))];
    }
    failing
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True")
}

fn not_able(pod: &Pod) -> Finding {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("a node");
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Finding::bad(
        format!("the agent on {node} is not able to do its work: its pods leave with the node's own address"),
        format!("its log names the reason: kubectl logs -n {namespace} {name}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::output::Tone;
    use serde_json::json;

    fn pod(node: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": format!("agent-{node}"), "namespace": "flipop-agent"},
            "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}, {"type": "Initialized", "status": "True"}]},
        }))
        .unwrap()
    }

    #[test]
    fn an_agent_that_is_not_ready_is_named_with_its_node_and_none_is_missed_where_none_runs() {
        assert!(of(&[]).is_empty());
        let good = of(&[pod("a", "True"), pod("b", "True")]);
        assert_eq!((good.len(), good[0].tone), (1, Tone::Good));
        let bad = of(&[pod("a", "True"), pod("b", "False")]);
        assert_eq!((bad.len(), bad[0].tone), (1, Tone::Bad));
        assert!(bad[0].what.contains("on b is not able to do its work"), "{}", bad[0].what);
        assert!(bad[0].remedy.ends_with("kubectl logs -n flipop-agent agent-b"), "{}", bad[0].remedy);
    }
}

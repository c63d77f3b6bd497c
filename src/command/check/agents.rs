//! The agents of nodes (`flipop agent`): whether each is ready, and whom those cut off that let nothing leave without
//! the address.

use super::Finding;
use crate::agent::layout::PRIVATE;
use crate::command::leader;
use crate::command::session::Session;
use crate::config::{AgentConfig, Egress, Invocation, ProviderVariables, WhenAbsent};
use crate::kube::trouble::Trouble;
use crate::network::Network;
use crate::provider::PROVIDERS;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::Api;
use kube::api::ListParams;
use reqwest::Url;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The label of the agents' pods in the manifests and in the chart.
const LABEL: &str = "app=flipop-agent";

/// The label of the resolvers of a cluster.
const RESOLVER_LABEL: &str = "k8s-app=kube-dns";

/// The port of an API whose URL names none.
const HTTPS: u16 = 443;

/// The most nodes whose pods are compared with the networks that the agent knows. A CNI treats all nodes alike.
const COMPARED: usize = 10;

/// One line for each agent that is not ready, or one line for all; one for a pod whose traffic no agent sees; and one
/// for each pod that an agent cuts off. Nothing if no agent runs.
pub(super) async fn check(session: &Session, variables: &ProviderVariables) -> Vec<Finding> {
    let agents = match pods(session).await {
        Ok(agents) => agents,
        Err(trouble) => {
            return vec![Finding::unknown(
                "the agents of nodes cannot be listed",
                trouble,
                "list pods",
                None,
            )];
        }
    };
    let mut findings = of(&agents);
    findings.extend(outside(session, &agents).await);
    let blocking = blocking(&agents);
    if !blocking.is_empty() {
        let operator = Api::namespaced(session.client.clone(), &session.operator);
        let all = Api::all(session.client.clone());
        let (operators, resolvers) =
            futures::join!(listed(operator, leader::LABEL), listed(all, RESOLVER_LABEL));
        let cut_off: Vec<Finding> = match (operators, resolvers) {
            (Ok(operators), Ok(resolvers)) => {
                let apis = apis(variables).await;
                let operators = operators.iter().filter_map(|pod| of_operator(pod, &blocking, &apis));
                operators.chain(resolvers.iter().filter_map(|pod| of_resolver(pod, &blocking))).collect()
            }
            (Err(trouble), _) | (_, Err(trouble)) => {
                vec![Finding::unknown(
                    "it is unknown which pods the agents cut off",
                    trouble,
                    "list pods",
                    None,
                )]
            }
        };
        findings.extend(cut_off);
    }
    findings
}

/// The pods of the agents.
pub(super) async fn pods(session: &Session) -> Result<Vec<Pod>, Trouble> {
    listed(Api::all(session.client.clone()), LABEL).await
}

async fn listed(api: Api<Pod>, label: &str) -> Result<Vec<Pod>, Trouble> {
    let pods = api.list(&ListParams::default().labels(label)).await;
    pods.map(|pods| pods.items).map_err(Trouble::from)
}

/// A pod with an address that the agent of its node does not know.
async fn outside(session: &Session, agents: &[Pod]) -> Option<Finding> {
    let setting = agents.iter().filter_map(|agent| Some((node(agent)?, flags(agent)?)));
    for (name, config) in setting.filter(|(_, config)| config.egress == Egress::Pods).take(COMPARED) {
        let (node, on_node) = (format!("metadata.name={name}"), format!("spec.nodeName={name}"));
        let (node, on_node) = (ListParams::default().fields(&node), ListParams::default().fields(&on_node));
        let (nodes, pods) =
            (Api::<Node>::all(session.client.clone()), Api::<Pod>::all(session.client.clone()));
        let found = match futures::try_join!(nodes.list(&node), pods.list(&on_node)) {
            Ok((nodes, pods)) => {
                nodes.iter().find_map(|node| pods.iter().find_map(|pod| of_outside(pod, name, &config, node)))
            }
            Err(error) => {
                let what = "it is unknown whether the agents know the networks of pods";
                Some(Finding::unknown(what, error, "list nodes and pods", None))
            }
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn of_outside(pod: &Pod, on: &str, config: &AgentConfig, node: &Node) -> Option<Finding> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    let cidrs = node.spec.iter().flat_map(|spec| spec.pod_cidrs.iter().flatten());
    let own: Vec<Network> = cidrs.filter_map(|text| Network::parse(text)).collect();
    let known = if config.pods.is_empty() { &own } else { &config.pods };
    let ip: IpAddr = status.pod_ip.as_ref()?.parse().ok()?;
    let counts = spec.host_network != Some(true) && ip.is_ipv4() && !known.is_empty();
    (counts && !known.iter().any(|network| network.contains(ip))).then(|| {
        let what = format!(
            "{} on {on} has {ip}, which the agent there does not know: it leaves with the node's own address",
            name(pod)
        );
        let remedy = "name the networks of pods with --pod-cidr";
        // Who names networks may leave some out.
        if config.pods.is_empty() { Finding::bad(what, remedy) } else { Finding::doubtful(what, remedy) }
    })
}

/// The flags of an agent. Where its endpoints listen does not matter, and names a variable of the container.
pub(super) fn flags(pod: &Pod) -> Option<AgentConfig> {
    let container = pod.spec.as_ref()?.containers.first()?;
    let words = container.command.iter().chain(&container.args).flatten();
    let words = words.filter(|word| !word.starts_with("--metrics-bind-addr"));
    match Invocation::from_parts(words, &|_| None) {
        Ok(Invocation::Agent(config)) => Some(*config),
        Ok(Invocation::Run(_) | Invocation::Command(_)) | Err(_) => None,
    }
}

/// The agents that let nothing leave without the address, by their nodes.
fn blocking(agents: &[Pod]) -> BTreeMap<&str, AgentConfig> {
    let blocks = |pod| {
        let config = flags(pod)?;
        let blocks = config.egress == Egress::Pods && config.when_absent == WhenAbsent::Block;
        Some((node(pod)?, config)).filter(|_| blocks)
    };
    agents.iter().filter_map(blocks).collect()
}

/// The node whose agent blocks the traffic of a pod. Pods in the host's network are not blocked.
fn cut_off<'a>(
    pod: &'a Pod,
    blocking: &'a BTreeMap<&str, AgentConfig>,
) -> Option<(&'a str, &'a AgentConfig)> {
    let spec: &PodSpec = pod.spec.as_ref()?;
    let node = node(pod).filter(|_| spec.host_network != Some(true))?;
    blocking.get(node).map(|config| (node, config))
}

/// The hosts of the providers' APIs, with their IPv4 addresses here. Without any token, those of all providers.
async fn apis(variables: &ProviderVariables) -> Vec<(String, Vec<IpAddr>)> {
    let configs = variables.read().unwrap_or_default();
    let mut urls: Vec<&str> = configs.values().map(|config| config.base_url.as_str()).collect();
    if urls.is_empty() {
        urls.extend(PROVIDERS.iter().map(|provider| provider.default_url));
    }
    let mut apis = Vec::new();
    for url in urls.into_iter().filter_map(|url| Url::parse(url).ok()) {
        let host = url.host_str().unwrap_or_default().to_owned();
        let found = tokio::net::lookup_host((host.as_str(), url.port_or_known_default().unwrap_or(HTTPS)));
        let found = found.await.map(|found| found.map(|at| at.ip()).filter(IpAddr::is_ipv4).collect());
        apis.push((host, found.unwrap_or_default()));
    }
    apis
}

fn of_operator(
    pod: &Pod,
    blocking: &BTreeMap<&str, AgentConfig>,
    apis: &[(String, Vec<IpAddr>)],
) -> Option<Finding> {
    let (node, config) = cut_off(pod, blocking)?;
    let open = |ip: &IpAddr| PRIVATE.iter().chain(&config.except).any(|network| network.contains(*ip));
    let closed = apis.iter().find(|(_, found)| found.is_empty() || !found.iter().all(open));
    closed.map(|(host, found)| {
        let remedy =
            "keep the operator off the nodes of the agent, or name the addresses of the APIs with --except";
        let pod = name(pod);
        if found.is_empty() {
            let what = "cannot be resolved here, so it is unknown whether the agent there lets it through";
            return Finding::doubtful(format!("{pod} of the operator is on {node}: {host} {what}"), remedy);
        }
        let what =
            format!("{pod} of the operator cannot reach {host} from {node}: the agent there blocks it");
        Finding::bad(what, remedy)
    })
}

fn of_resolver(pod: &Pod, blocking: &BTreeMap<&str, AgentConfig>) -> Option<Finding> {
    let (node, config) = cut_off(pod, blocking)?;
    let remedy = "keep it off the nodes of the agent, or name the servers that it asks with --except";
    Some(if config.except.is_empty() {
        let what = format!(
            "the resolver {} cannot reach public servers from {node}: the agent there blocks it",
            name(pod)
        );
        Finding::bad(what, remedy)
    } else {
        let what =
            format!("the resolver {} is on {node}, where the agent lets only --except through", name(pod));
        Finding::doubtful(what, remedy)
    })
}

fn of(pods: &[Pod]) -> Vec<Finding> {
    let failing: Vec<Finding> = pods.iter().filter(|pod| !is_ready(pod)).map(not_able).collect();
    if failing.is_empty() && !pods.is_empty() {
        return vec![Finding::good(format!("all {} agents of nodes are ready", pods.len()))];
    }
    failing
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True")
}

fn not_able(pod: &Pod) -> Finding {
    let node = node(pod).unwrap_or("a node");
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Finding::bad(
        format!("the agent on {node} is not ready: its pods may leave with the node's own address"),
        format!("its log names the reason: kubectl logs -n {namespace} {}", name(pod)),
    )
}

/// The node of a pod.
pub(super) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
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
        assert!(bad[0].what.contains("on b is not ready"), "{}", bad[0].what);
        assert!(bad[0].remedy.ends_with("kubectl logs -n flipop-agent agent-b"), "{}", bad[0].remedy);
    }

    /// The agent of a node, with the arguments of the manifest and more.
    fn agent(node: &str, more: &[&str]) -> Pod {
        let manifest =
            ["/app/flipop", "agent", "--node-name=$(NODE_NAME)", "--metrics-bind-addr=$(HOST_IP):8141"];
        let mut agent = pod(node, "True");
        let arguments = [&manifest[..], more].concat();
        let container = json!({ "name": "agent", "args": arguments });
        agent.spec.as_mut().unwrap().containers.push(serde_json::from_value(container).unwrap());
        agent
    }

    #[test]
    fn a_pod_outside_of_the_networks_that_its_agent_knows_is_named() {
        let node = |cidrs: &[&str]| -> Node {
            serde_json::from_value(json!({ "metadata": {}, "spec": { "podCIDRs": cidrs } })).unwrap()
        };
        let at = |ip: &str, host_network: bool| {
            let mut pod = pod("a", "True");
            pod.status.as_mut().unwrap().pod_ip = Some(ip.to_owned());
            pod.spec.as_mut().unwrap().host_network = Some(host_network);
            pod
        };
        let tone = |pod: &Pod, more: &[&str], node: &Node| {
            of_outside(pod, "a", &flags(&agent("a", more)).unwrap(), node).map(|finding| finding.tone)
        };
        let usual = node(&["10.244.1.0/24", "fd00:1::/64"]);
        assert_eq!(tone(&at("10.0.1.5", false), &[], &usual), Some(Tone::Bad));
        let named = ["--pod-cidr=10.0.1.0/24"];
        assert_eq!(tone(&at("10.244.1.5", false), &named, &usual), Some(Tone::Doubtful));
        for (ip, more) in [("10.244.1.5", &[][..]), ("fd00:2::5", &[]), ("10.0.1.5", &named)] {
            assert_eq!(tone(&at(ip, false), more, &usual), None, "{ip}");
        }
        assert_eq!(tone(&at("192.0.2.7", true), &[], &usual), None, "the network of the host is not meant");
        assert_eq!(tone(&at("10.0.1.5", false), &[], &node(&[])), None, "its agent says PodsUnknown");
    }

    #[test]
    fn a_pod_on_a_node_whose_agent_blocks_has_to_be_excepted() {
        let agents = [
            agent("a", &["--egress=Pods", "--when-absent=Block"]),
            agent("b", &["--when-absent=Block", "--except=203.0.113.0/24"]),
            agent("c", &["--when-absent=Block", "--egress=None"]),
            agent("d", &[]),
        ];
        let blocking = blocking(&agents);
        assert_eq!(blocking.keys().copied().collect::<Vec<_>>(), ["a", "b"]);
        let api = |ips: &[&str]| {
            vec![(
                "api.example".to_owned(),
                ips.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>(),
            )]
        };
        let tone = |node: &str, ips: &[&str]| {
            of_operator(&pod(node, "True"), &blocking, &api(ips)).map(|finding| finding.tone)
        };
        assert_eq!(tone("a", &["203.0.113.7"]), Some(Tone::Bad));
        assert_eq!(tone("b", &["203.0.113.7", "198.51.100.7"]), Some(Tone::Bad));
        assert_eq!(tone("b", &["203.0.113.7", "10.0.0.9"]), None);
        assert_eq!(tone("b", &[]), Some(Tone::Doubtful));
        assert_eq!((tone("c", &["203.0.113.7"]), tone("d", &["203.0.113.7"])), (None, None));
        let resolver = |pod: &Pod| of_resolver(pod, &blocking).map(|finding| finding.tone);
        assert_eq!(resolver(&pod("a", "True")), Some(Tone::Bad));
        assert_eq!(resolver(&pod("b", "True")), Some(Tone::Doubtful));
        let mut of_host = pod("a", "True");
        of_host.spec.as_mut().unwrap().host_network = Some(true);
        assert_eq!(resolver(&of_host), None, "the network of the host is not blocked");
    }
}

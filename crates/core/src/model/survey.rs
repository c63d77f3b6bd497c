//! Why none of many nodes matches, as one text that is renewed once a minute.

use crate::model::facts::NodeFacts;
use crate::model::matching::{Criteria, NodeStore, PodStore, verdict};
use crate::model::mismatch::Mismatch;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// How many nodes a message names for each reason. The others are counted.
const MAX_NODES: usize = 3;

/// How many reasons a message names. Taints alone can give as many reasons as there are nodes.
const MAX_REASONS: usize = 5;

/// How long a text about many nodes stays as it is. Its names and numbers may change all the time.
pub(crate) const RENEWED_AFTER_MS: u64 = 60_000;

/// Why no node matches: the most frequent reasons among the watched nodes, the most frequent first. A node counts under
/// its first reason. `in_cluster` is the number of nodes with any labels, if known.
pub fn survey(
    criteria: &Criteria,
    nodes: &NodeStore,
    pods: Option<&PodStore>,
    in_cluster: Option<u64>,
) -> String {
    let mut reasons: BTreeMap<Mismatch, Vec<&NodeFacts>> = BTreeMap::new();
    let mut all = 0_usize;
    for node in nodes.iter() {
        all += 1;
        if let Err(mismatch) = verdict(criteria, node, pods) {
            reasons.entry(mismatch).or_default().push(node);
        }
    }
    let selector = criteria.node_selector.to_string();
    let subject = match (all, selector.as_str(), in_cluster) {
        (0, "", _) | (0, _, Some(0)) => "the cluster has no node".to_owned(),
        (0, selector, Some(1)) => format!("the cluster's only node does not match nodeLabel {selector}"),
        (0, selector, Some(others)) => {
            format!("none of the cluster's {others} nodes matches nodeLabel {selector}")
        }
        (0, selector, None) => format!("no node matches nodeLabel {selector}"),
        (1, "", _) => "of 1 node".to_owned(),
        (many, "", _) => format!("of {many} nodes"),
        (1, selector, _) => format!("of 1 node that matches nodeLabel {selector}"),
        (many, selector, _) => format!("of {many} nodes that match nodeLabel {selector}"),
    };
    let mut reasons: Vec<(Mismatch, Vec<&NodeFacts>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let more = reasons.len().saturating_sub(MAX_REASONS);
    let mut parts: Vec<String> =
        reasons.into_iter().take(MAX_REASONS).map(|(mismatch, nodes)| counted(&mismatch, &nodes)).collect();
    if more > 0 {
        parts.push(format!("the others have {more} other reasons"));
    }
    let text = if parts.is_empty() { subject } else { format!("{subject}: {}", parts.join(", ")) };
    match pods.and_then(|pods| without_pods(criteria, pods)) {
        Some(pods) => format!("{text}; {pods}"),
        None => text,
    }
}

fn counted(mismatch: &Mismatch, nodes: &[&NodeFacts]) -> String {
    if let [only] = nodes {
        return format!("{} {mismatch}", only.name);
    }
    let names: Vec<&str> = nodes.iter().take(MAX_NODES).map(|node| node.name.as_str()).collect();
    let more = if nodes.len() > MAX_NODES { " …" } else { "" };
    format!("{} {} ({}{more})", nodes.len(), mismatch.of_many(), names.join(", "))
}

/// If no pod is serving anywhere, the message says so, whatever else is wrong.
fn without_pods(criteria: &Criteria, pods: &PodStore) -> Option<String> {
    let (namespace, selector) = criteria.pods.as_ref()?;
    let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
    let label = selector.to_string();
    if pods.any_serves() {
        return None;
    }
    Some(match (pods.count(), label.as_str()) {
        (0, "") => format!("there is no pod{place}"),
        (0, label) => format!("no pod{place} matches {label}"),
        (1, "") => format!("the only pod{place} is not Running and Ready"),
        (1, label) => format!("the only pod{place} that matches {label} is not Running and Ready"),
        (many, "") => format!("none of the {many} pods{place} is Running and Ready"),
        (many, label) => format!("none of the {many} pods{place} that match {label} is Running and Ready"),
    })
}

/// The last text about why none of an object's nodes matches.
#[derive(Debug, Default)]
pub struct Explanation {
    reported: Option<(Moment, String)>,
    /// The number of nodes that the text is based on.
    counted: Option<u64>,
}

impl Explanation {
    /// The text. Empty while a node matches.
    pub fn text(&self) -> &str {
        self.reported.as_ref().map_or("", |(_, text)| text)
    }

    /// Drops the text: the criteria have changed, or a node matches.
    pub(crate) fn forget(&mut self) {
        self.reported = None;
    }

    /// Renews the text if it is due, and returns when to look again. `counted` is the number of nodes that the text is
    /// based on; it is fetched equally often.
    pub(crate) fn renew(
        &mut self,
        counted: Option<u64>,
        now: Moment,
        text: impl FnOnce() -> String,
    ) -> Moment {
        if self.counted != counted {
            self.counted = counted;
            self.reported = None;
        }

        let fresh =
            self.reported.as_ref().map(|(at, _)| at.plus_millis(RENEWED_AFTER_MS)).filter(|at| *at > now);
        fresh.unwrap_or_else(|| {
            self.reported = Some((now, text()));
            now.plus_millis(RENEWED_AFTER_MS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::{Observed, PodFacts, Readiness, Taint};
    use crate::model::matching::example::node;
    use crate::model::selector::Selector;

    fn criteria(label: &str, pods: Option<(&str, &str)>) -> Criteria {
        let selector = |text: &str| Selector::parse(text).unwrap();
        let pods = pods.map(|(namespace, label)| (namespace.to_owned(), selector(label)));
        Criteria::new(selector(label), pods, Vec::new())
    }

    fn store(nodes: Vec<NodeFacts>) -> NodeStore {
        let mut store = NodeStore::default();
        store.observe(Observed::Reset(nodes));
        store
    }

    fn pods(serving: &[bool]) -> PodStore {
        let mut store = PodStore::default();
        let pod = |(number, serving): (usize, &bool)| PodFacts {
            namespace: "ingress".into(),
            name: format!("p-{number}"),
            node: "elsewhere".into(),
            serving: *serving,
            fails_since_s: None,
        };
        store.observe(Observed::Reset(serving.iter().enumerate().map(pod).collect()));
        store
    }

    #[test]
    fn a_survey_counts_the_first_reason_of_each_node_and_names_three_of_each() {
        let gpu = Taint { key: "gpu".into(), value: "true".into(), effect: "NoSchedule".into() };
        let mut nodes: Vec<NodeFacts> =
            (1..=4).map(|n| NodeFacts { ready: Readiness::NotReady, ..node(&format!("w-{n}")) }).collect();
        nodes.extend((5..=7).map(|n| NodeFacts { taints: vec![gpu.clone()], ..node(&format!("w-{n}")) }));
        let reported = survey(
            &criteria("pool=edge", Some(("ingres", "app=nginx"))),
            &store(nodes),
            Some(&pods(&[])),
            None,
        );
        assert_eq!(
            reported,
            "of 7 nodes that match nodeLabel pool=edge: 4 are not Ready (w-1, w-2, w-3 …), 3 have the taint \
             gpu=true:NoSchedule (w-5, w-6, w-7); no pod in namespace ingres matches app=nginx"
        );
    }

    #[test]
    fn a_label_that_no_node_has_is_told_with_the_number_of_nodes_where_it_is_known() {
        let criteria = criteria("pool=egde", None);
        let reported = |count| survey(&criteria, &store(Vec::new()), None, count);
        assert_eq!(reported(Some(12)), "none of the cluster's 12 nodes matches nodeLabel pool=egde");
        assert_eq!(reported(None), "no node matches nodeLabel pool=egde");
        let everywhere = Criteria::new(Selector::default(), None, Vec::new());
        assert_eq!(survey(&everywhere, &store(Vec::new()), None, None), "the cluster has no node");
    }

    #[test]
    fn pods_are_told_of_only_while_none_of_them_serves() {
        let label = Some(("ingress", "app=nginx"));
        for (serving, reported) in [
            (&[][..], "; no pod in namespace ingress matches app=nginx"),
            (&[false], "; the only pod in namespace ingress that matches app=nginx is not Running and Ready"),
            (
                &[false, false],
                "; none of the 2 pods in namespace ingress that match app=nginx is Running and Ready",
            ),
            (&[false, true], ""),
        ] {
            let text = survey(&criteria("", label), &store(vec![node("a")]), Some(&pods(serving)), None);
            assert_eq!(text, format!("of 1 node: a runs no matching pod that is Ready{reported}"));
        }
    }

    #[test]
    fn no_more_than_five_reasons_are_told() {
        let taint =
            |n: usize| Taint { key: format!("k{n}"), value: String::new(), effect: "NoExecute".into() };
        let nodes =
            (1..=7).map(|n| NodeFacts { taints: vec![taint(n)], ..node(&format!("n-{n}")) }).collect();
        let reported = survey(&criteria("", None), &store(nodes), None, None);
        assert!(reported.starts_with("of 7 nodes: n-1 has the taint k1:NoExecute, "), "{reported}");
        assert!(
            reported.ends_with("n-5 has the taint k5:NoExecute, the others have 2 other reasons"),
            "{reported}"
        );
    }
}

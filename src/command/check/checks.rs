//! Checks of nodes: whether the operator knows its node, and whether the checked port is open.

use super::Finding;
use super::rights::Account;
use crate::command::copy::{self, Objects};
use crate::config::Variable;
use crate::debug::{CheckView, View};
use flipop_core::model::node_check::NodeCheck;
use std::collections::BTreeSet;

/// The checks that objects ask for.
pub(super) fn of(objects: &Objects) -> BTreeSet<NodeCheck> {
    let providers = copy::every_provider(false);
    let (pools, sets) = objects.plain();
    let of_pools = pools.iter().filter_map(|pool| copy::pool_spec(pool, &providers)?.check);
    let of_sets = sets.iter().filter_map(|set| copy::set_spec(set, &providers)?.check);
    of_pools.chain(of_sets).collect()
}

/// One line for the node's name, and one for the port of each check.
pub(super) fn check(account: &Account, checks: &BTreeSet<NodeCheck>, told: Option<&View>) -> Vec<Finding> {
    if checks.is_empty() {
        return Vec::new();
    }
    let ports: BTreeSet<u16> = checks.iter().map(|check| check.port).collect();
    let told = told.map(|view| view.checks.as_slice()).unwrap_or_default();
    let mut findings = vec![knows_its_node(account)];
    findings.extend(ports.into_iter().map(|port| is_open(port, told)));
    findings
}

fn knows_its_node(account: &Account) -> Finding {
    let name = Variable::NodeName.name();
    if let Some(why) = &account.assumed {
        let what = format!("it is unknown whether the Deployment sets {name}, which spec.nodeCheck needs");
        return Finding::doubtful(what, why);
    }
    let variables =
        account.installed.pod.containers.iter().flat_map(|container| container.env.iter().flatten());
    if variables.into_iter().any(|variable| variable.name == name) {
        Finding::good(format!("the Deployment sets {name}, which spec.nodeCheck needs"))
    } else {
        Finding::bad(
            format!("the Deployment does not set {name}, so spec.nodeCheck has no effect"),
            "apply k8s/deployment.yaml",
        )
    }
}

/// The leader's results for a port.
fn is_open(port: u16, told: &[CheckView]) -> Finding {
    let suffix = format!(":{port}");
    let nodes: Vec<&CheckView> = told.iter().filter(|node| node.address.ends_with(&suffix)).collect();
    let answer = nodes.iter().filter(|node| node.last_passed_ms.is_some()).count();
    match (nodes.len(), answer) {
        (0, _) => Finding::doubtful(
            format!("the leader reports no check of port {port}"),
            "if it cannot be asked, make sure that the port is open from its pods to the InternalIP of each node",
        ),
        (all, answer) if all == answer => {
            Finding::good(format!("port {port} of each of the {all} checked nodes has answered"))
        }
        (all, answer) => Finding::bad(
            format!("port {port} has answered on {answer} of {all} checked nodes"),
            "allow this port from the pods of the operator to the InternalIP of each node",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::output::Tone;

    #[test]
    fn a_port_is_open_where_each_checked_node_has_answered_once() {
        let node = |port: u16, last_passed_ms| CheckView {
            address: format!("10.0.0.1:{port}"),
            last_passed_ms,
            ..CheckView::default()
        };
        let tone = |told: &[CheckView]| is_open(10_250, told).tone;
        assert_eq!(tone(&[]), Tone::Doubtful);
        assert_eq!(tone(&[node(22, Some(5))]), Tone::Doubtful);
        assert_eq!(tone(&[node(10_250, Some(5)), node(10_250, Some(90_000))]), Tone::Good);
        assert_eq!(tone(&[node(10_250, Some(5)), node(10_250, None)]), Tone::Bad);
    }
}

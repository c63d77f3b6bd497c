//! `cargo sandbox serve`: kubectl, and the commands that are typed.

use crate::support::{Lines, OWN, file, finish, has_kubectl, kubectl, kubectl_says, sandbox};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn serve_answers_kubectl_and_ends_with_a_signal() {
    if !has_kubectl() {
        println!("skipped: no kubectl on PATH");
        return;
    }
    let mut server = Lines::of(sandbox(&["serve"]));
    let path = server.wait(&["kubeconfig: "]);
    let config = PathBuf::from(path.trim_start_matches("kubeconfig: "));
    let metrics = server.wait(&["metrics: http://127.0.0.1:"]);
    assert!(metrics.ends_with("/metrics"));
    server.wait(&["curl -s http://127.0.0.1:"]);
    let watch = Lines::of(kubectl(&config, &["get", "fipool", "-w"]));
    watch.wait(&["ingress-pool", "True", "Assigned"]);
    watch.wait(&["game-servers", "3", "True", "Assigned"]);
    kubectl_says(&config, &["taint", "node", "edge-1", "maintenance=true:NoExecute"]);
    server.wait(&["edge-1 no longer matches default/ingress-pool: has the taint maintenance=true:NoExecute"]);
    watch.wait(&["ingress-pool", "1", "False", "Assigning"]);
    watch.wait(&["ingress-pool", "2", "True", "Assigned"]);
    server.wait(&["account", "is on edge-3"]);
    let described = kubectl_says(&config, &["describe", "fipool", "ingress-pool"]);
    assert!(described.contains("edge-3") && described.contains("Assigned"), "{described}");
    kubectl_says(
        &config,
        &[
            "patch",
            "fipool",
            "ingress-pool",
            "--type=merge",
            "-p",
            r#"{"spec":{"match":{"nodeLabel":"a in"}}}"#,
        ],
    );
    watch.wait(&["ingress-pool", "False", "InvalidSpec"]);
    let (_directory, own) = file(OWN);
    kubectl_says(&config, &["apply", "-f", own.to_str().unwrap()]);
    server.wait(&["pool", "edge/voice Ready="]);
    kubectl_says(&config, &["delete", "fipool", "game-servers"]);
    server.wait(&["default/game-servers is gone"]);
    kubectl_says(
        &config,
        &["patch", "nodedns", "ingress-nodes", "--type=merge", "-p", r#"{"spec":{"addressType":""}}"#],
    );
    server.wait(&[
        "record",
        "nodes.example.net A 198.18.0.3 put in place of",
        "at cloudflare: edge-3 has it",
    ]);
    let waits = [
        "wait",
        "nodedns/ingress-nodes",
        "--for=jsonpath={.status.addresses[1]}=198.18.0.3",
        "--timeout=60s",
    ];
    kubectl_says(&config, &waits);
    let shown = kubectl_says(&config, &["get", "nodedns"]);
    let row: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["ingress-nodes", "nodes.example.net", "active", "True", "Published"]);
    kubectl_says(&config, &["delete", "nodedns", "ingress-nodes"]);
    server.wait(&["default/ingress-nodes is gone; its records stay"]);
    let process = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    server.wait(&["stopping"]);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(!config.exists(), "the kubeconfig is gone with the cluster that it points to");
}

/// A server that reads typed lines.
pub(crate) fn typed_to() -> Lines {
    let mut command = sandbox(&["serve"]);
    command.stdin(Stdio::piped());
    Lines::of(command)
}

/// The same with the file for kubectl. `None`: kubectl is not installed.
#[expect(clippy::print_stdout, reason = "a test says why it is skipped")]
fn with_kubectl() -> Option<(Lines, PathBuf)> {
    if !has_kubectl() {
        println!("skipped: no kubectl on PATH");
        return None;
    }
    let server = typed_to();
    let path = server.wait(&["kubeconfig: "]);
    Some((server, PathBuf::from(path.trim_start_matches("kubeconfig: "))))
}

/// Runs printed kubectl commands.
fn obey(config: &Path, commands: &[String]) {
    for command in commands {
        let words = command.split_whitespace().skip(1).map(|word| word.trim_matches('\''));
        kubectl_says(config, &words.collect::<Vec<_>>());
    }
}

#[test]
fn what_is_typed_is_done_to_nodes_accounts_and_rights() {
    let mut server = typed_to();
    server.wait(&["type help"]);
    server.wait(&["pool", "default/game-servers Ready=True"]);
    server.type_in("kill games-1");
    server.wait(&["games-1 no longer matches default/game-servers: stopped reporting"]);
    server.wait(&["account", "is on games-4, "]);
    server.type_in("drain edge-1");
    server.wait(&["DRAIN edge-1", "nginx-ingress-edge-1 evicted"]);
    server.wait(&["account", "203.0.113.10 is on edge-3"]);
    server.wait(&["the set starts nginx-ingress-edge-again-1 on edge-2"]);
    server.type_in("heal edge-1");
    server.wait(&["edge-1 matches default/ingress-pool"]);
    server.type_in("token bad digitalocean");
    server.wait(&["event", "Warning", "token"]);
    server.type_in("token good");
    server.type_in("deny patch nodes");
    server.wait(&["DENY"]);
    server.type_in("allow");
    server.type_in("dns down");
    server.wait(&["DNS is down"]);
    server.type_in("dns up");
    server.type_in("throttle 1");
    server.wait(&["THROTTLE", "429"]);
    server.wait(&["THROTTLE is over"]);
    server.type_in("quota 3");
    server.wait(&["QUOTA", "3 reserved IPs"]);
    server.type_in("ask 203.0.113.10 edge-1");
    server.wait(&["ASK", "flipop.digitalocean.com/move=203.0.113.10=edge-1#1"]);
    server.wait(&["account", "203.0.113.10 is on edge-1"]);
    server.type_in("ask 203.0.113.99 edge-1");
    server.wait(&["✗ sandbox", "no pool has 203.0.113.99"]);
    server.type_in("move 203.0.113.11 nowhere");
    server.wait(&["account", "203.0.113.11 is taken off edge-2"]);
    server.type_in("pause ingress-pool incident 7");
    server.wait(&["PAUSE: FloatingIPPool ingress-pool"]);
    server.wait(&["event", "incident 7"]);
    server.type_in("resume ingress-pool");
    server.wait(&["RESUME: FloatingIPPool ingress-pool"]);
    server.type_in("resume nothing");
    server.wait(&["no pool and no record set is called nothing"]);
    server.type_in("show");
    server.wait(&["ADDRESS ", "POOL", "NODE", "STATE"]);
    server.type_in("kill nothing");
    server.wait(&["✗ sandbox", "no node is called nothing; there are edge-1"]);
    server.type_in("kil games-2");
    server.wait(&["✗ sandbox", "there is no command \"kil\""]);
    server.type_in("quit");
    server.wait(&["stopping"]);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_printed_commands_give_a_grace_that_spares_a_node_that_is_healed() {
    let Some((mut server, config)) = with_kubectl() else { return };
    server.wait(&["`kill edge-1`, and within a minute `heal edge-1`"]);
    let commands = [
        server.wait(&["kubectl patch floatingippool ingress-pool -n default"]),
        server.wait(&["kubectl patch nodednsrecordset ingress-nodes -n default"]),
    ];
    server.wait(&["pool", "default/ingress-pool Ready=True"]);
    obey(&config, &commands);
    for object in ["fipool/ingress-pool", "nodedns/ingress-nodes"] {
        let seen = "--for=jsonpath={.status.observedGeneration}=2";
        kubectl_says(&config, &["wait", object, seen, "--timeout=60s"]);
    }
    server.type_in("kill edge-1");
    server.wait(&["edge-1 fails the rules of default/ingress-pool: stopped reporting"]);
    server.wait(&["event", "FailoverDelayed default/ingress-pool", "edge-1"]);
    server.type_in("heal edge-1");
    server.wait(&["event", "FailoverAvoided default/ingress-pool: edge-1 matches again"]);
    let holder = "jsonpath={.status.ips.203\\.0\\.113\\.10.nodeName}";
    assert_eq!(kubectl_says(&config, &["get", "fipool", "ingress-pool", "-o", holder]), "edge-1");
}

#[test]
fn the_printed_commands_move_the_address_of_a_dead_machine_before_kubernetes_notices() {
    let Some((mut server, config)) = with_kubectl() else { return };
    server.wait(&["type here `crash edge-1`"]);
    let commands = [server.wait(&["kubectl patch floatingippool ingress-pool -n default", "nodeCheck"])];
    server.wait(&["pool", "default/ingress-pool Ready=True"]);
    obey(&config, &commands);
    server.type_in("crash edge-1");
    // The lines come in order, and that about Kubernetes would come 40 s after the crash.
    let mut lines = server.until(&["event", "NodeUnreachable default/ingress-pool"]);
    lines.extend(server.until(&["account", "203.0.113.10 is on edge-3"]));
    assert!(!lines.iter().any(|line| line.contains("calls edge-1 NotReady")), "{lines:#?}");
    server.type_in("heal edge-1");
    server.wait(&["HEAL edge-1"]);
}

#[test]
fn the_printed_commands_label_the_nodes_that_have_an_address_and_open_their_ports() {
    let Some((server, config)) = with_kubectl() else { return };
    let commands = [
        server.wait(&["kubectl patch floatingippool ingress-pool -n default", "nodeLabels"]),
        server.wait(&["kubectl patch floatingippool ingress-pool -n default", "firewall"]),
    ];
    server.wait(&["pool", "default/ingress-pool Ready=True"]);
    obey(&config, &commands);
    server.wait(&["node", "edge-1 is labelled flipop.digitalocean.com/reserved-ip=203.0.113.10"]);
    server.wait(&["firewall", "flipop-", "-1 opens tcp 443 for 0.0.0.0/0"]);
    let shown = kubectl_says(&config, &["get", "nodes", "-L", "flipop.digitalocean.com/reserved-ip"]);
    let with_address = |line: &&str| line.split_whitespace().last() == Some("203.0.113.10");
    let nodes: Vec<&str> =
        shown.lines().filter(with_address).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(nodes, ["edge-1"], "{shown}");
}

#[test]
fn the_printed_commands_give_back_the_addresses_that_a_pool_created() {
    let Some((server, config)) = with_kubectl() else { return };
    let commands = [
        server.wait(&["kubectl patch floatingippool game-servers -n default", "reclaimPolicy"]),
        server.wait(&[
            "kubectl wait floatingippool game-servers -n default",
            "flipop.digitalocean.com/reclaim",
        ]),
        server.wait(&["kubectl delete floatingippool game-servers -n default --wait=false"]),
    ];
    server.wait(&["pool", "default/game-servers Ready=True"]);
    obey(&config, &commands);
    // Names first, then the node, then the account; the pool goes last.
    server.wait(&["record", "play.example.com A ", "deleted at digitalocean"]);
    let shown =
        kubectl_says(&config, &["get", "fipool", "game-servers", "-o", "jsonpath={.status.conditions}"]);
    assert!(shown.contains("Reclaiming"), "{shown}");
    server.wait(&["account", "is taken off games-"]);
    server.wait(&["account", "is released"]);
    server.wait(&["default/game-servers is gone"]);
}

#[test]
fn an_operator_that_loses_its_lease_is_started_anew_and_leads_again() {
    let mut server = typed_to();
    server.wait(&["pool", "default/game-servers Ready=True"]);
    server.type_in("lease");
    server.wait(&["LEASE: somebody else holds it"]);
    server.wait(&["an operator has ended", "its container restarts"]);
    server.wait(&["an operator starts"]);
    server.type_in("kill games-1");
    server.wait(&["account", "is on games-4, "]);
}

#[test]
fn kubectl_drains_without_force_and_scales_the_operator() {
    let Some((mut server, config)) = with_kubectl() else { return };
    let listed = server.wait(&["curl -s -H 'Authorization: Bearer sandbox-token' http://127.0.0.1:"]);
    assert!(listed.ends_with("/v2/reserved_ips"), "{listed}");
    server.wait(&["pool", "default/game-servers Ready=True"]);
    let mut curl = Command::new("sh");
    curl.arg("-c").arg(listed.trim()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let answer = String::from_utf8(finish(curl).stdout).unwrap();
    assert!(answer.contains("203.0.113.10"), "{answer}");
    let drained = kubectl_says(&config, &["drain", "edge-1"]);
    assert!(drained.contains("pod/nginx-ingress-edge-1 evicted"), "{drained}");
    server.wait(&["account", "203.0.113.10 is on edge-3"]);
    server.wait(&["the set starts nginx-ingress-edge-again-1 on edge-2"]);
    let flipop = |arguments: &[&str]| kubectl_says(&config, &[&["-n", "flipop"], arguments].concat());
    let scaled = flipop(&["scale", "deployment", "flipop", "--replicas=0"]);
    assert_eq!(scaled, "deployment.apps/flipop scaled\n");
    server.wait(&["SCALE", "stopped"]);
    server.wait(&["an operator has ended as it was asked to"]);
    server.type_in("kill games-1");
    server.wait(&["games-1 no longer matches"]);
    flipop(&["scale", "deployment", "flipop", "--replicas=2"]);
    server.wait(&["account", "is on games-4, "]);
    flipop(&["rollout", "status", "deployment/flipop", "--timeout=30s"]);
    let shown = flipop(&["get", "deployment", "flipop"]);
    assert!(shown.contains("2/2"), "{shown}");
    flipop(&["delete", "pod", "flipop-2"]);
    server.wait(&["an operator starts"]);
    server.wait(&["an operator has ended as it was asked to"]);
}

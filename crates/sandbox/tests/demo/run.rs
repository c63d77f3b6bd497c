//! `cargo sandbox` to its end: the examples, a user's own YAML, and mistakes in it.

use crate::support::{OWN, file, run, run_command, run_file, sandbox};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn the_examples_are_shown_to_the_end_with_two_failovers_and_nothing_needless() {
    let run = run(&[]);
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    assert_eq!(run.err, "");
    run.assert_says(&["203.0.113.10 stays on edge-1", "nothing had to move"]);
    run.assert_says(&["KILL games-1"]);
    run.assert_says(&["games-1 no longer matches default/game-servers: stopped reporting"]);
    run.assert_says(&["RESTART nginx-ingress-edge-1 on edge-1, which holds 203.0.113.10"]);
    run.assert_says(&["edge-1 fails the rules of default/ingress-pool: runs no matching pod that is Ready"]);
    run.assert_says(&["event", "Warning FailoverDelayed default/ingress-pool: edge-1 runs no matching pod"]);
    run.assert_says(&["event", "Normal FailoverAvoided default/ingress-pool: edge-1 matches again after"]);
    run.assert_says(&["203.0.113.10 stayed on edge-1: no address moved"]);
    run.assert_says(&["DRAIN edge-1", "it is cordoned and loses nginx-ingress-edge-1"]);
    run.assert_says(&["edge-1 no longer matches default/ingress-pool: runs no matching pod that is Ready"]);
    run.assert_says(&["nothing moved back"]);
    run.assert_says(&["everything went as expected"]);
    let table = run.table();
    assert_eq!(table.len(), 5, "{}", run.out);
    assert_eq!(table["203.0.113.10"][1..], ["default/ingress-pool", "edge-3", "active", "1"]);
    assert_eq!(table["203.0.113.11"][1..], ["default/ingress-pool", "edge-2", "active", "0"]);
    let failovers: Vec<[&str; 2]> = run.failovers().iter().map(|[_, from, to]| [*from, *to]).collect();
    assert_eq!(failovers, [["games-1", "games-4"], ["edge-1", "edge-3"]]);
    assert!(run.rest("assignments: ").starts_with("3 placed, 2 moved"), "{}", run.out);
    run.assert_consistent();
    assert!(!run.out.contains("! warning"), "{}", run.out);
    assert!(!run.out.contains("sandbox-token") && !run.out.contains("sandbox-cloudflare-token"));
}

#[test]
fn the_records_of_the_examples_follow_the_addresses_at_both_providers() {
    let run = run(&[]);
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    let sets = run.record_sets();
    let names: Vec<&str> = sets.keys().map(String::as_str).collect();
    assert_eq!(names, ["ingress.example.com", "nodes.example.net", "play.example.com"]);
    let words = |name: &str| sets[name][1..].join(" ");
    assert_eq!(
        words("ingress.example.com"),
        "digitalocean 30 FloatingIPPool default/ingress-pool 203.0.113.10, 203.0.113.11"
    );
    assert_eq!(
        words("nodes.example.net"),
        "cloudflare 120 NodeDNSRecordSet default/ingress-nodes 203.0.113.10, 203.0.113.11"
    );
    for [ip, from, _] in run.failovers() {
        let name = if from == "edge-1" { "ingress" } else { "play" };
        run.assert_says(&[
            "record",
            &format!("{name}.example.com A {ip} deleted at digitalocean: {from} no longer"),
        ]);
    }
    run.assert_says(&["record", "nodes.example.net A 203.0.113.10 deleted at cloudflare: "]);
    run.assert_says(&["nodes.example.net A 203.0.113.10 created at cloudflare: edge-3 has it and matches"]);
    let published = |line: &&str| line.starts_with("failover: ") && line.contains(", in DNS after ");
    assert_eq!(run.out.lines().filter(published).count(), 2, "{}", run.out);
    assert!(run.rest("calls of cloudflare: ").contains("BatchRecords"));
}

/// A record set of a user, at Cloudflare in a zone that is given by its id.
const OWN_SET: &str = "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: NodeDNSRecordSet\nmetadata: {name: dns}\nspec:\n  \
                       dnsRecordSet: {provider: cloudflare, zone: 023e105f4ecef8ad9ca31a8372d0c353, recordName: '@'}\n  \
                       addressType: InternalIP\n  match: {nodeLabel: tier=edge}\n";

#[test]
fn a_record_set_without_a_pool_is_shown_in_a_zone_that_is_given_by_its_id() {
    let run = run_file(OWN_SET);
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&[
        "the simulated cloudflare has the zone example.com (id 023e105f4ecef8ad9ca31a8372d0c353)",
    ]);
    run.assert_says(&["KILL edge-1, which default/dns publishes"]);
    let sets = run.record_sets();
    let (set, addresses) = sets["example.com"][2..].split_at(3);
    assert_eq!(set.join(" "), "60 NodeDNSRecordSet default/dns");
    assert!(addresses.len() == 2 && addresses.iter().all(|ip| ip.starts_with("10.")), "{addresses:?}");
    let first = addresses[0].trim_end_matches(',');
    run.assert_says(&[
        "record",
        &format!("example.com A {first} deleted at cloudflare: edge-1 no longer matches default/dns"),
    ]);
    run.assert_records();
}

#[test]
fn a_record_set_that_cannot_work_ends_with_the_operators_reason() {
    let pool = format!("{OWN}  dnsRecordSet: {{zone: example.com, recordName: x}}\n");
    let twice = format!(
        "{pool}---\n{}",
        OWN_SET.replace(
            "provider: cloudflare, zone: 023e105f4ecef8ad9ca31a8372d0c353, recordName: '@'",
            "zone: example.com, recordName: x.example.com"
        )
    );
    for (yaml, reason) in [
        (OWN_SET.replace("cloudflare", "route53"), "unknown provider \"route53\""),
        (
            OWN_SET
                .replace("023e105f4ecef8ad9ca31a8372d0c353", "example.com")
                .replace("'@'", "x.example.org."),
            "is not in the zone example.com",
        ),
        (OWN_SET.replace("InternalIP", "Internal"), "spec.addressType: unknown value"),
        (
            pool.replace("recordName: x", "recordName: x.example.org."),
            "FloatingIPPool edge/voice: RecordSetReady=False",
        ),
        (twice, "x.example.com is claimed by the older "),
    ] {
        let run = run_file(&yaml);
        assert_eq!(run.code, Some(1), "{reason}: {}\n{}", run.out, run.err);
        assert!(run.err.contains(reason), "{reason}: {}", run.err);
        assert!(!run.out.contains("KILL"), "{}", run.out);
    }
}

#[test]
fn a_users_own_pool_gets_a_cluster_that_fits_it_and_its_cool_off_is_waited_for() {
    let run = run_file(OWN);
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&["apply", "FloatingIPPool voice"]);
    run.assert_says(&["3 nodes", "3 pods"]);
    run.assert_says(&["edge/voice waits for its cool-off"]);
    let table = run.table();
    assert_eq!(table["198.51.100.7"][1], "edge/voice");
    assert_eq!(table["198.51.100.7"][4], "2", "{}", run.out);
    run.assert_consistent();
}

#[test]
fn a_drain_that_the_pool_tolerates_moves_nothing() {
    let run = run_file(
        "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\nmetadata: {name: p}\nspec:\n  \
         provider: digitalocean\n  ips: [198.51.100.7]\n  match:\n    nodeLabel: a=b\n    tolerations:\n    \
         - {key: node.kubernetes.io/unschedulable, operator: Exists}\n",
    );
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&["still matches default/p while it is cordoned"]);
    assert_eq!(run.failovers().len(), 1, "{}", run.out);
    run.assert_consistent();
}

#[test]
fn a_pool_that_asks_for_no_pods_keeps_its_address_while_a_kubelet_restarts_and_its_own_grace_is_shortened() {
    let run = run_file(
        "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\nmetadata: {name: p}\nspec:\n  \
         provider: digitalocean\n  ips: [198.51.100.7]\n  grace: {nodeSeconds: 600, recoverySeconds: 4}\n  \
         match: {nodeLabel: a=b}\n",
    );
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&["p: grace is lowered to 5 s (nodeSeconds)"]);
    run.assert_says(&["RESTART the kubelet of b-1, which holds 198.51.100.7"]);
    run.assert_says(&["event", "Normal FailoverAvoided default/p: b-1 matches again after"]);
    assert_eq!(run.failovers().len(), 2, "{}", run.out);
    run.assert_consistent();
}

#[test]
fn labels_go_before_the_address_moves_and_the_ports_of_a_pool_are_opened_before_it_arrives() {
    let run = run_file(
        "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: FloatingIPPool\nmetadata: {name: p}\nspec:\n  \
         provider: digitalocean\n  ips: [198.51.100.7]\n  match: {nodeLabel: a=b}\n  nodeLabels: {enabled: true}\n  \
         firewall:\n    ports: [{protocol: tcp, port: \"443\"}]\n    sources: [0.0.0.0/0]\n",
    );
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&["the user's own firewall k8s-worker governs every droplet"]);
    run.assert_says(&["firewall", "-1 now covers b-1, b-2"]);
    let at = |parts: &[&str]| run.out.lines().position(|line| parts.iter().all(|part| line.contains(part)));
    let opened = at(&["firewall", "flipop-", "-1 opens tcp 443 for 0.0.0.0/0"]);
    assert!(
        opened.is_some() && opened < at(&["account", "198.51.100.7 begins to move to b-1"]),
        "{}",
        run.out
    );
    let drained = at(&["DRAIN"]).unwrap();
    let after: Vec<&str> = run.out.lines().skip(drained).collect();
    let line = |part: &str| after.iter().position(|line| line.contains(part));
    let gone = line("loses its labels flipop.digitalocean.com/reserved-ip=198.51.100.7");
    let (moves, labelled) = (line("198.51.100.7 begins to move from"), line("is labelled"));
    assert!(gone.is_some() && gone < moves && moves < labelled, "{}", run.out);
    run.assert_consistent();
}

#[test]
fn a_spec_that_cannot_work_ends_with_the_operators_reason() {
    for (old, new, reason) in [
        ("tier > 2", "tier > many", "spec.match.nodeLabel: not a label selector"),
        ("digitalocean\n  region", "aws\n  region", "spec.provider: unknown provider \"aws\""),
        ("[198.51.100.7]", "[198.51.100.7, 198.51.100.300]", "\"198.51.100.300\" is not an IPv4 address"),
    ] {
        let yaml = OWN.replace(old, new);
        assert_ne!(yaml, OWN);
        let run = run_file(&yaml);
        assert_eq!(run.code, Some(1), "{}\n{}", run.out, run.err);
        assert!(run.err.contains("edge/voice is not healthy: status.error: "), "{}", run.err);
        assert!(run.err.contains(reason), "{}", run.err);
        run.assert_says(&["sandbox", "edge/voice SpecValid=False", reason]);
        assert!(!run.out.contains("KILL"), "{}", run.out);
    }
}

#[test]
fn what_the_api_server_refuses_and_what_is_no_yaml_ends_with_the_file_and_the_place() {
    let run = run_file(&OWN.replace("[198.51.100.7]", "198.51.100.7"));
    assert_eq!(run.code, Some(1), "{}", run.out);
    assert!(run.err.contains("pool.yaml") && run.err.contains("spec.ips"), "{}", run.err);
    let run = run_file("kind: [\n");
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("pool.yaml as YAML"), "{}", run.err);
    let run = run_file("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n");
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("failed to find a FloatingIPPool or a NodeDNSRecordSet"), "{}", run.err);
}

#[test]
fn usage_is_told_apart_from_failure() {
    assert_eq!(run(&["--no-such-flag"]).code, Some(2));
    assert_eq!(run(&["/nonexistent/pool.yaml"]).code, Some(1));
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.out.contains("serve") && help.out.contains("Exit code"), "{}", help.out);
}

#[test]
fn a_field_that_a_kind_does_not_have_is_refused_as_by_kubectl() {
    for (yaml, field) in [
        (
            OWN.replace("ips: [198.51.100.7]", "ips: [198.51.100.7]\n  assignmentCooloffSeconds: 3"),
            "spec.assignmentCooloffSeconds",
        ),
        (OWN.replace("podLabel: app", "podLabels: app"), "spec.match.podLabels"),
        (OWN.replace("name: voice,", "name: voice, lables: {a: b},"), "metadata.lables"),
    ] {
        assert_ne!(yaml, OWN);
        let run = run_file(&yaml);
        assert_eq!(run.code, Some(1), "{}", run.out);
        assert!(run.err.contains(&format!("unknown field \"{field}\"")), "{}", run.err);
    }
    let slip = run_file(&format!("{OWN}---\n{}", OWN_SET.replace("NodeDNSRecordSet", "NodeDnsRecordSet")));
    assert_eq!(slip.code, Some(1), "{}", slip.out);
    assert!(slip.err.contains("NodeDnsRecordSet"), "{}", slip.err);
}

#[test]
fn what_the_policies_would_warn_of_is_told_where_the_object_is_applied() {
    let run = run_file(&OWN.replace("podLabel: app", "podLabel: app\n    tolerations: [{operator: Like}]"));
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&["! warning", "spec.match.tolerations: unknown operator", "Like"]);
}

#[test]
fn standard_input_is_a_file_and_one_without_our_kinds_is_answered_with_what_it_holds() {
    let given = |yaml: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("printf '%s' \"$0\" | {} -", env!("CARGO_BIN_EXE_sandbox"))).arg(yaml);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        run_command(command)
    };
    let run = given(OWN);
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&["+ apply", "FloatingIPPool voice from standard input"]);
    let other = "apiVersion: flipop.digitalocean.com/v1\nkind: FloatingIPPool\nmetadata: {name: old}\n";
    let run = given(other);
    assert_eq!(run.code, Some(1));
    let told = "in standard input, which holds FloatingIPPool old (flipop.digitalocean.com/v1)";
    assert!(run.err.contains(told), "{}", run.err);
    assert!(given("").err.contains("which holds no object"));
}

#[test]
fn a_pool_that_can_never_be_healthy_is_told_at_once() {
    for (old, new, reason) in [
        ("!legacy", "!tier", "no node can have labels that spec.match.nodeLabel selects"),
        ("region: fra1\n  ips: [198.51.100.7]", "desiredIPs: 2", "spec.region: no region is named"),
    ] {
        let yaml = OWN.replace(old, new);
        assert_ne!(yaml, OWN);
        let started = now();
        let run = run_file(&yaml);
        let took = started.elapsed();
        assert_eq!(run.code, Some(1), "{}\n{}", run.out, run.err);
        run.assert_says(&["✗ sandbox", "edge/voice can never become healthy as it is", reason]);
        assert!(took < Duration::from_secs(15), "{took:?}: {}", run.out);
        assert!(!run.out.contains("giving up"), "{}", run.out);
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a process took")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn a_wait_says_what_it_waits_for() {
    // The second failover comes within the cool-off of the first.
    let run = run_file(&OWN.replace("assignmentCoolOffSeconds: 3", "assignmentCoolOffSeconds: 9"));
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    run.assert_says(&[
        "… sandbox",
        "waiting for 198.51.100.7 to leave",
        "its cool-off lets it assign again in",
    ]);
}

#[test]
fn colours_are_for_terminals_and_never_where_no_color_is_set() {
    let (_directory, path) = file(&OWN.replace("tier > 2", "tier > many"));
    let coloured = |variables: &[(&str, &str)]| {
        let mut command = sandbox(&[path.to_str().unwrap()]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("\u{1b}[")
    };
    // Colours as on a terminal.
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[]), "a pipe is no terminal");
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

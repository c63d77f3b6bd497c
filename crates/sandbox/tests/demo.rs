//! The binary as a user runs it: the script of the repository's examples, a user's own YAML, what is wrong with it, and
//! `serve` with the real kubectl.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that finds something else than it expects ends there"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// How long a run may take. It needs ten seconds; the machines of a CI are slow and busy.
const PATIENCE: Duration = Duration::from_mins(2);

/// A pool of a user: other names, selectors and tolerations than the examples', and a cool-off that is short.
const OWN: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: edge}
---
apiVersion: flipop.digitalocean.com/v1alpha1
kind: FloatingIPPool
metadata: {name: voice, namespace: edge}
spec:
  provider: digitalocean
  region: fra1
  ips: [198.51.100.7]
  assignmentCoolOffSeconds: 3
  match:
    nodeLabel: pool in (sip, rtp), tier > 2, !legacy
    podNamespace: calls
    podLabel: app
";

/// The sandbox with these arguments, without anything of this process's environment that could matter to it.
fn sandbox(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["KUBECONFIG", "DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_API_URL", "CLOUDFLARE_TOKEN"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command to its end; kills it when that does not come.
fn finish(mut command: Command) -> Output {
    let child = command.spawn().unwrap();
    let process = child.id();
    let (done, finished) = mpsc::channel();
    let waiting = std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(output) = finished.recv_timeout(PATIENCE) else {
        Command::new("kill").arg(process.to_string()).status().unwrap();
        panic!("{command:?} hangs");
    };
    waiting.join().unwrap().unwrap();
    output.unwrap()
}

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(arguments: &[&str]) -> Run {
    let output = finish(sandbox(arguments));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Run {
    fn assert_says(&self, parts: &[&str]) {
        let found = self.out.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "no line has {parts:?}:\n{}\n{}", self.out, self.err);
    }

    /// The words of the summary's table of addresses, row by row, by address.
    fn table(&self) -> BTreeMap<String, Vec<String>> {
        self.rows("ADDRESS ")
    }

    /// The words of its table of record sets, by name.
    fn record_sets(&self) -> BTreeMap<String, Vec<String>> {
        self.rows("RECORD SET ")
    }

    fn rows(&self, header: &str) -> BTreeMap<String, Vec<String>> {
        let rows = self.out.lines().skip_while(|line| !line.starts_with(header)).skip(1);
        let rows = rows.take_while(|line| !line.is_empty());
        rows.map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .map(|words| (words[0].clone(), words))
            .collect()
    }

    /// What follows `prefix` in the one line that begins with it.
    fn rest(&self, prefix: &str) -> &str {
        let mut rests = self.out.lines().filter_map(|line| line.strip_prefix(prefix));
        let rest = rests.next().unwrap_or_else(|| panic!("no line begins with {prefix:?}:\n{}", self.out));
        assert_eq!(rests.next(), None, "{prefix:?}");
        rest
    }

    /// Every record of the tables was told as it came, and of those told as gone the last word is that they came back.
    fn assert_records(&self) {
        for (fqdn, row) in self.record_sets() {
            let provider = &row[1];
            for address in row[5..].iter().map(|address| address.trim_end_matches(',')) {
                let prefix = format!("record    {fqdn} A {address} ");
                let told: Vec<&str> = self.out.lines().filter(|line| line.contains(&prefix)).collect();
                let last = told.last().unwrap_or_else(|| panic!("nothing of {prefix:?}:\n{}", self.out));
                assert!(last.contains(&format!("created at {provider}: ")), "{last}");
            }
        }
    }

    /// Address, old and new node of each failover of the summary.
    fn failovers(&self) -> Vec<[&str; 3]> {
        let lines = self.out.lines().filter_map(|line| line.strip_prefix("failover: "));
        lines
            .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
                [ip, "from", from, "to", to, "in", ..] => [ip, from, to],
                _ => panic!("{line}"),
            })
            .collect()
    }

    /// Table, failovers, assignments and calls of the summary tell of the same events, and so does the story.
    fn assert_consistent(&self) {
        let (table, failovers) = (self.table(), self.failovers());
        let mut nodes: Vec<&str> = table.values().map(|row| row[2].as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), table.len(), "one address a node:\n{}", self.out);
        let moves: usize = table.values().map(|row| row[4].parse::<usize>().unwrap()).sum();
        assert_eq!(moves, failovers.len(), "{}", self.out);
        for (ip, row) in &table {
            assert_eq!(row[3], "active", "{}", self.out);
            let last = failovers.iter().rev().find(|[moved, ..]| moved == ip);
            assert!(last.is_none_or(|[_, _, to]| *to == row[2]), "{row:?} {failovers:?}");
        }
        let numbers = |text: &str| -> Vec<usize> {
            text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
        };
        let [placed, away] = numbers(self.rest("assignments: "))[..] else { panic!("{}", self.out) };
        assert_eq!(away, failovers.len());
        let calls = self.rest("calls of digitalocean: ");
        let counts = numbers(calls);
        assert_eq!(counts[0], counts[1..].iter().sum::<usize>(), "{}", self.out);
        let assignments = placed + away;
        assert!(calls.contains(&format!("AssignIp {assignments}")), "{}", self.out);
        self.assert_records();
        assert_eq!(self.out.matches(" begins to move ").count(), assignments, "{}", self.out);
        for [ip, from, to] in failovers {
            self.assert_says(&["account", &format!("{ip} begins to move from {from} to {to}"), " after "]);
            self.assert_says(&["account", &format!("{ip} is on {to}")]);
            self.assert_says(&["node", &format!("{from} loses its annotation")]);
            self.assert_says(&["node", &format!("{to} is annotated with {ip}")]);
            self.assert_says(&["event", "Normal Assigned", &format!("assigned {ip} to node {to}")]);
        }
    }
}

fn file(content: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool.yaml");
    std::fs::write(&path, content).unwrap();
    (directory, path)
}

fn run_file(content: &str) -> Run {
    let (_directory, path) = file(content);
    run(&[path.to_str().unwrap()])
}

#[test]
fn the_examples_are_shown_to_the_end_with_two_failovers_and_nothing_needless() {
    let run = run(&[]);
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    assert_eq!(run.err, "");
    run.assert_says(&["203.0.113.10 stays on edge-1", "nothing had to move"]);
    run.assert_says(&["KILL games-1"]);
    run.assert_says(&["games-1 no longer matches default/game-servers: the node is not Ready"]);
    run.assert_says(&["DRAIN edge-1", "it is cordoned and loses nginx-ingress-edge-1"]);
    run.assert_says(&["edge-1 no longer matches default/ingress-pool: no matching pod is Running and Ready"]);
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
    run.assert_says(&[
        "record",
        "example.com A 10.120.0.1 deleted at cloudflare: edge-1 no longer matches default/dns",
    ]);
    let sets = run.record_sets();
    assert_eq!(sets["example.com"][2..].join(" "), "60 NodeDNSRecordSet default/dns 10.120.0.1, 10.120.0.2");
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

/// A process whose output is read line by line, killed at the end.
struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The first line from here on that has all of these parts.
    fn wait(&self, parts: &[&str]) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if parts.iter().all(|part| line.contains(part)) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("{error}: no line with {parts:?}:\n{}", seen.join("\n")),
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the tests' own environment")]
fn has_kubectl() -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).output();
    let found = found.is_ok_and(|output| output.status.success());
    assert!(found || std::env::var_os("CI").is_none(), "CI is set, but there is no kubectl");
    found
}

fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    // Its cache of what the server has goes where the kubeconfig is: another run has another server.
    command.env("HOME", kubeconfig.parent().unwrap()).env("NO_PROXY", "127.0.0.1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn kubectl_says(kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = finish(kubectl(kubeconfig, arguments));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

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
    server.wait(&["edge-1 no longer matches default/ingress-pool: taint maintenance is not tolerated"]);
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
        "nodes.example.net A 198.18.0.3 put in the place of",
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

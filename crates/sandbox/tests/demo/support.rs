//! Runs the binary as a process, reads its output line by line or to the end, and runs kubectl beside it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// How long a run may take. It needs ten seconds; the machines of a CI are slow and busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A user's pool, with other names, selectors and tolerations than the examples, and a short cool-off.
pub(crate) const OWN: &str = r"
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

/// The sandbox with these arguments, and without the variables of this process that could affect it.
pub(crate) fn sandbox(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["KUBECONFIG", "DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_API_URL", "CLOUDFLARE_TOKEN"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command to its end, and kills it if it takes too long.
pub(crate) fn finish(mut command: Command) -> Output {
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

pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run(arguments: &[&str]) -> Run {
    run_command(sandbox(arguments))
}

pub(crate) fn run_command(command: Command) -> Run {
    let output = finish(command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let raw = text(output.stdout);
    for line in raw.lines() {
        assert!(line.chars().count() <= 120, "longer than 120 columns: {line}");
    }
    Run { code: output.status.code(), out: joined(&raw), err: text(output.stderr) }
}

/// Whether a line continues the one before.
pub(crate) fn goes_on(line: &str) -> bool {
    line.starts_with("    ")
}

/// The text with its broken lines joined.
pub(crate) fn joined(text: &str) -> String {
    let mut whole = String::new();
    for line in text.lines() {
        if goes_on(line) {
            whole.truncate(whole.trim_end().len());
            whole.push(' ');
            whole.push_str(line.trim_start());
        } else {
            whole.push_str(line);
        }
        whole.push('\n');
    }
    whole
}

impl Run {
    pub(crate) fn assert_says(&self, parts: &[&str]) {
        let found = self.out.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "no line has {parts:?}:\n{}\n{}", self.out, self.err);
    }

    /// The words of the summary's table of addresses, row by row, by address.
    pub(crate) fn table(&self) -> BTreeMap<String, Vec<String>> {
        self.rows("ADDRESS ")
    }

    /// The words of its table of record sets, by name.
    pub(crate) fn record_sets(&self) -> BTreeMap<String, Vec<String>> {
        self.rows("RECORD SET ")
    }

    pub(crate) fn rows(&self, header: &str) -> BTreeMap<String, Vec<String>> {
        let rows = self.out.lines().skip_while(|line| !line.starts_with(header)).skip(1);
        let rows = rows.take_while(|line| !line.is_empty());
        rows.map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .map(|words| (words[0].clone(), words))
            .collect()
    }

    /// The rest of the only line that begins with `prefix`.
    pub(crate) fn rest(&self, prefix: &str) -> &str {
        let mut rests = self.out.lines().filter_map(|line| line.strip_prefix(prefix));
        let rest = rests.next().unwrap_or_else(|| panic!("no line begins with {prefix:?}:\n{}", self.out));
        assert_eq!(rests.next(), None, "{prefix:?}");
        rest
    }

    /// Checks that the story told of each record in the table, and last that it was created.
    pub(crate) fn assert_records(&self) {
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

    /// The address, the old node and the new node of each failover in the summary.
    pub(crate) fn failovers(&self) -> Vec<[&str; 3]> {
        let lines = self.out.lines().filter_map(|line| line.strip_prefix("failover: "));
        lines
            .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
                [ip, "from", from, "to", to, "in", ..] => [ip, from, to],
                _ => panic!("{line}"),
            })
            .collect()
    }

    /// Checks that the table, failovers, assignments and calls of the summary agree with each other and with the story.
    pub(crate) fn assert_consistent(&self) {
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

pub(crate) fn file(content: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool.yaml");
    std::fs::write(&path, content).unwrap();
    (directory, path)
}

pub(crate) fn run_file(content: &str) -> Run {
    let (_directory, path) = file(content);
    run(&[path.to_str().unwrap()])
}

/// A process whose output is read line by line, killed at the end.
pub(crate) struct Lines {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
}

impl Lines {
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Types a line.
    pub(crate) fn type_in(&mut self, line: &str) {
        let typed = self.child.stdin.as_mut().unwrap();
        writeln!(typed, "{line}").and_then(|()| typed.flush()).unwrap();
    }

    /// The first line from here on that has all of these parts.
    pub(crate) fn wait(&self, parts: &[&str]) -> String {
        self.until(parts).pop().unwrap_or_default()
    }

    /// The lines from here on, up to the first one that has all of these parts.
    #[expect(clippy::disallowed_methods, reason = "how long a test waits is real time")]
    pub(crate) fn until(&self, parts: &[&str]) -> Vec<String> {
        let mut seen: Vec<String> = Vec::new();
        let begun = Instant::now();
        loop {
            // Other lines may come for ever.
            match self.lines.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
                Ok(line) => match seen.last_mut().filter(|_| goes_on(&line)) {
                    Some(last) => *last = format!("{last} {}", line.trim_start()),
                    None => seen.push(line),
                },
                Err(error) => panic!("{error}: no line with {parts:?}:\n{}", seen.join("\n")),
            }
            if seen.last().is_some_and(|line| parts.iter().all(|part| line.contains(part))) {
                return seen;
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
pub(crate) fn has_kubectl() -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).output();
    let found = found.is_ok_and(|output| output.status.success());
    assert!(found || std::env::var_os("CI").is_none(), "CI is set, but there is no kubectl");
    found
}

pub(crate) fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    // kubectl's discovery cache goes beside the kubeconfig, because another run has another server.
    command.env("HOME", kubeconfig.parent().unwrap()).env("NO_PROXY", "127.0.0.1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn kubectl_says(kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = finish(kubectl(kubeconfig, arguments));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

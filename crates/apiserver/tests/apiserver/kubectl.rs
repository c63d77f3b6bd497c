//! The real kubectl against the simulated server on a socket. Skipped if kubectl is missing, unless CI is set.

use crate::support::{WIDGETS_YAML, node};
use flipop_apiserver::{ApiServer, Key, PodSpec, kubeconfig_yaml};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longest time for one command. On an idle machine it takes a tenth of a second.
const PATIENCE: Duration = Duration::from_mins(1);

struct Kubectl {
    home: tempfile::TempDir,
    stop: CancellationToken,
    _runtime: tokio::runtime::Runtime,
}

struct Output {
    ok: bool,
    out: String,
    err: String,
}

#[expect(clippy::disallowed_methods, reason = "the tests' own environment")]
fn is_required() -> bool {
    std::env::var_os("CI").is_some()
}

#[expect(clippy::disallowed_methods, reason = "ages that kubectl computes itself need the true time")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

impl Kubectl {
    /// A served cluster and a kubectl for it. `None` if there is no kubectl.
    fn start() -> Option<(Self, ApiServer)> {
        let found = Command::new("kubectl").args(["version", "--client"]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            assert!(!is_required(), "CI is set, but there is no kubectl");
            println!("skipped: no kubectl on PATH");
            return None;
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = ApiServer::builder(7, now).build();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let (front, stopped) = (server.clone(), stop.clone());
        runtime.spawn(async move { front.serve(listener, stopped).await });
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), kubeconfig_yaml(&url, "default")).unwrap();
        Some((Self { home, stop, _runtime: runtime }, server))
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.env("KUBECONFIG", self.home.path().join("config")).env("HOME", self.home.path());
        command.env("NO_PROXY", "127.0.0.1").args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn try_run(&self, arguments: &[&str]) -> Output {
        let child = self.command(arguments).spawn().unwrap();
        let process = child.id();
        let (done, finished) = mpsc::channel();
        let waiting = std::thread::spawn(move || done.send(child.wait_with_output()));
        let Ok(output) = finished.recv_timeout(PATIENCE) else {
            Command::new("kill").arg(process.to_string()).status().unwrap();
            panic!("kubectl {arguments:?} hangs");
        };
        waiting.join().unwrap().unwrap();
        let output = output.unwrap();
        Output {
            ok: output.status.success(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments);
        assert!(output.ok, "kubectl {arguments:?}\n{}\n{}", output.out, output.err);
        assert_eq!(output.err, "", "kubectl {arguments:?} warns");
        output.out
    }

    fn run_words(&self, words: &str) -> String {
        self.run(&words.split(' ').collect::<Vec<_>>())
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The words of a table, line by line.
fn cells(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

const WIDGET: &str =
    "apiVersion: sandbox.example.com/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  size: ";

#[test]
fn kubectl_applies_definitions_and_objects_and_shows_them() {
    let Some((kubectl, server)) = Kubectl::start() else { return };
    let crd = kubectl.file("crd.yaml", WIDGETS_YAML);
    let widget = kubectl.file("widget.yaml", &format!("{WIDGET}3\n  colour: red\n"));
    let (crd, widget) = (crd.to_str().unwrap(), widget.to_str().unwrap());
    assert!(kubectl.run(&["apply", "-f", crd]).contains("widgets.sandbox.example.com created"));
    kubectl.run_words("wait --for=condition=Established crd/widgets.sandbox.example.com --timeout=10s");
    assert_eq!(kubectl.run(&["apply", "-f", widget]), "widget.sandbox.example.com/w created\n");
    assert_eq!(kubectl.run(&["apply", "-f", widget]), "widget.sandbox.example.com/w unchanged\n");
    let status = serde_json::json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    server
        .patch_object(("sandbox.example.com/v1", "Widget"), &Key::new("default", "w"), "status", status, "t")
        .unwrap();
    kubectl.run_words("wait --for=condition=Ready wid/w --timeout=10s");

    let table = kubectl.run_words("get wid");
    assert_eq!(cells(&table)[0], ["NAME", "SIZE", "READY", "AGE"]);
    assert_eq!(cells(&table)[1][..3], ["w", "3", "True"]);
    let wide = kubectl.run_words("get sandbox -o wide");
    assert_eq!(cells(&wide)[0], ["NAME", "SIZE", "READY", "COLOUR", "AGE"]);
    assert!(kubectl.run_words("get widgets -o yaml").contains("colour: red"));
    let described = kubectl.run_words("describe widget w");
    assert!(described.contains("Colour:  red") && described.contains("Events:"), "{described}");
    assert!(kubectl.run_words("explain widget.spec.size").contains("How big it is."));
    assert!(kubectl.run_words("api-resources --api-group=sandbox.example.com").contains("wid"));

    let changed = kubectl.file("widget.yaml", &format!("{WIDGET}4\n"));
    assert_eq!(
        kubectl.run(&["apply", "-f", changed.to_str().unwrap()]),
        "widget.sandbox.example.com/w configured\n"
    );
    let spec = kubectl.run(&["get", "wid", "w", "-o", "jsonpath={.spec}"]);
    assert_eq!(spec, r#"{"shape":"round","size":4}"#, "a field that is gone from the file is removed");
}

#[test]
fn kubectl_says_what_is_wrong_with_an_object() {
    let Some((kubectl, server)) = Kubectl::start() else { return };
    server.apply_yaml(WIDGETS_YAML, "default").unwrap();
    let try_spec = |spec: &str| {
        let file = kubectl.file("bad.yaml", &format!("{WIDGET}{spec}\n"));
        let output = kubectl.try_run(&["apply", "-f", file.to_str().unwrap()]);
        assert!(!output.ok, "{spec}");
        output.err
    };
    let text = try_spec("-1");
    assert!(text.contains("spec.size in body should be greater than or equal to 0"), "{text}");
    let text = try_spec("1\n  sise: 2");
    assert!(text.contains("unknown field \"spec.sise\""), "{text}");
    let output = kubectl.try_run(&["get", "wid", "nothing"]);
    assert_eq!(
        output.err,
        "Error from server (NotFound): widgets.sandbox.example.com \"nothing\" not found\n"
    );
}

#[test]
fn kubectl_works_on_nodes() {
    let Some((kubectl, server)) = Kubectl::start() else { return };
    node(&server, "n1", &[]);
    node(&server, "n2", &[]);
    let pod = PodSpec {
        namespace: "default".to_owned(),
        name: "p".to_owned(),
        node: "n1".to_owned(),
        ready: true,
        ..PodSpec::default()
    };
    server.create_pod(&pod).unwrap();
    kubectl.run_words("label node n1 pool=edge");
    kubectl.run_words("annotate node n1 example.com/a=b");
    assert_eq!(kubectl.run_words("get nodes -l pool=edge -o name"), "node/n1\n");
    kubectl.run_words("taint node n1 dedicated=x:NoSchedule");
    kubectl.run_words("taint node n2 dedicated=y:NoExecute");
    kubectl.run_words("taint node n2 dedicated-");
    assert_eq!(kubectl.run_words("cordon n1"), "node/n1 cordoned\n");
    let table = kubectl.run_words("get nodes");
    assert_eq!(cells(&table)[0], ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!(cells(&table)[1][..3], ["n1", "Ready,SchedulingDisabled", "<none>"]);
    assert_eq!(cells(&table)[2][..3], ["n2", "Ready", "<none>"]);
    let described = kubectl.run_words("describe node n1");
    for part in [
        "pool=edge",
        "dedicated=x:NoSchedule",
        "node.kubernetes.io/unschedulable:NoSchedule",
        "Unschedulable:      true",
    ] {
        assert!(described.contains(part), "{part} in {described}");
    }
    let drained = kubectl.try_run(&["drain", "n1", "--force"]);
    assert!(drained.ok && drained.out.contains("pod/p evicted"), "{} {}", drained.out, drained.err);
    assert!(server.object("v1", "Pod", &Key::new("default", "p")).is_none(), "the pod was evicted");
    kubectl.run_words("uncordon n1");
    let patch = r#"{"metadata":{"labels":{"pool":"core"}}}"#;
    kubectl.run(&["patch", "node", "n1", "-p", patch]);
    assert_eq!(kubectl.run_words("get node n1 -o jsonpath={.metadata.labels.pool}"), "core");
    assert_eq!(kubectl.run_words("delete node n1"), "node \"n1\" deleted\n");
    assert_eq!(cells(&kubectl.run_words("get nodes")).len(), 2);
}

#[test]
fn kubectl_creates_edits_and_deletes_in_namespaces() {
    let Some((kubectl, server)) = Kubectl::start() else { return };
    kubectl.run_words("create namespace x");
    kubectl.run_words("create secret generic s -n x --from-literal=k=v");
    kubectl.run_words("create configmap c -n x --from-literal=k=v");
    kubectl.run_words("create serviceaccount a -n x");
    kubectl.run_words("create role r -n x --verb=get,list --resource=pods");
    kubectl.run_words("create rolebinding b -n x --role=r --serviceaccount=x:a");
    let role = server.object("rbac.authorization.k8s.io/v1", "Role", &Key::new("x", "r")).unwrap();
    assert_eq!(role["rules"][0]["verbs"], serde_json::json!(["get", "list"]));
    assert_eq!(kubectl.run_words("get secret s -n x -o jsonpath={.data.k}"), "dg==");
    let mut edit = kubectl.command(&["edit", "configmap", "c", "-n", "x"]);
    let output = edit.env("KUBE_EDITOR", "sed -i s/k:.v/k:\\ changed/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(kubectl.run_words("get configmap c -n x -o jsonpath={.data.k}"), "changed");
    assert!(kubectl.run_words("auth can-i create pods").contains("yes"));

    let file =
        kubectl.file("ssa.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: d\ndata:\n  a: b\n");
    let file = file.to_str().unwrap();
    assert_eq!(
        kubectl.run(&["apply", "--server-side", "-n", "x", "-f", file]),
        "configmap/d serverside-applied\n"
    );
    let managers = kubectl.run(&["get", "cm", "d", "-n", "x", "--show-managed-fields", "-o", "yaml"]);
    assert!(managers.contains("manager: kubectl") && managers.contains("operation: Apply"), "{managers}");
    assert_eq!(kubectl.run(&["delete", "-n", "x", "-f", file]), "configmap \"d\" deleted\n");
    kubectl.run_words("delete configmaps --all -n x");
    assert_eq!(server.objects("v1", "ConfigMap").len(), 0);
    kubectl.run_words("delete namespace x");
    assert!(server.object("v1", "Secret", &Key::new("x", "s")).is_none());
}

#[test]
fn kubectl_follows_changes_and_events() {
    let Some((kubectl, server)) = Kubectl::start() else { return };
    server.apply_yaml(WIDGETS_YAML, "default").unwrap();
    server.apply_yaml(&format!("{WIDGET}1\n"), "default").unwrap();
    let mut child: Child = kubectl.command(&["get", "wid", "-w"]).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sent, received) = mpsc::channel();
    let reading =
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sent.send(line)));
    let next = || received.recv_timeout(PATIENCE).expect("a line of kubectl get -w");
    assert_eq!(cells(&next())[0], ["NAME", "SIZE", "READY", "AGE"]);
    assert_eq!(cells(&next())[0][..2], ["w", "1"]);
    server.apply_yaml(&format!("{WIDGET}2\n"), "default").unwrap();
    assert_eq!(cells(&next())[0][..2], ["w", "2"]);
    child.kill().unwrap();
    child.wait().unwrap();
    reading.join().unwrap().ok();

    let widget = server.object("sandbox.example.com/v1", "Widget", &Key::new("default", "w")).unwrap();
    let event = serde_json::json!({
        "metadata": { "name": "e" }, "eventTime": now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(), "reportingController": "t",
        "reportingInstance": "t", "action": "Try", "reason": "Tried", "type": "Normal", "note": "it was tried",
        "regarding": { "apiVersion": "sandbox.example.com/v1", "kind": "Widget", "name": "w", "namespace": "default",
                       "uid": widget["metadata"]["uid"] },
    });
    server.create_object("events.k8s.io/v1", "Event", "default", event, "t").unwrap();
    assert!(kubectl.run_words("describe wid w").contains("it was tried"));
    let table = kubectl.run_words("get events");
    assert_eq!(cells(&table)[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert!(table.contains("widget/w"), "{table}");
    assert!(kubectl.run_words("events --for widget/w").contains("it was tried"));
}

/// The installation from docs/operations/install.md, with the project's own manifests.
#[test]
fn kubectl_installs_the_operator() {
    let Some((kubectl, server)) = Kubectl::start() else { return };
    let folder = |name: &str| format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    kubectl.run_words("create namespace flipop");
    kubectl.run_words("create secret generic flipop -n flipop --from-literal=DIGITALOCEAN_ACCESS_TOKEN=x");
    let first = kubectl.run(&["apply", "-n", "flipop", "-f", &folder("k8s")]);
    assert!(first.lines().count() > 5 && first.lines().all(|line| line.ends_with(" created")), "{first}");
    let second = kubectl.run(&["apply", "-n", "flipop", "-f", &folder("k8s")]);
    // kubectl replaces the selector of a PodDisruptionBudget every time (its patch strategy) and reports a change.
    let changed = |line: &&str| !line.ends_with(" unchanged") && !line.starts_with("poddisruptionbudget");
    assert_eq!(second.lines().filter(changed).collect::<Vec<_>>(), Vec::<&str>::new(), "{second}");
    kubectl.run_words("wait --for=condition=Established crd --all --timeout=10s");
    let examples = kubectl.run(&["apply", "-f", &folder("examples")]);
    assert!(examples.lines().all(|line| line.ends_with(" created")), "{examples}");
    let again = kubectl.run(&["apply", "--server-side", "--force-conflicts", "-f", &folder("examples")]);
    assert!(again.lines().all(|line| line.ends_with(" serverside-applied")), "{again}");
    let pools = server.objects("flipop.digitalocean.com/v1alpha1", "FloatingIPPool").len();
    assert_eq!(cells(&kubectl.run_words("get fipool -A --no-headers")).len(), pools);
    assert!(pools > 0 && kubectl.run_words("get flipop -A -o wide").contains("NAME"));
    kubectl.run_words("delete namespace flipop");
    assert!(server.object("v1", "Secret", &Key::new("flipop", "flipop")).is_none());
}

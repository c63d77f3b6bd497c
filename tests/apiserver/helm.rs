//! The chart, installed by Helm 4 as in docs/operations/helm.md: on a new cluster, over what `kubectl` installed, over
//! the Go operator, and the way back. An operator runs meanwhile, and no address may move. `tests/install` renders the
//! chart with Helm 3 too.

use crate::suite::{Case, cases};
use crate::world::{World, path};
use flipop_envtest::cluster::{Kind, NAMESPACE};
use flipop_envtest::kubectl::Ran;
use flipop_envtest::operator::Operator;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// Longer than an installation takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The program on `PATH`.
const PROGRAM: &str = "helm4";

/// The reason shown if it is missing.
pub(crate) const NEEDS: &str = "needs helm4 in PATH";

/// The options for taking over another installation.
const TAKE_OVER: &[&str] = &["--install", "--take-ownership", "--force-conflicts"];

pub(crate) fn cases() -> Vec<Case> {
    cases![BareWithHelm:
        helm_4_installs_upgrades_rolls_back_and_uninstalls,
        helm_4_takes_over_from_kubectl_and_hands_back,
        helm_4_takes_over_from_the_go_operator_and_hands_back,
        a_second_installation_is_refused_with_the_name_of_the_first,
    ]
}

/// Whether it can be run.
pub(crate) fn is_installed() -> bool {
    let ran = std::process::Command::new(PROGRAM).arg("version").output();
    ran.is_ok_and(|output| output.status.success())
}

/// Helm, connected to a test's cluster.
struct Helm<'a> {
    world: &'a World,
    home: TempDir,
}

impl<'a> Helm<'a> {
    fn new(world: &'a World) -> Outcome<Self> {
        Ok(Self { world, home: tempfile::Builder::new().prefix("flipop-helm-").tempdir()? })
    }

    async fn attempt(&self, arguments: &[&str]) -> Outcome<Ran> {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--kubeconfig").arg(self.world.kubectl.kubeconfig());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.home.path());
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        let Ok(output) = tokio::time::timeout(TIMEOUT, command.output()).await else {
            return Err(Failure::new(format!("{PROGRAM} {arguments:?} does not end")));
        };
        let output = output?;
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Ran { success: output.status.success(), stdout, stderr })
    }

    /// Runs it and expects success without a warning.
    async fn run(&self, arguments: &[&str]) -> Outcome<Ran> {
        let ran = self.attempt(arguments).await?;
        if ran.success && !ran.stderr.contains("arning") {
            return Ok(ran);
        }
        Err(Failure::new(format!("{PROGRAM} {arguments:?}\n{}{}", ran.stdout, ran.stderr)))
    }

    /// Runs a command about the release, as users write it.
    async fn release(&self, verb: &str, more: &[&str]) -> Outcome<Ran> {
        let chart = path("charts/flipop");
        self.run(&[&[verb, "flipop", &chart, "--namespace", NAMESPACE], more].concat()).await
    }

    /// Drops the release but leaves its objects, as in docs/operations/helm.md.
    async fn forget(&self) -> Outcome {
        let kubectl = &self.world.kubectl;
        let release = ["delete", "secret", "-n", NAMESPACE, "-l", "owner=helm,name=flipop"];
        let deleted = kubectl.run(&release).await?;
        assert!(deleted.stdout.contains("sh.helm.release.v1.flipop.v1"), "{}", deleted.stdout);
        let listed = self.run(&["list", "--namespace", NAMESPACE, "--short"]).await?;
        assert_eq!(listed.stdout.trim(), "");
        Ok(())
    }

    /// The objects that the chart renders for the cluster.
    async fn rendered(&self) -> Outcome<Vec<Value>> {
        let manifest = self.run(&["get", "manifest", "flipop", "--namespace", NAMESPACE]).await?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest.stdout)?;
        Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
    }

    /// Fails unless the cluster holds everything in the release, with nothing more in its lists.
    async fn is_live(&self) -> Outcome {
        let objects = self.rendered().await?;
        assert_eq!(objects.len(), 16);
        for object in objects {
            let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
            let live = read(self.world, &["get", kind, name, "-n", NAMESPACE]).await?;
            let mut differences = Vec::new();
            compare(&format!("{kind} {name}"), &live, &object, &mut differences);
            assert!(differences.is_empty(), "{}", differences.join("\n"));
        }
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn read(world: &World, arguments: &[&str]) -> Outcome<Value> {
    let ran = world.kubectl.run(&[arguments, &["-o", "json"]].concat()).await?;
    Ok(serde_json::from_str(&ran.stdout)?)
}

/// Lists the differences of an object. Fields that only the live object has are the API server's defaults.
fn compare(path: &str, live: &Value, wanted: &Value, differences: &mut Vec<String>) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            for (key, value) in wanted {
                compare(&format!("{path}.{key}"), live.get(key).unwrap_or(&Value::Null), value, differences);
            }
        }
        (Value::Array(live), Value::Array(wanted)) if live.len() == wanted.len() => {
            for (index, (live, wanted)) in live.iter().zip(wanted).enumerate() {
                compare(&format!("{path}[{index}]"), live, wanted, differences);
            }
        }
        _ if live == wanted => {}
        // The API server leaves out false and empty values.
        (Value::Null, wanted) if [json!(false), json!(""), json!([]), json!({})].contains(wanted) => {}
        _ => differences.push(format!("{path} is {live} and not {wanted}")),
    }
}

/// Two nodes, and a pool whose only address is on the first. Returns the operator and the number of calls so far.
async fn pool_on_alpha(world: &World) -> Outcome<(Operator, u64)> {
    let (operator, _beta) = world.on_alpha_beside_beta().await?;
    Ok((operator, last_call(world)))
}

fn last_call(world: &World) -> u64 {
    world.cloud().calls(0).last().map_or(0, |call| call.seq)
}

/// Fails if an address moved since a call, or if the operator no longer works.
async fn nothing_moved_and_the_operator_works(world: &World, since: u64) -> Outcome {
    let calls = world.mutating_calls(since);
    assert!(calls.is_empty(), "{calls:?}");
    world.pool_settles("p", &[(10, "alpha")]).await?;
    // Reads, and writes of a status and of an annotation: the operator has the rights.
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    world.annotation_settles("beta", Some(10)).await?;
    assert_eq!(world.assigns(since).len(), 1);
    world.nodes.set_ready("alpha", true).await?;
    world.nodes.set_ready("beta", false).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.nodes.set_ready("beta", true).await?;
    world.annotation_settles("alpha", Some(10)).await?;
    world.annotation_settles("beta", None).await
}

async fn replicas(world: &World) -> Outcome<Value> {
    Ok(read(world, &["get", "deployment", "flipop", "-n", NAMESPACE]).await?["spec"]["replicas"].clone())
}

async fn helm_4_installs_upgrades_rolls_back_and_uninstalls(world: &mut World) -> Outcome {
    let world = &*world;
    let helm = Helm::new(world)?;
    world.cluster.namespace(NAMESPACE, Some("restricted")).await?;
    let installed = helm.release("install", &[]).await?;
    assert!(
        installed.stdout.contains("kubectl create secret generic flipop -n flipop"),
        "{}",
        installed.stdout
    );
    world.cluster.kinds_established().await?;
    helm.is_live().await?;
    let (_operator, since) = pool_on_alpha(world).await?;

    let upgraded = ["--set", "replicas=3,args={--debug}", "--set", "userRoles.view=true"];
    helm.release("upgrade", &upgraded).await?;
    assert_eq!(replicas(world).await?, 3);
    world.kubectl.run(&["get", "clusterrole", "flipop-view"]).await?;
    // Stopped and started again, with the other values unchanged.
    for count in [0, 3] {
        let set = format!("replicas={count}");
        helm.release("upgrade", &["--reset-then-reuse-values", "--set", &set]).await?;
        assert_eq!(replicas(world).await?, count);
        world.kubectl.run(&["get", "clusterrole", "flipop-view"]).await?;
    }
    helm.run(&["rollback", "flipop", "1", "--namespace", NAMESPACE]).await?;
    assert_eq!(replicas(world).await?, 2);
    helm.is_live().await?;
    let gone = world.kubectl.attempt(&["get", "clusterrole", "flipop-view"], None).await?;
    assert!(!gone.success && gone.stderr.contains("NotFound"), "{}", gone.stderr);
    nothing_moved_and_the_operator_works(world, since).await?;
    // A chart without the CRDs leaves those of the previous revision, and with them every object.
    helm.release("upgrade", &["--set", "crds.enabled=false"]).await?;
    world.cluster.get(Kind::Pool, "default", "p").await?;
    helm.release("upgrade", &["--set", "crds.enabled=true"]).await?;
    helm.is_live().await?;

    let since = last_call(world);
    let pool = world.cluster.get(Kind::Pool, "default", "p").await?;
    helm.run(&["uninstall", "flipop", "--namespace", NAMESPACE]).await?;
    for object in ["deployment/flipop", "clusterrole/flipop", "priorityclass/flipop", "serviceaccount/flipop"]
    {
        let gone = world.kubectl.attempt(&["get", object, "-n", NAMESPACE], None).await?;
        assert!(!gone.success && gone.stderr.contains("NotFound"), "{object}: {}", gone.stderr);
    }
    // The CRDs stay, and with them the pool and its status.
    let kept = world.cluster.get(Kind::Pool, "default", "p").await?;
    assert_eq!(kept["metadata"]["uid"], pool["metadata"]["uid"]);
    assert_eq!(kept["status"]["ips"], pool["status"]["ips"]);
    helm.release("install", &[]).await?;
    helm.is_live().await?;
    assert!(world.mutating_calls(since).is_empty());
    Ok(())
}

async fn helm_4_takes_over_from_kubectl_and_hands_back(world: &mut World) -> Outcome {
    let world = &*world;
    let helm = Helm::new(world)?;
    let page = std::fs::read_to_string(path("docs/operations/helm.md"))?;
    let (start, flags) = ("helm upgrade flipop charts/flipop -n flipop", TAKE_OVER.join(" "));
    let command = format!("{start} --set image.repository=registry.example.com/flipop \\\n  {flags}\n```");
    assert!(page.contains(&command), "docs/operations/helm.md does not have\n{command}");
    world.cluster.install(&world.kubectl, &path("k8s")).await?;
    let (_operator, since) = pool_on_alpha(world).await?;
    let chart = path("charts/flipop");
    let plain = helm.attempt(&["install", "flipop", &chart, "--namespace", NAMESPACE]).await?;
    assert!(!plain.success && plain.stderr.contains("ownership"), "{}", plain.stderr);
    // Helm notices only halfway. The next try continues from there.
    let owned = ["install", "flipop", &chart, "--namespace", NAMESPACE, "--take-ownership"];
    let conflict = helm.attempt(&owned).await?;
    assert!(!conflict.success && conflict.stderr.contains("conflict"), "{}", conflict.stderr);
    let uid = deployment_uid(world).await?;
    helm.release("upgrade", TAKE_OVER).await?;
    helm.is_live().await?;
    assert_eq!(deployment_uid(world).await?, uid, "replaced instead of taken over");
    nothing_moved_and_the_operator_works(world, since).await?;
    // It is now an ordinary release, but `kubectl` still owns the fields that it applied.
    helm.release("upgrade", &["--set", "replicas=3", "--force-conflicts"]).await?;
    assert_eq!(replicas(world).await?, 3);
    helm.is_live().await?;

    let since = last_call(world);
    helm.forget().await?;
    let applied = world.kubectl.run(&["apply", "-n", NAMESPACE, "-f", &path("k8s")]).await?;
    assert_eq!(applied.stderr, "");
    assert_eq!(replicas(world).await?, 2);
    assert_eq!(deployment_uid(world).await?, uid);
    nothing_moved_and_the_operator_works(world, since).await
}

async fn deployment_uid(world: &World) -> Outcome<Value> {
    Ok(read(world, &["get", "deployment", "flipop", "-n", NAMESPACE]).await?["metadata"]["uid"].clone())
}

async fn apply_go(world: &World) -> Outcome {
    world.kubectl.run(&["apply", "-f", &path("tests/corpus/go-crds")]).await?;
    world.cluster.kinds_established().await?;
    world.kubectl.run(&["apply", "-n", NAMESPACE, "-f", &path("tests/corpus/go-install")]).await?;
    Ok(())
}

async fn helm_4_takes_over_from_the_go_operator_and_hands_back(world: &mut World) -> Outcome {
    let world = &*world;
    let helm = Helm::new(world)?;
    world.cluster.namespace(NAMESPACE, None).await?;
    apply_go(world).await?;
    let (mut operator, since) = pool_on_alpha(world).await?;
    let uid = deployment_uid(world).await?;
    helm.release("upgrade", TAKE_OVER).await?;
    helm.is_live().await?;
    assert_eq!(deployment_uid(world).await?, uid, "replaced instead of taken over");
    // The Deployment and so its pod changed: the next pod has the rights that the Go operator's role lacks.
    operator.terminate().await?;
    let _operator = world.operator().await?;
    world.annotation_settles("alpha", Some(10)).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    assert_eq!(world.mutating_calls(since), []);

    // kubectl only removes what it applied itself. So the manifests are applied in between, to own what they share with
    // the chart.
    helm.forget().await?;
    world.kubectl.run(&["apply", "-n", NAMESPACE, "-f", &path("k8s")]).await?;
    apply_go(world).await?;
    let deployment = read(world, &["get", "deployment", "flipop", "-n", NAMESPACE]).await?;
    assert_eq!(deployment["metadata"]["uid"], uid);
    assert_eq!(deployment["spec"]["replicas"], 1);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "digitaloceanapps/flipop:latest");
    assert_eq!(container["args"], json!(["/app/flipop", "--debug"]));
    // The Go operator does not serve probes.
    assert_eq!((&container["livenessProbe"], &container["readinessProbe"]), (&Value::Null, &Value::Null));
    assert_eq!(world.mutating_calls(since), []);
    // The operator still moves addresses with the Go operator's rights.
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "beta")]).await
}

async fn a_second_installation_is_refused_with_the_name_of_the_first(world: &mut World) -> Outcome {
    let world = &*world;
    let helm = Helm::new(world)?;
    let chart = path("charts/flipop");
    let second = ["install", "other", &chart, "--namespace", "elsewhere", "--create-namespace"];
    let take_over = [second.as_slice(), &["--take-ownership"]].concat();
    world.cluster.install(&world.kubectl, &path("k8s")).await?;
    let refused = helm.attempt(&take_over).await?;
    let said = "FLIPOP is installed in this cluster already, in namespace flipop.";
    assert!(!refused.success && refused.stderr.contains(said), "{}", refused.stderr);
    world.kubectl.run(&["delete", "-n", NAMESPACE, "-f", &path("k8s")]).await?;

    helm.release("install", &["--set", "crds.keep=false"]).await?;
    let said = "FLIPOP is installed in this cluster already, as release flipop in namespace flipop.";
    for arguments in [second.as_slice(), &take_over] {
        let refused = helm.attempt(arguments).await?;
        assert!(!refused.success && refused.stderr.contains(said), "{}", refused.stderr);
    }
    let elsewhere = world.kubectl.run(&["get", "all,role", "-n", "elsewhere", "-o", "name"]).await?;
    assert_eq!(elsewhere.stdout, "");
    helm.is_live().await?;
    the_crds_stay_until_something_keeps_them(&helm).await?;
    helm.release("upgrade", &["--set", "crds.keep=false"]).await?;
    helm.run(&["uninstall", "flipop", "--namespace", NAMESPACE]).await?;
    // Nothing keeps the CRDs here. The API server ends their deletion at its own pace.
    let crds = read(world, &["get", "crd"]).await?;
    let crds = crds["items"].as_array().ok_or_else(|| Failure::new("no list"))?;
    for crd in crds.iter().filter(|crd| text(&crd["metadata"]["name"]).contains("flipop")) {
        assert!(crd["metadata"]["deletionTimestamp"].is_string(), "{crd}");
    }
    Ok(())
}

/// An upgrade without the CRDs fails unless something keeps them, and then leaves them alone.
async fn the_crds_stay_until_something_keeps_them(helm: &Helm<'_>) -> Outcome {
    let crds = || helm.world.kubectl.run(&["get", "crd", "-o", "jsonpath={.items[*].metadata.uid}"]);
    let before = crds().await?.stdout;
    let chart = path("charts/flipop");
    let said = "crds.enabled=false would delete the CRDs and every object";
    for keep in ["crds.keep=false", "crds.keep=true"] {
        let values = format!("crds.enabled=false,{keep}");
        let without = ["upgrade", "flipop", &chart, "--namespace", NAMESPACE, "--set", &values];
        let refused = helm.attempt(&without).await?;
        assert!(!refused.success && refused.stderr.contains(said), "{keep}: {}", refused.stderr);
    }
    helm.release("upgrade", &["--set", "crds.keep=true"]).await?;
    helm.release("upgrade", &["--set", "crds.enabled=false"]).await?;
    helm.release("upgrade", &["--set", "crds.enabled=true"]).await?;
    assert_eq!(crds().await?.stdout, before);
    Ok(())
}

//! Follows the documents page by page: runs each of their commands and applies each of their objects, in the world that
//! the examples make. `tests/repository/book` checks what needs no API server.

use crate::dns::{Name, external, internal};
use crate::dns_examples::{apply, placed, pool_converges, set_converges};
use crate::pages::{Block, Fate, Page, pages};
use crate::suite::{Case, Run, Server};
use crate::world::{Object, REGION, SOON, World, binary, path, same};
use flipop_cloud::{Plan, Provider};
use flipop_envtest::cluster::NAMESPACE;
use flipop_envtest::nodes::{NewNode, NewPod};
use flipop_envtest::operator::{CLOUDFLARE_TOKEN, Operator, TOKEN};
use flipop_envtest::{Failure, Outcome};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// No reader waits longer for a block's commands.
const BLOCK_TIMEOUT: Duration = Duration::from_mins(1);

/// The folders that the commands find.
const FOLDERS: [&str; 6] = ["crds", "docs", "examples", "k8s", "kustomize", "monitoring"];

/// This file makes a kustomize base of them.
const BASE: &str = "kustomization.yaml";

/// The programs that the documents use besides `kubectl`.
const TOOLS: [&str; 3] = ["bash", "curl", "jq"];

/// The reason shown if they are missing.
pub(crate) const NEEDS: &str = "needs bash, curl and jq";

/// `kubectl`'s warning if an object was applied client-side before.
const OF_KUBECTL: &str = "failed to migrate kubectl.kubernetes.io/last-applied-configuration";

/// Nodes with a pod of the ingress controller, and nodes without one.
const EDGE: u8 = 3;
const GAMES: u8 = 4;

/// One case per document with something to run or to apply.
pub(crate) fn cases() -> Vec<Case> {
    let case = |page: Page| {
        let (runs, applies) = (changes(&page), has(&page, Fate::Apply));
        let server = if runs { Server::InstalledForOne } else { Server::Installed };
        let name = format!("book::{}", page.path);
        (runs || applies).then_some(Case { name, server, run: Run::Page(page) })
    };
    pages().into_iter().filter_map(case).collect()
}

/// Whether the page changes the installation.
fn changes(page: &Page) -> bool {
    has(page, Fate::Run) || has(page, Fate::ApplyForGood)
}

fn has(page: &Page, fate: Fate) -> bool {
    page.blocks().iter().any(|block| block.fate == fate)
}

/// Whether the commands can be run.
pub(crate) fn tools_are_installed() -> bool {
    TOOLS.iter().all(|tool| {
        std::process::Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
    })
}

/// Follows a document in order, and reports everything that failed.
pub(crate) async fn follow(page: &Page, world: &mut World) -> Outcome {
    if !tools_are_installed() {
        return Err(Failure::new(NEEDS));
    }
    let _operator = if changes(page) { Some(stage(world).await?) } else { None };
    let desk = Desk::new(world)?;
    let mut all = Vec::new();
    for block in page.blocks() {
        let went = match block.fate {
            Fate::Run => desk.run(&block.text).await?,
            Fate::Apply => applied(world, &block, true).await?,
            Fate::ApplyForGood => applied(world, &block, false).await?,
            Fate::NotRun | Fate::NotApplied | Fate::Shown | Fate::Unknown => continue,
        };
        let Err(wrong) = went else { continue };
        all.push(format!("{}:{}: the block {wrong}\n--- the block\n{}", page.path, block.line, block.text));
    }
    if all.is_empty() { Ok(()) } else { Err(Failure::new(all.join(""))) }
}

/// The failure of a block, if any.
type Went = Result<(), String>;

/// The world of the documents: the examples, and everything that they mention.
async fn stage(world: &World) -> Outcome<Operator> {
    world.cloud().add_domain("example.com");
    let _id = world.cloud().add_zone("example.net", Plan::Free);
    let edge = nodes(world, "edge", 1..=EDGE).await?;
    nodes(world, "games", EDGE + 1..=EDGE + GAMES).await?;
    world.cluster.namespace("ingress", None).await?;
    for number in 1..=EDGE {
        let pod = NewPod::new("ingress", &format!("nginx-ingress-{number}"), &format!("edge-{number}"));
        let pod = pod.label("app", "nginx-ingress").label("component", "controller");
        world.nodes.create_pod(&pod).await?;
    }
    // They are already assigned, so the documents can say where, and the first move waits for no cool-off.
    let addresses = ["203.0.113.10", "203.0.113.11"];
    for (address, droplet) in addresses.into_iter().zip(edge) {
        placed(world, address, Some(droplet))?;
    }
    let secret = format!("--from-literal=DIGITALOCEAN_ACCESS_TOKEN={TOKEN}");
    let other = format!("--from-literal=CLOUDFLARE_TOKEN={CLOUDFLARE_TOKEN}");
    world.kubectl.run(&["create", "secret", "generic", "flipop", "-n", NAMESPACE, &secret, &other]).await?;
    let operator = world.dns_operator().await?;
    apply(world, "examples").await?;
    pool_converges(world, "ingress-pool", &Name::new(Provider::DigitalOcean, "ingress"), &addresses, 30)
        .await?;
    let (zone, fqdn) = ("example.net".to_owned(), "nodes.example.net".to_owned());
    let name = Name { provider: Provider::Cloudflare, zone, fqdn };
    set_converges(world, "ingress-nodes", &name, &addresses, 120).await?;
    // The operator writes them into the spec, which must not change while a command of a page replaces the pool.
    let settled = |pool: &Object| same((pool.active().len(), pool.spec_ips().len()), (3, 3));
    world.pool_shows("game-servers", "it has three, also in its spec", SOON, settled).await?;
    let bought = world.get_pool("game-servers").await?.active();
    let bought: Vec<&str> = bought.keys().map(String::as_str).collect();
    pool_converges(world, "game-servers", &Name::new(Provider::DigitalOcean, "play"), &bought, 60).await?;
    Ok(operator)
}

/// Nodes of a node pool, numbered from 1. Returns their droplets.
async fn nodes(world: &World, pool: &str, addresses: std::ops::RangeInclusive<u8>) -> Outcome<Vec<u64>> {
    let mut droplets = Vec::new();
    for (number, last) in (1..).zip(addresses) {
        let name = format!("{pool}-{number}");
        let droplet = world.cloud().add_droplet(&name, REGION);
        let node = NewNode::new(&name).droplet(droplet).label("pool", pool);
        let node = node.address("ExternalIP", &external(last).to_string());
        world.nodes.create(&node.address("InternalIP", &internal(last).to_string())).await?;
        droplets.push(droplet);
    }
    Ok(droplets)
}

/// Asks the API server to apply a block's objects. A dry run has no effect.
async fn applied(world: &World, block: &Block, dry_run: bool) -> Outcome<Went> {
    // An object needs its namespace to exist, even if the namespace is in the same block.
    let objects: Vec<Value> = serde_saphyr::from_multiple(&block.text).unwrap_or_default();
    for object in objects.iter().filter(|object| object["kind"] == "Namespace") {
        world.cluster.namespace(object["metadata"]["name"].as_str().unwrap_or_default(), None).await?;
    }
    let dry_run = if dry_run { "--dry-run=server" } else { "--dry-run=none" };
    let arguments = ["apply", "--server-side", "--force-conflicts", dry_run, "-f", "-"];
    let ran = world.kubectl.attempt(&arguments, Some(&block.text)).await?;
    let warned = ran.warnings().iter().any(|warning| !warning.starts_with(OF_KUBECTL));
    Ok(match (ran.success, warned) {
        (true, false) => Ok(()),
        (true, true) => Err(format!("gives a warning:\n{}", ran.stderr)),
        (false, _) => Err(format!("is refused:\n{}{}", ran.stdout, ran.stderr)),
    })
}

/// The place where a page's commands are run.
#[derive(Debug)]
struct Desk {
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Desk {
    fn new(world: &World) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("flipop-page-").tempdir()?;
        let (work, bin) = (folder.path().join("work"), folder.path().join("bin"));
        for name in FOLDERS {
            copy(Path::new(&path(name)), &work.join(name))?;
        }
        fs::copy(path(BASE), work.join(BASE))?;
        fs::create_dir(&bin)?;
        let kubectl = world.kubectl.program();
        if kubectl.components().count() > 1 {
            std::os::unix::fs::symlink(std::path::absolute(kubectl)?, bin.join("kubectl"))?;
        }
        std::os::unix::fs::symlink(binary(), bin.join("kubectl-flipop"))?;
        let home = folder.path().display().to_string();
        let environment = vec![
            ("PATH", format!("{}:{}", bin.display(), search_path())),
            ("HOME", home.clone()),
            ("TMPDIR", home),
            ("LC_ALL", "C.UTF-8".to_owned()),
            ("KUBECONFIG", world.kubectl.kubeconfig().display().to_string()),
            ("DIGITALOCEAN_ACCESS_TOKEN", TOKEN.to_owned()),
            ("DIGITALOCEAN_API_URL", world.digitalocean_url()),
            ("CLOUDFLARE_TOKEN", CLOUDFLARE_TOKEN.to_owned()),
            ("CLOUDFLARE_API_URL", world.cloudflare_url()),
        ];
        Ok(Self { folder, environment })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a block's commands in a new shell.
    async fn run(&self, commands: &str) -> Outcome<Went> {
        fs::write(self.file("block"), commands)?;
        let outputs = ["stdout", "stderr"].map(|name| self.file(name));
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail"]).arg(self.file("block")).current_dir(self.file("work"));
        shell.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        shell.stdin(std::process::Stdio::null()).process_group(0);
        shell.stdout(File::create(&outputs[0])?).stderr(File::create(&outputs[1])?);
        let mut shell = shell.spawn()?;
        let group = shell.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let ended = tokio::time::timeout(BLOCK_TIMEOUT, shell.wait()).await;
        // Ends what it left running in the background; mostly nothing.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let wrong = match ended {
            Ok(status) => {
                Some(status?).filter(|status| !status.success()).map(|status| format!("ended with {status}"))
            }
            Err(_) => Some(format!("still runs after {} s", BLOCK_TIMEOUT.as_secs())),
        };
        let Some(wrong) = wrong else { return Ok(Ok(())) };
        let [stdout, stderr] = outputs.map(|output| fs::read_to_string(output).unwrap_or_default());
        Ok(Err(format!("{wrong}\n--- standard output\n{stdout}--- standard error\n{stderr}")))
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment of the tests, not of the operator")]
fn search_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

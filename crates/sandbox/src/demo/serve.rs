//! Serves the simulated cluster until the user ends it. The acts come from kubectl, from typed commands and from the
//! buttons of the web page. The story reports what follows.

use super::acts::Levers;
use super::cast::{self, Cast};
use super::commands::Command;
use super::controllers::Controllers;
use super::pools::{POOL_KIND, RECORD_SET_KIND};
use super::stage::{CLOUDFLARE_TOKEN, Stage, TOKEN};
use super::story::Story;
use super::teller::Teller;
use super::web::{Scene, Web};
use super::{DemoError, manifest, script};
use flipop_apiserver::Key;
use flipop_core::addresses::pool::status::FINALIZER;
use flipop_simulation::furnish::NAMESPACE;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// The arguments of `serve`.
#[derive(Debug)]
pub(crate) struct Serving {
    /// YAML to apply first; if empty, the repository's examples.
    pub(crate) files: Vec<PathBuf>,
    /// Port of the API server; 0 for any.
    pub(crate) port: u16,
    /// Typed lines. Their end ends nothing.
    pub(crate) typed: UnboundedReceiver<String>,
}

/// Serves until `stop` is ready or `quit` is typed.
///
/// # Errors
/// If the YAML is refused, a port is taken, or the operator cannot start.
pub(crate) async fn serve(
    mut serving: Serving,
    out: Box<dyn Write + Send>,
    stop: impl Future<Output = ()>,
) -> Result<(), DemoError> {
    let documents = manifest::load(&serving.files)?;
    let cast = cast::cast(&documents);
    let mut stage = Stage::open(serving.port).await?;
    stage.populate(&cast, &documents)?;
    let mut story = Story::new(stage, Teller::new(out));
    let told = tokio::select! {
        told = tell(&mut story, &documents, &cast, &mut serving.typed) => told,
        () = stop => Ok(()),
    };
    story.say("stopping");
    let closed = story.stage.close().await;
    told.and(closed)
}

async fn tell(
    story: &mut Story,
    documents: &[manifest::Document],
    cast: &Cast,
    typed: &mut UnboundedReceiver<String>,
) -> Result<(), DemoError> {
    script::introduce(story, cast, &[]);
    let metrics = story.stage.operators.start().await?;
    let (mut web, routes) = Web::new(story.stage.api.clone());
    let page = story.stage.serve(routes).await?;
    script::apply(story, documents)?;
    explain(story, (documents, cast), &web.url(page), metrics);
    let (mut controllers, mut levers) = (Controllers::default(), Levers::default());
    let mut listening = true;
    loop {
        let now = Instant::now();
        levers.turn(story, now);
        controllers.turn(story, now).await?;
        web.show(scene(story, &levers));
        let due = [levers.next(), controllers.next()].into_iter().flatten().min();
        tokio::select! {
            biased;
            line = typed.recv(), if listening => match line {
                Some(line) => {
                    if obey(story, &mut levers, &line)? {
                        return Ok(());
                    }
                }
                None => listening = false,
            },
            asked = web.next() => {
                story.listen();
                carry_out(story, &mut levers, &asked.command)?;
                // Before the answer, after which the page asks how things are.
                web.show(scene(story, &levers));
                // The page may have gone.
                let _unheard = asked.answer.send(story.heard());
            }
            ended = story.step() => {
                if let Some(ended) = ended {
                    controllers.operator_ended(story, ended, Instant::now());
                }
            }
            () = sleep_until(due) => {}
        }
    }
}

/// The sandbox's own part of the page.
fn scene(story: &Story, levers: &Levers) -> Scene {
    Scene { operators: story.stage.operators.endpoints(), providers_up: levers.providers_up() }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Carries out a line. Failures are shown, and end nothing.
fn obey(story: &mut Story, levers: &mut Levers, line: &str) -> Result<bool, DemoError> {
    match Command::parse(line) {
        Ok(Some(command)) => carry_out(story, levers, &command),
        Ok(None) => Ok(false),
        Err(problem) => {
            story.complain(&problem);
            Ok(false)
        }
    }
}

/// Carries out a command. `Ok(true)` ends the sandbox.
fn carry_out(story: &mut Story, levers: &mut Levers, command: &Command) -> Result<bool, DemoError> {
    match levers.act(story, command) {
        Err(DemoError::Cluster(error)) => {
            story.complain(&super::explain(&error));
            Ok(false)
        }
        other => other,
    }
}

/// Shows where everything is, and commands to try.
fn explain(
    story: &mut Story,
    (documents, cast): (&[manifest::Document], &Cast),
    page: &str,
    metrics: Option<SocketAddr>,
) {
    let kubeconfig = story.stage.kubeconfig.display().to_string();
    let metrics = metrics.map(|address| format!("http://{address}/metrics")).unwrap_or_default();
    let node = cast.nodes.first().map_or("NODE", |node| node.name.as_str());
    let digitalocean = story.stage.cloud.digitalocean_url();
    let cloudflare = story.stage.cloud.cloudflare_url();
    let curl = |token: &str, url: &str, path: &str| {
        format!("  curl -s -H 'Authorization: Bearer {token}' {}/{path}", url.trim_end_matches('/'))
    };
    let lines = [
        String::new(),
        format!("kubeconfig: {kubeconfig}"),
        format!("web page: {page}"),
        format!("  it has buttons: kill {node} there, and see its address move"),
        format!("metrics: {metrics}"),
        "try, in another terminal:".to_owned(),
        format!("  export KUBECONFIG={kubeconfig}"),
        "  kubectl get fipool -A -w".to_owned(),
        "  kubectl get nodedns -A -o wide".to_owned(),
        "  cargo run -q --bin flipop -- status -A".to_owned(),
        "  cargo run -q --bin flipop -- check".to_owned(),
        "  kubectl get nodes -L flipop.digitalocean.com/reserved-ip".to_owned(),
        format!("  kubectl drain {node}"),
        format!("  kubectl taint node {node} maintenance=true:NoExecute"),
        format!("  kubectl scale deployment flipop -n {NAMESPACE} --replicas=0"),
        format!("  curl -s {metrics}"),
        curl(TOKEN, &digitalocean, "v2/reserved_ips"),
        curl(CLOUDFLARE_TOKEN, &cloudflare, "zones"),
        "the pods belong to sets: one that is evicted returns on another node of its set after 2 s"
            .to_owned(),
        "type help for the commands, such as kill, drain, heal, move; press Ctrl-C to stop".to_owned(),
        String::new(),
    ];
    let tried = [grace(documents, node), checks(documents, node), more(documents), given_back(documents)];
    let (first, last) = lines.split_at(lines.len().saturating_sub(3));
    for line in first.iter().chain(tried.iter().flatten()).chain(last) {
        story.verbatim(line);
    }
}

/// How to try a failure that moves nothing, for a pool and for record sets, which would otherwise drop the node.
fn grace(documents: &[manifest::Document], node: &str) -> Vec<String> {
    let pool = documents.iter().find(|document| document.is(POOL_KIND));
    let sets = documents.iter().filter(|document| document.is(RECORD_SET_KIND));
    let objects: Vec<&manifest::Document> = pool.into_iter().chain(sets).collect();
    let mut lines = vec![
        "to see a failure that moves nothing, give these objects a grace period, type here".to_owned(),
        format!("`kill {node}`, and within a minute `heal {node}`:"),
    ];
    let patch = r#"{"spec":{"grace":{"nodeSeconds":60}}}"#;
    lines.extend(objects.into_iter().map(|document| patching(document, patch)));
    lines
}

/// How to see a failed machine lose its address before Kubernetes notices, for a pool.
fn checks(documents: &[manifest::Document], node: &str) -> Vec<String> {
    let Some(pool) = documents.iter().find(|document| document.is(POOL_KIND)) else { return Vec::new() };
    vec![
        "to see the address of a failed machine move after about 12 s, before Kubernetes notices, let FLIPOP"
            .to_owned(),
        format!("check the nodes of this pool, and type here `crash {node}`:"),
        patching(pool, r#"{"spec":{"nodeCheck":{}}}"#),
    ]
}

/// How to see labels on the nodes that have an address, and a firewall of the pool.
fn more(documents: &[manifest::Document]) -> Vec<String> {
    let Some(pool) = documents.iter().find(|document| document.is(POOL_KIND)) else { return Vec::new() };
    let firewall =
        r#"{"spec":{"firewall":{"ports":[{"protocol":"tcp","port":"443"}],"sources":["0.0.0.0/0"]}}}"#;
    vec![
        "to see labels on the nodes that have an address, and a firewall that lets traffic in:".to_owned(),
        patching(pool, r#"{"spec":{"nodeLabels":{"enabled":true}}}"#),
        patching(pool, firewall),
    ]
}

/// How to see created addresses deleted, for a pool that creates them.
fn given_back(documents: &[manifest::Document]) -> Vec<String> {
    let buys = |document: &&manifest::Document| {
        document.is(POOL_KIND) && document.value.pointer("/spec/desiredIPs").is_some()
    };
    let Some(pool) = documents.iter().find(buys) else { return Vec::new() };
    vec![
        "to see the addresses that a pool created leave the account when it is deleted:".to_owned(),
        patching(pool, r#"{"spec":{"reclaimPolicy":"Delete"}}"#),
        // A pool that is deleted before it has its finalizer is gone at once, and its created addresses stay.
        format!("  kubectl wait {} --for 'jsonpath={{.metadata.finalizers[0]}}={FINALIZER}'", named(pool)),
        format!("  kubectl delete {} --wait=false", named(pool)),
    ]
}

/// The command that changes an object.
fn patching(document: &manifest::Document, patch: &str) -> String {
    format!("  kubectl patch {} --type=merge -p '{patch}'", named(document))
}

/// An object as kubectl's arguments name it.
fn named(document: &manifest::Document) -> String {
    let Key { namespace, name } = &document.key;
    let namespace = if namespace.is_empty() { manifest::DEFAULT_NAMESPACE } else { namespace };
    format!("{} {name} -n {namespace}", document.kind.to_ascii_lowercase())
}

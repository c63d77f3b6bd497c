//! The acts on the cluster, and what must follow from each within a time limit.

use super::cast::{self, Cast};
use super::manifest::{self, DEFAULT_NAMESPACE, Document};
use super::pools::{self, POOL_KIND, Pool, Victim};
use super::stage::Stage;
use super::story::{Move, PATIENCE, Story};
use super::teller::{Line, Teller};
use super::{DemoError, explain, pods, records, restart, summary};
use flipop_apiserver::{Key, Readiness, ScenarioError};
use flipop_core::model::ObjectName;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How long nothing may move after the nodes are healed. The operator reacts within milliseconds.
const QUIET: Duration = Duration::from_secs(2);

/// Within this time the operator begins at most two rounds for a pool's record set.
const SPACED_MS: u64 = 2_000;

/// Plays the whole story for these files, or for the repository's examples if there are none.
///
/// # Errors
/// If the YAML has a mistake, or something expected did not happen in time.
pub(crate) async fn run(files: &[PathBuf], out: Box<dyn Write + Send>) -> Result<(), DemoError> {
    let mut documents = manifest::load(files)?;
    let lowered = cast::shorten(&mut documents);
    let cast = cast::cast(&documents);
    let mut stage = Stage::open(0).await?;
    stage.populate(&cast, &documents)?;
    let mut story = Story::new(stage, Teller::new(out));
    let played = play(&mut story, &documents, &cast, &lowered).await;
    let closed = story.stage.close().await;
    played.and(closed)
}

async fn play(
    story: &mut Story,
    documents: &[Document],
    cast: &Cast,
    lowered: &[String],
) -> Result<(), DemoError> {
    introduce(story, cast, lowered);
    story.stage.operators.start().await?;
    story.say(
        "the operator runs as in a cluster: it has a kubeconfig, and a token and a URL of each provider",
    );
    apply(story, documents)?;
    let order = names(documents);
    converge(story, &order).await?;
    if order.is_empty() {
        publish(story, cast).await?;
        summary::tell(story);
        return Ok(());
    }
    if let Some(victim) = pick(story, &order, &[], true) {
        restart::play(story, &victim).await?;
    }
    let mut victims = Vec::new();
    if let Some(victim) = pick(story, &order, &victims, false) {
        pause(story, &victim.pool).await?;
        kill(story, &victim)?;
        expect_failover(story, &victim).await?;
        victims.push(victim);
    }
    if let Some(victim) = pick(story, &order, &victims, true) {
        pause(story, &victim.pool).await?;
        drain(story, &victim)?;
        story.follow(Duration::ZERO, |_| true).await?;
        if story.matches(&victim.pool, &victim.node) {
            let text = format!("{} still matches {} while it is cordoned", victim.node, victim.pool);
            story.say(&format!(
                "{text}: the taint is tolerated and no pod is asked for, so {} stays",
                victim.ip
            ));
        } else {
            expect_failover(story, &victim).await?;
        }
        victims.push(victim);
    }
    heal(story, cast, &victims).await?;
    summary::tell(story);
    Ok(())
}

/// Describes the world before anything is applied.
pub(super) fn introduce(story: &mut Story, cast: &Cast, lowered: &[String]) {
    let nodes: Vec<&str> = cast.nodes.iter().map(|node| node.name.as_str()).collect();
    let pods = cast.nodes.iter().filter(|node| node.pod.is_some()).count();
    story.say(&format!(
        "a simulated cluster with {} nodes ({}) and {pods} pods on them",
        nodes.len(),
        nodes.join(", ")
    ));
    for address in &cast.addresses {
        let place = match &address.node {
            Some(node) => format!("on {node} already: it was assigned before the operator started"),
            None => "assigned to no droplet".to_owned(),
        };
        story.say(&format!("the simulated account has {} in {}, {place}", address.ip, address.region));
    }
    for zone in &cast.zones {
        let provider = zone.provider.name();
        story.say(&format!(
            "the simulated {provider} has the zone {zone}, with records of others that must stay"
        ));
    }
    for note in lowered.iter().chain(&cast.notes) {
        story.say(note);
    }
}

/// Applies the YAML as `kubectl apply` does: unknown fields are refused, and warnings are shown.
pub(super) fn apply(story: &mut Story, documents: &[Document]) -> Result<(), DemoError> {
    for document in documents {
        let Document { source, kind, key, value, .. } = document;
        story.tell(Line::Apply, &format!("{kind} {} from {source}", key.name));
        match story.stage.api.apply_strictly(value.clone(), DEFAULT_NAMESPACE) {
            Ok(applied) => applied.warnings.iter().for_each(|warning| story.tell(Line::Warning, warning)),
            Err(ScenarioError::UnknownKind { .. }) if !document.is_ours() => {
                story.tell(Line::Apply, &format!("it is left out: the sandbox has no kind {kind}"));
            }
            Err(error) => {
                let problem = format!("{kind} {}: {}", key.name, explain(&error));
                return Err(DemoError::Apply { source_name: source.clone(), problem });
            }
        }
    }
    Ok(())
}

/// The pools in the order of the files.
fn names(documents: &[Document]) -> Vec<ObjectName> {
    let name = |Document { key: Key { namespace, name }, .. }: &Document| {
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
        ObjectName::new(namespace, name)
    };
    documents.iter().filter(|document| document.is(POOL_KIND)).map(name).collect()
}

/// Waits until every pool is as wanted, or known never to be.
async fn converge(story: &mut Story, order: &[ObjectName]) -> Result<(), DemoError> {
    let pools = pools::pools(&story.stage.api);
    let cool_offs = pools.iter().map(|pool| {
        let free = pool.spec.desired.unwrap_or(pool.spec.ips.len());
        pool.spec.cool_off_ms.saturating_mul(u64::try_from(free).unwrap_or(u64::MAX))
    });
    let patience = PATIENCE.saturating_add(Duration::from_millis(cool_offs.max().unwrap_or_default()));
    let wanted = order.to_vec();
    let settled = |story: &Story| {
        let pools = pools::pools(&story.stage.api);
        let settled =
            |name: &ObjectName| pools.iter().any(|pool| pool.name == *name && is_settled(story, pool));
        wanted.iter().all(settled) && records::are_settled(&story.stage)
    };
    let missing = |story: &Story| {
        let pools = pools::pools(&story.stage.api);
        let unsettled = pools.iter().filter(|pool| wanted.contains(&pool.name) && !is_settled(story, pool));
        let mut waits: Vec<String> = unsettled.map(|pool| waiting(story, pool)).collect();
        waits.extend(records::trouble(&story.stage));
        waits.into_iter().next().map(|first| format!("waiting: {first}"))
    };
    if !story.follow_for(patience, settled, missing).await? {
        story.complain(&format!("giving up after {} s", patience.as_secs()));
    }
    examine(story, order)
}

/// The first complaint of a pool, and how long its cool-off still lasts.
fn waiting(story: &Story, pool: &Pool) -> String {
    let complaint = pool.complaints().into_iter().next().unwrap_or_default();
    let left = cool_off_left(story, &pool.name);
    let cool_off = if left.is_zero() {
        String::new()
    } else {
        format!(" (its cool-off lets it assign again in {} s)", left.as_secs().saturating_add(1))
    };
    format!("{} {complaint}{cool_off}", pool.name)
}

/// Checks that every pool and every record set is healthy. Otherwise returns the faults.
fn examine(story: &mut Story, order: &[ObjectName]) -> Result<(), DemoError> {
    let pools = pools::pools(&story.stage.api);
    let mut unhealthy = Vec::new();
    for name in order {
        let pool = pools.iter().find(|pool| pool.name == *name);
        match pool {
            Some(pool) if pool.is_ready() && !pool.is_invalid() && is_settled(story, pool) => {
                let mut kept = pool.active();
                kept.retain(|ip, _| !story.moves.iter().any(|done| done.ip == *ip));
                for (ip, node) in kept {
                    let text = format!("{ip} stays on {node}, which matches {name}: nothing had to move");
                    story.tell(Line::Done, &text);
                }
            }
            Some(pool) => {
                let complaints = pool.complaints();
                if let Some(reason) = pool.never() {
                    story.complain(&format!("{name} can never become healthy as it is: {reason}"));
                }
                for line in &complaints {
                    story.complain(&format!("{name} {line}"));
                }
                unhealthy.push(format!("{name} is not healthy: {}", complaints.join("; ")));
            }
            None => unhealthy.push(format!("{name} is not on the API server")),
        }
    }
    for line in records::trouble(&story.stage) {
        story.complain(&line);
        unhealthy.push(line);
    }
    if unhealthy.is_empty() { Ok(()) } else { Err(DemoError::Unmet(unhealthy.join("\n"))) }
}

/// A pool that can never become healthy is settled. Any other is settled once its addresses are active and its nodes
/// are annotated.
fn is_settled(story: &Story, pool: &Pool) -> bool {
    let annotated = || pool.active().iter().all(|(ip, node)| annotation(story, node) == Some(ip.to_string()));
    pool.is_observed() && (pool.never().is_some() || (pool.is_ready() && annotated()))
}

fn annotation(story: &Story, node: &str) -> Option<String> {
    let node = story.stage.api.object("v1", "Node", &Key::new("", node))?;
    pools::annotation(&node).map(str::to_owned)
}

/// An address on a node. Prefers a pool that has not had a victim yet, and then one that asks for pods (or does not).
fn pick(story: &Story, order: &[ObjectName], before: &[Victim], with_pods: bool) -> Option<Victim> {
    let pools = pools::pools(&story.stage.api);
    let mut victims: Vec<((bool, bool), Victim)> = Vec::new();
    for name in order {
        let Some(pool) = pools.iter().find(|pool| pool.name == *name) else { continue };
        let asks = pool.spec.criteria.as_ref().is_some_and(|criteria| criteria.pods.is_some());
        let again = before.iter().any(|victim| victim.pool == *name);
        // The first node by name, because a reader looks for them in that order.
        if let Some((ip, node)) = pool.active().into_iter().min_by(|one, other| one.1.cmp(&other.1)) {
            victims.push(((again, asks != with_pods), Victim { pool: name.clone(), ip, node }));
        }
    }
    victims.into_iter().min_by_key(|(rank, _)| *rank).map(|(_, victim)| victim)
}

/// Waits, so that the next failover comes long after the one before. Two at once would show the spacing of rounds
/// instead.
async fn pause(story: &mut Story, pool: &ObjectName) -> Result<(), DemoError> {
    let round = story.rounds.get(pool).copied();
    let until = round.map_or(0, |at_ms| at_ms.saturating_add(SPACED_MS));
    let rest = Duration::from_millis(until.saturating_sub(story.now_ms()));
    story.follow(rest, |_| false).await.map(drop)
}

fn kill(story: &mut Story, victim: &Victim) -> Result<(), DemoError> {
    let Victim { ip, node, .. } = victim;
    story.plain("");
    let text =
        format!("KILL {node}, which holds {ip}: its kubelet is silent, and Kubernetes marks it NotReady");
    story.say(&format!("{text} (which takes a real cluster 40 to 55 s)"));
    Ok(story.stage.api.set_node_ready(node, Readiness::Unknown)?)
}

fn drain(story: &mut Story, victim: &Victim) -> Result<(), DemoError> {
    let node = &victim.node;
    let api = story.stage.api.clone();
    let pods = pods::pods_on(&api, node);
    story.plain("");
    let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    let evicted = if names.is_empty() { String::new() } else { format!(" and loses {}", names.join(", ")) };
    story.say(&format!("DRAIN {node}, which holds {}: it is cordoned{evicted}", victim.ip));
    Ok(pods::evict(&api, node, &pods)?)
}

/// Expects exactly this address to move to another matching node, and status, annotations and DNS records to follow.
async fn expect_failover(story: &mut Story, victim: &Victim) -> Result<(), DemoError> {
    let Victim { pool: name, ip, node } = victim;
    let before = story.moves.len();
    let wait = cool_off_left(story, name);
    if !wait.is_zero() {
        story.say(&format!(
            "{name} waits for its cool-off: assignmentCoolOffSeconds lets it assign in {} s",
            wait.as_secs()
        ));
    }
    let patience = PATIENCE.saturating_add(wait);
    let moved = |story: &Story| {
        let done = story.moves.iter().skip(before).find(|done| leaves(done, victim));
        let pool = pools::pool(&story.stage.api, name);
        done.zip(pool).is_some_and(|(done, pool)| {
            pool.active().get(ip) == Some(&done.to)
                && annotation(story, &done.to) == Some(ip.to_string())
                && annotation(story, node).is_none()
        }) && records::trouble(&story.stage).is_empty()
    };
    let missing = |story: &Story| {
        let pool = pools::pool(&story.stage.api, name)?;
        Some(format!("waiting for {ip} to leave {node}: {}", waiting(story, &pool)))
    };
    if !story.follow_for(patience, moved, missing).await? {
        story.complain(&format!("giving up after {} s", patience.as_secs()));
        let pool = pools::pool(&story.stage.api, name);
        let mut complaints = pool.map(|pool| pool.complaints()).unwrap_or_default();
        complaints.extend(records::trouble(&story.stage));
        return Err(DemoError::Unmet(format!(
            "{ip} has not moved from {node} to another matching node, with status, annotations and DNS records, \
             within {} s; {name}: {}",
            patience.as_secs(),
            complaints.join("; ")
        )));
    }
    if let Some(other) = story.moves.iter().skip(before).find(|done| !leaves(done, victim)) {
        return Err(DemoError::Unmet(format!("{} moved to {} needlessly", other.ip, other.to)));
    }
    let to = story.moves.last().map(|done| done.to.clone()).unwrap_or_default();
    story.tell(Line::Done, &format!("{ip} is on {to}, and status, annotations and DNS records agree"));
    Ok(())
}

fn leaves(done: &Move, victim: &Victim) -> bool {
    done.ip == victim.ip && done.from.as_ref() == Some(&victim.node)
}

/// How long a pool's cool-off still prevents an assignment.
fn cool_off_left(story: &Story, name: &ObjectName) -> Duration {
    let Some(pool) = pools::pool(&story.stage.api, name) else { return Duration::ZERO };
    let last = story.moves.iter().filter(|done| pool.names(done.ip)).map(|done| done.began_ms).max();
    let until = last.map_or(0, |last| last.saturating_add(pool.spec.cool_off_ms));
    Duration::from_millis(until.saturating_sub(story.now_ms()))
}

/// Brings the victims back. Nothing may move because of that.
async fn heal(story: &mut Story, cast: &Cast, victims: &[Victim]) -> Result<(), DemoError> {
    let nodes: Vec<&str> = victims.iter().map(|victim| victim.node.as_str()).collect();
    if nodes.is_empty() {
        return Err(DemoError::Unmet("no address is on any node, so there is nothing to show".to_owned()));
    }
    story.plain("");
    story.say(&format!("HEAL {}: ready, schedulable, with their pods", nodes.join(" and ")));
    let begun = story.begun();
    for node in &nodes {
        restore(story, cast, node)?;
    }
    let back = |story: &Story| victims.iter().all(|victim| is_back(story, victim));
    if !story.follow(PATIENCE, back).await? {
        let text =
            format!("{} match again, but the pools do not list them as assignable", nodes.join(" and "));
        return Err(DemoError::Unmet(text));
    }
    if story.follow(QUIET, |story| story.begun() != begun).await? {
        return Err(DemoError::Unmet("an address moved back although its node is well".to_owned()));
    }
    let text =
        format!("nothing moved back: {} wait in assignableNodes for the next failover", nodes.join(" and "));
    story.tell(Line::Done, &text);
    expect_records(story, PATIENCE).await
}

/// Makes a node ready and schedulable, with its pod.
fn restore(story: &Story, cast: &Cast, node: &str) -> Result<(), DemoError> {
    let api = &story.stage.api;
    api.set_node_ready(node, Readiness::Ready)?;
    api.set_node_unschedulable(node, false)?;
    let planned = cast.nodes.iter().find(|planned| planned.name == node);
    if let Some(pod) = planned.and_then(|planned| planned.pod.as_ref())
        && api.object("v1", "Pod", &Key::new(&pod.namespace, &pod.name)).is_none()
    {
        story.stage.add_pod(pod, node)?;
    }
    Ok(())
}

/// The story of record sets without pools: a node fails and its records go; it comes back, and so do they.
async fn publish(story: &mut Story, cast: &Cast) -> Result<(), DemoError> {
    let Some((node, object)) = records::publisher(&story.stage) else {
        let text = "no node has an address that a record set publishes, so there is nothing to show; if addressType is \
                    the annotation of reserved IPs, give the YAML of the FloatingIPPool too";
        return Err(DemoError::Unmet(text.to_owned()));
    };
    story.plain("");
    story.say(&format!(
        "KILL {node}, which {object} publishes: its kubelet is silent, and Kubernetes marks it NotReady"
    ));
    story.stage.api.set_node_ready(&node, Readiness::Unknown)?;
    expect_records(story, PATIENCE).await?;
    story.plain("");
    story.say(&format!("HEAL {node}"));
    restore(story, cast, &node)?;
    expect_records(story, PATIENCE).await
}

/// Waits until every record set holds the right records, and checks that other people's records in the zones are
/// unchanged.
async fn expect_records(story: &mut Story, patience: Duration) -> Result<(), DemoError> {
    let right = |story: &Story| records::trouble(&story.stage).is_empty();
    let missing = |story: &Story| {
        records::trouble(&story.stage).into_iter().next().map(|first| format!("waiting: {first}"))
    };
    if !story.follow_for(patience, right, missing).await? {
        story.complain(&format!("giving up after {} s", patience.as_secs()));
        let trouble = records::trouble(&story.stage).join("\n");
        return Err(DemoError::Unmet(format!("not within {} s: {trouble}", patience.as_secs())));
    }
    match story.stage.spoilt_zone() {
        Some(zone) => {
            Err(DemoError::Unmet(format!("a record of others in the zone {zone} is gone or altered")))
        }
        None => Ok(()),
    }
}

/// Whether the node waits for an address again, or has kept its own.
fn is_back(story: &Story, Victim { pool, ip, node }: &Victim) -> bool {
    let Some(pool) = pools::pool(&story.stage.api, pool) else { return false };
    let kept = pool.active().get(ip) == Some(node);
    story.matches(&pool.name, node) && (kept || pool.status.assignable_nodes.contains(node))
}

//! A failure that passes. With `spec.grace` its address stays where it is.
//!
//! Invariant: the grace period is removed at the end, so the rest of the script shows the objects as in their YAML.

use super::pools::{self, API_VERSION, POOL_KIND, RECORD_SET_KIND, Victim};
use super::story::{PATIENCE, Story};
use super::teller::Line;
use super::{DemoError, pods, records};
use flipop_apiserver::{Key, Readiness, ScenarioError};
use flipop_core::model::ObjectName;
use serde_json::{Value, json};

/// The grace in this scene. The scene does not wait for its end.
const GRACE_S: u64 = 30;

/// The part that fails for a while.
enum Failing {
    /// The pods that the pool asks for.
    Pods(Vec<Key>),
    /// The node, if the pool asks for no pods.
    Node,
}

/// The pods of a node restart, or its kubelet does. Nothing may move, and the operator has to say so.
pub(super) async fn play(story: &mut Story, victim: &Victim) -> Result<(), DemoError> {
    let Victim { pool: name, ip, node } = victim;
    let asks = pools::pool(&story.stage.api, name)
        .and_then(|pool| pool.spec.criteria)
        .is_some_and(|criteria| criteria.pods.is_some());
    let (failing, field, what) = if asks {
        let pods = pods::pods_on(&story.stage.api, node);
        let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
        let what = format!("{} on {node}", names.join(", "));
        (Failing::Pods(pods), "podSeconds", what)
    } else {
        (Failing::Node, "nodeSeconds", format!("the kubelet of {node}"))
    };
    story.plain("");
    let before = graces(story, name);
    let patch = json!({ "spec": { "grace": { field: GRACE_S } } });
    let names: Vec<&str> = before.iter().map(|(_, key, _)| key.name.as_str()).collect();
    story.say(&format!(
        "GRACE for {}: {patch}: a failure may last {GRACE_S} s before anything moves",
        names.join(" and ")
    ));
    for (kind, key, _) in &before {
        edit(story, (kind, key), patch.clone()).await?;
    }
    let begun = story.begun();
    story.say(&format!("RESTART {what}, which holds {ip}: not Ready for a few seconds"));
    set(story, victim, &failing, false)?;
    if !story.follow(PATIENCE, |story| has_event(story, victim, "FailoverDelayed")).await? {
        return Err(DemoError::Unmet(format!("{name} does not say that the move of {ip} is delayed")));
    }
    story.say(&format!("{what} is Ready again"));
    set(story, victim, &failing, true)?;
    let avoided = |story: &Story| {
        let over =
            pools::pool(&story.stage.api, name).is_some_and(|pool| pool.condition("Suspect").is_none());
        over && has_event(story, victim, "FailoverAvoided")
    };
    if !story.follow(PATIENCE, avoided).await? {
        return Err(DemoError::Unmet(format!("{name} does not say that the move of {ip} was avoided")));
    }
    let stays = pools::pool(&story.stage.api, name).is_some_and(|pool| pool.active().get(ip) == Some(node));
    if story.begun() != begun || !stays || !records::trouble(&story.stage).is_empty() {
        return Err(DemoError::Unmet(format!("{ip} did not stay on {node} through a restart")));
    }
    let text = format!(
        "{ip} stayed on {node}: no address moved, and no DNS record changed. Without a grace period it moves at once"
    );
    story.tell(Line::Done, &text);
    for (kind, key, grace) in &before {
        let back = grace.as_object().map(|fields| json!({ field: fields.get(field) }));
        edit(story, (kind, key), json!({ "spec": { "grace": back } })).await?;
    }
    Ok(())
}

/// The pool, and the record sets that would drop the node, each with its present `spec.grace`.
fn graces(story: &Story, pool: &ObjectName) -> Vec<(&'static str, Key, Value)> {
    let api = &story.stage.api;
    let pools = api.objects(API_VERSION, POOL_KIND).into_iter().map(|object| (POOL_KIND, object));
    let sets = api.objects(API_VERSION, RECORD_SET_KIND).into_iter().map(|object| (RECORD_SET_KIND, object));
    let read = |(kind, object): (&'static str, Value)| {
        let key = pools::key(&object);
        let asked = kind == RECORD_SET_KIND || (key.namespace == pool.namespace && key.name == pool.name);
        asked.then(|| (kind, key, object.pointer("/spec/grace").cloned().unwrap_or_default()))
    };
    pools.chain(sets).filter_map(read).collect()
}

/// Edits an object, and waits until the operator has read it.
async fn edit(story: &mut Story, (kind, key): (&str, &Key), patch: Value) -> Result<(), DemoError> {
    story.stage.api.patch_object((API_VERSION, kind), key, "", patch, "sandbox")?;
    let read = |story: &Story| {
        let object = story.stage.api.object(API_VERSION, kind, key).unwrap_or_default();
        object.pointer("/status/observedGeneration") == object.pointer("/metadata/generation")
    };
    if story.follow(PATIENCE, read).await? {
        return Ok(());
    }
    Err(DemoError::Unmet(format!("the operator has not read the new spec of {}", key.name)))
}

fn set(story: &Story, victim: &Victim, failing: &Failing, ready: bool) -> Result<(), ScenarioError> {
    let api = &story.stage.api;
    match failing {
        Failing::Pods(pods) => pods.iter().try_for_each(|pod| api.set_pod_ready(pod, ready)),
        Failing::Node => api.set_node_ready(&victim.node, Readiness::of(ready)),
    }
}

/// Whether the operator has written such an Event about the pool.
fn has_event(story: &Story, Victim { pool, .. }: &Victim, reason: &str) -> bool {
    let is = |event: &Value| {
        let text = |pointer: &str| pools::text(event, pointer);
        text("/reason") == reason
            && text("/involvedObject/kind") == POOL_KIND
            && text("/involvedObject/namespace") == pool.namespace
            && text("/involvedObject/name") == pool.name
    };
    story.stage.api.objects("v1", "Event").iter().any(is)
}

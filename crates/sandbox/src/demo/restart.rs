//! A failure that passes: with `spec.grace` its address stays where it is.
//!
//! Invariant: the grace is taken back at the end, so that what follows in the script shows the pool as its YAML has it.

use super::pods;
use super::pools::{self, API_VERSION, POOL_KIND};
use super::script::{PATIENCE, Victim};
use super::story::Story;
use super::teller::Line;
use super::{DemoError, records};
use flipop_apiserver::{Key, Readiness, ScenarioError};
use serde_json::{Value, json};

/// The grace in this scene. Nobody waits for its end.
const GRACE_S: u64 = 30;

/// What fails for a while.
enum Failing {
    /// The pods that the pool asks for.
    Pods(Vec<Key>),
    /// The node, where the pool asks for no pods.
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
    let before = grace(story, victim);
    story.plain("");
    let patch = json!({ "spec": { "grace": { field: GRACE_S } } });
    let text = format!("GRACE for {name}: a restart may take {GRACE_S} s; the same as kubectl patch with {patch}");
    story.tell(Line::Sandbox, &text);
    edit(story, victim, patch).await?;
    let begun = story.begun();
    story.tell(Line::Sandbox, &format!("RESTART {what}, which holds {ip}: not Ready for a few seconds"));
    set(story, victim, &failing, false)?;
    if !story.follow(PATIENCE, |story| has_event(story, victim, "FailoverDelayed")).await? {
        return Err(DemoError::Unmet(format!("{name} does not say that the move of {ip} is delayed")));
    }
    story.tell(Line::Sandbox, &format!("{what} is Ready again"));
    set(story, victim, &failing, true)?;
    let avoided = |story: &Story| {
        let over = pools::pool(&story.stage.api, name).is_some_and(|pool| pool.condition("Suspect").is_none());
        over && has_event(story, victim, "FailoverAvoided")
    };
    if !story.follow(PATIENCE, avoided).await? {
        return Err(DemoError::Unmet(format!("{name} does not say that the move of {ip} was avoided")));
    }
    let stays = pools::pool(&story.stage.api, name).is_some_and(|pool| pool.active().get(ip) == Some(node));
    if story.begun() != begun || !stays || !records::trouble(&story.stage).is_empty() {
        return Err(DemoError::Unmet(format!("{ip} did not stay on {node} through a restart")));
    }
    let text = format!("{ip} stayed on {node}: no address moved, and no DNS record changed. Without grace it moves at once");
    story.tell(Line::Done, &text);
    let back = match before.as_object() {
        Some(fields) => json!({ field: fields.get(field) }),
        None => Value::Null,
    };
    edit(story, victim, json!({ "spec": { "grace": back } })).await
}

/// `spec.grace` of the pool as it is.
fn grace(story: &Story, Victim { pool, .. }: &Victim) -> Value {
    let object = story.stage.api.object(API_VERSION, POOL_KIND, &Key::new(&pool.namespace, &pool.name));
    object.and_then(|object| object.pointer("/spec/grace").cloned()).unwrap_or_default()
}

/// Edits the pool, and waits until the operator has read it.
async fn edit(story: &mut Story, Victim { pool: name, .. }: &Victim, patch: Value) -> Result<(), DemoError> {
    let key = Key::new(&name.namespace, &name.name);
    story.stage.api.patch_object((API_VERSION, POOL_KIND), &key, "", patch, "sandbox")?;
    let read = |story: &Story| pools::pool(&story.stage.api, name).is_some_and(|pool| pool.is_observed());
    if story.follow(PATIENCE, read).await? {
        return Ok(());
    }
    Err(DemoError::Unmet(format!("the operator has not read the new spec of {name}")))
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
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
        text("/reason") == Some(reason)
            && text("/involvedObject/kind") == Some(POOL_KIND)
            && text("/involvedObject/namespace") == Some(&pool.namespace)
            && text("/involvedObject/name") == Some(&pool.name)
    };
    story.stage.api.objects("v1", "Event").iter().any(is)
}

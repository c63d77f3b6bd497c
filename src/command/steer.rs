//! `flipop move`, `pause` and `resume`: they set annotations of our own objects, and wait for the outcome.
//!
//! Writes nothing else. The operator decides what an annotation means
//! (`flipop_core::addresses::pool::manual_move::request`, `flipop_core::model::pause`).

use super::CommandError;
use super::leader::{self, Leader};
use super::output::{self, Output, Tone, shown};
use super::session::Session;
use crate::api::{Conditioned, FloatingIPPool, LastMove, NodeDNSRecordSet};
use crate::config::cli_args::{MoveArgs, Which};
use crate::exit::Exit;
use crate::kube::objects::COMMAND_FIELD_MANAGER;
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::kube::watch::in_namespace;
use flipop_core::addresses::pool::manual_move::result::{MOVE_ANNOTATION, MoveOutcome};
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_core::model::{ConditionType, ObjectKind};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The longest wait for an outcome.
const PATIENCE: Duration = Duration::from_mins(1);

/// The time between two reads.
const PERIOD: Duration = Duration::from_millis(500);

/// The outcome of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    object: String,
    outcome: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(flatten)]
    moved: Option<Moved>,
    #[serde(skip)]
    tone: Tone,
}

/// The move that was asked for.
#[derive(Debug, Serialize)]
struct Moved {
    address: String,
    from: String,
    to: String,
    seconds: f64,
}

/// Moves an address by hand.
pub(super) async fn move_address(
    session: &Session,
    arguments: &MoveArgs,
    output: Output,
) -> Result<Exit, CommandError> {
    let MoveArgs { pool, ip, node, waiting, .. } = arguments;
    let Some(namespace) = &session.namespace else {
        return Err(CommandError::Usage("move works on one pool: name its namespace with -n".to_owned()));
    };
    let pool = match Named::parse(pool)? {
        Named { kind: Some(ObjectKind::RecordSet), .. } => {
            return Err(CommandError::Usage(format!("{pool} is not a pool")));
        }
        Named { name, .. } => name,
    };
    somebody_leads(session).await?;
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let nonce: String = nonce.chars().take(8).collect();
    let request = format!("{ip}={node}#{nonce}");
    let pools: Api<FloatingIPPool> = Api::namespaced(session.client.clone(), namespace);
    let object = format!("FloatingIPPool {namespace}/{pool}");
    annotate(&pools, &pool, &object, MOVE_ANNOTATION, Some(&request)).await?;
    if !waiting.wait {
        return show(output, &[set(object, "requested")]);
    }
    let begun = session.clock.now();
    let mut waits = String::new();
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            let pool = pools.get(&pool).await;
            let pool = pool.map_err(|error| CommandError::read(object.clone(), error.into()))?;
            let last = pool.status.and_then(|status| status.last_move);
            let last = last.filter(|last| last.request == request).unwrap_or_default();
            match MoveOutcome::parse(&last.outcome) {
                Some(MoveOutcome::Pending) | None => {
                    if last.message != waits && !last.message.is_empty() {
                        output::complain(&format!("the move waits: {}", last.message));
                    }
                    waits = last.message;
                    tokio::time::sleep(PERIOD).await;
                }
                Some(outcome) => return Ok::<_, CommandError>((outcome, last)),
            }
        }
    });
    let result = if let Ok(ended) = ended.await {
        let (outcome, LastMove { from, message, .. }) = ended?;
        let tone = if outcome == MoveOutcome::Done { Tone::Good } else { Tone::Bad };
        let seconds = tenths(session.clock.now().millis_since(begun));
        Answer {
            moved: Some(Moved { address: ip.to_string(), from, to: node.clone(), seconds }),
            outcome: outcome.as_str().to_owned(),
            message,
            tone,
            ..set(object, "")
        }
    } else {
        let waits = if waits.is_empty() { String::new() } else { format!(" ({waits})") };
        let message = format!(
            "no outcome within {} s{waits}; the request stays, and status.lastMove and the Events of the pool will \
             show its outcome",
            PATIENCE.as_secs()
        );
        Answer { message, tone: Tone::Bad, ..set(object, "NoOutcome") }
    };
    show(output, &[result])
}

/// Fails if no replica leads, since the request would have no effect. If the leader is unknown, one may lead.
async fn somebody_leads(session: &Session) -> Result<(), CommandError> {
    match leader::find(session).await {
        Ok(Leader { vacant_since: Some(since), .. }) => Err(CommandError::Missing(format!(
            "failed to request the move: no replica leads since {since}; nothing was requested"
        ))),
        Ok(Leader { vacant_since: None, .. }) => Ok(()),
        Err(trouble) => {
            output::complain(&format!("note: {}", leader::unknown(session, &trouble)));
            Ok(())
        }
    }
}

/// Milliseconds as seconds, to a tenth.
fn tenths(ms: u64) -> f64 {
    Duration::from_millis(ms / 100 * 100).as_secs_f64()
}

/// An object as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// The kind, if it is given.
    pub(super) kind: Option<ObjectKind>,
    /// The name.
    pub(super) name: String,
}

impl Named {
    /// Parses `NAME` or `KIND/NAME`. It accepts the same kinds as kubectl.
    pub(super) fn parse(text: &str) -> Result<Self, CommandError> {
        let wrong = || {
            CommandError::Usage(format!("{text:?} is not an object: write NAME, fipool/NAME or nodedns/NAME"))
        };
        let (kind, name) = match text.split_once('/') {
            None => (None, text),
            Some((kind, name)) => {
                let kind = kind.to_ascii_lowercase();
                let kind = match kind.strip_suffix(".flipop.digitalocean.com").unwrap_or(&kind) {
                    "fipool" | "floatingippool" | "floatingippools" => ObjectKind::Pool,
                    "nodedns" | "nodednsrecordset" | "nodednsrecordsets" => ObjectKind::RecordSet,
                    _ => return Err(wrong()),
                };
                (Some(kind), name)
            }
        };
        if name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        Ok(Self { kind, name: name.to_owned() })
    }

    /// Whether it names this object.
    pub(super) fn is(&self, kind: ObjectKind, name: &str) -> bool {
        self.kind.is_none_or(|named| named == kind) && self.name == name
    }
}

/// One object of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    kind: ObjectKind,
    namespace: String,
    name: String,
}

impl Target {
    fn shown(&self) -> String {
        format!("{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// Pauses objects for this reason, or resumes them (`None`).
pub(super) async fn pause(
    session: &Session,
    which: &Which,
    reason: Option<&str>,
    wait: bool,
    output: Output,
) -> Result<Exit, CommandError> {
    let targets = targets(session, which, reason.is_none()).await?;
    let work = targets.iter().map(|target| async move {
        let paused = match target.kind {
            ObjectKind::Pool => pause_one::<FloatingIPPool>(session, target, reason, wait).await,
            ObjectKind::RecordSet => pause_one::<NodeDNSRecordSet>(session, target, reason, wait).await,
        };
        // A failure must not hide the outcome of the others.
        paused.unwrap_or_else(|error| Answer {
            message: error.to_string(),
            tone: Tone::Bad,
            ..set(target.shown(), "Failed")
        })
    });
    show(output, &futures::future::join_all(work).await)
}

/// The objects that the arguments name. A name without a kind is that of the only object of this name. To resume all
/// objects means to resume the paused ones.
async fn targets(session: &Session, which: &Which, resumes: bool) -> Result<Vec<Target>, CommandError> {
    if which.all {
        let paused = resumes.then_some(PAUSED_ANNOTATION);
        return existing(session, paused).await;
    }
    let Some(namespace) = &session.namespace else {
        return Err(CommandError::Usage(
            "-A needs --all; name the namespace of the objects with -n".to_owned(),
        ));
    };
    let named: Vec<Named> = which.objects.iter().map(|text| Named::parse(text)).collect::<Result<_, _>>()?;
    let all = if named.iter().any(|named| named.kind.is_none()) {
        existing(session, None).await?
    } else {
        Vec::new()
    };
    let target = |Named { kind, name }: Named| {
        if let Some(kind) = kind {
            return Ok(Target { kind, namespace: namespace.clone(), name });
        }
        let mut found = all.iter().filter(|target| target.name == name);
        match (found.next(), found.next()) {
            (Some(target), None) => Ok(target.clone()),
            (Some(_), Some(_)) => Err(CommandError::Usage(format!(
                "there are two objects {name}: write fipool/{name} or nodedns/{name}"
            ))),
            (None, _) => Err(session.lacks(&name)),
        }
    };
    named.into_iter().map(target).collect()
}

/// The objects of both kinds, or those with an annotation.
async fn existing(session: &Session, annotation: Option<&str>) -> Result<Vec<Target>, CommandError> {
    let (pools, sets) = futures::try_join!(
        list::<FloatingIPPool>(session, annotation),
        list::<NodeDNSRecordSet>(session, annotation),
    )?;
    let all: Vec<Target> = pools.into_iter().chain(sets).collect();
    if all.is_empty() {
        session.find_namespace().await?;
    }
    Ok(all)
}

async fn list<K: Conditioned>(
    session: &Session,
    annotation: Option<&str>,
) -> Result<Vec<Target>, CommandError> {
    let api: Api<K> = in_namespace(session.client.clone(), session.namespace.as_deref());
    let listed = api.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(|error| CommandError::read(K::plural(&()), error.into()))?;
    let has = |meta: &kube::core::ObjectMeta| {
        annotation.is_none_or(|key| meta.annotations.iter().flatten().any(|(name, _)| name == key))
    };
    let target = |meta: kube::core::ObjectMeta| Target {
        kind: K::KIND,
        namespace: meta.namespace.unwrap_or_default(),
        name: meta.name.unwrap_or_default(),
    };
    let metas = listed.items.into_iter().map(|object| object.metadata);
    Ok(metas.filter(has).map(target).collect())
}

async fn pause_one<K: Conditioned>(
    session: &Session,
    target: &Target,
    reason: Option<&str>,
    wait: bool,
) -> Result<Answer, CommandError> {
    let api: Api<K> = Api::namespaced(session.client.clone(), &target.namespace);
    let object = target.shown();
    annotate(&api, &target.name, &object, PAUSED_ANNOTATION, reason).await?;
    if !wait {
        return Ok(set(object, if reason.is_some() { "pause requested" } else { "resumption requested" }));
    }
    let paused = ConditionType::Paused.as_str();
    let met = tokio::time::timeout(PATIENCE, async {
        loop {
            let read = api.get(&target.name).await;
            let read = read.map_err(|error| CommandError::read(object.clone(), error.into()))?;
            let held = read.conditions().iter().any(|condition| condition.type_ == paused);
            if held == reason.is_some() {
                return Ok::<_, CommandError>(());
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
    let Ok(met) = met.await else {
        let message = format!(
            "the annotation is set, but no operator has confirmed it within {} s: see flipop status",
            PATIENCE.as_secs()
        );
        return Ok(Answer { message, tone: Tone::Bad, ..set(object, "NoOutcome") });
    };
    met?;
    Ok(set(object, if reason.is_some() { "paused" } else { "resumed" }))
}

fn set(object: String, outcome: &str) -> Answer {
    Answer { object, outcome: outcome.to_owned(), message: String::new(), moved: None, tone: Tone::Good }
}

/// Sets an annotation, or removes it.
async fn annotate<K: Conditioned>(
    api: &Api<K>,
    name: &str,
    object: &str,
    annotation: &str,
    value: Option<&str>,
) -> Result<(), CommandError> {
    let patch = json!({ "metadata": { "annotations": { annotation: value } } });
    let params =
        PatchParams { field_manager: Some(COMMAND_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_metadata(name, &params, &Patch::<Value>::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let trouble = Trouble::from(error);
            let text = if trouble.kind == TroubleKind::NotFound {
                format!("failed to find {object}")
            } else {
                let why = leader::missing_right(&trouble, &format!("patch {object}"), None);
                format!("failed to set the annotation {annotation} of {object}: {why}")
            };
            Err(CommandError::Missing(text))
        }
    }
}

fn show(output: Output, results: &[Answer]) -> Result<Exit, CommandError> {
    output.show(&results, || {
        let line = |result: &Answer| {
            let message =
                if result.message.is_empty() { String::new() } else { format!(": {}", result.message) };
            let moved = result.moved.as_ref().map(|Moved { address, from, to, seconds }| {
                let from = if from.is_empty() { String::new() } else { format!("from {from} ") };
                format!(": {address} {from}to {to}, after {seconds} s")
            });
            let moved = moved.unwrap_or_default();
            let text = shown(&format!("{} {}{moved}{message}", result.object, result.outcome));
            format!("{} {text}\n", output.mark(result.tone))
        };
        if results.is_empty() {
            "there are no objects\n".to_owned()
        } else {
            results.iter().map(line).collect()
        }
    })?;
    let refused = results.iter().any(|result| result.tone == Tone::Bad);
    Ok(if refused { Exit::Failure } else { Exit::Success })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_as_for_kubectl_or_by_its_name() {
        let named = |text: &str| Named::parse(text).ok().map(|named| (named.kind, named.name));
        let web = |kind| Some((kind, "web".to_owned()));
        for text in ["fipool/web", "FloatingIPPool/web", "floatingippools.flipop.digitalocean.com/web"] {
            assert_eq!(named(text), web(Some(ObjectKind::Pool)), "{text}");
        }
        assert_eq!(named("nodedns/web"), web(Some(ObjectKind::RecordSet)));
        assert_eq!(named("web"), web(None));
        for text in ["pod/web", "fipool/", "", "fipool/a/b"] {
            assert_eq!(named(text), None, "{text}");
        }
    }
}

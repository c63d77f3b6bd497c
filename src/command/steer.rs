//! `flipop move`, `pause` and `resume`: they set annotations of our own objects, and wait for the outcome.
//!
//! Writes nothing else. The operator decides what an annotation means (`flipop_core::addresses::pool::by_hand`,
//! `flipop_core::model::pause`).

use super::CommandError;
use super::leader;
use super::output::{Output, Tone, shown};
use super::reach::Reach;
use crate::api::{Condition, FloatingIPPool, NodeDNSRecordSet};
use crate::config::words::{MoveArgs, Which};
use crate::exit::Exit;
use crate::kube::objects::COMMAND_FIELD_MANAGER;
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::kube::watch::in_namespace;
use flipop_core::addresses::pool::last_move::{MOVE_ANNOTATION, MoveOutcome};
use flipop_core::model::condition::ConditionType;
use flipop_core::model::ids::ObjectKind;
use flipop_core::model::pause::PAUSED_ANNOTATION;
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
    #[serde(skip)]
    tone: Tone,
}

/// Moves an address by hand.
pub(super) async fn move_address(
    reach: &Reach,
    arguments: &MoveArgs,
    output: Output,
) -> Result<Exit, CommandError> {
    let Some(namespace) = &reach.namespace else {
        return Err(CommandError::Usage("move works on one pool: name its namespace with -n".to_owned()));
    };
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let nonce: String = nonce.chars().take(8).collect();
    let request = format!("{}={}#{nonce}", arguments.ip, arguments.node);
    let pools: Api<FloatingIPPool> = Api::namespaced(reach.client.clone(), namespace);
    let object = format!("FloatingIPPool {namespace}/{}", arguments.pool);
    annotate(&pools, &arguments.pool, &object, MOVE_ANNOTATION, Some(&request)).await?;
    if !arguments.waiting.wait {
        return told(output, &[set(object, "requested")]);
    }
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            let pool = pools.get(&arguments.pool).await;
            let pool = pool.map_err(|error| CommandError::read(object.clone(), error.into()))?;
            let last = pool.status.and_then(|status| status.last_move);
            let last = last.filter(|last| last.request == request);
            match last.as_ref().and_then(|last| MoveOutcome::parse(&last.outcome)) {
                Some(MoveOutcome::Pending) | None => tokio::time::sleep(PERIOD).await,
                Some(outcome) => {
                    let tone = if outcome == MoveOutcome::Done { Tone::Good } else { Tone::Bad };
                    let message = last.map(|last| last.message).unwrap_or_default();
                    let outcome = outcome.as_str().to_owned();
                    return Ok::<_, CommandError>(Answer { object: object.clone(), outcome, message, tone });
                }
            }
        }
    });
    let result = match ended.await {
        Ok(result) => result?,
        Err(_) => Answer {
            object,
            outcome: "NoOutcome".to_owned(),
            message: format!(
                "there is no outcome within {} s; the request stays, and its outcome will be in status.lastMove and in \
                 the Events of the pool",
                PATIENCE.as_secs()
            ),
            tone: Tone::Bad,
        },
    };
    told(output, &[result])
}

/// An object by kind and name.
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

    /// Parses `KIND/NAME`. It accepts the same kinds as kubectl.
    fn parse(text: &str, namespace: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let kind = kind.to_ascii_lowercase();
        let kind = kind.strip_suffix(".flipop.digitalocean.com").unwrap_or(&kind);
        let kind = match kind {
            "fipool" | "floatingippool" | "floatingippools" => ObjectKind::Pool,
            "nodedns" | "nodednsrecordset" | "nodednsrecordsets" => ObjectKind::RecordSet,
            _ => return None,
        };
        (!name.is_empty()).then(|| Self { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Pauses objects for this reason, or resumes them (`None`).
pub(super) async fn pause(
    reach: &Reach,
    which: &Which,
    reason: Option<&str>,
    wait: bool,
    output: Output,
) -> Result<Exit, CommandError> {
    let targets = targets(reach, which).await?;
    let work = targets.iter().map(|target| async move {
        // A failure must not hide the outcome of the others.
        pause_one(reach, target, reason, wait).await.unwrap_or_else(|error| Answer {
            object: target.shown(),
            outcome: "Failed".to_owned(),
            message: error.to_string(),
            tone: Tone::Bad,
        })
    });
    told(output, &futures::future::join_all(work).await)
}

async fn targets(reach: &Reach, which: &Which) -> Result<Vec<Target>, CommandError> {
    if which.all {
        let mut all = list::<FloatingIPPool>(reach, ObjectKind::Pool).await?;
        all.extend(list::<NodeDNSRecordSet>(reach, ObjectKind::RecordSet).await?);
        return Ok(all);
    }
    let Some(namespace) = &reach.namespace else {
        return Err(CommandError::Usage(
            "-A needs --all; name the namespace of the objects with -n".to_owned(),
        ));
    };
    let parsed = which.objects.iter().map(|text| {
        Target::parse(text, namespace).ok_or_else(|| {
            CommandError::Usage(format!("{text:?} is not an object: write fipool/NAME or nodedns/NAME"))
        })
    });
    parsed.collect()
}

async fn list<K>(reach: &Reach, kind: ObjectKind) -> Result<Vec<Target>, CommandError>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = in_namespace(reach.client.clone(), reach.namespace.as_deref());
    let listed = api.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(|error| CommandError::read(K::plural(&()), error.into()))?;
    let target = |meta: kube::core::ObjectMeta| Target {
        kind,
        namespace: meta.namespace.unwrap_or_default(),
        name: meta.name.unwrap_or_default(),
    };
    Ok(listed.items.into_iter().map(|object| target(object.metadata)).collect())
}

async fn pause_one(
    reach: &Reach,
    target: &Target,
    reason: Option<&str>,
    wait: bool,
) -> Result<Answer, CommandError> {
    let client = reach.client.clone();
    match target.kind {
        ObjectKind::Pool => {
            let api: Api<FloatingIPPool> = Api::namespaced(client, &target.namespace);
            pause_and_wait(&api, target, reason, wait, |pool| {
                pool.status.map(|status| status.conditions).unwrap_or_default()
            })
            .await
        }
        ObjectKind::RecordSet => {
            let api: Api<NodeDNSRecordSet> = Api::namespaced(client, &target.namespace);
            pause_and_wait(&api, target, reason, wait, |set| {
                set.status.map(|status| status.conditions).unwrap_or_default()
            })
            .await
        }
    }
}

async fn pause_and_wait<K>(
    api: &Api<K>,
    target: &Target,
    reason: Option<&str>,
    wait: bool,
    conditions: impl Fn(K) -> Vec<Condition>,
) -> Result<Answer, CommandError>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let object = target.shown();
    annotate(api, &target.name, &object, PAUSED_ANNOTATION, reason).await?;
    if !wait {
        return Ok(set(object, if reason.is_some() { "pause requested" } else { "resumption requested" }));
    }
    let paused = ConditionType::Paused.as_str();
    let met = tokio::time::timeout(PATIENCE, async {
        loop {
            let read = api.get(&target.name).await;
            let read = read.map_err(|error| CommandError::read(object.clone(), error.into()))?;
            let held = conditions(read).into_iter().any(|condition| condition.type_ == paused);
            if held == reason.is_some() {
                return Ok::<_, CommandError>(());
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
    let Ok(met) = met.await else {
        return Ok(Answer {
            object,
            outcome: "NoOutcome".to_owned(),
            message: format!(
                "the annotation is set as asked, and no operator has confirmed it within {} s: see flipop status",
                PATIENCE.as_secs()
            ),
            tone: Tone::Bad,
        });
    };
    met?;
    Ok(set(object, if reason.is_some() { "paused" } else { "resumed" }))
}

fn set(object: String, outcome: &str) -> Answer {
    Answer { object, outcome: outcome.to_owned(), message: String::new(), tone: Tone::Good }
}

/// Sets an annotation, or removes it.
async fn annotate<K>(
    api: &Api<K>,
    name: &str,
    object: &str,
    annotation: &str,
    value: Option<&str>,
) -> Result<(), CommandError>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
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
                let why = leader::missing_right(&trouble, "patch", object, None);
                format!("failed to set the annotation {annotation} of {object}: {why}")
            };
            Err(CommandError::Missing(text))
        }
    }
}

fn told(output: Output, results: &[Answer]) -> Result<Exit, CommandError> {
    output.show(&results, || {
        let line = |result: &Answer| {
            let message =
                if result.message.is_empty() { String::new() } else { format!(": {}", result.message) };
            let text = shown(&format!("{} {}{message}", result.object, result.outcome));
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
    fn an_object_is_named_as_for_kubectl() {
        let target = |text: &str| Target::parse(text, "ns").map(|target| (target.kind, target.name));
        let pool = Some((ObjectKind::Pool, "web".to_owned()));
        for text in ["fipool/web", "FloatingIPPool/web", "floatingippools.flipop.digitalocean.com/web"] {
            assert_eq!(target(text), pool, "{text}");
        }
        assert_eq!(target("nodedns/a"), Some((ObjectKind::RecordSet, "a".to_owned())));
        for text in ["web", "pod/web", "fipool/", ""] {
            assert_eq!(target(text), None, "{text}");
        }
    }
}

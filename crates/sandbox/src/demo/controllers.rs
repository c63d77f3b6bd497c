//! The parts of Kubernetes' controllers that `serve` needs: sets bring evicted pods back, and the operator's Deployment
//! decides how many operators run.
//!
//! Level-triggered: [`Controllers::turn`] looks at the present cluster and does what is due.

use super::DemoError;
use super::operators::Ended;
use super::sets::Sets;
use super::stage::DEPLOYMENT;
use super::story::Story;
use flipop_apiserver::Key;
use flipop_simulation::furnish::NAMESPACE;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// More operators than this in one process would show nothing new.
const OPERATORS_MAX: usize = 3;

/// How long a kubelet waits before it restarts a container.
const RESTART: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    sets: Sets,
    /// No operator is started before this time.
    restart: Option<Instant>,
    /// The template that the running operators were created from.
    template: Option<Value>,
}

impl Controllers {
    /// When to look again even without a change.
    pub(super) fn next(&self) -> Option<Instant> {
        [self.restart, self.sets.next()].into_iter().flatten().min()
    }

    /// Does what is due.
    ///
    /// # Errors
    /// If an operator cannot start.
    pub(super) async fn turn(&mut self, story: &mut Story, now: Instant) -> Result<(), DemoError> {
        for (pod, node) in self.sets.turn(&story.stage.api.clone(), now)? {
            story.say(&format!("the set starts {pod} on {node}"));
        }
        story.stage.turn_pods()?;
        self.deploy(story, now).await?;
        Ok(story.stage.turn_pods()?)
    }

    /// An operator has ended, with or without a request.
    pub(super) fn operator_ended(&mut self, story: &mut Story, ended: Ended, now: Instant) {
        if ended.asked {
            story.say("an operator has ended as it was asked to, and has given the lease back if it held it");
            return;
        }
        self.restart = Some(now + RESTART);
        story.say(&format!("an operator has ended: {}; its container restarts", ended.into_error()));
    }

    /// Runs as many operators as the Deployment says.
    async fn deploy(&mut self, story: &mut Story, now: Instant) -> Result<(), DemoError> {
        let key = Key::new(NAMESPACE, DEPLOYMENT);
        let deployment = story.stage.api.object("apps/v1", "Deployment", &key);
        let replicas = |deployment: &Value| deployment.pointer("/spec/replicas").and_then(Value::as_u64);
        // Without a Deployment no operator is wanted. A Deployment without a number wants one.
        let asked = deployment.as_ref().map_or(0, |deployment| replicas(deployment).unwrap_or(1));
        let wanted = usize::try_from(asked).unwrap_or(usize::MAX).min(OPERATORS_MAX);
        let template =
            deployment.as_ref().and_then(|deployment| deployment.pointer("/spec/template").cloned());
        let anew = self.template.is_some() && template.is_some() && self.template != template;
        if self.template.is_none() || anew {
            self.template.clone_from(&template);
        }
        let keep = if anew { 0 } else { wanted };
        if story.stage.operators.count() > keep {
            let text =
                if anew { "ROLLOUT: the operator is replaced" } else { "SCALE: the operator is stopped" };
            story.say(text);
        }
        while story.stage.operators.count() > keep {
            story.stage.operators.stop_one();
        }
        if self.restart.is_none_or(|restart| restart <= now) {
            self.restart = None;
            while story.stage.operators.count() < wanted {
                let metrics = story.stage.operators.start().await?;
                let at = metrics.map(|at| format!(", metrics at http://{at}/metrics")).unwrap_or_default();
                story.say(&format!("an operator starts{at}"));
            }
        }
        if let Some(deployment) = deployment {
            report(story, &key, &deployment)?;
        }
        Ok(())
    }
}

/// Writes the Deployment's status if it changed.
fn report(story: &Story, key: &Key, deployment: &Value) -> Result<(), DemoError> {
    let ready = u64::try_from(story.stage.operators.count()).unwrap_or(u64::MAX);
    let generation = deployment.pointer("/metadata/generation").cloned().unwrap_or_default();
    let status = json!({ "observedGeneration": generation, "replicas": ready, "readyReplicas": ready,
                         "updatedReplicas": ready, "availableReplicas": ready });
    if deployment.get("status") != Some(&status) {
        let patch = json!({ "status": status });
        let kind = ("apps/v1", "Deployment");
        story.stage.api.patch_object(kind, key, "status", patch, "sandbox").map(drop)?;
    }
    Ok(())
}

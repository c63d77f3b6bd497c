//! The cluster and the providers that a command talks to: their clients, and the namespaces of objects and operator.
//! Clients of providers get no permit, so they only read.

use super::CommandError;
use crate::clock::Clock;
use crate::config::cli_args::Common;
use crate::config::{Order, ProviderVariables};
use crate::kube::client::{self, ServerTime};
use crate::kube::kubeconfig;
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::provider::observe::{CallObserver, NoObserver};
use crate::provider::{self, Providers, install_tls};
use crate::proxy::ProxySettings;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use std::path::Path;
use std::sync::Arc;

/// The cluster that a command talks to.
pub(super) struct Session {
    /// The client for reads, and for annotations.
    pub(super) client: Client,
    /// The client for connections that stay open.
    pub(super) patient: Client,
    /// The API server's clock, from its answers.
    pub(super) time: ServerTime,
    /// This machine's clock.
    pub(super) clock: Clock,
    /// The proxies to the providers.
    pub(super) proxies: ProxySettings,
    /// The API server's URL.
    pub(super) server: String,
    /// The namespace of the objects. `None`: all namespaces.
    pub(super) namespace: Option<String>,
    /// The namespace of the operator.
    pub(super) operator: String,
}

impl Session {
    /// Finds the cluster as the operator does. Sends no request yet.
    pub(super) fn new(order: &Order) -> Result<Self, CommandError> {
        install_tls();
        let clock = Clock::system();
        let cluster = kubeconfig::resolve(&order.cluster, &clock)?;
        let time = ServerTime::new(clock.clone());
        let client = client::requests(&cluster, Some(&time))?;
        let patient = client::watches(&cluster, None)?;
        let (namespace, operator) = match order.word.common() {
            Some(common) => (wanted(common, &cluster.namespace), common.operator_namespace.clone()),
            None => (None, String::new()),
        };
        let (proxies, server) = (order.cluster.proxy.clone(), cluster.server());
        Ok(Self { client, patient, time, clock, proxies, server, namespace, operator })
    }

    /// The present time by the API server's clock. If that is unknown, by this machine's clock.
    pub(super) fn now(&self) -> jiff::Timestamp {
        let now = self.time.epoch_ms().map(|epoch| epoch.saturating_add(self.clock.now().as_millis()));
        let now = now.and_then(|ms| i64::try_from(ms).ok());
        let now = now.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        now.unwrap_or_else(|| self.clock.timestamp())
    }

    /// The error about an object that does not exist.
    pub(super) fn lacks(&self, name: &str) -> CommandError {
        let place = self.namespace.as_deref();
        let place = place.map_or("any namespace".to_owned(), |name| format!("namespace {name}"));
        CommandError::Missing(format!(
            "failed to find a pool or record set {name} in {place}; name another namespace with -n, or use -A"
        ))
    }

    /// Fails if the namespace of the objects does not exist. Without the right to read it, it counts as existing.
    pub(super) async fn find_namespace(&self) -> Result<(), CommandError> {
        let Some(name) = &self.namespace else { return Ok(()) };
        let found = Api::<Namespace>::all(self.client.clone()).get_metadata(name).await;
        match found.map_err(Trouble::from) {
            Err(trouble) if trouble.kind == TroubleKind::NotFound => {
                Err(CommandError::Missing(format!("failed to find the namespace {name}")))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn wanted(common: &Common, of_context: &str) -> Option<String> {
    let named = || common.namespace.clone().unwrap_or_else(|| of_context.to_owned());
    (!common.all_namespaces).then(named)
}

/// The variables of the file, or of the environment if there is none.
pub(super) fn variables(order: &Order, env_file: Option<&Path>) -> Result<ProviderVariables, CommandError> {
    let Some(path) = env_file else { return Ok(order.providers.clone()) };
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| CommandError::Usage(format!("failed to read {}: {error}", path.display())))?;
    Ok(ProviderVariables::from_lines(&text))
}

/// The clients of the providers that have a token in these variables. They get no permit, so they cannot write.
pub(super) fn clients(
    variables: &ProviderVariables,
    proxies: &ProxySettings,
    clock: &Clock,
) -> Result<Providers, CommandError> {
    let configs = variables.read().map_err(|error| CommandError::Usage(error.to_string()))?;
    let observer: Arc<dyn CallObserver> = Arc::new(NoObserver);
    let clients = provider::connect(&configs, proxies, clock, &observer, None);
    clients.map_err(|error| CommandError::Usage(error.to_string()))
}

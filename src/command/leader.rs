//! The operator as it is installed: its Deployment, which names its account, its flags and its variables, and the
//! leading replica with its identity from the Lease, and its knowledge by a port-forward to its pod.

use super::session::Session;
use crate::debug::View;
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::leader::{LEASE_NAME, record};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::Api;
use kube::api::{ListParams, Portforwarder};
use serde::Serialize;
use std::time::Duration;

/// The port of the endpoints if the pod does not name it.
const DEFAULT_PORT: u16 = 8_080;

/// The name of that port in the Deployment.
const PORT_NAME: &str = "prometheus";

/// Longest wait for the leader's answer. A command has other things to show.
const ANSWER: Duration = Duration::from_secs(5);

/// Longest answer that is read. It has room for a thousand pools with all their details, 100 KiB each.
const MAX_BYTES: usize = 100 << 20;

/// The leader.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Leader {
    /// The identity in the Lease. Empty: there is no leader.
    pub(super) holder: String,
    /// Its pod.
    pub(super) pod: String,
    /// When it last renewed the Lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) renewed: Option<String>,
    /// The Lease has expired, so no replica acts.
    pub(super) expired: bool,
    /// Since when no replica leads. Absent while one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vacant_since: Option<String>,
}

/// The leader's answer, or the reasons why it is missing.
pub(super) struct LeaderReport {
    /// The leader, if the Lease could be read.
    pub(super) leader: Option<Leader>,
    /// Its `/debug`.
    pub(super) debug: Option<View>,
    /// The missing facts, and the rights that would provide them.
    pub(super) notes: Vec<String>,
}

/// Finds the leader and asks it.
pub(super) async fn ask(session: &Session) -> LeaderReport {
    let mut report = LeaderReport { leader: None, debug: None, notes: Vec::new() };
    match find(session).await {
        Err(trouble) => report.notes.push(unknown(session, &trouble)),
        Ok(leader) => {
            if leader.vacant_since.is_none() {
                match debug(session, &leader.pod).await {
                    Ok(view) => report.debug = Some(view),
                    Err(note) => report.notes.push(note),
                }
            }
            report.leader = Some(leader);
        }
    }
    report
}

/// Why the leader is unknown. That is not the same as no leader.
pub(super) fn unknown(session: &Session, trouble: &Trouble) -> String {
    let namespace = &session.operator;
    if trouble.kind == TroubleKind::NotFound {
        return format!(
            "the Lease {LEASE_NAME} is not in namespace {namespace}: no operator has run there; name its namespace with \
             --operator-namespace"
        );
    }
    let right = format!("get lease {LEASE_NAME}");
    format!("the leader is unknown: {}", missing_right(trouble, &right, Some(namespace)))
}

/// Reads the Lease.
pub(super) async fn find(session: &Session) -> Result<Leader, Trouble> {
    let api: Api<Lease> = Api::namespaced(session.client.clone(), &session.operator);
    let lease = api.get(LEASE_NAME).await.map_err(Trouble::from)?;
    let holder = record::holder(&lease).to_owned();
    let pod = holder.rsplit_once('_').map_or(holder.as_str(), |(pod, _)| pod).to_owned();
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let lasts = Duration::from_millis(record::duration_ms(&lease));
    let ends = renewed.and_then(|renewed| renewed.checked_add(lasts).ok());
    let expired = ends.is_some_and(|ends| ends < session.now());
    // A replica that gives the Lease up renews it once more, without a holder.
    let vacant = if holder.is_empty() { renewed } else { ends.filter(|_| expired) };
    let text = |time: jiff::Timestamp| format!("{time:.0}");
    let vacant_since = match vacant {
        None if holder.is_empty() => Some("an unknown time".to_owned()),
        since => since.map(text),
    };
    Ok(Leader { holder, pod, renewed: renewed.map(text), expired, vacant_since })
}

/// The text for a failure. For a refusal it names the right to grant, as verb and resource, and for other failures it
/// says what happened. `namespace`: where the right is needed. `None`: in the whole cluster.
pub(super) fn missing_right(trouble: &Trouble, right: &str, namespace: Option<&str>) -> String {
    if trouble.kind != TroubleKind::Forbidden {
        return trouble.message.clone();
    }
    let place = namespace.map_or("in the cluster".to_owned(), |name| format!("in namespace {name}"));
    format!("you may not {right} {place}")
}

async fn debug(session: &Session, pod: &str) -> Result<View, String> {
    let namespace = &session.operator;
    let why = |what: &str| format!("queue order, times and waits are unknown: {what}");
    let api: Api<Pod> = Api::namespaced(session.client.clone(), namespace);
    let found = api.get(pod).await.map_err(|error| {
        let trouble = Trouble::from(error);
        if trouble.kind == TroubleKind::NotFound {
            return why(&format!("the leader {pod} is not a pod in namespace {namespace}"));
        }
        why(&missing_right(&trouble, "get pods", Some(namespace)))
    })?;
    let port = port(&found);
    let asked = async {
        let mut forwarder = open(session, pod, port).await?;
        let stream = forwarder
            .take_stream(port)
            .ok_or_else(|| Trouble::new(TroubleKind::Interrupted, "the port was not forwarded"))?;
        get_debug(stream).await
    };
    let answer = tokio::time::timeout(ANSWER, asked).await;
    let answer = answer.unwrap_or_else(|_| Err(Trouble::timed_out(5_000)));
    answer.map_err(|trouble| why(&missing_right(&trouble, "create pods/portforward", Some(namespace))))
}

/// Opens a port of a pod.
pub(super) async fn open(session: &Session, pod: &str, port: u16) -> Result<Portforwarder, Trouble> {
    let api: Api<Pod> = Api::namespaced(session.patient.clone(), &session.operator);
    api.portforward(pod, &[port]).await.map_err(Trouble::from)
}

/// The port of the endpoints.
pub(super) fn port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let mut named = ports.filter(|port| port.name.as_deref() == Some(PORT_NAME));
    named.next().and_then(|port| u16::try_from(port.container_port).ok()).unwrap_or(DEFAULT_PORT)
}

async fn get_debug<S>(stream: S) -> Result<View, Trouble>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| Trouble::new(TroubleKind::Interrupted, error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = http::Request::get("/debug").header(http::header::HOST, "localhost");
    let request = request
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|error| Trouble::new(TroubleKind::Invalid, error.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), MAX_BYTES).collect().await;
        let body = body.map_err(|error| Trouble::new(TroubleKind::Interrupted, error.to_string()))?;
        if !status.is_success() {
            return Err(Trouble::new(TroubleKind::Interrupted, format!("the leader answered {status}")));
        }
        serde_json::from_slice(&body.to_bytes())
            .map_err(|error| Trouble::new(TroubleKind::Undecodable, error.to_string()))
    };
    let mut answer = std::pin::pin!(answer);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            // The whole answer may have come just before the connection ended.
            Ok(()) => answer.await,
            Err(error) => Err(broken(error)),
        },
    }
}

/// The Deployment of `k8s/`.
pub(super) const NAME: &str = "flipop";

/// The label of that Deployment and of its pods.
pub(super) const LABEL: &str = "app=flipop";

/// The operator's Deployment as it is installed.
#[derive(Default)]
pub(super) struct Installed {
    name: String,
    /// Its pod template.
    pub(super) pod: PodSpec,
}

impl Installed {
    /// Finds it by its name, or by its label if a kustomize overlay gave it a prefix or a suffix.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn find(session: &Session) -> Result<Self, String> {
        let why = |trouble: &Trouble, right| missing_right(trouble, right, Some(&session.operator));
        let api: Api<Deployment> = Api::namespaced(session.client.clone(), &session.operator);
        let deployment = match api.get(NAME).await.map_err(Trouble::from) {
            Err(trouble) if trouble.kind == TroubleKind::NotFound => {
                let labelled = api.list(&ListParams::default().labels(LABEL)).await;
                let labelled = labelled.map_err(|error| why(&Trouble::from(error), "list deployments"))?;
                let renamed = |of: &Deployment| of.metadata.name.iter().any(|name| name.contains(NAME));
                labelled.items.into_iter().find(renamed).ok_or_else(|| why(&trouble, "get deployments"))?
            }
            found => found.map_err(|trouble| why(&trouble, "get deployments"))?,
        };
        let name = deployment.metadata.name.unwrap_or_default();
        Ok(Self { name, pod: deployment.spec.template.spec.unwrap_or_default() })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The name that another object of `k8s/` has beside it: with the same prefix and suffix.
    pub(super) fn beside(&self, name: &str) -> String {
        let (prefix, suffix) = self.name.rsplit_once(NAME).unwrap_or_default();
        format!("{prefix}{name}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_and_a_suffix_are_those_of_every_object() {
        for (deployment, policy) in [
            ("flipop", "flipop-node-annotation"),
            ("prod-flipop-eu", "prod-flipop-node-annotation-eu"),
            ("flipop-prod-flipop", "flipop-prod-flipop-node-annotation"),
            ("", "flipop-node-annotation"),
        ] {
            let installed = Installed { name: deployment.to_owned(), ..Installed::default() };
            assert_eq!(installed.beside("flipop-node-annotation"), policy);
        }
    }
}

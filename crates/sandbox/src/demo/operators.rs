//! The operators that run among the simulated servers: the production code, in this process.
//!
//! Invariants: each is configured as in a cluster (flags, a kubeconfig, the tokens and the URLs of the providers'
//! APIs). The environment of this process is not passed on. Each one is awaited.

use super::DemoError;
use super::machines::ToLoopback;
use flipop::config::{Config, Invocation};
use flipop::operator::{self, OperatorError, Platform};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// The longest start of an operator: it opens sockets and reads a file.
const START: Duration = Duration::from_secs(10);

/// The longest stop of everything. The operator itself promises ten seconds.
const STOP: Duration = Duration::from_secs(12);

/// An operator's configuration for its surroundings.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub(super) kubeconfig: PathBuf,
    pub(super) environment: Vec<(&'static str, String)>,
}

impl Surroundings {
    fn config(&self) -> Result<Config, DemoError> {
        let arguments = [
            "flipop".into(),
            "--kubeconfig".into(),
            self.kubeconfig.clone().into_os_string(),
            "--metrics-bind-addr".into(),
            "127.0.0.1:0".into(),
        ];
        let environment = |name: &str| {
            self.environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
        };
        match Invocation::from_parts(arguments, &environment) {
            Ok(Invocation::Run(config)) => Ok(*config),
            Ok(Invocation::Agent(_) | Invocation::Command(_)) => Err(DemoError::OperatorEnded),
            Err(error) => Err(DemoError::Unmet(format!("failed to configure the operator: {error}"))),
        }
    }
}

/// How an operator ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Whether it was asked to end.
    pub(super) asked: bool,
    result: Result<Result<(), OperatorError>, JoinError>,
}

impl Ended {
    /// The error to give up with.
    pub(super) fn into_error(self) -> DemoError {
        match self.result {
            Ok(Ok(())) => DemoError::OperatorEnded,
            Ok(Err(error)) => error.into(),
            Err(error) => DemoError::Unmet(format!("the operator ended: {error}")),
        }
    }

    fn into_result(self) -> Result<(), DemoError> {
        match self.result {
            Ok(Ok(())) if self.asked => Ok(()),
            _ => Err(self.into_error()),
        }
    }
}

/// An operator that was not asked to end.
#[derive(Debug)]
struct Wanted {
    id: Id,
    shutdown: CancellationToken,
    /// The address of its endpoints.
    endpoints: Option<SocketAddr>,
    /// The name of its pod.
    pod: String,
    /// Whether the pod was created.
    has_pod: bool,
}

/// All running operators.
#[derive(Debug)]
pub(super) struct Operators {
    surroundings: Surroundings,
    tasks: JoinSet<Result<(), OperatorError>>,
    /// Operators that were not asked to end, the oldest first.
    wanted: Vec<Wanted>,
    /// The number of operators that were started.
    started: usize,
}

impl Operators {
    pub(super) fn new(surroundings: Surroundings) -> Self {
        Self { surroundings, tasks: JoinSet::new(), wanted: Vec::new(), started: 0 }
    }

    /// The number of operators that were not asked to end.
    pub(super) fn count(&self) -> usize {
        self.wanted.len()
    }

    /// The addresses of their endpoints.
    pub(super) fn endpoints(&self) -> Vec<SocketAddr> {
        self.wanted.iter().filter_map(|wanted| wanted.endpoints).collect()
    }

    /// Starts one more operator. Returns the address of its endpoints.
    pub(super) async fn start(&mut self) -> Result<Option<SocketAddr>, DemoError> {
        self.started = self.started.saturating_add(1);
        let pod = format!("flipop-{}", self.started);
        let config = Config { hostname: pod.clone(), ..self.surroundings.config()? };
        let (sender, started) = oneshot::channel();
        let shutdown = CancellationToken::new();
        let probe = Arc::new(ToLoopback::default());
        let platform = Platform { probe, has_admission: false, ..Platform::system(&config)? };
        let task = self.tasks.spawn(operator::run_on(platform, config, shutdown.clone(), move |started| {
            // The receiver is gone only when the story is over.
            let _late = sender.send(started);
        }));
        let id = task.id();
        self.wanted.push(Wanted { id, shutdown, endpoints: None, pod, has_pod: false });
        match tokio::time::timeout(START, started).await {
            Ok(Ok(started)) => {
                let mut wanted = self.wanted.iter_mut();
                if let Some(wanted) = wanted.find(|wanted| wanted.id == id) {
                    wanted.endpoints = started.metrics;
                }
                Ok(started.metrics)
            }
            Ok(Err(_dropped)) => Err(self.ended().await.into_error()),
            Err(_elapsed) => Err(DemoError::Unmet("the operator did not start in time".to_owned())),
        }
    }

    /// The pods that are still to be created, each with the port of its endpoints. Takes the pods of operators out of
    /// those that are `present`, and asks an operator to end whose pod was deleted.
    pub(super) fn turn_pods(&mut self, present: &mut BTreeSet<String>) -> Vec<(String, u16)> {
        self.wanted.retain(|wanted| {
            let deleted = !present.remove(&wanted.pod) && wanted.has_pod;
            if deleted {
                wanted.shutdown.cancel();
            }
            !deleted
        });
        let lacking = self.wanted.iter_mut().filter(|wanted| !wanted.has_pod);
        let with_pod = |wanted: &mut Wanted| {
            let port = wanted.endpoints?.port();
            wanted.has_pod = true;
            Some((wanted.pod.clone(), port))
        };
        lacking.filter_map(with_pod).collect()
    }

    /// Asks the newest operator to end, as SIGTERM does.
    pub(super) fn stop_one(&mut self) {
        if let Some(wanted) = self.wanted.pop() {
            wanted.shutdown.cancel();
        }
    }

    /// Waits until an operator ends. Without an operator it waits for ever.
    pub(super) async fn ended(&mut self) -> Ended {
        let (id, result) = match self.tasks.join_next_with_id().await {
            Some(Ok((id, result))) => (id, Ok(result)),
            Some(Err(error)) => (error.id(), Err(error)),
            None => return std::future::pending().await,
        };
        let before = self.wanted.len();
        self.wanted.retain(|wanted| wanted.id != id);
        Ended { asked: self.wanted.len() == before, result }
    }

    /// Ends all of them.
    pub(super) async fn close(&mut self) -> Result<(), DemoError> {
        while self.count() > 0 {
            self.stop_one();
        }
        let all = async {
            let mut result = Ok(());
            while !self.tasks.is_empty() {
                result = result.and(self.ended().await.into_result());
            }
            result
        };
        let late = |_elapsed| DemoError::Unmet("the operator did not shut down in time".to_owned());
        tokio::time::timeout(STOP, all).await.map_err(late)?
    }
}

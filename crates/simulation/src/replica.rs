//! One replica of the operator: the production assembly on a simulated platform, started, killed and restarted.
//!
//! Invariant: nothing of a process outlives it except the packets that it has sent.

use super::dice::roll;
use super::furnish::NAMESPACE;
use super::judge::Process;
use super::line::{Held, Line};
use super::machines::Checks;
use super::network::Network;
use super::plan::Plan;
use super::scene::TOKENS;
use flipop::clock::Clock;
use flipop::config::{Config, DecisionFlags};
use flipop::kube::client::{Clients, Fence, ServerTime, read_refusals};
use flipop::kube::kubeconfig::ClusterSettings;
use flipop::leader::LeaseHome;
use flipop::operator::{self, OperatorError, Platform};
use flipop::provider::{ProviderConfig, ProviderConfigs};
use flipop::random::Random;
use flipop::token::TokenSource;
use flipop_apiserver::ApiServer;
use flipop_cloud::Cloud;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer;

/// The simulated API server's name in logs.
const SERVER: &str = "https://simulated";

/// Separates the draws for wall clocks from all others.
const CLOCK_SALT: u64 = 20;

/// How long after its own end a process is restarted, as by a kubelet.
const RESTART_MS: u64 = 1_500;

/// Requests to stop gracefully, with the time until the next start.
pub(super) type Stops = mpsc::UnboundedReceiver<u64>;

/// The parts that a replica runs on.
pub(super) struct Replica {
    pub(super) number: usize,
    pub(super) network: Network,
    pub(super) front: ApiServer,
    pub(super) cloud: Cloud,
    pub(super) epoch: jiff::Timestamp,
}

/// A number that is unique to each process.
fn salt(process: Process) -> u64 {
    u64::try_from(process.replica).unwrap_or_default().rotate_left(32) ^ process.incarnation
}

/// The time of day according to a process that starts now.
fn wall_clock(plan: &Plan, epoch: jiff::Timestamp, now_ms: u64, process: Process) -> jiff::Timestamp {
    let signed = |number: u64| i64::try_from(number).unwrap_or_default();
    let above = roll(plan.seed, salt(process), CLOCK_SALT, 2 * plan.skew_s + 1);
    let wrong_ms = (signed(above) - signed(plan.skew_s)).saturating_mul(1_000);
    let since = jiff::SignedDuration::from_millis(signed(now_ms).saturating_add(wrong_ms));
    epoch.checked_add(since).unwrap_or(epoch)
}

impl Replica {
    /// Runs one process after another, for ever.
    pub(super) async fn run(self, mut stops: Stops) {
        let mut incarnation = 0;
        loop {
            incarnation += 1;
            let process = Process { replica: self.number, incarnation };
            self.network.relink(self.number, |link| {
                link.incarnation = incarnation;
                // A new process cannot recognize a list of past state.
                link.past = None;
            });
            self.network.tell(&process.to_string(), "starts");
            let restart_ms = self.live(process, &mut stops).await;
            tokio::time::sleep(Duration::from_millis(restart_ms)).await;
        }
    }

    /// Runs one process to its end, and returns the time until the next start.
    async fn live(&self, process: Process, stops: &mut Stops) -> u64 {
        let Some(mut link) = self.network.link(self.number) else { return RESTART_MS };
        let shutdown = CancellationToken::new();
        let (platform, config) = (self.platform(process), self.config());
        let mut run = Box::pin(operator::run_on(platform, config, shutdown.clone(), |_started| {}));
        let mut restart_ms = RESTART_MS;
        loop {
            tokio::select! {
                biased;
                died = link.wait_for(|link| link.incarnation != process.incarnation) => {
                    return died.map_or(RESTART_MS, |link| link.restart_ms);
                }
                Some(wait_ms) = stops.recv() => {
                    self.network.tell(&process.to_string(), "is told to end");
                    self.network.judge(|judge| judge.told_to_end(process));
                    restart_ms = wait_ms;
                    shutdown.cancel();
                }
                result = &mut run => {
                    self.ended(process, &result);
                    return restart_ms;
                }
            }
        }
    }

    fn ended(&self, process: Process, result: &Result<(), OperatorError>) {
        let text = match result {
            Ok(()) => "ended".to_owned(),
            Err(error) => format!("ended: {error}"),
        };
        self.network.tell(&process.to_string(), &text);
        self.network.relink(self.number, |link| link.incarnation = 0);
        self.network.judge(|judge| judge.died(process));
        if let Err(error) = result
            && !matches!(error, OperatorError::LeaseLost(_))
        {
            let text = format!("{process} ended: {error}");
            self.network.judge_now(|judge, now_ms| judge.blame(now_ms, "I11", text));
        }
    }

    fn platform(&self, process: Process) -> Platform {
        let line = Line {
            network: self.network.clone(),
            process,
            front: self.front.clone(),
            cloud: self.cloud.clone(),
        };
        let plan = self.network.plan();
        let clock = Clock::simulated(wall_clock(plan, self.epoch, self.network.now_ms(), process));
        let time = ServerTime::new(clock.clone());
        let client = || {
            let answers = time.reading().layer(read_refusals().layer(Fence.layer(line.clone())));
            kube::Client::new(Held { line: line.clone(), inner: answers }, NAMESPACE)
        };
        Platform {
            clock,
            random: Random::seeded(plan.seed ^ salt(process)),
            identity: format!("replica-{}_{}", process.replica, process.incarnation),
            namespace: NAMESPACE.to_owned(),
            server: SERVER.to_owned(),
            lease: LeaseHome::Here { calls: client(), watches: client(), tracker: TaskTracker::new() },
            clients: Clients { requests: client(), watches: client(), time },
            transport: Some(Arc::new(line)),
            probe: Arc::new(Checks { network: self.network.clone(), process }),
            node: Some(format!("control-{}", self.number)),
            has_admission: false,
        }
    }

    fn config(&self) -> Config {
        let [digitalocean, cloudflare] = TOKENS;
        let provider = |token: &str, base_url: &str| {
            let (token, base_url) = (TokenSource::Value(token.into()), base_url.to_owned());
            ProviderConfig { token, base_url, user_agent: None }
        };
        Config {
            debug: false,
            decisions: DecisionFlags::default(),
            page: true,
            ignored_arguments: 0,
            metrics: None,
            cluster: ClusterSettings::default(),
            providers: ProviderConfigs::from([
                ("digitalocean", provider(digitalocean, "https://api.digitalocean.com/")),
                ("cloudflare", provider(cloudflare, "https://api.cloudflare.com/client/v4")),
            ]),
            node: None,
            hostname: format!("replica-{}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;
    use std::collections::BTreeSet;

    #[test]
    fn each_process_has_another_wall_clock_and_none_is_further_off_than_the_plan_says() {
        const DAY_S: u64 = 86_400;
        let processes = (0..2).flat_map(|replica| (1..=3).map(move |n| Process { replica, incarnation: n }));
        let processes: Vec<Process> = processes.collect();
        for (skew_s, different) in [(0, 1), (DAY_S, processes.len())] {
            let plan = Plan { skew_s, ..workloads::all().into_iter().next().unwrap() };
            let clock = |process: &Process| {
                wall_clock(&plan, jiff::Timestamp::UNIX_EPOCH, 7_000, *process).as_second() - 7
            };
            let off: BTreeSet<i64> = processes.iter().map(clock).collect();
            assert_eq!(off.len(), different, "{off:?}");
            assert!(off.iter().all(|seconds| seconds.unsigned_abs() <= skew_s), "{off:?}");
            assert_eq!(off.iter().any(|seconds| seconds.unsigned_abs() > DAY_S / 2), skew_s > 0, "{off:?}");
        }
    }
}

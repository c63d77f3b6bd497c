//! The operator as a whole on a paused clock. Only requests for the lease are answered.

use super::*;
use crate::kube::kubeconfig::ClusterSettings;
use crate::kube::server_time::ServerTime;
use crate::kube::stub;
use crate::leader::tests::lease_api::{LeaseApi, Network};
use crate::provider::http::Broken;
use crate::provider::{ProviderConfig, ProviderConfigs};
use crate::telemetry::LONGEST_FLUSH;
use crate::token::TokenSource;
use futures::future::{BoxFuture, pending};
use serde_json::json;
use tokio::task::JoinSet;

struct Silent;

impl Transport for Silent {
    fn send(&self, _request: reqwest::Request) -> BoxFuture<'_, Result<reqwest::Response, Broken>> {
        Box::pin(pending())
    }
}

fn platform(api: &LeaseApi) -> Platform {
    let silent = || stub::client(|_request| pending());
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let time = ServerTime::new(clock.clone());
    Platform {
        clock,
        random: Random::seeded(1),
        identity: "a".to_owned(),
        namespace: "flipop".to_owned(),
        server: "https://api.invalid:6443".to_owned(),
        clients: Clients { requests: silent(), watches: silent(), time },
        lease: LeaseHome::Here {
            calls: api.client("a"),
            watches: api.client("a"),
            tracker: TaskTracker::new(),
        },
        transport: Some(Arc::new(Silent)),
        probe: Arc::new(Sockets::default()),
        node: None,
        has_admission: true,
    }
}

fn config() -> Config {
    let digitalocean = ProviderConfig {
        token: TokenSource::Value("token".into()),
        base_url: "https://api.digitalocean.com/".to_owned(),
        user_agent: None,
    };
    Config {
        debug: false,
        decisions: DecisionFlags::default(),
        page: true,
        ignored_arguments: 0,
        metrics: None,
        cluster: ClusterSettings::default(),
        providers: ProviderConfigs::from([("digitalocean", digitalocean)]),
        hostname: "a".to_owned(),
        node: None,
    }
}

/// An operator that leads, and the token to end it.
async fn leads(api: &LeaseApi) -> (JoinSet<Result<(), OperatorError>>, CancellationToken) {
    let (mut tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
    tasks.spawn(run_on(platform(api), config(), shutdown.clone(), |_started| {}));
    while api.lease()["spec"]["holderIdentity"] != "a" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (tasks, shutdown)
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_told_to_end_before_it_has_begun_does_not_ask_for_the_lease() {
    let (api, shutdown) = (LeaseApi::default(), CancellationToken::new());
    shutdown.cancel();
    run_on(platform(&api), config(), shutdown, |_started| panic!("nothing is started")).await.unwrap();
    assert_eq!(api.lease(), json!(null));
}

#[tokio::test(start_paused = true)]
async fn an_idle_leader_that_is_told_to_end_gives_its_lease_up() {
    let api = LeaseApi::default();
    let (mut tasks, shutdown) = leads(&api).await;
    shutdown.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(api.lease()["spec"]["holderIdentity"], "");
}

/// Longest time from SIGTERM to the exit of the process.
const LONGEST_END: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_process_that_is_told_to_end_has_ended_after_ten_seconds_whatever_hangs() {
    let api = LeaseApi::default();
    let Platform { clock, random, identity, namespace, clients, lease, transport, .. } = platform(&api);
    let base = Base::new(clock.clone(), random, clients, transport).unwrap();
    let election = elect(identity, namespace, lease, &base).unwrap();
    election.leader.state().wait_for(|state| state.permit().is_some()).await.unwrap();
    // The last call ends just in time, the lease cannot be released, and one task ignores the stop.
    let reconcile = base.tracker.spawn(tokio::time::sleep(DRAIN.saturating_sub(Duration::from_millis(1))));
    api.set_network("a", Network::Silent);
    base.tracker.spawn(pending::<()>());
    let asked = clock.now();
    end(base, election, reconcile, CancellationToken::new()).await.unwrap();
    let took = Duration::from_millis(clock.now().millis_since(asked));
    assert!(took > DRAIN, "{took:?}");
    assert!(took + LONGEST_FLUSH < LONGEST_END, "{took:?}, and {LONGEST_FLUSH:?} for the last lines");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_while_the_process_ends_is_an_error() {
    let api = LeaseApi::default();
    let Platform { clock, random, identity, namespace, clients, lease, transport, .. } = platform(&api);
    let base = Base::new(clock, random, clients, transport).unwrap();
    let election = elect(identity, namespace, lease, &base).unwrap();
    let mut leader = election.leader.state();
    leader.wait_for(|state| state.permit().is_some()).await.unwrap();
    // Calls are under way until the loop learns that the election has ended.
    let reconcile = base.tracker.spawn(async move { while leader.changed().await.is_ok() {} });
    api.put(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    let ended = end(base, election, reconcile, CancellationToken::new()).await;
    assert!(matches!(&ended, Err(OperatorError::LeaseLost(holder)) if holder == "b"), "{ended:?}");
}

#[test]
fn a_lost_lease_is_told_of_with_its_holder_if_it_has_one() {
    let told = |holder: &str| OperatorError::LeaseLost(holder.to_owned()).to_string();
    assert_eq!(
        told("b"),
        "failed to keep the lease: \"b\" holds it now; ending so that only one replica acts"
    );
    assert_eq!(
        told(""),
        "failed to keep the lease: nobody holds it now; ending so that only one replica acts"
    );
}

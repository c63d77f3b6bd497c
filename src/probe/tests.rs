//! The times of checks, and the number that runs at once.

use super::*;
use crate::kube::watch::WatchHealth;
use flipop_core::model::NodeCheck;
use std::sync::Mutex;

/// A probe that takes some time, and notes its calls.
#[derive(Default)]
struct Slow {
    takes: Mutex<BTreeMap<String, u64>>,
    /// Nodes that answer no check.
    silent: Mutex<BTreeSet<String>>,
    calls: Mutex<Vec<(u64, String, u16)>>,
    underway: Arc<Mutex<BTreeMap<String, usize>>>,
    most: Mutex<usize>,
    most_of_one: Mutex<usize>,
}

struct Shared(Arc<Slow>, Clock);

impl Probe for Shared {
    fn probe(&self, call: Call) -> BoxFuture<'static, CheckOutcome> {
        let Self(slow, clock) = self;
        let fails = slow.silent.lock().unwrap().contains(&call.node);
        let takes_ms = slow.takes.lock().unwrap().get(&call.node).copied().unwrap_or(2);
        let takes = if fails { call.timeout } else { Duration::from_millis(takes_ms) };
        slow.calls.lock().unwrap().push((clock.now().as_millis(), call.node.clone(), call.port));
        let mut underway = slow.underway.lock().unwrap();
        let here = underway.entry(call.node.clone()).or_default();
        *here += 1;
        let mut most_of_one = slow.most_of_one.lock().unwrap();
        *most_of_one = (*most_of_one).max(*here);
        let all: usize = underway.values().sum();
        let mut most = slow.most.lock().unwrap();
        *most = (*most).max(all);
        let done = Arc::clone(&slow.underway);
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            *done.lock().unwrap().get_mut(&call.node).unwrap() -= 1;
            if fails { CheckOutcome::Failed } else { CheckOutcome::Passed }
        })
    }
}

fn key(n: u32, port: u16) -> CheckKey {
    CheckKey { node: Uid(format!("uid-{n}").into()), check: NodeCheck { port, ..NodeCheck::default() } }
}

fn target(n: u32, period_ms: u64) -> CheckTarget {
    CheckTarget {
        name: format!("n-{n}"),
        address: Address::from([10, 0, 0, 1]),
        machine: None,
        period_ms,
        holds: period_ms < 10_000,
    }
}

struct Run {
    slow: Arc<Slow>,
    feed: Feed,
    metrics: Arc<Metrics>,
    version: u64,
    stop: CancellationToken,
}

impl Run {
    fn start() -> Self {
        let (feed, wanted, answers) = feed();
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        let slow = Arc::new(Slow::default());
        let metrics = Metrics::new(WatchHealth::default(), "test").unwrap();
        let prober = Prober::new(Parts {
            probe: Arc::new(Shared(Arc::clone(&slow), clock.clone())),
            clock,
            random: Random::seeded(1),
            metrics: Arc::clone(&metrics),
            wanted,
            answers,
        });
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test ends it")]
        tokio::spawn(prober.run(stop.clone()));
        Self { slow, feed, metrics, version: 0, stop }
    }

    fn want(&mut self, checks: impl IntoIterator<Item = (CheckKey, CheckTarget)>) {
        self.version += 1;
        let checks: BTreeMap<_, _> = checks.into_iter().collect();
        self.feed.follow((self.version, &checks));
    }

    async fn pass(&mut self, ms: u64) -> usize {
        self.answers(ms).await.len()
    }

    async fn answers(&mut self, ms: u64) -> Vec<CheckOutcome> {
        let mut answers = Vec::new();
        for _ in 0..ms.div_ceil(50) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            answers.extend(std::iter::from_fn(|| self.feed.try_next()).map(|answer| answer.outcome));
        }
        answers
    }

    fn silence(&self, nodes: impl IntoIterator<Item = u32>) {
        *self.slow.silent.lock().unwrap() = nodes.into_iter().map(|n| format!("n-{n}")).collect();
    }

    fn calls_of(&self, node: &str) -> usize {
        self.slow.calls.lock().unwrap().iter().filter(|(_, called, _)| called == node).count()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn each_check_is_made_at_once_and_then_once_in_its_period() {
    let mut run = Run::start();
    run.want([(key(1, 1), target(1, 1_000)), (key(2, 1), target(2, 10_000))]);
    run.pass(100).await;
    assert_eq!((run.calls_of("n-1"), run.calls_of("n-2")), (1, 1));
    let answers = run.pass(30_000).await;
    assert!((29..=32).contains(&run.calls_of("n-1")), "{}", run.calls_of("n-1"));
    assert!((3..=5).contains(&run.calls_of("n-2")), "{}", run.calls_of("n-2"));
    assert_eq!(answers, run.calls_of("n-1") + run.calls_of("n-2") - 2);
    // From now on the second node serves.
    run.want([(key(1, 1), target(1, 1_000)), (key(2, 1), target(2, 1_000))]);
    let before = run.calls_of("n-2");
    run.pass(10_000).await;
    assert!((9..=11).contains(&(run.calls_of("n-2") - before)));
    run.want([]);
    let before = run.calls_of("n-1");
    run.pass(10_000).await;
    assert_eq!(run.calls_of("n-1"), before);
}

#[tokio::test(start_paused = true)]
async fn the_checks_of_one_node_follow_each_other() {
    let mut run = Run::start();
    run.slow.takes.lock().unwrap().insert("n-1".to_owned(), 225);
    run.want([1, 2, 3, 4, 5, 6].map(|port| (key(1, port), target(1, 1_000))));
    run.pass(30_000).await;
    let ports: BTreeSet<u16> = run.slow.calls.lock().unwrap().iter().map(|(_, _, port)| *port).collect();
    assert_eq!((ports.len(), *run.slow.most_of_one.lock().unwrap()), (6, 1));
    assert!((120..=134).contains(&run.calls_of("n-1")), "{}", run.calls_of("n-1"));
}

#[tokio::test(start_paused = true)]
async fn an_overdue_check_is_repeated_at_once_until_one_is_answered_or_many_were_not() {
    let mut run = Run::start();
    run.silence([1, 2]);
    run.want([(key(1, 1), target(1, 1_000)), (key(2, 1), target(2, 10_000))]);
    run.pass(4_200).await;
    assert_eq!(run.calls_of("n-1"), 17, "one more each 250 ms");
    assert!(run.calls_of("n-2") <= 2, "its death moves nothing");
    assert_eq!(*run.slow.most_of_one.lock().unwrap(), 4);
    run.pass(20_000).await;
    assert!((36..=38).contains(&run.calls_of("n-1")), "{}", run.calls_of("n-1"));
    run.silence([]);
    run.pass(2_000).await;
    let before = run.calls_of("n-1");
    run.pass(10_000).await;
    assert_eq!(run.calls_of("n-1") - before, 10);
    run.silence([1]);
    run.pass(5_000).await;
    assert!(run.calls_of("n-1") - before > 10 + 15, "an answer has come in between");
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_the_checks_before_it_which_have_failed_and_those_after_it() {
    let mut run = Run::start();
    run.silence([1]);
    run.want([(key(1, 1), target(1, 10_000 - 1))]);
    assert_eq!(run.answers(400).await, []);
    run.silence([]);
    run.slow.takes.lock().unwrap().insert("n-1".to_owned(), 400);
    // Those of 0 and 250 ms are lost. That of 500 ms is answered at 900 ms, and that of 750 ms is not waited for.
    let known = [CheckOutcome::Failed, CheckOutcome::Failed, CheckOutcome::Passed];
    assert_eq!(run.answers(2_000).await, known);
    assert_eq!(run.calls_of("n-1"), 4);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_twenty_five_checks_are_repeated_at_once() {
    let mut run = Run::start();
    run.silence(0..60);
    run.want((0..60).map(|n| (key(n, 1), target(n, 1_000))));
    run.pass(900).await;
    assert_eq!(run.slow.calls.lock().unwrap().len(), 60 + 3 * MAX_HURRYING);
    // Others take their turns once these have returned to their period.
    run.pass(9_000).await;
    let hurried = (0..60).filter(|n| run.calls_of(&format!("n-{n}")) > 20).count();
    assert!(hurried > MAX_HURRYING, "{hurried}");
}

#[tokio::test(start_paused = true)]
async fn the_checks_of_a_silent_node_for_several_objects_take_turns() {
    let mut run = Run::start();
    run.silence([1]);
    run.want([1, 2, 3].map(|port| (key(1, port), target(1, 1_000))));
    run.pass(4_500).await;
    let calls = run.slow.calls.lock().unwrap();
    for port in [1, 2, 3] {
        let count = calls.iter().filter(|(_, _, called)| *called == port).count();
        assert_eq!(count, 6, "{port}: {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_is_wanted_no_more_gives_no_answer() {
    let mut run = Run::start();
    run.slow.takes.lock().unwrap().insert("n-1".to_owned(), 900);
    run.want([(key(1, 1), target(1, 1_000))]);
    run.pass(200).await;
    run.want([]);
    assert_eq!((run.calls_of("n-1"), run.pass(5_000).await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn however_many_other_nodes_are_due_those_that_serve_come_first() {
    let mut run = Run::start();
    for n in 0..4_999 {
        run.slow.takes.lock().unwrap().insert(format!("n-{n}"), 1_000);
    }
    run.want((0..5_000).map(|n| (key(n, 1), target(n, if n == 4_999 { 1_000 } else { 10_000 }))));
    run.pass(30_000).await;
    let calls = run.calls_of("n-4999");
    assert!((14..=31).contains(&calls), "{calls} checks in 30 s, while each of the others takes 1 s");
}

#[tokio::test(start_paused = true)]
async fn beyond_five_hundred_at_once_checks_come_later_and_a_gauge_says_so() {
    let mut run = Run::start();
    let nodes = 1_200_u32;
    for n in 0..nodes {
        run.slow.takes.lock().unwrap().insert(format!("n-{n}"), 1_000);
    }
    run.want((0..nodes).map(|n| (key(n, 1), target(n, 1_000))));
    run.pass(5_000).await;
    assert_eq!(*run.slow.most.lock().unwrap(), MAX_UNDERWAY);
    let stretched = |run: &Run| {
        let text = String::from_utf8(run.metrics.encode().unwrap()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("flipop_node_checks_delayed "));
        line.unwrap().parse::<f64>().unwrap()
    };
    assert!(stretched(&run) > 0.0);
    run.slow.takes.lock().unwrap().clear();
    run.pass(10_000).await;
    assert!(stretched(&run).abs() < f64::EPSILON);
    assert!((0..nodes).all(|n| run.calls_of(&format!("n-{n}")) >= 5));
}

#[test]
fn checks_begin_on_a_grid_and_one_that_began_late_puts_off_none() {
    for (due_ms, expected_ms) in [(0, 0), (1_024, 1_000), (1_025, 1_050), (1_049, 1_050), (1_051, 1_050)] {
        assert_eq!(on_the_grid(Moment::from_millis(due_ms)), Moment::from_millis(expected_ms), "{due_ms}");
    }
}

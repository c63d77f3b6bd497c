//! The network between replicas and servers: which call meets which fault, how long each takes, and who is cut off.
//!
//! Every call passes here when it is sent, when it takes effect and when it ends. So the judge and the story hear of it
//! here too. Invariant: the fate of a call depends only on the plan, its time, its process, and its number among the
//! calls of this kind that the process has sent.

use super::dice::{Fingerprint, Kinds, roll};
use super::facts::{Facts, Kind};
use super::judge::{Ending, Judge, Process};
use super::plan::{Fault, On, Plan, Side, Then};
use super::story::Story;
use super::{ailments, diff};
use flipop::latest;
use flipop_apiserver::{ApiServer, Changes};
use flipop_cloud::Cloud;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// The shortest undisturbed travel time, and its spread, in milliseconds.
const WAY_MS: (u64, u64) = (3, 25);

/// How long a process that dies "after the answer" lives on: long enough for what it does at once.
const LAST_WORDS_MS: u64 = 1;

/// How many changes of the cluster have their times remembered, for lists of past state. They span some minutes,
/// including renewals.
const PAST_MAX: usize = 4_096;

/// The purpose of a call that triggers can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A change at a provider.
    ProviderChange,
    /// A read of a provider.
    ProviderRead,
    /// A write to the cluster.
    ClusterWrite,
    /// A list of objects.
    ClusterList,
    /// Any other read of the cluster, or the start of a watch.
    ClusterRead,
}

impl Sort {
    fn of(facts: &Facts) -> Self {
        match (facts.side, facts.mutates()) {
            (Side::Cloud, true) => Self::ProviderChange,
            (Side::Cloud, false) => Self::ProviderRead,
            (Side::Kube, true) => Self::ClusterWrite,
            (Side::Kube, false) if matches!(facts.kind, Kind::List { .. }) => Self::ClusterList,
            (Side::Kube, false) => Self::ClusterRead,
        }
    }
}

/// The course of the plan, as far as sweeps need it.
#[derive(Debug, Clone, Default)]
pub(super) struct Busy {
    /// Calls that triggers can name.
    pub(super) sorts: Vec<Sort>,
    /// Frames that triggers can name.
    pub(super) frames: u64,
    /// Renewals of the lease, and Events.
    pub(super) clockwork: u64,
    /// The times of these calls and frames.
    pub(super) moments: BTreeSet<u64>,
}

/// The state of the path to and from one replica.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    /// The living process; 0 if none.
    pub(super) incarnation: u64,
    /// How long after its death the next one starts.
    pub(super) restart_ms: u64,
    pub(super) paused: bool,
    pub(super) kube_cut: bool,
    pub(super) cloud_cut: bool,
    /// The revision that lists show; `None` for the newest.
    pub(super) past: Option<u64>,
}

impl Link {
    pub(super) fn cut(&self, side: Side) -> bool {
        match side {
            Side::Kube => self.kube_cut,
            Side::Cloud => self.cloud_cut,
        }
    }

    pub(super) fn set_cut(&mut self, side: Side, cut: bool) {
        match side {
            Side::Kube => self.kube_cut = cut,
            Side::Cloud => self.cloud_cut = cut,
        }
    }
}

/// When a process dies at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    AfterEffect { restart_ms: u64 },
    AfterReply { restart_ms: u64 },
}

/// The fate of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) seq: u64,
    pub(super) there_ms: u64,
    pub(super) back_ms: u64,
    pub(super) fault: Option<Fault>,
    pub(super) death: Option<Death>,
    /// The revision that a list shows, and for how long all lists and watches of the replica show it too.
    pub(super) older: Option<(u64, u64)>,
}

struct State {
    judge: Judge,
    calls: u64,
    kinds: Kinds,
    /// The faults during the plan. They end with the plan.
    busy: Busy,
    over: bool,
    /// Calls that the story mentions only if they fail.
    hushed: BTreeSet<u64>,
    clockwork: u64,
    /// When each of the latest revisions was made.
    past: VecDeque<(u64, u64)>,
    changes: Changes,
    cloud_changes: broadcast::Receiver<flipop_cloud::Change>,
    cloud: Cloud,
}

struct Inner {
    plan: Plan,
    started: Instant,
    story: Story,
    links: Vec<latest::Sender<Link>>,
    state: Mutex<State>,
    machines: Mutex<ailments::State>,
    tracker: TaskTracker,
}

/// The network. Clones share it.
#[derive(Clone)]
pub(super) struct Network(Arc<Inner>);

impl Network {
    pub(super) fn new(plan: Plan, judge: Judge, story: Story, api: &ApiServer, cloud: &Cloud) -> Self {
        let links = (0..plan.replicas).map(|_| latest::Sender::new(Link::default())).collect();
        let state = State {
            judge,
            calls: 0,
            kinds: Kinds::default(),
            busy: Busy::default(),
            over: false,
            hushed: BTreeSet::new(),
            clockwork: 0,
            past: VecDeque::new(),
            changes: api.subscribe(),
            cloud_changes: cloud.changes(),
            cloud: cloud.clone(),
        };
        let (started, tracker) = (Instant::now(), TaskTracker::new());
        let (state, machines) = (Mutex::new(state), Mutex::default());
        Self(Arc::new(Inner { plan, started, story, links, state, machines, tracker }))
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.0.tracker
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn tell(&self, who: &str, text: &str) {
        self.0.story.tell(self.now_ms(), who, text);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the judge's knowledge, after the judge has heard of everything so far.
    pub(super) fn judge<T>(&self, look: impl FnOnce(&mut Judge) -> T) -> T {
        self.judge_now(|judge, _now_ms| look(judge))
    }

    /// The same, with the present time.
    pub(super) fn judge_now<T>(&self, look: impl FnOnce(&mut Judge, u64) -> T) -> T {
        let now_ms = self.now_ms();
        let mut state = self.state();
        state.hear(now_ms, false, &self.0.story);
        look(&mut state.judge, now_ms)
    }

    /// The machines under the nodes.
    pub(super) fn machines(&self) -> MutexGuard<'_, ailments::State> {
        self.0.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn faults_are_over(&self) -> bool {
        self.state().over
    }

    /// The link of a replica, and its later states.
    pub(super) fn link(&self, replica: usize) -> Option<latest::Receiver<Link>> {
        self.0.links.get(replica).map(latest::Sender::subscribe)
    }

    /// Changes the link of a replica.
    pub(super) fn relink(&self, replica: usize, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.0.links.get(replica) {
            link.send_modify(change);
        }
    }

    pub(super) fn lives(&self, process: Process) -> bool {
        self.0.links.get(process.replica).is_some_and(|link| link.latest().incarnation == process.incarnation)
    }

    /// A process dies now, and the next one starts after a while.
    pub(super) fn kill(&self, process: Process, restart_ms: u64) {
        if !self.lives(process) {
            return;
        }
        self.tell(&process.to_string(), "dies");
        self.relink(process.replica, |link| {
            link.incarnation = 0;
            link.restart_ms = restart_ms;
        });
        self.state().judge.died(process);
    }

    /// A process sends a call. `None` if it is dead, or dies of the call.
    pub(super) fn admit(&self, process: Process, facts: &Facts, body: &[u8]) -> Option<Verdict> {
        if !self.lives(process) {
            return None;
        }
        let now_ms = self.now_ms();
        let (seq, number, then) = {
            let mut state = self.state();
            state.hear(now_ms, false, &self.0.story);
            state.calls += 1;
            let seq = state.calls;
            let then = self.trigger(&state.number(now_ms, facts), state.over);
            if !matches!(then, Some(Then::CrashBefore { .. })) {
                state.judge.sent(now_ms, seq, process, facts, body);
            }
            (seq, state.kinds.next(&format!("{process} {}", facts.sort())), then)
        };
        let mut verdict = self.verdict((seq, number), process, facts, now_ms);
        self.tell_sent(now_ms, process, facts, body, (&verdict, then));
        match then.cloned() {
            Some(Then::CrashBefore { restart_ms }) => {
                self.kill(process, restart_ms);
                return None;
            }
            Some(Then::CrashAfterEffect { restart_ms }) => {
                verdict.death = Some(Death::AfterEffect { restart_ms });
            }
            Some(Then::CrashAfterReply { restart_ms }) => {
                verdict.death = Some(Death::AfterReply { restart_ms });
            }
            Some(Then::Meet(fault)) => verdict.fault = Some(fault),
            Some(Then::Older { ms, for_ms }) => {
                let then_ms = now_ms.saturating_sub(ms);
                verdict.older = self.state().revision_at(then_ms).map(|revision| (revision, for_ms));
            }
            None
            | Some(
                Then::Hide { .. }
                | Then::Stall
                | Then::Tear
                | Then::End
                | Then::Expire
                | Then::Forget
                | Then::Late { .. }
                | Then::Twice,
            ) => {}
        }
        Some(verdict)
    }

    fn tell_sent(
        &self,
        now_ms: u64,
        process: Process,
        facts: &Facts,
        body: &[u8],
        (verdict, then): (&Verdict, Option<&Then>),
    ) {
        let mark =
            if facts.mutates() { format!(" {:08x}", Fingerprint::of(body) >> 32) } else { String::new() };
        let fate = match (then, &verdict.fault) {
            (Some(then), _) => format!(" !! {then:?}"),
            (None, Some(fault)) => format!(" !! {fault:?}"),
            (None, None) => String::new(),
        };
        let (who, text) = (process.to_string(), format!("> {} [{}]{fate}", facts.what, verdict.seq));
        let lease = matches!(facts.kind, Kind::Lease { .. }) || facts.what.starts_with("WATCH leases");
        if lease && fate.is_empty() {
            self.state().hushed.insert(verdict.seq);
            self.0.story.hush(now_ms, &who, &text);
        } else {
            self.0.story.tell_marked(now_ms, &who, &text, &mark);
        }
    }

    /// The course so far. From now on nothing is counted.
    pub(super) fn busy(&self) -> Busy {
        let mut state = self.state();
        state.over = true;
        state.busy.clone()
    }

    /// Makes the lists of a replica show this revision, or the newest again.
    pub(super) fn show_past(&self, replica: usize, past: Option<u64>) {
        self.relink(replica, |link| link.past = past);
    }

    /// The fault that the plan has for this call or frame; none once all faults are over.
    fn trigger(&self, on: &On, over: bool) -> Option<&Then> {
        let mut triggers = self.0.plan.triggers.iter().filter(|_| !over);
        triggers.find(|trigger| trigger.on == *on).map(|trigger| &trigger.then)
    }

    /// The fault that the plan has for the next frame that shows a change.
    pub(super) fn frame(&self) -> Option<&Then> {
        let (number, over) = {
            let now_ms = self.now_ms();
            let mut state = self.state();
            state.judge.tally.frames += 1;
            let number = state.judge.tally.frames;
            if !state.over {
                state.busy.frames = number;
                state.busy.moments.insert(now_ms);
            }
            (number, state.over)
        };
        let then = self.trigger(&On::Frame(number), over);
        if let Some(then) = then {
            self.tell("watch", &format!("!! {then:?} at event {number}"));
        }
        then
    }

    /// The fate of a call, for whose `number` the dice answer.
    fn verdict(&self, (seq, number): (u64, u64), process: Process, facts: &Facts, now_ms: u64) -> Verdict {
        let Plan { seed, weather, .. } = &self.0.plan;
        let (least, spread) = WAY_MS;
        let way = |salt| least.saturating_add(roll(*seed, number, salt, spread));
        let mut verdict =
            Verdict { seq, there_ms: way(1), back_ms: way(2), fault: None, death: None, older: None };
        for (salt, weather) in (10..).zip(weather) {
            let matches = (weather.from_ms..weather.to_ms).contains(&now_ms)
                && weather.which.replica.is_none_or(|replica| replica == process.replica)
                && weather.which.side.is_none_or(|side| side == facts.side)
                && weather.which.provider.is_none_or(|provider| Some(provider) == facts.account)
                && weather.which.text.as_ref().is_none_or(|text| facts.what.contains(text));
            if !matches || roll(*seed, number, salt, 100) >= weather.percent {
                continue;
            }
            if let Fault::Delay { ms } = weather.fault {
                verdict.there_ms += roll(*seed, number, salt + 1_000, ms);
                verdict.back_ms += roll(*seed, number, salt + 2_000, ms);
            } else if verdict.fault.is_none() {
                verdict.fault = Some(weather.fault.clone());
            }
        }
        verdict
    }

    /// A call took effect, or was refused, with this status.
    pub(super) fn took_effect(
        &self,
        process: Process,
        verdict: &Verdict,
        facts: &Facts,
        status: Option<u16>,
    ) {
        let now_ms = self.now_ms();
        {
            let mut state = self.state();
            state.hear(now_ms, facts.side == Side::Cloud, &self.0.story);
            let accepted = status.is_some_and(|status| (200..300).contains(&status));
            state.judge.answers_about_droplet(now_ms, process, facts, status);
            if accepted && facts.side == Side::Cloud && facts.mutates() {
                state.judge.took_effect(now_ms, facts);
            }
        }
        if let Some(Death::AfterEffect { restart_ms }) = verdict.death {
            self.kill(process, restart_ms);
        }
    }

    /// A call is over for its process. `None` means given up.
    pub(super) fn ended(&self, process: Process, seq: u64, death: Option<Death>, ending: Option<Ending>) {
        let now_ms = self.now_ms();
        let how = match ending {
            None => "given up".to_owned(),
            Some(Ending { status: None, .. }) => "connection lost".to_owned(),
            Some(Ending { status: Some(status), .. }) => status.to_string(),
        };
        let hushed = self.state().hushed.remove(&seq);
        if self.lives(process) {
            let (who, text) = (process.to_string(), format!("< {how} [{seq}]"));
            let well = ending.and_then(|ending| ending.status).is_some_and(|status| status < 300);
            if hushed && well {
                self.0.story.hush(now_ms, &who, &text);
            } else {
                let about = if hushed { " a call about the lease" } else { "" };
                self.0.story.tell(now_ms, &who, &format!("{text}{about}"));
            }
        }
        {
            let mut state = self.state();
            state.hear(now_ms, false, &self.0.story);
            state.judge.ended(now_ms, seq, ending);
        }
        if let Some(Death::AfterReply { restart_ms }) = death {
            let network = self.clone();
            self.0.tracker.spawn(async move {
                tokio::time::sleep(Duration::from_millis(LAST_WORDS_MS)).await;
                network.kill(process, restart_ms);
            });
        }
    }
}

impl State {
    /// Counts a call, and returns how triggers name it.
    fn number(&mut self, now_ms: u64, facts: &Facts) -> On {
        if !facts.counts() {
            self.clockwork += 1;
            if !self.over {
                self.busy.clockwork = self.clockwork;
            }
            return On::Clockwork(self.clockwork);
        }
        self.judge.tally.calls += 1;
        let number = self.judge.tally.calls;
        if !self.over {
            self.busy.sorts.push(Sort::of(facts));
            self.busy.moments.insert(now_ms);
        }
        On::Call(number)
    }

    /// The newest revision at that time; `None` if it is forgotten.
    fn revision_at(&self, then_ms: u64) -> Option<u64> {
        let first = self.past.front()?.1.saturating_sub(1);
        let then = self.past.iter().rev().find(|(at_ms, _)| *at_ms <= then_ms);
        Some(then.map_or(first, |(_, revision)| *revision))
    }

    /// Tells the judge what changed since the last time.
    fn hear(&mut self, now_ms: u64, by_operator: bool, story: &Story) {
        for change in self.changes.drain() {
            self.past.push_back((now_ms, change.revision));
            if self.past.len() > PAST_MAX {
                self.past.pop_front();
            }
            let what = match (&change.before, &change.after) {
                (None, _) => "created",
                (_, None) => "deleted",
                (Some(_), Some(_)) => "changed",
            };
            let kind = change.storage.plural.as_str();
            if !matches!(kind, "leases" | "events") {
                let text = format!("{kind} {} {what} by {}", change.key.name, change.manager);
                story.tell(now_ms, "kube", &text);
            }
            story.explain(now_ms, "kube", || diff::told(&change));
            self.judge.changed(now_ms, &change);
        }
        // Actions end by themselves. Looking at the account makes them end now.
        let _looked = self.cloud.next_call();
        while let Ok(change) = self.cloud_changes.try_recv() {
            story.tell(now_ms, "cloud", &format!("{:?}", change.kind));
            self.judge.cloud_changed(now_ms, &change, by_operator);
        }
    }
}

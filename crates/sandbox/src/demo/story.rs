//! The story: changes of the account and of the cluster as they happen, each with its reason.
//!
//! This module only reads. It tells where an address goes when the simulated account accepts the request and when it
//! has carried it out. The reason comes from the operator's own rule, applied to the objects at that moment. The
//! operator's own words are its Events, annotations and conditions.

mod account;
mod cluster;
mod firewalls;

use super::DemoError;
use super::operators::Ended;
use super::pools::{Standing, Standings};
use super::stage::Stage;
use super::teller::{Line, Teller};
use flipop_cloud::FirewallView;
use flipop_core::model::ObjectName;
use flipop_simulation::news::{Feed, News, What};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The operator's field manager.
const OPERATOR: &str = "flipop";

/// Work without a cool-off takes a second or two. The rest is for slow machines.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// How often the story says what it is waiting for.
const REMINDER: Duration = Duration::from_secs(4);

/// A completed assignment of an address to a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Move {
    pub(super) ip: Ipv4Addr,
    /// Where it was before.
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) reason: String,
    /// When the node that it left stopped matching.
    pub(super) lost_ms: Option<u64>,
    /// When the account accepted the request.
    pub(super) began_ms: u64,
    /// When it arrived there.
    pub(super) done_ms: u64,
    /// When the operator had confirmed it and annotated the node.
    pub(super) confirmed_ms: Option<u64>,
    /// When the pool's record set had the address again.
    pub(super) published_ms: Option<u64>,
}

/// The narrator.
pub(super) struct Story {
    pub(super) stage: Stage,
    teller: Teller,
    /// Assignments that succeeded, in order.
    pub(super) moves: Vec<Move>,
    /// Assignments that the account has accepted but not carried out yet.
    open: BTreeMap<Ipv4Addr, Move>,
    standings: Standings,
    /// When nodes stopped matching.
    lost: BTreeMap<(ObjectName, String), u64>,
    /// The node that last lost an address from its annotation.
    unannotated: BTreeMap<Ipv4Addr, String>,
    /// Firewalls as they were last told.
    firewalls: BTreeMap<String, FirewallView>,
    /// When a pool's record set last changed.
    pub(super) rounds: BTreeMap<ObjectName, u64>,
    /// The sandbox's own lines, while somebody listens.
    heard: Option<Vec<(Line, String)>>,
    feed: Feed,
}

/// The next input.
enum Next {
    News(Vec<News>),
    /// An operator has ended.
    Ended(Ended),
    /// There will be no more news.
    Nothing,
}

impl Story {
    pub(super) fn new(stage: Stage, teller: Teller) -> Self {
        let feed = Feed::new(&stage.api, stage.cloud.cloud(), stage.epoch);
        Self {
            stage,
            teller,
            moves: Vec::new(),
            open: BTreeMap::new(),
            standings: Standings::new(),
            lost: BTreeMap::new(),
            unannotated: BTreeMap::new(),
            firewalls: BTreeMap::new(),
            rounds: BTreeMap::new(),
            heard: None,
            feed,
        }
    }

    /// The story's clock.
    pub(super) fn now_ms(&self) -> u64 {
        self.stage.cloud.cloud().now_ms()
    }

    /// Tells an act of the sandbox.
    pub(super) fn say(&mut self, text: &str) {
        self.tell(Line::Sandbox, text);
    }

    /// Tells what is wrong.
    pub(super) fn complain(&mut self, text: &str) {
        self.tell(Line::Wrong, text);
    }

    /// Tells an act or a finding of the sandbox itself.
    pub(super) fn tell(&mut self, line: Line, text: &str) {
        self.tell_news(Vec::new());
        let now_ms = self.now_ms();
        self.teller.line(now_ms, line, text);
        if let Some(heard) = &mut self.heard {
            heard.push((line, text.to_owned()));
        }
    }

    /// Keeps the sandbox's own lines from now on.
    pub(super) fn listen(&mut self) {
        self.heard = Some(Vec::new());
    }

    /// The sandbox's own lines since then: its acts, or why it did not act.
    pub(super) fn heard(&mut self) -> Result<String, String> {
        let heard = self.heard.take().unwrap_or_default();
        let failed = heard.iter().any(|(line, _)| *line == Line::Wrong);
        let texts: Vec<String> = heard.into_iter().map(|(_, text)| text).collect();
        let text = texts.join("; ");
        if failed { Err(text) } else { Ok(text) }
    }

    /// Prints text unchanged, for copying.
    pub(super) fn verbatim(&mut self, text: &str) {
        self.teller.verbatim(text);
    }

    /// Tells something without a time.
    pub(super) fn plain(&mut self, text: &str) {
        self.teller.plain(text);
    }

    /// How many assignments have begun, finished or not.
    pub(super) fn begun(&self) -> usize {
        self.moves.len().saturating_add(self.open.len())
    }

    /// Whether a node matches a pool.
    pub(super) fn matches(&self, pool: &ObjectName, node: &str) -> bool {
        self.standings.get(&(pool.clone(), node.to_owned())) == Some(&Standing::Matches)
    }

    /// Tells what happens until `until` holds (true) or the time is over (false).
    ///
    /// # Errors
    /// If the operator ends.
    pub(super) async fn follow(
        &mut self,
        time: Duration,
        until: impl Fn(&Self) -> bool,
    ) -> Result<bool, DemoError> {
        self.follow_for(time, until, |_| None).await
    }

    /// The same, with a reminder every few seconds of what is missing, as long as `missing` returns something.
    ///
    /// # Errors
    /// If the operator ends.
    pub(super) async fn follow_for(
        &mut self,
        time: Duration,
        until: impl Fn(&Self) -> bool,
        missing: impl Fn(&Self) -> Option<String>,
    ) -> Result<bool, DemoError> {
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        let mut reminder = tokio::time::interval(REMINDER);
        reminder.tick().await;
        self.tell_news(Vec::new());
        loop {
            if until(self) {
                // The cause may have come after the last telling.
                self.tell_news(Vec::new());
                return Ok(true);
            }
            let news = tokio::select! {
                biased;
                news = self.next() => news,
                _ = reminder.tick() => {
                    if let Some(missing) = missing(self) {
                        self.tell(Line::Waits, &missing);
                    }
                    continue;
                }
                () = &mut end => return Ok(false),
            };
            match news {
                Next::News(news) => self.tell_news(news),
                Next::Ended(ended) => return Err(ended.into_error()),
                Next::Nothing => return Ok(false),
            }
        }
    }

    /// Tells the next news, or returns the operator that ended.
    pub(super) async fn step(&mut self) -> Option<Ended> {
        self.tell_news(Vec::new());
        match self.next().await {
            Next::News(news) => {
                self.tell_news(news);
                None
            }
            Next::Ended(ended) => Some(ended),
            Next::Nothing => std::future::pending().await,
        }
    }

    async fn next(&mut self) -> Next {
        tokio::select! {
            biased;
            news = self.feed.next() => news.map_or(Next::Nothing, Next::News),
            ended = self.stage.operators.ended() => Next::Ended(ended),
        }
    }

    /// Tells these news and all others so far, in the order of time.
    fn tell_news(&mut self, mut news: Vec<News>) {
        self.feed.complete(&mut news);
        for News { at_ms, what } in news {
            match what {
                What::Cluster(change) => self.tell_change(at_ms, &change),
                What::Account(kind) => self.tell_account(at_ms, &kind),
            }
        }
    }
}

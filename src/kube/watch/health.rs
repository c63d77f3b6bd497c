//! The state of each watch, for readiness, conditions, metrics and the log.
//!
//! Each fact is logged once: a warning when the kind of failure changes, and a line when it is over.

use crate::kube::objects::lease;
use crate::kube::trouble::{Trouble, TroubleKind};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Failures in a row before a passing failure is worth a warning. Servers restart, and connections drop.
const FAILURES_TO_WARN: u32 = 3;

/// Failures in a row, at least 30 s, after which a watch that others can replace is given up.
const FAILURES_TO_GIVE_UP: u32 = 6;

/// For this many names, the newest version is kept after their watches end.
const MAX_ENDED: usize = 1_000;

/// The target of a watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchName {
    /// Plural of the kind.
    pub kind: String,
    /// Namespace. `None` means all.
    pub namespace: Option<String>,
    /// Label selector. Empty means all.
    pub selector: String,
}

impl WatchName {
    pub(super) fn new(kind: impl Into<String>, namespace: Option<String>, selector: &str) -> Self {
        Self { kind: kind.into(), namespace, selector: selector.to_owned() }
    }

    /// The Leases of nodes.
    pub fn of_leases() -> Self {
        Self::new("leases", Some(lease::NAMESPACE.to_owned()), "")
    }

    /// If it fails, everything goes on except the checks of nodes.
    fn is_optional(&self) -> bool {
        self.kind == "leases"
    }
}

impl fmt::Display for WatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in namespace {namespace}")?;
        }
        if !self.selector.is_empty() {
            write!(f, " selected by {}", self.selector)?;
        }
        Ok(())
    }
}

/// The state of one watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchStatus {
    /// A complete list was delivered since the watch started.
    pub synced: bool,
    /// The kind of the current failure.
    pub trouble: Option<TroubleKind>,
    /// The current failure as a sentence. Empty if there is none.
    pub message: String,
    failures: u32,
    warned: Option<TroubleKind>,
    number: u64,
    newest: Option<u64>,
}

impl WatchStatus {
    /// Whether the watch itself cannot be had, rather than the API server: refused before its first list, or long
    /// since.
    pub fn is_hopeless(&self) -> bool {
        let lasting = self.failures >= FAILURES_TO_GIVE_UP;
        match self.trouble {
            Some(TroubleKind::Forbidden) => !self.synced || lasting,
            Some(TroubleKind::Invalid | TroubleKind::NotFound | TroubleKind::Undecodable) => {
                !self.synced && lasting
            }
            Some(_) | None => false,
        }
    }

    /// Whether it fails until someone fixes the cause.
    pub fn needs_someone(&self) -> bool {
        self.trouble.is_some_and(lasts)
    }

    /// Its place among watches of one name: the last one is the worst.
    const fn badness(&self) -> (bool, bool, u64) {
        (self.trouble.is_some(), !self.synced, self.number)
    }

    fn is_answered(&self) -> bool {
        let silent = [TroubleKind::Unreachable, TroubleKind::Interrupted];
        self.synced || self.trouble.is_some_and(|trouble| !silent.contains(&trouble))
    }
}

/// Why a watch is behind.
fn sentence_of((name, status): (&WatchName, &WatchStatus)) -> String {
    match status.message.as_str() {
        "" => format!("{name}: the first list is not complete"),
        message => message.to_owned(),
    }
}

#[derive(Debug, Default)]
struct Registry {
    /// By name and number. Watches of one name run beside each other where one is about to replace another, and where
    /// one key needs just what several keys share.
    watches: BTreeMap<(WatchName, u64), WatchStatus>,
    /// The newest version seen by each watch that has ended.
    ended: BTreeMap<WatchName, u64>,
    restarts: BTreeMap<(String, &'static str), u64>,
    registrations: u64,
}

impl Registry {
    fn newest(&self, name: &WatchName) -> Option<u64> {
        let running = self.of_name(name).filter_map(|status| status.newest).max();
        running.max(self.ended.get(name).copied())
    }

    fn of_name(&self, name: &WatchName) -> impl Iterator<Item = &WatchStatus> {
        self.watches.range((name.clone(), 0)..=(name.clone(), u64::MAX)).map(|(_, status)| status)
    }
}

/// The registry of all watches. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct WatchHealth(Arc<Mutex<Registry>>);

impl WatchHealth {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every name with running watches. Of several watches of one name, the worst.
    pub fn snapshot(&self) -> BTreeMap<WatchName, WatchStatus> {
        let mut worst: BTreeMap<WatchName, WatchStatus> = BTreeMap::new();
        for ((name, _), status) in &self.registry().watches {
            let known = worst.entry(name.clone()).or_insert_with(|| status.clone());
            if known.badness() < status.badness() {
                known.clone_from(status);
            }
        }
        worst
    }

    /// Restarts so far, by kind and reason. The counts only grow.
    pub fn restarts(&self) -> BTreeMap<(String, &'static str), u64> {
        self.registry().restarts.clone()
    }

    /// Counts one restart of a watch of this kind.
    pub fn note_restart(&self, kind: &str, reason: TroubleKind) {
        let mut registry = self.registry();
        let count = registry.restarts.entry((kind.to_owned(), reason.label())).or_default();
        *count = count.saturating_add(1);
    }

    /// For readiness: one sentence for each watch that has no complete list yet, or is refused.
    pub fn reasons_not_ready(&self) -> Vec<String> {
        let registry = self.registry();
        let behind = registry.watches.iter().map(|((name, _), status)| (name, status));
        let behind = behind.filter(|(name, status)| {
            let refused = matches!(status.trouble, Some(TroubleKind::Forbidden | TroubleKind::Unauthorized));
            !name.is_optional() && (!status.synced || refused)
        });
        behind.map(sentence_of).collect()
    }

    /// One sentence for each watch whose first list has had no answer of any kind from the API server.
    pub fn unanswered(&self) -> Vec<String> {
        let registry = self.registry();
        let unanswered = registry.watches.iter().map(|((name, _), status)| (name, status));
        let unanswered = unanswered.filter(|(name, status)| !name.is_optional() && !status.is_answered());
        unanswered.map(sentence_of).collect()
    }

    /// Whether the API server has answered any of the watches.
    pub fn is_answered(&self) -> bool {
        self.registry().watches.values().any(WatchStatus::is_answered)
    }

    /// The newest version seen by watches of this name.
    pub(super) fn newest(&self, name: &WatchName) -> Option<u64> {
        self.registry().newest(name)
    }

    pub(super) fn register(&self, name: &WatchName) -> Registration {
        let mut registry = self.registry();
        registry.registrations = registry.registrations.saturating_add(1);
        let number = registry.registrations;
        let newest = registry.newest(name);
        registry.ended.remove(name);
        let status = WatchStatus { number, newest, ..WatchStatus::default() };
        registry.watches.insert((name.clone(), number), status);
        Registration { health: self.clone(), name: name.clone(), number }
    }
}

/// The entry of one watch. It is removed when the watch ends.
pub(super) struct Registration {
    health: WatchHealth,
    name: WatchName,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registry = self.health.registry();
        let newest = registry.watches.remove(&self.key()).and_then(|status| status.newest);
        if let Some(newest) = newest {
            if registry.ended.len() >= MAX_ENDED {
                registry.ended.pop_first();
            }
            registry.ended.insert(self.name.clone(), newest);
        }
    }
}

impl Registration {
    fn key(&self) -> (WatchName, u64) {
        (self.name.clone(), self.number)
    }

    /// Changes the entry.
    fn update<T>(&self, change: impl FnOnce(&mut WatchStatus) -> T) -> Option<T> {
        self.health.registry().watches.get_mut(&self.key()).map(change)
    }

    /// Sets the newest version seen.
    pub(super) fn saw(&self, newest: Option<u64>) {
        self.update(|status| status.newest = newest);
    }

    pub(super) fn synced(&self) {
        self.update(|status| status.synced = true);
    }

    /// The API server answers normally.
    pub(super) fn well(&self) {
        let ended = self.update(|status| {
            status.failures = 0;
            status.trouble = None;
            status.message.clear();
            status.warned.take()
        });
        if let Some(kind) = ended.flatten() {
            tracing::info!(watch = %self.name, trouble = kind.label(), "watch recovered");
        }
    }

    pub(super) fn restarted(&self, reason: TroubleKind) {
        self.health.note_restart(&self.name.kind, reason);
    }

    pub(super) fn failed(&self, verb: &'static str, trouble: &Trouble) {
        let message = self.sentence(verb, trouble);
        let warn = self.update(|status| {
            status.failures = status.failures.saturating_add(1);
            status.trouble = Some(trouble.kind);
            status.message.clone_from(&message);
            let lasting = status.failures >= FAILURES_TO_WARN || lasts(trouble.kind);
            let warn = lasting && status.warned != Some(trouble.kind);
            if warn {
                status.warned = Some(trouble.kind);
            }
            warn
        });
        if warn == Some(true) {
            tracing::warn!(watch = %self.name, "{message}");
        } else {
            tracing::debug!(watch = %self.name, "{message}");
        }
    }

    fn sentence(&self, verb: &'static str, trouble: &Trouble) -> String {
        let name = &self.name;
        match trouble.kind {
            TroubleKind::Forbidden => format!("the service account may not {verb} {name}: {trouble}"),
            TroubleKind::NotFound => {
                format!(
                    "{name} are not known to the API server: the CRDs are not installed; waiting for them"
                )
            }
            TroubleKind::Unauthorized => format!("the API server refuses FLIPOP's credentials: {trouble}"),
            TroubleKind::Unreachable => format!("the API server cannot be reached: {trouble}"),
            TroubleKind::PermitEnded
            | TroubleKind::Conflict
            | TroubleKind::Expired
            | TroubleKind::Invalid
            | TroubleKind::Throttled
            | TroubleKind::ServerError
            | TroubleKind::Interrupted
            | TroubleKind::Undecodable => format!("failed to {verb} {name}: {trouble}"),
        }
    }
}

/// Whether this kind of failure lasts until a person fixes it.
fn lasts(kind: TroubleKind) -> bool {
    matches!(
        kind,
        TroubleKind::Forbidden | TroubleKind::NotFound | TroubleKind::Unauthorized | TroubleKind::Invalid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_unready_until_its_list_is_complete_and_while_it_is_forbidden() {
        let health = WatchHealth::default();
        let entry = health.register(&WatchName::new("pods", Some("web".into()), "app=x"));
        assert_eq!(
            health.reasons_not_ready(),
            ["pods in namespace web selected by app=x: the first list is not complete"]
        );
        entry.synced();
        entry.well();
        assert_eq!(health.reasons_not_ready(), Vec::<String>::new());
        entry.failed("watch", &Trouble::new(TroubleKind::Forbidden, "403 no"));
        let reasons = health.reasons_not_ready();
        assert!(reasons.iter().all(|reason| reason.contains("may not watch pods")), "{reasons:?}");
        assert_eq!(reasons.len(), 1);
        entry.failed("watch", &Trouble::new(TroubleKind::Unreachable, "refused"));
        assert_eq!(health.reasons_not_ready(), Vec::<String>::new());
        drop(entry);
        assert_eq!(health.snapshot(), BTreeMap::new());
    }

    #[test]
    fn a_watch_is_unanswered_until_the_api_server_says_anything() {
        let health = WatchHealth::default();
        let entry = health.register(&WatchName::new("nodes", None, ""));
        for silence in [TroubleKind::Unreachable, TroubleKind::Interrupted] {
            entry.failed("list", &Trouble::new(silence, "no answer"));
            let reported = health.unanswered();
            assert!(
                reported.len() == 1 && reported.iter().all(|text| text.contains("no answer")),
                "{reported:?}"
            );
            assert!(!health.is_answered());
        }
        entry.failed("list", &Trouble::new(TroubleKind::Forbidden, "403 no"));
        assert_eq!((health.unanswered(), health.is_answered()), (Vec::new(), true));
        entry.synced();
        entry.failed("watch", &Trouble::new(TroubleKind::Unreachable, "refused"));
        assert_eq!((health.unanswered(), health.is_answered()), (Vec::new(), true));
    }

    #[test]
    fn a_watch_that_ends_leaves_the_failure_of_another_of_its_name() {
        let health = WatchHealth::default();
        let name = WatchName::new("nodes", None, "");
        let (shared, own) = (health.register(&name), health.register(&name));
        shared.synced();
        own.synced();
        shared.failed("watch", &Trouble::new(TroubleKind::Forbidden, "403 no"));
        own.well();
        let refused = || health.snapshot().get(&name).is_some_and(|status| status.trouble.is_some());
        assert!(refused() && health.reasons_not_ready().len() == 1);
        drop(own);
        assert!(refused() && health.reasons_not_ready().len() == 1);
    }

    #[test]
    fn a_watch_that_ends_late_leaves_the_entry_of_its_successor() {
        let health = WatchHealth::default();
        let name = WatchName::new("nodes", None, "");
        let old = health.register(&name);
        let new = health.register(&name);
        new.synced();
        old.failed("list", &Trouble::new(TroubleKind::Forbidden, "403 no"));
        drop(old);
        assert_eq!(health.reasons_not_ready(), Vec::<String>::new());
        assert_eq!(health.snapshot().len(), 1);
    }

    #[test]
    fn restarts_are_counted_by_kind_and_reason_and_outlive_the_watch() {
        let health = WatchHealth::default();
        let entry = health.register(&WatchName::new("nodes", None, ""));
        entry.restarted(TroubleKind::Expired);
        entry.restarted(TroubleKind::Expired);
        drop(entry);
        assert_eq!(health.restarts(), BTreeMap::from([(("nodes".to_owned(), "expired"), 2)]));
    }
}

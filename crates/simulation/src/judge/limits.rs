//! How long a failure may last according to `spec.grace`, over time.

use super::truth::Pool;
use super::validity::field;
use serde_json::Value;

/// A failure of pods may be due to their node, which is seen to fail right after them.
const NODE_FOLLOWS_MS: u64 = 1_000;

/// `spec.grace`, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) of_pods: u64,
    pub(super) of_node: u64,
    pub(super) to_recover: u64,
}

impl Limits {
    pub(super) fn of(spec: &Value) -> Self {
        let seconds = |name: &str| {
            let value = field(spec, "/grace").and_then(|grace| grace.get(name)).and_then(Value::as_i64);
            u64::try_from(value.unwrap_or_default()).ok().filter(|seconds| *seconds <= 3_600)
        };
        let all = [seconds("podSeconds"), seconds("nodeSeconds"), seconds("recoverySeconds")];
        let [Some(pods), Some(node), Some(recovery)] = all else { return Self::default() };
        let (of_pods, of_node) = (pods * 1_000, node * 1_000);
        let least_ms = if of_node > of_pods { NODE_FOLLOWS_MS.min(of_node) } else { 0 };
        Self { of_pods: of_pods.max(least_ms), of_node, to_recover: recovery * 1_000 }
    }

    pub(super) fn with(self, other: Self, choose: fn(u64, u64) -> u64) -> Self {
        Self {
            of_pods: choose(self.of_pods, other.of_pods),
            of_node: choose(self.of_node, other.of_node),
            to_recover: choose(self.to_recover, other.to_recover),
        }
    }
}

/// The limits and criteria of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    /// The limits, each with the time since when they apply.
    limits: Vec<(u64, Limits)>,
    criteria: Value,
    frozen: bool,
    /// When the criteria were edited, or the spec became invalid or valid.
    pub(super) edited_ms: Option<u64>,
}

impl Asked {
    pub(super) fn update(&mut self, object: &Pool, frozen: bool, now_ms: u64) {
        let criteria = object.spec.get("match").cloned().unwrap_or_default();
        if !self.limits.is_empty() && (self.criteria != criteria || self.frozen != frozen) {
            self.edited_ms = Some(now_ms);
        }
        (self.criteria, self.frozen) = (criteria, frozen);
        let limits = Limits::of(&object.spec);
        if self.limits.last().is_none_or(|(_, last)| *last != limits) {
            self.limits.push((now_ms, limits));
        }
    }

    /// The lowest limits that applied at any time since `from_ms`.
    pub(super) fn least(&self, from_ms: u64) -> Limits {
        let later = self.limits.iter().filter(|(at_ms, _)| *at_ms > from_ms);
        let first = self.limits.iter().rfind(|(at_ms, _)| *at_ms <= from_ms);
        let all = first.into_iter().chain(later).map(|(_, limits)| *limits);
        all.reduce(|one, other| one.with(other, u64::min)).unwrap_or_default()
    }

    /// The highest limits that ever applied.
    pub(super) fn most(&self) -> Limits {
        self.limits.iter().fold(Limits::default(), |most, (_, limits)| most.with(*limits, u64::max))
    }
}

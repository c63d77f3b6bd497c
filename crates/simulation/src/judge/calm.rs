//! I6: while nothing disturbs a provider, the API server and the replicas, work at that provider is done at once.
//! Faults elsewhere do not matter.

use super::EDITED_MS;
use crate::plan::{Act, Fault, OUTAGE_MS, Plan, Side, Step};
use crate::scene::HOME;
use flipop_cloud::Provider;
use std::collections::BTreeMap;

/// From the start of a process to its first assignment.
const START_MS: u64 = 20_000;

/// The aftermath of a fault: retries, outdated views and doubts. It is the longest usual wait, plus a list.
const AFTERMATH_MS: u64 = 400_000;

/// After a quota refusal, the slow schedule applies.
const SLOW_MS: u64 = 700_000;

/// Changes of addresses by others are noticed, confirmed and repaired within this time.
const BY_HAND_MS: u64 = 200_000;

/// How long work may wait: a look of the judge (1 s), a round of DNS after two others (2 s), a failing provider
/// elsewhere (1 s), and the calls themselves.
const PROMPT_MS: u64 = 6_000;

/// The spans in which a provider, or the operator's way to it, is disturbed.
#[derive(Debug, Clone)]
pub(super) struct Calm {
    spans: Vec<(Option<Provider>, u64, u64)>,
    /// The waiting work, and since when it waits without a reason.
    waiting: BTreeMap<(Provider, String), u64>,
}

impl Calm {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut spans = vec![(None, 0, START_MS)];
        for Step { at_ms, act } in &plan.steps {
            let span = |(provider, for_ms)| (provider, *at_ms, at_ms.saturating_add(for_ms));
            spans.extend(span_of(act).map(span));
        }
        for weather in &plan.weather {
            let provider = weather.which.provider.filter(|_| weather.which.side != Some(Side::Kube));
            let after_ms = if weather.fault == Fault::QuotaReached {
                SLOW_MS
            } else if weather.is_outage() {
                OUTAGE_MS
            } else {
                AFTERMATH_MS
            };
            let told_ms = if let Fault::Refuse { retry_after_s: Some(wait_s), .. } = weather.fault {
                wait_s.saturating_mul(1_000)
            } else if let Fault::ActionTakes { ms } = weather.fault {
                ms
            } else {
                0
            };
            let over_ms = weather.to_ms.saturating_add(after_ms).saturating_add(told_ms);
            spans.push((provider, weather.from_ms, over_ms));
        }
        if !plan.triggers.is_empty() {
            spans.push((None, 0, u64::MAX));
        }
        Self { spans, waiting: BTreeMap::new() }
    }

    /// Whether nothing can hold up work at a provider.
    pub(super) fn is_calm(&self, provider: Provider, now_ms: u64) -> bool {
        !self.spans.iter().any(|(of, from_ms, to_ms)| {
            of.is_none_or(|of| of == provider) && (*from_ms..*to_ms).contains(&now_ms)
        })
    }

    /// Takes in all work that waits now, and returns the work that has waited too long.
    pub(super) fn look(
        &mut self,
        now_ms: u64,
        waits: impl Iterator<Item = (Provider, String)>,
    ) -> Vec<String> {
        let before = std::mem::take(&mut self.waiting);
        let mut late = Vec::new();
        for key in waits.collect::<std::collections::BTreeSet<_>>() {
            if !self.is_calm(key.0, now_ms) {
                continue;
            }
            let since = before.get(&key).copied().unwrap_or(now_ms);
            if now_ms.saturating_sub(since) > PROMPT_MS {
                late.push(format!("{} waits for {} ms", key.1, now_ms - since));
            }
            self.waiting.insert(key, since);
        }
        late
    }

    /// Whether anything waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// The provider that an act disturbs (`None`: all), and for how long.
#[expect(clippy::wildcard_enum_match_arm, reason = "any other act is no reason to wait")]
fn span_of(act: &Act) -> Option<(Option<Provider>, u64)> {
    let account = Some(HOME);
    match act {
        // Changes of addresses by others, and new addresses, are seen in the next list.
        Act::MoveIp { .. }
        | Act::DeleteIp { .. }
        | Act::DestroyDroplet { .. }
        | Act::LoseDroplet { .. }
        | Act::AddIp { .. }
        | Act::RevertIps { .. }
        | Act::Release { .. }
        | Act::Trade { .. }
        | Act::WipeStatus { .. }
        // Changes that people make to firewalls are seen then too. They may close a port that an assignment waits
        // for.
        | Act::DropFirewall { .. }
        | Act::SetTag { .. }
        | Act::EditFirewalls { .. }
        | Act::DropFirewallsOf { .. } => Some((account, BY_HAND_MS)),
        Act::PowerOff { .. } | Act::ShowOff { .. } => Some((account, AFTERMATH_MS)),
        Act::NarrowToken { for_ms, .. } => Some((account, for_ms + AFTERMATH_MS)),
        Act::RevokeToken { provider, for_ms } => Some((Some(*provider), for_ms + AFTERMATH_MS)),
        // Other people's changes at a name are seen at the next look.
        Act::EditRecord { provider, .. } => Some((Some(*provider), EDITED_MS)),
        Act::PlaceRecord { provider, for_ms, .. } => Some((Some(*provider), for_ms + EDITED_MS)),
        Act::LockIp { for_ms, .. } | Act::BusyDroplet { for_ms, .. } => {
            Some((account, for_ms + AFTERMATH_MS))
        }
        // Only the end of the plan ends these.
        Act::ActionTime { .. } | Act::Quota { .. } | Act::ListLag { .. } => Some((account, u64::MAX)),
        Act::Crash { restart_ms: for_ms, .. }
        | Act::Stop { restart_ms: for_ms, .. }
        | Act::Pause { for_ms, .. }
        | Act::Cut { for_ms, .. }
        | Act::Lag { for_ms, .. } => Some((None, for_ms + AFTERMATH_MS)),
        Act::CutWatches { .. } | Act::Compact => Some((None, AFTERMATH_MS)),
        _ => None,
    }
}

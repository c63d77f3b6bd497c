//! I8: a process's load on a server is bounded by budgets, by requested waits, and by retry schedules.

use super::Ending;
use crate::facts::{Facts, Kind};
use crate::plan::Side;
use flipop_cloud::Provider;
use std::collections::{BTreeMap, VecDeque};

/// How many creations per minute the provider allows.
const CREATIONS_PER_MINUTE: usize = 12;

/// How many requests per minute the provider allows.
const REQUESTS_PER_MINUTE: usize = 250;

/// How many reads of single droplets a minute the operator allows itself.
const DROPLETS_PER_MINUTE: usize = 12;

/// A refused token is retried after this long, even if many requests wait for it.
const REFUSED_MS: u64 = 60_000;

/// Processes' clocks start at fractions of a millisecond.
const ROUNDING_MS: u64 = 2;

/// The fast schedule. After any failure, no retry may come sooner.
const FAST_MS: [u64; 13] =
    [1_000, 1_000, 5_000, 5_000, 10_000, 10_000, 10_000, 60_000, 60_000, 60_000, 60_000, 60_000, 300_000];

/// Lists and watches restart at once when the API server is known to be back, and otherwise on their own schedule. A
/// write that meets a newer object is repeated from that one. Neither may loop.
const REREADS: usize = 5;

/// The span for `REREADS`.
const REREADS_MS: u64 = 2_000;

/// The recent requests to an account, and the end of the present wait. All times are in milliseconds.
#[derive(Debug, Clone, Default)]
struct Load {
    blocked_until: u64,
    requests: VecDeque<u64>,
    creations: VecDeque<u64>,
    droplets: VecDeque<u64>,
    /// The outage of addresses, and that of records.
    outages: BTreeMap<bool, Outage>,
    /// Until when moves and purchases rest after a refusal of the token. The first one that is accepted ends the rest.
    refused_until: BTreeMap<Right, u64>,
}

/// Calls that fail with the whole account, in a row.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    failures: usize,
    any_read: bool,
    /// When the last of them was sent.
    last_ms: u64,
    /// When a read last ended an outage.
    ended_ms: Option<u64>,
}

impl Outage {
    /// Takes in the end of a call. True if it ends an outage.
    fn ended(&mut self, (sent_ms, now_ms): (u64, u64), is_read: bool, status: Option<u16>) -> bool {
        if is_whole(status) {
            self.failures += 1;
            self.any_read |= is_read;
            self.last_ms = self.last_ms.max(sent_ms);
            return false;
        }
        let out = self.failures > 1 && self.any_read;
        let shows_life = status.is_some_and(|status| status < 400 || matches!(status, 404 | 409 | 422));
        let ends = out && shows_life && is_read && sent_ms >= self.last_ms;
        if shows_life && (ends || !out) {
            let ended_ms = if ends { Some(now_ms) } else { self.ended_ms };
            *self = Self { ended_ms, ..Self::default() };
        }
        ends
    }
}

/// Whether a call that ended like this failed with its whole account.
fn is_whole(status: Option<u16>) -> bool {
    status.is_none_or(|status| status == 408 || status >= 500)
}

/// Whether a call is about records.
fn is_of_dns(facts: &Facts) -> bool {
    facts.account == Some(Provider::Cloudflare) || matches!(facts.kind, Kind::Record | Kind::ReadRecords)
}

/// A right that a token may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    Move,
    Create,
    Delete,
}

fn right(facts: &Facts) -> Option<Right> {
    match facts.kind {
        Kind::Assign { .. } | Kind::Unassign { .. } => Some(Right::Move),
        Kind::CreateIp => Some(Right::Create),
        Kind::DeleteIp { .. } => Some(Right::Delete),
        Kind::Lease { .. }
        | Kind::Event
        | Kind::List { .. }
        | Kind::Watch
        | Kind::ReadRecords
        | Kind::Read
        | Kind::Write { .. }
        | Kind::ListIps
        | Kind::Record
        | Kind::Firewall => None,
    }
}

/// A call that failed, and when it may be sent again.
#[derive(Debug, Clone, Default)]
struct Retry {
    failures: usize,
    due_ms: u64,
    /// The account of a call that failed with it, and whether it is about records.
    whole: Option<(Provider, bool)>,
    /// For lists, watches and refused writes: when they failed.
    failed: VecDeque<u64>,
}

/// The load of one process on all servers.
#[derive(Debug, Clone, Default)]
pub(super) struct Loads {
    accounts: BTreeMap<Provider, Load>,
    retries: BTreeMap<String, Retry>,
    /// When leadership last began, in milliseconds.
    anew_ms: u64,
}

/// Identifies a repeated call: its description and the request's selection.
fn key(facts: &Facts) -> String {
    format!("{} {}", facts.what, facts.scope)
}

/// Whether such a call is retried on a schedule that is visible from outside.
fn is_scheduled(facts: &Facts) -> bool {
    // The lease and Events have their own rhythm, and reads serve several purposes.
    facts.mutates() || matches!(facts.kind, Kind::List { .. } | Kind::Watch)
}

impl Loads {
    /// A call is sent. Returns its mistakes.
    pub(super) fn sent(&mut self, now_ms: u64, facts: &Facts) -> Vec<String> {
        let mut wrong = Vec::new();
        let what = &facts.what;
        if let Some(account) = facts.account {
            let load = self.accounts.entry(account).or_default();
            let minute_ago = now_ms.saturating_sub(60_000);
            let (creates, reads) = (facts.kind == Kind::CreateIp, facts.droplet().is_some());
            let kinds =
                [(true, &mut load.requests), (creates, &mut load.creations), (reads, &mut load.droplets)];
            for (counts, sent) in kinds {
                sent.extend(counts.then_some(now_ms));
                sent.retain(|sent| *sent > minute_ago);
            }
            let (requests, creations) = (load.requests.len(), load.creations.len());
            let droplets = load.droplets.len();
            if load.blocked_until > now_ms.saturating_add(ROUNDING_MS) {
                wrong.push(format!("{what:?} is sent while it was told to wait"));
            }
            let refused_until = right(facts).and_then(|right| load.refused_until.get(&right));
            if refused_until.is_some_and(|until| *until > now_ms.saturating_add(ROUNDING_MS)) {
                wrong.push(format!("{what:?} is sent within a minute of a refusal of the token"));
            }
            if requests > REQUESTS_PER_MINUTE
                || creations > CREATIONS_PER_MINUTE
                || droplets > DROPLETS_PER_MINUTE
            {
                let what =
                    format!("{requests} requests, {creations} creations, {droplets} reads of droplets");
                wrong.push(format!("{what} a minute"));
            }
        }
        let Some(retry) = self.retries.get(&key(facts)) else { return wrong };
        let lately = retry.failed.iter().filter(|failed| failed.saturating_add(REREADS_MS) > now_ms).count();
        if lately > REREADS {
            wrong.push(format!("{what:?} goes round in circles"));
        }
        if retry.due_ms > now_ms.saturating_add(ROUNDING_MS) {
            let early_ms = retry.due_ms - now_ms;
            wrong.push(format!("{what:?} is sent {early_ms} ms too soon after {} failures", retry.failures));
        }
        wrong
    }

    /// A call was answered, or its connection was lost.
    pub(super) fn ended(&mut self, (sent_ms, now_ms): (u64, u64), facts: &Facts, ending: Ending) {
        let Ending { status, retry_after_s } = ending;
        let told_ms = retry_after_s.unwrap_or_default().saturating_mul(1_000);
        if let Some(account) = facts.account.filter(|_| status == Some(429)) {
            let load = self.accounts.entry(account).or_default();
            load.blocked_until = load.blocked_until.max(now_ms.saturating_add(told_ms));
        }
        if let (Some(account), Some(right), Some(status)) = (facts.account, right(facts), status) {
            let load = self.accounts.entry(account).or_default();
            match status {
                401 | 403 => drop(load.refused_until.insert(right, now_ms.saturating_add(REFUSED_MS))),
                200..300 => drop(load.refused_until.remove(&right)),
                _ => {}
            }
        }
        let of_dns = is_of_dns(facts);
        let mut over = false;
        if let Some(account) = facts.account.filter(|_| facts.kind != Kind::Firewall) {
            let outage = self.accounts.entry(account).or_default().outages.entry(of_dns).or_default();
            let is_read = matches!(facts.kind, Kind::Read | Kind::ReadRecords | Kind::ListIps);
            let ends = outage.ended((sent_ms, now_ms), is_read, status);
            over = outage.ended_ms.is_some_and(|ended_ms| sent_ms < ended_ms);
            let failed_with_it = |retry: &&mut Retry| retry.whole == Some((account, of_dns));
            self.retries.values_mut().filter(|_| ends).filter(failed_with_it).for_each(|retry| {
                *retry = Retry::default();
            });
        }
        let failed = status.is_none_or(|status| status >= 400);
        if !failed || !is_scheduled(facts) {
            self.retries.remove(&key(facts));
            return;
        }
        let refused = status.is_some_and(|status| status != 429 && status < 500);
        let rewritten = refused && matches!(facts.kind, Kind::Write { .. });
        let reread = rewritten || matches!(facts.kind, Kind::List { .. } | Kind::Watch);
        if reread && sent_ms <= self.anew_ms {
            return;
        }
        let retry = self.retries.entry(key(facts)).or_default();
        let fast_ms = FAST_MS.get(retry.failures.min(FAST_MS.len() - 1)).copied().unwrap_or_default();
        if reread {
            retry.failed.push_back(now_ms);
            retry.failed.retain(|failed| failed.saturating_add(REREADS_MS) > now_ms);
        }
        let told_ms = if facts.side == Side::Kube && status == Some(429) { told_ms } else { 0 };
        retry.failures += 1;
        retry.whole = facts.account.filter(|_| is_whole(status)).map(|account| (account, of_dns));
        // A call that was sent in an outage and failed after its end is due at once.
        let at_once = reread || (over && retry.whole.is_some());
        retry.due_ms = now_ms.saturating_add(if at_once { 0 } else { fast_ms }.max(told_ms));
    }

    /// Whether the token was refused a move or a purchase, and none was accepted since.
    pub(super) fn is_refused(&self) -> bool {
        self.accounts.values().any(|load| !load.refused_until.is_empty())
    }

    /// Leadership begins anew, for which the API server has just answered. Everything is listed again.
    pub(super) fn begun_anew(&mut self, now_ms: u64) {
        self.anew_ms = now_ms;
        self.retries.retain(|_, retry| retry.failed.is_empty());
    }

    /// A change makes requests new, so failed ones may be sent at once.
    pub(super) fn renewed(&mut self) {
        // Waits that the server asked for, and loops, stay.
        self.retries.retain(|_, retry| !retry.failed.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::HOME;

    fn facts(side: Side, kind: Kind) -> Facts {
        let account = (side == Side::Cloud).then_some(HOME);
        Facts { side, account, what: format!("{kind:?}"), scope: String::new(), kind }
    }

    fn answered(loads: &mut Loads, now_ms: u64, facts: &Facts, status: u16) {
        loads.ended((now_ms, now_ms), facts, Ending { status: Some(status), retry_after_s: None });
    }

    #[test]
    fn what_a_provider_refuses_is_repeated_by_the_schedule() {
        let ip = std::net::Ipv4Addr::LOCALHOST;
        for kind in [Kind::Assign { ip, droplet: 1 }, Kind::Unassign { ip }, Kind::CreateIp, Kind::Record] {
            let facts = facts(Side::Cloud, kind);
            for status in [400, 404, 409, 422] {
                let mut loads = Loads::default();
                answered(&mut loads, 2_000, &facts, status);
                assert_eq!(loads.sent(2_900, &facts).len(), 1, "{status} {facts:?}");
                assert_eq!(loads.sent(3_000, &facts), [""; 0], "{status} {facts:?}");
            }
        }
    }

    #[test]
    fn a_read_that_ends_an_outage_releases_what_failed_with_it_and_no_other_does() {
        let (move_ip, read) = (facts(Side::Cloud, Kind::CreateIp), facts(Side::Cloud, Kind::Read));
        for (reads, allowed) in [(503, true), (200, false), (429, false)] {
            let mut loads = Loads::default();
            for at_ms in [1_000, 2_000, 3_000] {
                answered(&mut loads, at_ms, &move_ip, 503);
                answered(&mut loads, at_ms + 1, &read, reads);
            }
            answered(&mut loads, 3_100, &read, 200);
            assert_eq!(loads.sent(3_101, &move_ip).is_empty(), allowed, "{reads}");
        }
        let mut loads = Loads::default();
        answered(&mut loads, 1_000, &move_ip, 503);
        answered(&mut loads, 2_000, &read, 503);
        loads.ended((1_500, 2_100), &read, Ending { status: Some(200), retry_after_s: None });
        answered(&mut loads, 2_200, &move_ip, 503);
        assert_eq!(loads.sent(2_300, &move_ip).len(), 1, "that read began in the outage");
    }

    #[test]
    fn a_write_that_meets_a_newer_object_is_made_again_at_once_and_not_for_ever() {
        let write = facts(Side::Kube, Kind::Write { resource: "floatingippools".to_owned() });
        let mut loads = Loads::default();
        for n in 0..5 {
            answered(&mut loads, 2_000 + n, &write, 409);
            assert_eq!(loads.sent(2_000 + n, &write), [""; 0], "{n}");
        }
        answered(&mut loads, 2_005, &write, 409);
        assert_eq!(loads.sent(2_005, &write).len(), 1);
        answered(&mut loads, 2_006, &write, 200);
        assert_eq!(loads.sent(2_006, &write), [""; 0]);
    }

    #[test]
    fn a_refused_token_is_tried_once_a_minute_until_it_is_accepted() {
        let buy = facts(Side::Cloud, Kind::CreateIp);
        for status in [401, 403] {
            let mut loads = Loads::default();
            answered(&mut loads, 2_000, &buy, status);
            assert!(loads.is_refused());
            assert_eq!(loads.sent(61_900, &buy).len(), 1);
            assert_eq!(loads.sent(62_000, &buy), [""; 0]);
            let droplet = 1;
            let ip = std::net::Ipv4Addr::LOCALHOST;
            let assign = facts(Side::Cloud, Kind::Assign { ip, droplet });
            assert_eq!(loads.sent(10_000, &assign), [""; 0], "another right");
            answered(&mut loads, 62_100, &buy, 201);
            assert!(!loads.is_refused());
            assert_eq!(loads.sent(62_200, &buy), [""; 0]);
        }
    }
}

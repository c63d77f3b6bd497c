//! A token's rate limits as answers report them, with times on our own clock.
//!
//! Owns the reading of headers. `flipop_core::mechanism::budget` decides what follows from them.

use crate::clock::Clock;
use flipop_core::mechanism::{Quota, RateReport};
use flipop_core::model::Moment;
use http::{HeaderMap, HeaderName, StatusCode, header};
use tokio::sync::watch;

/// The longest block that is believed. The longest known window (`DigitalOcean`'s) is an hour, and an absurd header
/// must not silence the operator for days.
const MAX_BLOCK_MS: u64 = 3_600_000;

/// How long a refusal for too many requests, which names no time, blocks the token if the provider's blocks are
/// unknown, or if the provider says that requests are left. It is the first step of the fast retry schedule.
pub(crate) const SHORT_BLOCK_MS: u64 = 1_000;

/// How a provider refuses requests.
#[derive(Debug, Clone, Copy)]
pub struct Refusals {
    /// Whether a body has the form of every refusal of the provider. Others may answer in its place.
    pub is_own: fn(&[u8]) -> bool,
    /// Whether the body of an answer with a status other than 429 refuses too many requests.
    pub says_excess: fn(StatusCode, &[u8]) -> bool,
    /// For how long a refusal of too many requests that names no time blocks the token.
    pub block_ms: u64,
}

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The latest known limits of one token.
#[derive(Debug)]
pub(crate) struct RateState {
    clock: Clock,
    block_ms: u64,
    report: watch::Sender<RateReport>,
}

impl RateState {
    /// `block_ms` says for how long a refusal for too many requests that names no time blocks the token.
    pub(crate) fn new(clock: Clock, block_ms: u64, token_generation: u64) -> Self {
        let report = watch::Sender::new(RateReport { token_generation, ..RateReport::default() });
        Self { clock, block_ms, report }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<RateReport> {
        self.report.subscribe()
    }

    /// Another token is in use from now on. The limits of the former token do not bind it.
    pub(crate) fn renewed(&self, token_generation: u64) {
        self.report.send_if_modified(|report| {
            let newer = token_generation > report.token_generation;
            if newer {
                *report = RateReport { token_generation, ..RateReport::default() };
            }
            newer
        });
    }

    /// Counts a request with this token.
    pub(crate) fn began(&self, token_generation: u64) {
        self.report.send_modify(|report| {
            if token_generation > report.token_generation {
                *report = RateReport { token_generation, ..RateReport::default() };
            }
            if token_generation == report.token_generation {
                report.requests = report.requests.saturating_add(1);
            }
        });
    }

    /// For how long the token must be left alone from now on. `None` if it may be used.
    pub(crate) fn blocked_ms(&self) -> Option<u64> {
        let (report, now) = (*self.report.borrow(), self.clock.now());
        let used_up = report.quota.filter(|quota| quota.remaining == 0).map(|quota| quota.reset_at);
        let until = report.blocked_until.max(used_up)?;
        Some(until.millis_since(now)).filter(|left| *left > 0)
    }

    /// Reads an answer's headers. Returns for how long the provider asks to wait, if it does.
    pub(crate) fn learn(
        &self,
        token_generation: u64,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<u64> {
        let now = self.clock.now();
        let answered_at = self.answered_at(headers);
        let structured = tightest(headers);
        let quota = match structured {
            Some(Allowance { limit, remaining, reset_s }) => {
                let reset_ms = reset_s.unwrap_or(0).saturating_mul(1_000).min(MAX_BLOCK_MS);
                Some(Quota { limit, remaining, reset_at: now.plus_millis(reset_ms), observed_at: now })
            }
            None => plain_quota(headers, answered_at, now),
        };
        let refused = status == StatusCode::TOO_MANY_REQUESTS;
        let asked = if refused || status == StatusCode::SERVICE_UNAVAILABLE {
            retry_after_ms(headers, answered_at)
        } else {
            None
        };
        let asked = asked.or_else(|| structured.filter(|_| refused).and_then(Allowance::block_ms));
        let block = match asked {
            None if refused && structured.is_some_and(|allowance| allowance.remaining > 0) => {
                Some(SHORT_BLOCK_MS)
            }
            None if refused => Some(self.block_ms),
            asked => asked,
        };
        self.report.send_if_modified(|report| {
            if token_generation != report.token_generation || (quota.is_none() && block.is_none()) {
                return false;
            }
            report.quota = quota.or(report.quota);
            report.blocked_until = report.blocked_until.max(block.map(|ms| now.plus_millis(ms)));
            true
        });
        asked
    }

    /// The provider's time in seconds, so that our wall clock may be wrong. Our own time if the answer has none.
    fn answered_at(&self, headers: &HeaderMap) -> i64 {
        headers
            .get(header::DATE)
            .and_then(|value| value.to_str().ok())
            .and_then(date)
            .unwrap_or_else(|| self.clock.timestamp())
            .as_second()
    }
}

/// The quota from `ratelimit-remaining` and its companions.
fn plain_quota(headers: &HeaderMap, answered_at: i64, now: Moment) -> Option<Quota> {
    let remaining = number(headers, &REMAINING)?;
    let reset_ms = number(headers, &RESET)
        .and_then(|seconds| i64::try_from(seconds).ok())
        .map_or(0, |seconds| u64::try_from(seconds.saturating_sub(answered_at)).unwrap_or(0))
        .saturating_mul(1_000)
        .min(MAX_BLOCK_MS);
    let limit = number(headers, &LIMIT);
    Some(Quota { limit, remaining, reset_at: now.plus_millis(reset_ms), observed_at: now })
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn date(text: &str) -> Option<jiff::Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()
}

/// `Retry-After` in either of its forms: seconds or a date.
fn retry_after_ms(headers: &HeaderMap, answered_at: i64) -> Option<u64> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_not_seconds) => u64::try_from(date(text)?.as_second().saturating_sub(answered_at)).unwrap_or(0),
    };
    Some(seconds.saturating_mul(1_000).min(MAX_BLOCK_MS))
}

/// The structured form (IETF draft on rate-limit fields for HTTP), which Cloudflare sends: `"default";r=50;t=30`, and
/// for the policy `"default";q=1200;w=300`. Commas separate several policies. Unreadable parts are skipped.
const RATELIMIT: &str = "ratelimit";
const POLICY: &str = "ratelimit-policy";

/// More policies than any provider has. It bounds the work on an absurd header.
const MAX_POLICIES: usize = 16;

/// The remaining allowance of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allowance {
    /// Number of requests that the policy grants in all.
    limit: Option<u64>,
    /// Requests that are left.
    remaining: u64,
    /// Seconds until some are granted again.
    reset_s: Option<u64>,
}

impl Allowance {
    /// For how long no request is admitted, if the policy is used up and says so.
    fn block_ms(self) -> Option<u64> {
        let seconds = self.reset_s.filter(|_| self.remaining == 0)?;
        Some(seconds.saturating_mul(1_000).min(MAX_BLOCK_MS))
    }
}

/// The policy with the fewest requests left. Among equals, the one that takes longest to grant more.
fn tightest(headers: &HeaderMap) -> Option<Allowance> {
    let policies: Vec<Item<'_>> = items(headers, POLICY).collect();
    let limit_of = |name: &str| {
        let same = policies.iter().find(|policy| policy.name == name);
        same.or_else(|| policies.first().filter(|_| policies.len() == 1))?.number("q")
    };
    let allowances = items(headers, RATELIMIT).filter_map(|item| {
        let remaining = item.number("r")?;
        Some(Allowance { limit: limit_of(item.name), remaining, reset_s: item.number("t") })
    });
    allowances.min_by_key(|allowance| (allowance.remaining, std::cmp::Reverse(allowance.reset_s)))
}

/// A name and its parameters.
struct Item<'a> {
    name: &'a str,
    parameters: &'a str,
}

impl Item<'_> {
    fn number(&self, key: &str) -> Option<u64> {
        self.parameters.split(';').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            (name.trim() == key).then(|| value.trim().parse().ok()).flatten()
        })
    }
}

fn items<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = Item<'a>> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).take(MAX_POLICIES).map(|item| {
        let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
        Item { name: name.trim().trim_matches('"'), parameters }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const EPOCH: i64 = 1_800_000_000;

    fn blocking_for(block_ms: u64) -> RateState {
        RateState::new(Clock::simulated(jiff::Timestamp::from_second(EPOCH).unwrap()), block_ms, 1)
    }

    fn state() -> RateState {
        blocking_for(SHORT_BLOCK_MS)
    }

    type Pairs = [(&'static str, &'static str)];

    fn headers(pairs: &Pairs) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_quota_s_reset_is_relative_to_the_provider_s_own_date() {
        let state = state();
        // The provider's clock is a day ahead of ours.
        let answer = headers(&[
            ("ratelimit-limit", "5000"),
            ("ratelimit-remaining", "4816"),
            ("ratelimit-reset", "1800086430"),
            ("date", "Sat, 16 Jan 2027 08:00:00 GMT"),
        ]);
        assert_eq!(date("Sat, 16 Jan 2027 08:00:00 GMT").unwrap().as_second(), EPOCH + 86_400);
        assert_eq!(state.learn(1, StatusCode::OK, &answer), None);
        let quota = state.subscribe().borrow().quota.unwrap();
        assert_eq!((quota.limit, quota.remaining), (Some(5_000), 4_816));
        assert_eq!(quota.reset_at, Moment::from_millis(30_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_blocks_the_token_for_the_time_that_it_names() {
        let cases: [(&Pairs, Option<u64>, u64); 7] = [
            (&[("retry-after", "7")], Some(7_000), 7_000),
            (&[("retry-after", "Fri, 15 Jan 2027 08:00:09 GMT")], Some(9_000), 9_000),
            (&[("retry-after", "Fri, 15 Jan 2026 08:00:09 GMT")], Some(0), 0),
            (&[("retry-after", "soon")], None, 1_000),
            (&[], None, 1_000),
            (&[("retry-after", "99999999999999999999")], None, 1_000),
            (&[("retry-after", "99999999")], Some(MAX_BLOCK_MS), MAX_BLOCK_MS),
        ];
        for (answer, asked, blocked) in cases {
            let state = state();
            assert_eq!(state.learn(1, StatusCode::TOO_MANY_REQUESTS, &headers(answer)), asked, "{answer:?}");
            let report = *state.subscribe().borrow();
            assert_eq!(report.blocked_until, Some(Moment::from_millis(blocked)), "{answer:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_left_alone_while_it_is_blocked_or_used_up() {
        let cases: [(StatusCode, &Pairs, u64); 4] = [
            (StatusCode::OK, &[("ratelimit", "\"default\";r=1;t=30")], 0),
            (StatusCode::OK, &[("ratelimit", "\"default\";r=0;t=30")], 30),
            (StatusCode::OK, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "1800000007")], 7),
            (StatusCode::TOO_MANY_REQUESTS, &[("retry-after", "20")], 20),
        ];
        for (status, answer, seconds) in cases {
            let state = state();
            state.learn(1, status, &headers(answer));
            assert_eq!(state.blocked_ms(), (seconds > 0).then_some(seconds * 1_000), "{answer:?}");
            tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
            assert_eq!(state.blocked_ms(), None, "{answer:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_block_does_not_end_a_longer_one() {
        let state = state();
        state.learn(1, StatusCode::TOO_MANY_REQUESTS, &headers(&[("retry-after", "300")]));
        state.learn(1, StatusCode::TOO_MANY_REQUESTS, &headers(&[("retry-after", "1")]));
        assert_eq!(state.subscribe().borrow().blocked_until, Some(Moment::from_millis(300_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn another_token_starts_with_a_clean_sheet_and_late_answers_to_the_old_one_do_not_count() {
        let state = state();
        state.began(1);
        state.learn(1, StatusCode::TOO_MANY_REQUESTS, &headers(&[("retry-after", "300")]));
        state.began(2);
        state.learn(1, StatusCode::TOO_MANY_REQUESTS, &headers(&[("retry-after", "300")]));
        let expected = RateReport { token_generation: 2, requests: 1, ..RateReport::default() };
        assert_eq!(*state.subscribe().borrow(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn nonsense_in_the_headers_is_no_quota() {
        let state = state();
        for value in ["", "-1", "many", "1e3"] {
            state.learn(1, StatusCode::OK, &headers(&[("ratelimit-remaining", value)]));
            assert_eq!(state.subscribe().borrow().quota, None, "{value}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_structured_form_is_a_quota_relative_to_now() {
        let state = state();
        let answer = headers(&[
            ("ratelimit", "\"default\";r=50;t=30"),
            ("ratelimit-policy", "\"default\";q=1200;w=300"),
        ]);
        assert_eq!(state.learn(1, StatusCode::OK, &answer), None);
        let report = *state.subscribe().borrow();
        let quota = report.quota.unwrap();
        assert_eq!((quota.limit, quota.remaining, report.blocked_until), (Some(1_200), 50, None));
        assert_eq!(quota.reset_at, Moment::from_millis(30_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_without_a_time_blocks_as_long_as_the_provider_is_known_to() {
        let cases: [(&Pairs, Option<u64>, u64); 4] = [
            (&[], None, 300_000),
            (&[("ratelimit", "\"default\";r=0;t=120")], Some(120_000), 120_000),
            (&[("ratelimit", "\"default\";r=0;t=120"), ("retry-after", "7")], Some(7_000), 7_000),
            // Something else than the quota refused: the fast schedule goes on.
            (&[("ratelimit", "\"default\";r=800;t=120")], None, SHORT_BLOCK_MS),
        ];
        for (answer, asked, blocked) in cases {
            let state = blocking_for(300_000);
            assert_eq!(state.learn(1, StatusCode::TOO_MANY_REQUESTS, &headers(answer)), asked, "{answer:?}");
            let report = *state.subscribe().borrow();
            assert_eq!(report.blocked_until, Some(Moment::from_millis(blocked)), "{answer:?}");
        }
    }

    fn read(limit: &str, policy: &str) -> Option<Allowance> {
        let mut headers = HeaderMap::new();
        for (name, value) in [(RATELIMIT, limit), (POLICY, policy)] {
            if !value.is_empty() {
                headers.append(name, HeaderValue::from_str(value).unwrap());
            }
        }
        tightest(&headers)
    }

    #[test]
    fn of_several_policies_the_tightest_counts() {
        let allowance = |limit, remaining, reset_s| Some(Allowance { limit, remaining, reset_s });
        let table = [
            ("\"default\";r=50;t=30", "\"default\";q=1200;w=300", allowance(Some(1_200), 50, Some(30))),
            ("default; t=30; r=50", "\"other\";q=9;w=1", allowance(Some(9), 50, Some(30))),
            (
                "\"burst\";r=99;t=1, \"daily\";r=3;t=7000",
                "\"burst\";q=100;w=60,\"daily\";q=1000;w=86400",
                allowance(Some(1_000), 3, Some(7_000)),
            ),
            ("\"a\";r=0;t=5,\"b\";r=0;t=9", "", allowance(None, 0, Some(9))),
            ("\"default\";r=0", "", allowance(None, 0, None)),
        ];
        for (limit, policy, expected) in table {
            assert_eq!(read(limit, policy), expected, "{limit}");
        }
    }

    #[test]
    fn nonsense_is_no_allowance() {
        for limit in ["", "50", "\"default\"", "\"default\";r=;t=30", "\"default\";r=-1", ";;==,,;", "r=5"] {
            assert_eq!(read(limit, ""), None, "{limit}");
        }
    }
}

//! What answers say about a token's rate limits, turned into moments of our own clock.
//!
//! Owns the reading of headers. What follows from them is decided by `flipop_core::budget`.

use crate::clock::Clock;
use flipop_core::budget::{Quota, RateReport};
use http::{HeaderMap, HeaderName, StatusCode, header};
use tokio::sync::watch;

/// No block is believed to last longer: the longest known window (`DigitalOcean`'s) is an hour, and a header gone wild
/// must not silence the operator for days.
const MAX_BLOCK_MS: u64 = 3_600_000;

/// How long a refusal for excess without a time blocks the token: the first step of the fast retry schedule.
const DEFAULT_BLOCK_MS: u64 = 1_000;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The latest known limits of one token.
#[derive(Debug)]
pub(crate) struct RateState {
    clock: Clock,
    report: watch::Sender<RateReport>,
}

impl RateState {
    pub(crate) fn new(clock: Clock, token_generation: u64) -> Self {
        Self { clock, report: watch::Sender::new(RateReport { token_generation, ..RateReport::default() }) }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<RateReport> {
        self.report.subscribe()
    }

    /// A request goes out with this token.
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

    /// Reads an answer's headers. Returns for how long the provider asks to wait, if it does.
    pub(crate) fn learn(
        &self,
        token_generation: u64,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<u64> {
        let now = self.clock.now();
        let answered_at = self.answered_at(headers);
        let quota = number(headers, &REMAINING).map(|remaining| {
            let reset_ms = number(headers, &RESET)
                .and_then(|seconds| i64::try_from(seconds).ok())
                .map_or(0, |seconds| u64::try_from(seconds.saturating_sub(answered_at)).unwrap_or(0))
                .saturating_mul(1_000)
                .min(MAX_BLOCK_MS);
            Quota {
                limit: number(headers, &LIMIT),
                remaining,
                reset_at: now.plus_millis(reset_ms),
                observed_at: now,
            }
        });
        let refused = status == StatusCode::TOO_MANY_REQUESTS;
        let asked = if refused || status == StatusCode::SERVICE_UNAVAILABLE {
            retry_after_ms(headers, answered_at)
        } else {
            None
        };
        let block = if refused { asked.or(Some(DEFAULT_BLOCK_MS)) } else { asked };
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

    /// The provider's wall clock in seconds, so that ours may be wrong; ours where it does not say.
    fn answered_at(&self, headers: &HeaderMap) -> i64 {
        headers
            .get(header::DATE)
            .and_then(|value| value.to_str().ok())
            .and_then(date)
            .unwrap_or_else(|| self.clock.timestamp())
            .as_second()
    }
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn date(text: &str) -> Option<jiff::Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()
}

/// `Retry-After`, in either of its forms: seconds, or a date.
fn retry_after_ms(headers: &HeaderMap, answered_at: i64) -> Option<u64> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_not_seconds) => u64::try_from(date(text)?.as_second().saturating_sub(answered_at)).unwrap_or(0),
    };
    Some(seconds.saturating_mul(1_000).min(MAX_BLOCK_MS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipop_core::moment::Moment;
    use http::HeaderValue;

    const EPOCH: i64 = 1_800_000_000;

    fn state() -> RateState {
        RateState::new(Clock::simulated(jiff::Timestamp::from_second(EPOCH).unwrap()), 1)
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
}

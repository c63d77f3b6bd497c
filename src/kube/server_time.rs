//! The API server's clock, from the `Date` header of its answers.
//!
//! Replicas agree only by this clock how long something has lasted; their own clocks may be days apart. The header has
//! whole seconds, and an answer takes a moment to arrive. So the estimate moves only if it is off by more than that.

use crate::clock::Clock;
use http::header::DATE;
use http::{HeaderMap, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tower::util::MapResponseLayer;

/// The header names the start of a second. On average, half a second has passed.
const HALF_STEP_MS: u64 = 500;

/// Answers that differ by no more than this agree.
const TOLERANCE_MS: u64 = 1_000;

/// No answer was heard yet.
const UNHEARD: u64 = 0;

/// The knowledge about the API server's clock.
#[derive(Debug, Clone)]
pub struct ServerTime {
    clock: Clock,
    epoch_ms: Arc<AtomicU64>,
}

impl ServerTime {
    /// Nothing is known yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, epoch_ms: Arc::new(AtomicU64::new(UNHEARD)) }
    }

    /// The API server's time at zero of this process's clock, in milliseconds since 1970. `None` before the first
    /// answer.
    pub fn epoch_ms(&self) -> Option<u64> {
        Some(self.epoch_ms.load(Ordering::Relaxed)).filter(|epoch_ms| *epoch_ms != UNHEARD)
    }

    /// Layers a service to read the time from its answers.
    pub fn reading<B>(&self) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone + use<B>> {
        let time = self.clone();
        MapResponseLayer::new(move |answer: Response<B>| {
            time.hear(answer.headers());
            answer
        })
    }

    fn hear(&self, headers: &HeaderMap) {
        let Some(date_ms) = date_ms(headers) else { return };
        let epoch_ms = date_ms.saturating_add(HALF_STEP_MS).saturating_sub(self.clock.now().as_millis());
        if self.epoch_ms().is_none_or(|known| known.abs_diff(epoch_ms) > TOLERANCE_MS) {
            self.epoch_ms.store(epoch_ms, Ordering::Relaxed);
        }
    }
}

fn date_ms(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    u64::try_from(date.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn dated(text: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(DATE, HeaderValue::from_static(text))])
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_the_server_s_and_does_not_tremble() {
        let time = ServerTime::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(time.epoch_ms(), None);
        time.hear(&HeaderMap::new());
        time.hear(&dated("yesterday"));
        assert_eq!(time.epoch_ms(), None);
        tokio::time::advance(std::time::Duration::from_secs(10)).await;
        time.hear(&dated("Thu, 26 Nov 2026 15:00:20 GMT"));
        let noon: jiff::Timestamp = "2026-11-26T15:00:10.5Z".parse().unwrap();
        let epoch_ms = u64::try_from(noon.as_millisecond()).unwrap();
        assert_eq!(time.epoch_ms(), Some(epoch_ms));
        time.hear(&dated("Thu, 26 Nov 2026 15:00:21 GMT"));
        assert_eq!(time.epoch_ms(), Some(epoch_ms), "within what a header can say");
        time.hear(&dated("Thu, 26 Nov 2026 15:00:22 GMT"));
        assert_eq!(time.epoch_ms(), Some(epoch_ms + 2_000), "the server's clock was set");
    }
}

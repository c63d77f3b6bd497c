//! Waiting for something to become true, with a report of what was seen instead.

use crate::{Failure, Outcome};
use std::future::Future;
use std::panic::Location;
use std::time::Duration;
use tokio::time::Instant;

/// How often a condition is looked at: quick enough not to slow a test, slow enough for two cores.
const POLL: Duration = Duration::from_millis(50);

/// A point in the future. Real time: what is waited for is another process.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    now() + timeout
}

pub(crate) fn passed(deadline: Instant) -> bool {
    now() >= deadline
}

fn now() -> Instant {
    Instant::now()
}

/// Looks until `look` gives a value; `Err` says what was seen instead, and the last one is in the failure.
///
/// # Errors
/// When the timeout has passed.
#[track_caller]
pub fn eventually<T, Look, Seen>(
    what: &str,
    timeout: Duration,
    mut look: Look,
) -> impl Future<Output = Outcome<T>> + use<T, Look, Seen>
where
    Look: FnMut() -> Seen,
    Seen: Future<Output = Result<T, Failure>>,
{
    let (place, what) = (Location::caller(), what.to_owned());
    async move {
        let end = deadline(timeout);
        loop {
            let last_look = passed(end);
            match look().await {
                Ok(value) => return Ok(value),
                Err(seen) if last_look => {
                    return Err(Failure::at(
                        place,
                        format!("not within {timeout:?}: {what}\n  seen instead: {seen}"),
                    ));
                }
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

/// Looks for the whole of `time`: `look` must never fail.
///
/// # Errors
/// What `look` said when it failed.
#[track_caller]
pub fn throughout<Look, Seen>(
    what: &str,
    time: Duration,
    mut look: Look,
) -> impl Future<Output = Outcome> + use<Look, Seen>
where
    Look: FnMut() -> Seen,
    Seen: Future<Output = Result<(), Failure>>,
{
    let (place, what) = (Location::caller(), what.to_owned());
    async move {
        let end = deadline(time);
        while !passed(end) {
            if let Err(seen) = look().await {
                return Err(Failure::at(
                    place,
                    format!("did not stay so for {time:?}: {what}\n  seen instead: {seen}"),
                ));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

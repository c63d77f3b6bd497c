//! Waits for a condition, and reports what was seen instead.

use crate::{Failure, Outcome};
use std::future::Future;
use std::panic::Location;
use std::time::Duration;
use tokio::time::Instant;

/// How often to check a condition: often enough not to slow tests, rarely enough for two cores.
const POLL: Duration = Duration::from_millis(50);

/// A point in the future, in real time, because the condition depends on another process.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout
}

pub(crate) fn passed(deadline: Instant) -> bool {
    Instant::now() >= deadline
}

/// Calls `look` until it returns a value. `Err` says what was seen instead; the failure contains the last one.
///
/// # Errors
/// If the timeout passes.
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

/// Calls `look` for the whole of `time`. It must never fail.
///
/// # Errors
/// The failure of `look`.
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

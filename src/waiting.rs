//! Logs what the process waits for until it has read everything from the API server once.
//!
//! This module itself waits for nothing: it checks what is missing, and ends once nothing is. Later failures are logged
//! where they happen.

use crate::clock::Clock;

/// A healthy server has answered by then.
const FIRST_MS: u64 = 2_000;

/// Longest time between two lines: rare enough for a log of a day.
const LONGEST_MS: u64 = 300_000;

/// Calls `say` after two seconds and then ever less often, with `server` and what is missing, until nothing is missing.
pub(crate) async fn tell(
    clock: Clock,
    server: String,
    missing: impl Fn() -> Vec<String>,
    say: impl Fn(&str),
) {
    let mut pause_ms = FIRST_MS;
    loop {
        clock.sleep_until(clock.now().plus_millis(pause_ms)).await;
        let missing = missing();
        let Some(first) = missing.first() else { return };
        let more = match missing.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        say(&format!("still waiting for {server}: {first}{more}"));
        pause_ms = pause_ms.saturating_mul(2).min(LONGEST_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_named_ever_less_often_until_it_does() {
        let (clock, started) = (Clock::simulated(jiff::Timestamp::UNIX_EPOCH), Instant::now());
        let said = Mutex::new(Vec::new());
        let missing = || {
            let silent = started.elapsed().as_secs() < 1_500;
            let all = ["the lease", "nodes", "pools"].map(str::to_owned);
            if silent { all.to_vec() } else { Vec::new() }
        };
        let say = |line: &str| said.lock().unwrap().push((started.elapsed().as_secs(), line.to_owned()));
        tell(clock, "https://api:6443".to_owned(), missing, say).await;
        let said = said.into_inner().unwrap();
        let times: Vec<u64> = said.iter().map(|(at_s, _)| *at_s).collect();
        assert_eq!(times, [2, 6, 14, 30, 62, 126, 254, 510, 810, 1_110, 1_410]);
        let line = "still waiting for https://api:6443: the lease (and 2 more)";
        assert!(said.iter().all(|(_, said)| said == line), "{said:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_is_not_named() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        tell(clock, String::new(), Vec::new, |line| panic!("{line}")).await;
    }
}

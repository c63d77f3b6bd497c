//! Leadership in a simulated network: real electors and permits, a simulated API server, and a judge that sees every
//! write arrive. Partitions, lost and late requests, stopped processes, wrong clocks, crashes, deletions. Each run
//! follows from its seed.
//!
//! `FLIPOP_LEADERSHIP_SEEDS` sets how many seeds are run (300 by default). `FLIPOP_LEADERSHIP_SEED` runs one and prints
//! its transcript.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at once")]

mod freeze;
mod judge;
mod network;
mod replica;
mod scenario;

use judge::Sums;
use scenario::Verdict;
use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many seeds CI runs.
const SEEDS: u64 = 300;

/// How many transcript lines a failure shows.
const TAIL: usize = 60;

#[expect(clippy::disallowed_methods, reason = "the environment of the tests, not of the operator")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64) -> Verdict {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(scenario::run(seed))
}

fn report(seed: u64, verdict: &Verdict) -> String {
    let mut text = format!("seed {seed}: {}\n", verdict.wrong.join("\n  "));
    let lines = &verdict.transcript;
    for line in lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default() {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(
        text,
        "replay: FLIPOP_LEADERSHIP_SEED={seed} cargo test --test shell -- leadership --nocapture"
    );
    text
}

#[test]
fn every_write_arrives_in_its_senders_term_and_work_resumes_when_everything_heals() {
    if let Some(seed) = number("FLIPOP_LEADERSHIP_SEED") {
        let verdict = run(seed);
        println!("{}", verdict.transcript.join("\n"));
        assert!(verdict.wrong.is_empty(), "{:#?}", verdict.wrong);
        return;
    }
    let seeds = number("FLIPOP_LEADERSHIP_SEEDS").unwrap_or(SEEDS);
    let (next, sums, failures) = (AtomicU64::new(0), Mutex::new(Sums::default()), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let verdict = run(seed);
                    let mut sums = sums.lock().unwrap();
                    sums.writes += verdict.sums.writes;
                    sums.terms += verdict.sums.terms;
                    if !verdict.wrong.is_empty() {
                        failures.lock().unwrap().push((seed, report(seed, &verdict)));
                    }
                }
            });
        }
    });
    let Sums { writes, terms } = sums.into_inner().unwrap();
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    println!("{seeds} seeds, {terms} terms, {writes} writes, {} seeds with a fault", failures.len());
    let failed: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
    assert!(failures.is_empty(), "seeds {failed:?}\n{}", failures[0].1);
    // Otherwise nothing was tried.
    assert!(terms >= 2 * seeds && writes >= 20 * seeds, "{terms} terms, {writes} writes");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        let (first, second) = (run(seed), run(seed));
        assert!(first.transcript.len() > 50);
        let lines = first.transcript.iter().zip(&second.transcript);
        let apart = lines.enumerate().find(|(_, (one, other))| one != other);
        assert_eq!(apart, None, "seed {seed}");
        assert_eq!(first.transcript.len(), second.transcript.len());
    }
}

//! Simulated days in one process. No invariant breaks, and memory and open files stay level.
//!
//! A plain run plays some hours, and `SIMULATION_DAYS=30 cargo test --profile simulation` a month. Memory is judged
//! only in runs of [`JUDGED_DAYS`] or more, because the histories of the simulated servers keep growing for the first
//! day.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

use flipop_simulation::workloads;

/// How many hours a plain run simulates.
const HOURS: u64 = 6;

/// The shortest run in which memory is judged.
const JUDGED_DAYS: u64 = 3;

/// The most growth in a simulated day, in KiB: less than any leak that matters in a month.
const SLACK_KIB: u64 = 1_024;

/// How much of a peak the allocator may keep, in KiB.
const FLOOR_KIB: u64 = 2_048;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The median of a quarter of the samples.
fn quarter<T: Ord + Copy>(samples: &[T], number: usize) -> T {
    let length = samples.len() / 4;
    let mut part = samples.get(number * length..(number + 1) * length).unwrap().to_vec();
    part.sort_unstable();
    *part.get(length / 2).unwrap()
}

#[test]
fn memory_and_open_files_stay_flat_over_simulated_days() {
    #[expect(clippy::disallowed_methods, reason = "how much is tested is the caller's decision")]
    let days: u64 = std::env::var("SIMULATION_DAYS").map_or(0, |days| days.parse().unwrap());
    let hours = if days == 0 { HOURS } else { days * 24 };
    let mut samples = Vec::new();
    let plan = workloads::hours(hours);
    let outcome =
        flipop_simulation::run_stepwise(&plan, &mut || samples.push((resident_kib(), open_files()))).unwrap();
    assert_eq!(outcome.violations, []);
    let assigns: usize = outcome.tally.assigns.values().sum();
    assert!(u64::try_from(assigns).unwrap() >= hours / 2, "{assigns} assignments in {hours} hours");
    assert!(samples.len() >= 20, "{} samples", samples.len());
    let (memory, files): (Vec<u64>, Vec<usize>) = samples.into_iter().unzip();
    let (before, after) = (quarter(&memory, 1), quarter(&memory, 3));
    println!("{hours} hours, {assigns} assignments, {before} → {after} KiB, {} files", quarter(&files, 3));
    if days >= JUDGED_DAYS {
        assert!(after <= before + SLACK_KIB * days / 2 + FLOOR_KIB, "{before} KiB → {after} KiB");
    }
    assert_eq!(quarter(&files, 1), quarter(&files, 3));
}

//! Random plans: whatever is drawn, nothing is lost, nothing is done twice, and in the end all is as desired.

use crate::support::{play, report, setting, with_all};
use flipop_sandbox::simulation::generate;

#[test]
fn no_seed_breaks_an_invariant() {
    let first = setting("SIMULATION_FIRST", 0);
    let seeds: Vec<u64> =
        (first..first + setting("SIMULATION_SEEDS", 8)).map(|seed| u64::try_from(seed).unwrap()).collect();
    let failures: Vec<String> = with_all(&seeds, |seed| {
        let plan = generate::plan(*seed);
        let outcome = play(&plan);
        let rule = outcome.violations.first()?.rule;
        let problems: Vec<String> = outcome
            .violations
            .iter()
            .take(3)
            .map(|v| format!("{} ms {}: {}", v.at_ms, v.rule, v.text))
            .collect();
        Some(report(&plan, &problems, |plan| play(plan).violations.iter().any(|found| found.rule == rule)))
    })
    .into_iter()
    .flatten()
    .collect();
    let number = seeds.len();
    assert!(failures.is_empty(), "{} of {number} seeds:\n{}", failures.len(), failures.join("\n"));
    println!("{number} seeds");
}

//! Random plans: whatever is drawn, nothing is lost, nothing is done twice, and in the end all is as desired.

use crate::support::{Failure, judge, play, setting, with_all};
use flipop_sandbox::simulation::generate;

#[test]
fn no_seed_breaks_an_invariant() {
    let first = setting("SIMULATION_FIRST", 0);
    let seeds: Vec<u64> =
        (first..first + setting("SIMULATION_SEEDS", 8)).map(|seed| u64::try_from(seed).unwrap()).collect();
    let failures = with_all(&seeds, |seed| {
        let plan = generate::plan(*seed);
        let problems: Vec<String> = play(&plan).violations.iter().take(3).map(ToString::to_string).collect();
        (!problems.is_empty()).then_some(Failure { plan, problems })
    });
    let failures: Vec<Failure> = failures.into_iter().flatten().collect();
    judge(seeds.len(), &failures, |_, plan| !play(plan).violations.is_empty());
}

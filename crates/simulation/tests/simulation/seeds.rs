//! Random plans: whatever is drawn, nothing is lost, nothing is done twice, and in the end all is as desired.

use crate::support::{Failure, judge, play, setting, with_all};
use flipop_simulation::generate;

/// One seed in so many is played twice, because the same plan must give the same run.
const TWICE: u64 = 50;

#[test]
fn no_seed_breaks_an_invariant() {
    let first = setting("SIMULATION_FIRST", 0);
    let seeds: Vec<u64> =
        (first..first + setting("SIMULATION_SEEDS", 8)).map(|seed| u64::try_from(seed).unwrap()).collect();
    let failures = with_all(&seeds, |seed| {
        let plan = generate::plan(*seed);
        let outcome = play(&plan);
        let mut problems: Vec<String> = outcome.violations.iter().take(3).map(ToString::to_string).collect();
        if seed.is_multiple_of(TWICE) && play(&plan) != outcome {
            problems.push("played again, the run differs".to_owned());
        }
        (!problems.is_empty()).then_some(Failure { plan, problems })
    });
    let failures: Vec<Failure> = failures.into_iter().flatten().collect();
    // A smaller plan counts only if it breaks the same rule.
    judge(seeds.len(), &failures, |failure, plan| {
        let same =
            |rule: &str| failure.problems.iter().any(|problem| problem.contains(&format!(" {rule}: ")));
        play(plan).violations.iter().any(|found| same(found.rule))
    });
}

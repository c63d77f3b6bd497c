//! Makes a failing plan as small as possible.

use super::plan::Plan;

/// The most runs. A plan of a few dozen parts needs a few hundred.
const MAX_RUNS: usize = 400;

/// The smallest plan found for which `fails` holds. The plan itself if none is smaller.
pub fn shrink(plan: &Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut best = plan.clone();
    let mut runs = 0;
    loop {
        let before = size(&best);
        // Large pieces first: half of the steps, a quarter, and so on.
        let mut piece = before.div_ceil(2);
        while piece > 0 {
            let mut from = 0;
            while from < size(&best) {
                let smaller = without(&best, from, piece);
                runs += 1;
                if runs > MAX_RUNS {
                    return best;
                }
                if fails(&smaller) {
                    best = smaller;
                } else {
                    from += piece;
                }
            }
            piece /= 2;
        }
        while best.replicas > 1 {
            let smaller = Plan { replicas: best.replicas - 1, ..best.clone() };
            if !fails(&smaller) {
                break;
            }
            best = smaller;
        }
        let right = Plan { skew_s: 0, ..best.clone() };
        if best.skew_s > 0 && fails(&right) {
            best = right;
        }
        if size(&best) == before {
            return best;
        }
    }
}

fn size(plan: &Plan) -> usize {
    plan.steps.len() + plan.weather.len() + plan.triggers.len()
}

/// The plan without `count` of its parts from number `from`, counted over weather, triggers and steps.
fn without(plan: &Plan, from: usize, count: usize) -> Plan {
    let mut number = 0;
    let mut keep = || {
        number += 1;
        !(from..from + count).contains(&(number - 1))
    };
    let mut smaller = plan.clone();
    smaller.weather.retain(|_| keep());
    smaller.triggers.retain(|_| keep());
    smaller.steps.retain(|_| keep());
    smaller
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let plan = generate::plan(3);
        let needed = plan.steps.last().cloned();
        let small = shrink(&plan, |plan| plan.steps.last() == needed.as_ref());
        assert_eq!((small.steps.len(), small.weather.len(), small.replicas), (1, 0, 1));
    }
}

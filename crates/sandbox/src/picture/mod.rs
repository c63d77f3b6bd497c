//! The picture in README: a failover, drawn from a run of the operator in the simulated world.
//!
//! `failover.yaml` is the plan of the run, `tale` extracts what happened, `draw` makes an SVG of it, and `words` fits
//! texts into it. The picture shows only what happened. `docs/failover.svg` is a copy, which a test compares.

mod canvas;
mod draw;
mod tale;
mod words;

use flipop_simulation::Plan;
use std::fmt::Write as _;
use tale::Tale;

/// The plan of the run.
const PLAN: &str = include_str!("failover.yaml");

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The plan cannot be read.
    #[error(transparent)]
    Plan(#[from] flipop_simulation::plan::PlanError),
    /// The plan cannot be played.
    #[error("failed to play the plan")]
    Play(#[from] std::io::Error),
    /// The operator broke an invariant.
    #[error("failed to show a run that breaks an invariant:{0}")]
    Wrong(String),
    /// The run contains no failover.
    #[error("failed to find a failover in the run: {0}")]
    Untold(&'static str),
}

/// The picture, as SVG.
///
/// # Errors
/// If the run is not fit for README.
pub fn failover() -> Result<String, PictureError> {
    Ok(draw::draw(&tale(&Plan::from_yaml(PLAN)?)?))
}

/// What happens in a run.
fn tale(plan: &Plan) -> Result<Tale, PictureError> {
    let (outcome, news) = flipop_simulation::watch(plan)?;
    let mut wrong = String::new();
    for violation in &outcome.violations {
        // Writing to a string cannot fail.
        let _infallible = write!(wrong, "\n{violation}");
    }
    if !wrong.is_empty() {
        return Err(PictureError::Wrong(wrong));
    }
    Tale::read(&news).map_err(PictureError::Untold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_since_the_failure_is_told_in_the_operators_words() {
        let tale = tale(&Plan::from_yaml(PLAN).unwrap()).unwrap();
        let drawn = failover().unwrap();
        let reasons: Vec<&str> = tale.said.iter().map(|said| said.reason.as_str()).collect();
        assert_eq!(reasons, ["MatchLost", "RecordsChanged", "Assigned", "RecordsChanged"]);
        for said in &tale.said {
            assert!(drawn.contains(&words::escaped(&said.text)), "{said:?}");
        }
    }

    #[test]
    fn a_run_in_which_no_node_fails_makes_no_picture() {
        let mut plan = Plan::from_yaml(PLAN).unwrap();
        plan.steps.pop();
        assert_eq!(
            tale(&plan).unwrap_err().to_string(),
            "failed to find a failover in the run: no node failed"
        );
    }
}

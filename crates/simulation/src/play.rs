//! A run from beginning to end: the plan, the time in which everything has to become right, and the result.

use super::bed::Bed;
use super::judge::allowed_delay::Patience;
use super::judge::dns;
use super::judge::settled::{self, LOOK_MS, Next, Settling, Sight};
use super::network::Busy;
use super::plan::Plan;
use super::scene::{TOKENS, epoch};
use super::story::Story;
use super::{Outcome, logs, panics};
use crate::news::{Feed, News};
use std::sync::{Arc, Mutex};

/// Runs a plan on the paused clock of the calling runtime, and gathers the changes if requested.
pub(super) async fn run(
    plan: Plan,
    wanted: bool,
    gathered: Option<&mut Vec<News>>,
    after_step: &mut dyn FnMut(),
) -> Outcome {
    let story = Story::new(wanted);
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let listener = logs::Listener {
        seed: plan.seed,
        story: story.clone(),
        started: tokio::time::Instant::now(),
        secrets: TOKENS,
        wrong: Arc::clone(&wrong),
    };
    let _listening = tracing::subscriber::set_default(listener);
    panics::listen();
    let mut bed = Bed::new(plan, story.clone());
    let feed = gathered.is_some().then(|| Feed::new(&bed.api, &bed.cloud, epoch()));
    let busy = play(&mut bed, after_step).await;
    if let Some((mut feed, gathered)) = feed.zip(gathered) {
        feed.complete(gathered);
    }
    bed.network.judge(|judge| {
        let mut wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        judge.violations.append(&mut wrong);
    });
    for panic in panics::seen() {
        bed.network.judge_now(|judge, now_ms| judge.blame(now_ms, "I11", panic));
    }
    let (violations, tally) = bed.network.judge(|judge| (judge.violations.clone(), judge.tally.clone()));
    let ips = settled::views(&bed.cloud);
    let end = bed.network.judge(|judge| settled::summary(judge, &ips));
    let Busy { sorts, frames: busy_frames, clockwork: busy_clockwork, moments } = busy;
    Outcome {
        violations,
        tally,
        busy_calls: u64::try_from(sorts.len()).unwrap_or(u64::MAX),
        busy_frames,
        busy_clockwork,
        sorts,
        moments: moments.into_iter().collect(),
        ended_ms: bed.network.now_ms(),
        end,
        fingerprint: story.fingerprint(),
        story: story.text(),
    }
}

/// Plays the plan, then the time in which everything has to become right. Returns what happened during the plan.
async fn play(bed: &mut Bed, after_step: &mut dyn FnMut()) -> Busy {
    let plan = bed.network.plan().clone();
    for step in plan.steps.iter().filter(|step| step.at_ms <= plan.end_ms) {
        bed.wait_until(step.at_ms).await;
        if !bed.violations().is_empty() {
            return Busy::default();
        }
        bed.act(&step.act);
        after_step();
    }
    bed.wait_until(plan.end_ms).await;
    let busy = bed.network.busy();
    bed.end_faults();
    await_rest(bed).await;
    busy
}

/// Waits until the world is as desired, and then checks that nothing is written.
async fn await_rest(bed: &mut Bed) {
    let begin_ms = bed.network.now_ms();
    let patience = Patience::of(bed.network.plan());
    let limits = (begin_ms + patience.seen_ms(), begin_ms + patience.right_ms());
    let mut settling = Settling::new(bed.network.plan().rest_ms);
    let mut sight = look(bed);
    let mut wrong = complaints(bed, &sight);
    loop {
        let now_ms = bed.network.now_ms();
        if !bed.violations().is_empty() {
            return;
        }
        let wrote_ms = bed.network.judge(|judge| judge.last_write_ms).max(begin_ms);
        settling.tells_reasons |= bed.network.judge(|judge| judge.tells_reasons());
        let seen = look(bed);
        if seen != sight {
            wrong = complaints(bed, &seen);
            sight = seen;
        }
        match settling.look(now_ms, limits, &wrong, wrote_ms) {
            Next::Look => bed.wait_until(now_ms + LOOK_MS).await,
            Next::Rest => {
                bed.network.judge(|judge| judge.check_events(now_ms));
                return;
            }
            Next::Blame(what) => {
                bed.network.judge(|judge| judge.blame(now_ms, "I3", what));
                return;
            }
        }
    }
}

/// The visible state now.
fn look(bed: &Bed) -> Sight {
    let (ips, records) = (settled::views(&bed.cloud), dns::records(&bed.cloud));
    bed.network.judge(|judge| Sight::of(judge, ips, records))
}

fn complaints(bed: &Bed, sight: &Sight) -> Vec<String> {
    bed.network.judge(|judge| settled::complaints(judge, sight, &bed.foreign))
}

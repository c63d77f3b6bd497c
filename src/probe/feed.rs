//! The way between the decisions and the prober: which checks are wanted goes out, answers come in.

use super::{MAX_ANSWERS, Wanted};
use flipop_core::model::node_check::{CheckKey, CheckTarget, Checked};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Answers and renewals are taken in this often. Hundreds of them a second would wake the loop as often.
pub const BEAT: Duration = Duration::from_millis(200);

/// The end of the decisions.
#[derive(Debug)]
pub struct Feed {
    wanted: watch::Sender<Wanted>,
    answers: mpsc::Receiver<Checked>,
    version: u64,
}

/// Both ends: that of the decisions and, of the prober, what is wanted and where answers go.
#[must_use]
pub fn feed() -> (Feed, watch::Receiver<Wanted>, mpsc::Sender<Checked>) {
    let (wanted, seen) = watch::channel(Wanted::default());
    let (sender, answers) = mpsc::channel(MAX_ANSWERS);
    (Feed { wanted, answers, version: 0 }, seen, sender)
}

impl Feed {
    /// From now on exactly these checks are made.
    pub fn follow(&mut self, (version, wanted): (u64, &BTreeMap<CheckKey, CheckTarget>)) {
        if self.version != version {
            self.version = version;
            // Nobody listens any more only when the process ends.
            let _ended = self.wanted.send(Arc::new(wanted.clone()));
        }
    }

    /// The next answer, if one has arrived.
    pub fn try_next(&mut self) -> Option<Checked> {
        self.answers.try_recv().ok()
    }
}

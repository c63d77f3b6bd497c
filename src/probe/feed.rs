//! The channel between the core and the prober: wanted checks go out, and answers come in.

use super::{MAX_ANSWERS, Wanted};
use flipop_core::model::node_check::{CheckKey, CheckTarget, Checked};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The loop takes in answers and renewals this often. Otherwise hundreds of them a second would wake it each time.
pub const BEAT: Duration = Duration::from_millis(200);

/// The core's end of the channel.
#[derive(Debug)]
pub struct Feed {
    wanted: watch::Sender<Wanted>,
    answers: mpsc::Receiver<Checked>,
    version: u64,
}

/// Both ends. The prober's end consists of the wanted checks and the channel for answers.
pub fn feed() -> (Feed, watch::Receiver<Wanted>, mpsc::Sender<Checked>) {
    let (wanted, seen) = watch::channel(Wanted::default());
    let (sender, answers) = mpsc::channel(MAX_ANSWERS);
    (Feed { wanted, answers, version: 0 }, seen, sender)
}

impl Feed {
    /// Makes exactly these checks from now on.
    pub fn follow(&mut self, (version, wanted): (u64, &BTreeMap<CheckKey, CheckTarget>)) {
        if self.version != version {
            self.version = version;
            // The receiver is gone only when the process ends.
            let _ended = self.wanted.send(Arc::new(wanted.clone()));
        }
    }

    /// The next answer, if one has arrived.
    pub fn try_next(&mut self) -> Option<Checked> {
        self.answers.try_recv().ok()
    }
}

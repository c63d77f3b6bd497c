//! The watches of the small world.

use crate::world::{NO_NODE, World};
use flipop_core::fleet::Input;
use flipop_core::model::{Observed, WatchKey};

impl World {
    /// The first watches of a process, or of a time of leading.
    pub(crate) fn begin_watches(&mut self) {
        self.wanted = self.fleet.watches();
        self.follow();
    }

    /// Starts and ends watches, as the shell does after each plan. Only a new watch begins with a list. True if there
    /// was one.
    pub(crate) fn follow(&mut self) -> bool {
        let mut fresh = false;
        if self.hold_watches {
            return fresh;
        }
        let wanted = &self.wanted;
        self.running.retain(|key| wanted.contains(key));
        for key in wanted.clone() {
            if !self.running.insert(key.clone()) {
                continue;
            }
            fresh = true;
            let input = match &key {
                WatchKey::Nodes { selector } if selector == NO_NODE => {
                    Input::Nodes(key, Observed::Reset(Vec::new()))
                }
                WatchKey::Nodes { .. } => {
                    Input::Nodes(key, Observed::Reset(self.nodes.values().cloned().collect()))
                }
                WatchKey::Pods { .. } => {
                    Input::Pods(key, Observed::Reset(self.pods.values().cloned().collect()))
                }
            };
            self.observe(input);
        }
        fresh
    }
}

//! When a provider is asked about machines that answer no check.
//!
//! Owns the schedule of the reads. Does not decide what their answers prove.
//!
//! Invariants: a machine is asked about a few times for each failure, whatever the answers. Each account is asked no
//! more than twelve times a minute, for those that were asked about least first, and among them for the one that is
//! silent for longest.

use crate::model::{MachineId, Moment};
use std::collections::{BTreeMap, VecDeque};

/// The waits before the later reads about a machine. The first one comes at once. A provider may need some seconds to
/// notice that a machine is off.
const WAITS_MS: [u64; 3] = [2_000, 3_000, 4_000];

/// The most reads a minute, so that the failure of a whole zone leaves the token's budget to the moves.
const MAX_A_MINUTE: usize = 12;

const MINUTE_MS: u64 = 60_000;

/// A machine about which the word of its provider would count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    /// The machine.
    pub machine: MachineId,
    /// When it last answered a check, or when its checks began.
    pub since: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Ask {
    since: Moment,
    /// The number of reads so far.
    asked: usize,
    /// When the next read is due. `None` after the last one.
    due: Option<Moment>,
    /// The read under way.
    under_way: Option<Moment>,
    /// When the last read was asked for, if it found no such machine, and another machine has to be shown.
    missed: Option<Moment>,
}

/// The read of a machine that answers, which shows whether the token still shows machines.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Comparison {
    Wanted(MachineId),
    Asked(MachineId, Moment),
}

/// The questions to one account.
#[derive(Debug, Default)]
pub struct Witness {
    asks: BTreeMap<MachineId, Ask>,
    comparison: Option<Comparison>,
    /// When the reads of the last minute were asked for.
    sent: VecDeque<Moment>,
}

impl Witness {
    /// Forgets all questions, because leadership begins.
    pub fn restart(&mut self) {
        (self.asks, self.comparison) = (BTreeMap::new(), None);
    }

    /// Asks about exactly these machines from now on.
    pub fn follow(&mut self, silent: impl Iterator<Item = Silent>, now: Moment) {
        let mut before = std::mem::take(&mut self.asks);
        for Silent { machine, since } in silent {
            let new = Ask { since, asked: 0, due: Some(now), under_way: None, missed: None };
            let ask = before.remove(&machine).unwrap_or(new);
            let ask = self.asks.entry(machine).or_insert(ask);
            ask.since = ask.since.min(since);
        }
    }

    /// When the next read is due.
    pub fn due(&self) -> Option<Moment> {
        let asks = self.asks.values().filter(|ask| ask.under_way.is_none());
        let compared = matches!(self.comparison, Some(Comparison::Wanted(_))).then(Moment::default);
        let due = asks.filter_map(|ask| ask.due).chain(compared).min()?;
        let full = self.sent.len() >= MAX_A_MINUTE;
        let frees = self.sent.front().filter(|_| full).map(|first| first.plus_millis(MINUTE_MS));
        Some(frees.map_or(due, |frees| due.max(frees)))
    }

    /// The machine to read now, if one is due.
    pub fn next(&mut self, now: Moment) -> Option<MachineId> {
        while self.sent.front().is_some_and(|at| at.plus_millis(MINUTE_MS) <= now) {
            self.sent.pop_front();
        }
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        if let Some(Comparison::Wanted(machine)) = &self.comparison {
            return Some(machine.clone());
        }
        let due = |ask: &Ask| ask.under_way.is_none() && ask.due.is_some_and(|due| due <= now);
        let asks = self.asks.iter().filter(|(_, ask)| due(ask));
        asks.min_by_key(|(_, ask)| (ask.asked, ask.since)).map(|(machine, _)| machine.clone())
    }

    /// Notes that this machine is read now.
    pub fn asked(&mut self, machine: &MachineId, now: Moment) {
        self.sent.push_back(now);
        if self.comparison == Some(Comparison::Wanted(machine.clone())) {
            self.comparison = Some(Comparison::Asked(machine.clone(), now));
        } else if let Some(ask) = self.asks.get_mut(machine) {
            ask.due = WAITS_MS.get(ask.asked).map(|wait_ms| now.plus_millis(*wait_ms));
            ask.asked += 1;
            ask.under_way = Some(now);
        }
    }

    /// Notes the answer to the read that was asked for at `asked`. Returns whether it was the comparison.
    pub fn answered(&mut self, machine: &MachineId, asked: Moment) -> bool {
        if let Some(ask) = self.asks.get_mut(machine) {
            ask.under_way.take_if(|under_way| *under_way == asked);
        }
        let ours = Comparison::Asked(machine.clone(), asked);
        self.comparison.take_if(|comparison| *comparison == ours).is_some()
    }

    /// Notes that a read found no such machine, which counts once another machine is shown.
    pub fn missed(&mut self, machine: &MachineId, asked: Moment) {
        if let Some(ask) = self.asks.get_mut(machine) {
            ask.missed = Some(asked);
        }
    }

    /// The machines that were not found, each with the time of its read. Forgets them.
    pub fn take_missed(&mut self) -> Vec<(MachineId, Moment)> {
        let asks = self.asks.iter_mut();
        asks.filter_map(|(machine, ask)| Some((machine.clone(), ask.missed.take()?))).collect()
    }

    /// Wants a machine that answers to be read, unless one is.
    pub fn compare(&mut self, machine: MachineId) {
        self.comparison.get_or_insert(Comparison::Wanted(machine));
    }
}

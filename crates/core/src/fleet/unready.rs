//! Events for objects that stay unready: a Warning once the summary condition has been False or Unknown for a while,
//! and an Event when that ends. Also sends Events at the beginning and the end of a pause.
//!
//! Invariant: the end of a spell is reported only if its beginning was.

use super::Fleet;
use super::action::Action;
use crate::mechanism::{Effects, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::catalog::pool::Ready;
use crate::model::catalog::records::UnderWay;
use crate::model::{Condition, ConditionType, Moment, Owner, Status};
use std::collections::BTreeMap;

/// Most failovers end sooner.
const REPORTED_AFTER_MS: u64 = 5_000;

/// A process that has just started learns the present state, which is not news.
pub const QUIET_AFTER_START_MS: u64 = 60_000;

/// Reasons for work in progress.
const AT_WORK: [&str; 2] = [Ready::Assigning.as_str(), UnderWay::InProgress.as_str()];

/// The summary conditions of an object, each with the reason of its Warning.
const KINDS: [(ConditionType, EventReason); 2] = [
    (ConditionType::Ready, EventReason::NotReady),
    (ConditionType::RecordSetReady, EventReason::RecordSetNotReady),
];

/// The message at the end of a pause.
const RESUMED: &str = "the annotation flipop.digitalocean.com/paused was removed; FLIPOP reads the current state before it acts";

/// The Event to send.
enum News {
    None,
    Later(Moment),
    Unready(String),
    Recovered(String),
}

#[derive(Debug)]
struct Spell {
    reason: String,
    since: Moment,
    /// This reason was reported.
    reported: bool,
    /// A Warning was sent in this spell.
    warned: bool,
}

/// The unready spells of one object, by summary condition.
#[derive(Debug, Default)]
pub(crate) struct Unready {
    spells: BTreeMap<ConditionType, Spell>,
    /// The reasons that another process has reported. Nobody knows since when they hold.
    inherited: BTreeMap<ConditionType, String>,
    /// The object was paused at the last look.
    paused: bool,
    /// Whether this process has looked yet. Another process has reported the earlier content of the status.
    noted: bool,
}

impl Fleet {
    /// Until when a process that has just started sends no such Events.
    pub(super) fn quiet_until(&self) -> Moment {
        self.born.unwrap_or_default().plus_millis(QUIET_AFTER_START_MS)
    }
}

impl Unready {
    /// Since when each summary condition has had its reason, where this process saw it begin.
    pub(super) fn since(&self) -> Vec<(ConditionType, Moment)> {
        let seen = self.spells.iter().filter(|(kind, spell)| self.inherited.get(kind) != Some(&spell.reason));
        seen.map(|(kind, spell)| (*kind, spell.since)).collect()
    }

    /// Reports spells that began or ended since the status `before`, and notes when to look again.
    pub(super) fn tell(
        &mut self,
        owner: &Owner,
        (before, conditions): (&[Condition], &[Condition]),
        when: (Moment, Moment),
        out: &mut Effects<Action>,
    ) {
        out.tell(self.note_pause(owner, (before, conditions)));
        let before = if self.noted { &[] } else { before };
        for (kind, _) in KINDS {
            let unready = before.iter().find(|former| former.is(kind) && !former.has(Status::True));
            self.inherited.extend(unready.map(|former| (kind, former.reason.clone())));
        }
        self.noted = true;
        for (kind, warning) in KINDS {
            match self.note(kind, (before, conditions), when) {
                News::None => {}
                News::Later(at) => out.later(Some(at)),
                News::Unready(message) => {
                    out.tell([Notice::on(owner, true, warning, kind.as_str(), message)]);
                }
                News::Recovered(message) => {
                    out.tell([Notice::on(owner, false, EventReason::Recovered, kind.as_str(), message)]);
                }
            }
        }
    }

    /// Checks whether a pause began or ended.
    fn note_pause(
        &mut self,
        owner: &Owner,
        (before, conditions): (&[Condition], &[Condition]),
    ) -> Option<Notice> {
        let paused = |conditions: &[Condition]| {
            let pause = conditions.iter().find(|condition| condition.is(ConditionType::Paused));
            pause.map(|condition| condition.message.clone())
        };
        let was = if self.noted { self.paused } else { paused(before).is_some() };
        let now = paused(conditions);
        self.paused = now.is_some();
        let (reason, message) = match now {
            Some(message) if !was => (EventReason::Paused, message),
            None if was => (EventReason::Resumed, RESUMED.to_owned()),
            Some(_) | None => return None,
        };
        Some(Notice::on(owner, false, reason, ConditionType::Paused.as_str(), message))
    }

    /// Checks one condition.
    fn note(
        &mut self,
        kind: ConditionType,
        (before, conditions): (&[Condition], &[Condition]),
        (quiet_until, now): (Moment, Moment),
    ) -> News {
        let condition = conditions.iter().find(|condition| condition.is(kind));
        let unready = condition.filter(|condition| !condition.has(Status::True));
        let Some(condition) = unready else {
            self.inherited.remove(&kind);
            let warned = self.spells.remove(&kind).is_some_and(|spell| spell.warned);
            let over = condition.filter(|_| warned);
            return over.map_or(News::None, |condition| News::Recovered(text_of(condition)));
        };
        let same = |old: &Condition| {
            old.is(kind) && old.status == condition.status && old.reason == condition.reason
        };
        let reported_before = before.iter().any(same);
        let spell = self.spells.entry(kind).or_insert_with(|| Spell {
            reason: condition.reason.clone(),
            since: now,
            reported: reported_before,
            warned: false,
        });
        if spell.reason != condition.reason {
            spell.reason.clone_from(&condition.reason);
            (spell.since, spell.reported) = (now, false);
        }
        if spell.reported || AT_WORK.contains(&condition.reason.as_str()) {
            return News::None;
        }
        let due = spell.since.plus_millis(REPORTED_AFTER_MS).max(quiet_until);
        if due > now {
            return News::Later(due);
        }
        (spell.reported, spell.warned) = (true, true);
        News::Unready(text_of(condition))
    }
}

fn text_of(condition: &Condition) -> String {
    let Condition { kind, status, reason, message } = condition;
    format!("{kind} is {status} ({reason}): {message}")
}

//! Limits how many notes of one object and reason become Events within an hour.
//!
//! This module only counts; it writes nothing. An hour begins with the first note of its kind and ends by itself. If
//! notes were left out, it ends with a note that says how many. Conditions still show what was left out.
//!
//! Invariants: at most [`MOST_PER_HOUR`] notes of one object and reason pass in an hour, including that last note.
//! Memory is bounded. No note is exempt.

use super::{Note, Permitted};
use crate::permit::Permit;
use flipop_core::model::Moment;
use k8s_openapi::api::core::v1::ObjectReference;
use std::collections::BTreeMap;

/// Most notes of one object and reason that become Events within an hour. Nobody reads more.
pub const MOST_PER_HOUR: u32 = 20;

/// A storm of a day then makes a few hundred Events. An API server keeps an Event for about as long.
const HOUR_MS: u64 = 3_600_000;

/// Most hours counted at a time: a few hundred objects with a few reasons each, plus objects that are created and
/// deleted all the time. A note that finds no place is left out.
const MAX_HOURS: usize = 5_000;

/// Pause before retrying the note at the end of an hour, if the permit must be renewed first.
const PERMIT_PAUSE_MS: u64 = 1_000;

/// Notes of the same sort are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sort {
    namespace: String,
    uid: String,
    reason: &'static str,
}

impl Sort {
    fn of(note: &Note) -> Self {
        let ObjectReference { namespace, uid, .. } = &note.regarding;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self { namespace: text(namespace), uid: text(uid), reason: note.reason }
    }
}

/// The notes that were left out.
#[derive(Debug)]
struct LeftOut {
    count: u64,
    /// The last of them, without its text.
    last: Note,
    permit: Permit,
}

#[derive(Debug)]
struct Hour {
    ends_at: Moment,
    passed: u32,
    left_out: Option<LeftOut>,
}

/// All hours being counted.
#[derive(Debug, Default)]
pub(super) struct Hours(BTreeMap<Sort, Hour>);

impl Hours {
    /// Counts a note. Returns whether it becomes an Event.
    pub(super) fn admit(&mut self, Permitted { permit, note }: &Permitted, now: Moment) -> bool {
        let sort = Sort::of(note);
        self.forget(now);
        if self.0.len() >= MAX_HOURS && !self.0.contains_key(&sort) {
            return false;
        }
        let hour = self.0.entry(sort).or_insert_with(|| Hour::begun(now));
        if hour.passed < MOST_PER_HOUR {
            hour.passed += 1;
            return true;
        }
        let count = hour.left_out.as_ref().map_or(0, |left_out| left_out.count).saturating_add(1);
        let last = Note { action: String::new(), text: String::new(), ..note.clone() };
        hour.left_out = Some(LeftOut { count, last, permit: permit.clone() });
        false
    }

    /// When the next hour ends that has something to report.
    pub(super) fn next_end(&self) -> Option<Moment> {
        self.0.values().filter(|hour| hour.left_out.is_some()).map(|hour| hour.ends_at).min()
    }

    /// The report of an hour that has ended. It counts as the first note of the next hour.
    pub(super) fn take_ended(&mut self, now: Moment) -> Option<Permitted> {
        // If the permit is void, nobody may report.
        let over = |left_out: &LeftOut| left_out.permit.ends_at().is_none();
        self.0.retain(|_, hour| hour.ends_at > now || !hour.left_out.as_ref().is_none_or(over));
        let hour = self.0.values_mut().find(|hour| hour.ends_at <= now)?;
        // A late renewal may still come.
        if hour.left_out.as_ref()?.permit.may_start().is_err() {
            hour.ends_at = now.plus_millis(PERMIT_PAUSE_MS);
            return None;
        }
        let LeftOut { count, last, permit } = hour.left_out.take()?;
        *hour = Hour { passed: 1, ..Hour::begun(now) };
        let (events, were) = if count == 1 { ("Event", "was") } else { ("Events", "were") };
        let text = format!(
            "{count} more {events} of this object with the reason {} {were} suppressed within an hour; its \
             conditions have the current state",
            last.reason
        );
        Some(Permitted { permit, note: Note { action: "LeftOut".to_owned(), text, ..last } })
    }

    fn forget(&mut self, now: Moment) {
        self.0.retain(|_, hour| hour.ends_at > now || hour.left_out.is_some());
    }
}

impl Hour {
    fn begun(now: Moment) -> Self {
        Self { ends_at: now.plus_millis(HOUR_MS), passed: 0, left_out: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::permit::PermitSource;
    use kube::runtime::events::EventType;
    use std::time::Duration;

    fn source() -> PermitSource {
        let source = PermitSource::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
        source.extend(at(0));
        source
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_millis(seconds * 1_000)
    }

    fn note(source: &PermitSource, uid: &str, reason: &'static str) -> Permitted {
        let regarding = ObjectReference { uid: Some(uid.to_owned()), ..ObjectReference::default() };
        let (action, text) = (String::new(), String::new());
        let note = Note { regarding, severity: EventType::Warning, reason, action, text };
        Permitted { permit: source.permit(), note }
    }

    #[tokio::test(start_paused = true)]
    async fn each_object_and_each_reason_has_an_hour_of_its_own() {
        let (source, mut hours) = (source(), Hours::default());
        for (uid, reason) in [("a", "Assigned"), ("a", "Unassigned"), ("b", "Assigned")] {
            let passed = (0..30).filter(|_| hours.admit(&note(&source, uid, reason), at(0))).count();
            assert_eq!(passed, 20, "{uid} {reason}");
        }
        assert_eq!(hours.next_end(), Some(at(3_600)));
        assert!(!hours.admit(&note(&source, "a", "Assigned"), at(3_599)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_is_told_of_once_a_late_renewal_has_come() {
        let (source, mut hours) = (source(), Hours::default());
        for _ in 0..21 {
            hours.admit(&note(&source, "a", "Assigned"), at(0));
        }
        tokio::time::advance(Duration::from_secs(8)).await;
        // The hour ends with 2 s of the permit left.
        assert!(hours.take_ended(at(3_600)).is_none());
        assert_eq!(hours.next_end(), Some(at(3_601)));
        source.extend(at(8));
        let summary = hours.take_ended(at(3_601)).unwrap();
        assert!(summary.note.text.starts_with("1 more Event of this object"), "{}", summary.note.text);
        assert_eq!((summary.note.severity, hours.next_end()), (EventType::Warning, None));
        // The report was the first note of the next hour.
        let passed = (0..30).filter(|_| hours.admit(&note(&source, "a", "Assigned"), at(3_601))).count();
        assert_eq!(passed, 19);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_objects_come_and_go_the_hours_that_are_kept_are_bounded() {
        let (source, mut hours) = (source(), Hours::default());
        let passes = |hours: &mut Hours, object: usize, second| {
            hours.admit(&note(&source, &object.to_string(), "Assigned"), at(second))
        };
        assert_eq!((0..MAX_HOURS + 100).filter(|object| passes(&mut hours, *object, 0)).count(), MAX_HOURS);
        assert!(passes(&mut hours, 7, 3_599), "one that is counted already goes on");
        assert!(passes(&mut hours, MAX_HOURS, 3_600));
        assert_eq!(hours.0.len(), 1, "those that are over without a word are forgotten");
    }
}

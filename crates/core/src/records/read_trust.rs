//! How far looks at the records of one name are trusted.
//!
//! A provider's list may lag behind a recent change: by another process, by an earlier leader, or by this process. So a
//! second look 5 s later confirms the first. Until then a record that was seen may be gone, unless this process wrote
//! it. Deleting all other records may then leave the name empty. There may also be records that were not seen. A look
//! that may predate our last write only confirms records already known. A full look follows when that time is over.

use super::diff::only_keeps_others;
use crate::mechanism::LAG_MS;
use crate::model::Moment;
use crate::records::dns::{Change, ChangeSet, Record};
use std::collections::BTreeSet;

/// The time between the first two looks, and between the two looks after a write that may have taken effect.
pub const BETWEEN_LOOKS_MS: u64 = 5_000;

/// How long a failing second look is awaited. After that a write confirms a surviving record instead, since an address
/// that no longer serves should go.
const PATIENCE_MS: u64 = 30_000;

/// How often the records were seen since the last restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Seen {
    #[default]
    Never,
    /// A look that begins at this moment or later confirms the first.
    Once(Moment),
    Twice,
}

/// How much of a look is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    Present,
    /// Only records already known: the look may predate our last write.
    Past,
}

/// The looks at one name.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    seen: Seen,
    /// Records that certainly exist, while others were seen only once.
    certain: BTreeSet<String>,
    /// Records that were known before a write of unknown outcome.
    before: BTreeSet<String>,
    /// Records that our own writes certainly deleted. They never come back.
    gone: BTreeSet<String>,
    /// Records that our own writes may have deleted. A look that still shows them proves nothing.
    deleted: BTreeSet<String>,
    /// Until this moment a look may predate our last write.
    settled_at: Moment,
}

impl Looks {
    /// Starts again, because somebody else may have changed the name.
    pub fn restart(&mut self) {
        self.seen = Seen::Never;
        self.certain.clear();
        self.before.clear();
    }

    /// Whether two looks have confirmed the known records.
    pub fn agree(&self) -> bool {
        self.seen == Seen::Twice
    }

    /// When the next confirming look is due, if one is needed.
    pub fn next(&self) -> Option<Moment> {
        match self.seen {
            Seen::Once(confirms) => Some(confirms),
            Seen::Never | Seen::Twice => None,
        }
    }

    /// If the changes would leave only records that may be gone, returns how long they wait for another look.
    pub fn hold(&self, records: &[Record], changes: &ChangeSet) -> Option<Moment> {
        let confirms = self.next()?;
        only_keeps_others(records, changes, &self.certain).then(|| confirms.plus_millis(PATIENCE_MS))
    }

    /// Takes in a look that began at `begun`. `known` are the records believed so far.
    pub fn look(&mut self, begun: Moment, now: Moment, known: Option<&[Record]>, shown: &[Record]) -> Shown {
        match (self.seen, known) {
            (Seen::Never, _) => self.seen = Seen::Once(now.plus_millis(BETWEEN_LOOKS_MS)),
            (Seen::Once(confirms), _) if begun < confirms => {}
            (Seen::Once(_) | Seen::Twice, Some(known)) if begun < self.settled_at => {
                self.confirm(known.iter().filter(|record| shown.contains(record)));
                self.seen = Seen::Once(self.settled_at);
                return Shown::Past;
            }
            (Seen::Once(_) | Seen::Twice, None) if begun < self.settled_at => {
                self.seen = Seen::Once(self.settled_at);
            }
            (Seen::Once(_) | Seen::Twice, _) => self.trust(begun, shown),
        }
        Shown::Present
    }

    /// Takes in the records that two looks have shown. The last look began at `begun`. If a write came shortly before,
    /// records that it deleted may be among them.
    pub fn trust(&mut self, begun: Moment, shown: &[Record]) {
        let before = std::mem::take(&mut self.before);
        if begun < self.settled_at {
            self.confirm(shown.iter().filter(|record| before.contains(&record.id)));
            self.seen = Seen::Once(self.settled_at);
        } else {
            self.seen = Seen::Twice;
            self.certain.clear();
            self.gone.clear();
            self.deleted.clear();
        }
    }

    /// The records of a look that began at `begun`, without those that are certainly gone.
    pub fn without_gone(&self, begun: Moment, mut shown: Vec<Record>) -> Vec<Record> {
        if self.is_settling(begun) {
            shown.retain(|record| !self.gone.contains(&record.id));
        }
        shown
    }

    /// Notes a change set whose first `done` changes were carried out. The others may have been.
    pub fn doubt(&mut self, known: &[Record], (changes, done): (&[Change], usize), now: Moment) {
        self.before = known.iter().map(|record| record.id.clone()).collect();
        let (done, others) = changes.split_at(done.min(changes.len()));
        self.settle(now);
        self.gone.extend(deletions(done).cloned());
        self.deleted.extend(deletions(others).cloned());
        self.certain.retain(|id| !self.gone.contains(id) && !self.deleted.contains(id));
    }

    /// Notes that these records were seen again.
    fn confirm<'a>(&mut self, records: impl Iterator<Item = &'a Record>) {
        let there = records.map(|record| &record.id).filter(|id| !self.deleted.contains(*id));
        self.certain.extend(there.cloned());
    }

    /// Notes that we have written, so lists may show the earlier records for a while.
    fn settle(&mut self, now: Moment) {
        if !self.is_settling(now) {
            self.gone.clear();
            self.deleted.clear();
        }
        self.settled_at = now.plus_millis(LAG_MS);
    }

    /// Whether lists may still show the records from before our last write.
    pub fn is_settling(&self, now: Moment) -> bool {
        now < self.settled_at
    }

    /// Notes the records that our changes left at the name, including the `written` ones.
    pub fn wrote(&mut self, left: &[Record], written: BTreeSet<String>, changes: &[Change], now: Moment) {
        self.settle(now);
        self.gone.extend(deletions(changes).cloned());
        if self.seen == Seen::Never {
            return;
        }
        let addresses = left.iter().filter(|record| record.address().is_some());
        let addresses: BTreeSet<&String> = addresses.map(|record| &record.id).collect();
        self.certain.extend(written);
        self.certain.retain(|id| addresses.contains(id));
        if let Seen::Once(confirms) = &mut self.seen
            && addresses.len() == self.certain.len()
        {
            // An earlier look would prove nothing.
            *confirms = self.settled_at;
        }
    }
}

/// The records that these changes delete.
fn deletions(changes: &[Change]) -> impl Iterator<Item = &String> {
    changes.iter().filter_map(|change| match change {
        Change::Delete { id } => Some(id),
        Change::Update { .. } | Change::Create { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: fn(u64) -> Moment = Moment::from_millis;

    fn records(ids: &[u8]) -> Vec<Record> {
        let record = |id: &u8| Record {
            id: id.to_string(),
            kind: "A".into(),
            data: format!("192.0.2.{id}"),
            ttl: 60,
            proxied: false,
        };
        ids.iter().map(record).collect()
    }

    fn ids(ids: &[u8]) -> BTreeSet<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    fn deletes(ids: &[u8]) -> Vec<Change> {
        ids.iter().map(|id| Change::Delete { id: id.to_string() }).collect()
    }

    /// Looks at a name after one look that showed these records.
    fn once(seen: &[u8]) -> Looks {
        let mut looks = Looks::default();
        assert_eq!(looks.look(T(0), T(50), None, &records(seen)), Shown::Present);
        looks
    }

    /// Until when a change waits that deletes all records but these.
    fn held(looks: &Looks, all: &[u8], left: &[u8]) -> Option<Moment> {
        let gone: Vec<u8> = all.iter().copied().filter(|id| !left.contains(id)).collect();
        looks.hold(&records(all), &ChangeSet { changes: deletes(&gone), survivor: !left.is_empty() })
    }

    /// Whether a change may delete all records but these.
    fn may_leave(looks: &Looks, all: &[u8], left: &[u8]) -> bool {
        held(looks, all, left).is_none()
    }

    #[test]
    fn what_was_seen_once_is_certain_after_a_second_look_that_was_begun_late_enough() {
        let mut looks = once(&[1, 2]);
        assert_eq!((looks.next(), looks.agree()), (Some(T(5_050)), false));
        assert_eq!(held(&looks, &[1, 2], &[1]), Some(T(35_050)));
        assert!(may_leave(&looks, &[1, 2], &[]));
        assert_eq!(looks.look(T(5_049), T(9_000), None, &records(&[1, 2])), Shown::Present);
        assert_eq!((looks.next(), looks.agree()), (Some(T(5_050)), false));
        assert_eq!(
            looks.look(T(5_050), T(5_100), Some(&records(&[1, 2])), &records(&[1, 2])),
            Shown::Present
        );
        assert_eq!((looks.next(), looks.agree()), (None, true));
        assert!(may_leave(&looks, &[1, 2], &[1]));
        looks.restart();
        assert!(!looks.agree() && looks.next().is_none());
    }

    #[test]
    fn what_was_written_is_certain_until_it_is_deleted() {
        let mut looks = once(&[1, 2]);
        looks.wrote(&records(&[1, 2, 3]), ids(&[3]), &[], T(1_000));
        assert!(may_leave(&looks, &[1, 2, 3], &[1, 3]) && !may_leave(&looks, &[1, 2, 3], &[1, 2]));
        looks.wrote(&records(&[1, 2]), ids(&[]), &deletes(&[3]), T(2_000));
        assert!(!may_leave(&looks, &[1, 2, 3], &[1, 3]));
        assert_eq!(looks.next(), Some(T(5_050)));
    }

    #[test]
    fn a_name_that_was_written_whole_is_looked_at_when_what_others_wrote_must_show() {
        for (seen, left) in [(&[][..], &[1, 2][..]), (&[1], &[1]), (&[1], &[])] {
            let mut looks = once(seen);
            looks.wrote(&records(left), ids(left), &[], T(1_000));
            assert_eq!((looks.next(), looks.agree()), (Some(T(31_000)), false), "{left:?}");
            assert!(may_leave(&looks, left, &left[..left.len().min(1)]));
        }
        let mut unseen = Looks::default();
        unseen.wrote(&records(&[1]), ids(&[1]), &[], T(1_000));
        assert_eq!((unseen.next(), unseen.agree()), (None, false));
    }

    #[test]
    fn a_look_soon_after_a_write_confirms_what_it_shows_and_tells_nothing_else() {
        let mut looks = once(&[1, 2, 3]);
        looks.wrote(&records(&[1, 2, 3, 4]), ids(&[4]), &[], T(1_000));
        assert_eq!(looks.next(), Some(T(5_050)));
        let known = records(&[1, 2, 3, 4]);
        assert_eq!(looks.look(T(5_050), T(5_100), Some(&known), &records(&[1, 2, 9])), Shown::Past);
        assert!(may_leave(&looks, &[1, 2, 3, 4], &[1]) && may_leave(&looks, &[1, 2, 3, 4], &[4]));
        assert!(!may_leave(&looks, &[1, 2, 3, 4], &[3]));
        assert_eq!((looks.next(), looks.agree()), (Some(T(31_000)), false));
        assert_eq!(looks.look(T(31_000), T(31_050), Some(&known), &records(&[1, 2, 4, 9])), Shown::Present);
        assert!(looks.agree());
    }

    #[test]
    fn what_we_certainly_deleted_is_shown_in_vain_until_lists_have_caught_up() {
        let mut looks = once(&[1, 2, 3, 4]);
        looks.wrote(&records(&[1, 2, 3]), ids(&[]), &deletes(&[4]), T(1_000));
        looks.doubt(&records(&[1, 2, 3]), (&deletes(&[2, 3]), 1), T(2_000));
        looks.restart();
        let shown = looks.without_gone(T(31_999), records(&[1, 2, 3, 4]));
        assert_eq!(shown, records(&[1, 3]), "3 may be there");
        looks.look(T(2_500), T(2_550), None, &shown);
        assert_eq!(looks.look(T(7_550), T(7_600), Some(&shown), &shown), Shown::Past);
        assert!(may_leave(&looks, &[1, 3], &[1]) && !may_leave(&looks, &[1, 3], &[3]));
        let there = records(&[1, 2, 3, 4]);
        assert_eq!(
            looks.without_gone(T(32_000), there.clone()),
            there,
            "what is there after all is somebody's"
        );
        looks.look(T(32_000), T(32_050), Some(&shown), &shown);
        assert_eq!(looks.without_gone(T(1_000), records(&[4])), records(&[4]), "all was forgotten");
    }

    #[test]
    fn what_was_deleted_long_ago_and_is_there_again_is_as_certain_as_any_other() {
        let mut looks = once(&[1, 2]);
        looks.doubt(&records(&[1, 2]), (&deletes(&[1, 2]), 1), T(1_000));
        looks.wrote(&records(&[1, 2, 3]), ids(&[3]), &[], T(31_000));
        let known = looks.without_gone(T(31_500), records(&[1, 2, 3]));
        assert_eq!(looks.look(T(31_500), T(31_550), Some(&known), &known), Shown::Past);
        assert!(may_leave(&looks, &[1, 2, 3], &[2]) && may_leave(&looks, &[1, 2, 3], &[1]));
    }

    #[test]
    fn what_a_write_of_unknown_outcome_may_have_deleted_is_in_doubt_until_lists_show_it() {
        for seen in [1, 2] {
            let mut looks = once(&[1, 2, 3]);
            if seen == 2 {
                looks.trust(T(5_050), &records(&[1, 2, 3]));
            }
            looks.doubt(&records(&[1, 2, 3]), (&deletes(&[2, 3]), 0), T(6_000));
            assert!(looks.is_settling(T(35_999)) && !looks.is_settling(T(36_000)));
            // The provider still lists the records that this write and an earlier one deleted.
            looks.trust(T(11_000), &records(&[1, 2, 3, 4]));
            assert_eq!((looks.next(), looks.agree()), (Some(T(36_000)), false), "seen {seen} times");
            for gone in [2, 3, 4] {
                assert!(!may_leave(&looks, &[1, 2, 3, 4], &[gone]));
            }
            assert!(may_leave(&looks, &[1, 2, 3, 4], &[1]), "no change was to delete it");
            looks.trust(T(36_000), &records(&[1, 2, 3]));
            assert!(looks.agree() && may_leave(&looks, &[1, 2, 3], &[2]));
        }
        let mut looks = once(&[1, 2]);
        looks.doubt(&records(&[1, 2]), (&[], 0), T(6_000));
        looks.restart();
        looks.look(T(7_000), T(7_050), None, &records(&[1, 2]));
        looks.trust(T(12_000), &records(&[1, 2]));
        assert!(!may_leave(&looks, &[1, 2], &[1]), "others may have written meanwhile");
    }

    #[test]
    fn a_look_soon_after_a_write_confirms_no_record_that_it_shows_otherwise() {
        let mut looks = once(&[1, 2]);
        looks.wrote(&records(&[1, 2, 3]), ids(&[3]), &[], T(1_000));
        let edited = Record { data: "198.51.100.9".into(), ..records(&[1]).remove(0) };
        let shown = [vec![edited], records(&[2])].concat();
        assert_eq!(looks.look(T(5_050), T(5_100), Some(&records(&[1, 2, 3])), &shown), Shown::Past);
        assert!(may_leave(&looks, &[1, 2, 3], &[2]) && !may_leave(&looks, &[1, 2, 3], &[1]));
    }

    #[test]
    fn where_nothing_is_known_a_look_soon_after_a_write_is_one_of_two() {
        for times in [1, 2] {
            let mut looks = once(&[1, 2]);
            if times == 2 {
                looks.look(T(5_050), T(5_100), None, &records(&[1, 2]));
            }
            looks.wrote(&records(&[1]), ids(&[]), &deletes(&[2]), T(6_000));
            assert_eq!(looks.look(T(6_500), T(6_550), None, &records(&[1, 2])), Shown::Present);
            assert_eq!((looks.next(), looks.agree()), (Some(T(36_000)), false));
            assert!(!may_leave(&looks, &[1, 2], &[2]), "it was just deleted");
            looks.trust(T(35_999), &[]);
            assert!(!may_leave(&looks, &[1, 2], &[2]));
            looks.trust(T(36_000), &[]);
            assert!(may_leave(&looks, &[1, 2], &[2]));
        }
    }
}

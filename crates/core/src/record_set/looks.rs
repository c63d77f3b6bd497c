//! What looks at the records of one name are worth.
//!
//! A provider's list may lag behind what was changed just before: by another process, before this one began to lead, or
//! by this one. So the first look is confirmed by a second one, 5 s later. Until then a record that was seen may be gone,
//! unless this process wrote it: whoever deletes all others may leave the name empty. And there may be records that were
//! not seen. A look that may show the time before our last write confirms what it shows, and tells nothing else; the whole
//! is looked at when that time is over.

use super::diff::only_keeps_others;
use crate::dns::{ChangeSet, Record};
use crate::moment::Moment;
use std::collections::BTreeSet;

/// Between the first two looks, and between the two after a write that may have had an effect.
pub const BETWEEN_LOOKS_MS: u64 = 5_000;

/// A look this soon after our own write may still show the time before it.
pub const SETTLE_MS: u64 = 30_000;

/// A second look that fails for so long is waited for no longer: an address that serves no more is worse than the little
/// that is in doubt.
const PATIENCE_MS: u64 = 30_000;

/// How often the records were seen since the last restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Seen {
    #[default]
    Never,
    /// A look that is begun at this moment or later confirms it.
    Once(Moment),
    Twice,
}

/// How much of what a look shows is to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    Present,
    /// What was known already: it may show the time before our last write.
    Past,
}

/// The looks at one name.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    seen: Seen,
    /// Records that are certainly there, while others were seen only once.
    certain: BTreeSet<String>,
    /// Until then a look may show the time before our last write.
    settled_at: Moment,
}

impl Looks {
    /// Others may have changed the name.
    pub fn restart(&mut self) {
        self.seen = Seen::Never;
        self.certain.clear();
    }

    /// Two looks have shown what is known.
    #[must_use]
    pub fn agree(&self) -> bool {
        self.seen == Seen::Twice
    }

    /// When the next look is due that confirms the last one, if one has to.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        match self.seen {
            Seen::Once(confirms) => Some(confirms),
            Seen::Never | Seen::Twice => None,
        }
    }

    /// The changes would leave nothing but records that may be gone: until when they wait for another look.
    #[must_use]
    pub fn hold(&self, records: &[Record], changes: &ChangeSet) -> Option<Moment> {
        let confirms = self.next()?;
        only_keeps_others(records, changes, &self.certain).then(|| confirms.plus_millis(PATIENCE_MS))
    }

    /// A look that was begun at that moment shows these records. `known` are those that were believed until now.
    pub fn look(&mut self, begun: Moment, now: Moment, known: Option<&[Record]>, shown: &[Record]) -> Shown {
        match (self.seen, known) {
            (Seen::Never, _) => self.seen = Seen::Once(now.plus_millis(BETWEEN_LOOKS_MS)),
            (Seen::Once(confirms), _) if begun < confirms => {}
            (Seen::Once(_) | Seen::Twice, Some(known)) if begun < self.settled_at => {
                let shown: BTreeSet<&String> = shown.iter().map(|record| &record.id).collect();
                let both = known.iter().map(|record| &record.id).filter(|id| shown.contains(*id));
                self.certain.extend(both.cloned());
                self.seen = Seen::Once(self.settled_at);
                return Shown::Past;
            }
            (Seen::Once(_) | Seen::Twice, None) if begun < self.settled_at => {
                self.seen = Seen::Once(self.settled_at);
            }
            (Seen::Once(_) | Seen::Twice, _) => self.trust(begun),
        }
        Shown::Present
    }

    /// Two looks, of which the last one was begun at that moment, have shown what came of a write of unknown outcome; not
    /// what came of another one shortly before.
    pub fn trust(&mut self, begun: Moment) {
        if begun < self.settled_at {
            self.seen = Seen::Once(self.settled_at);
        } else {
            self.seen = Seen::Twice;
            self.certain.clear();
        }
    }

    /// Our own write left these records at the name, among them the `written` ones.
    pub fn wrote(&mut self, left: &[Record], written: BTreeSet<String>, now: Moment) {
        self.settled_at = now.plus_millis(SETTLE_MS);
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
            // An earlier look would tell nothing.
            *confirms = self.settled_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::Change;

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

    /// Looks at a name of which these records were seen once.
    fn once(seen: &[u8]) -> Looks {
        let mut looks = Looks::default();
        assert_eq!(looks.look(T(0), T(50), None, &records(seen)), Shown::Present);
        looks
    }

    /// Until when deletions wait that would leave only these of the records.
    fn held(looks: &Looks, all: &[u8], left: &[u8]) -> Option<Moment> {
        let gone = all.iter().filter(|id| !left.contains(id));
        let changes = gone.map(|id| Change::Delete { id: id.to_string() }).collect();
        looks.hold(&records(all), &ChangeSet { changes, survivor: !left.is_empty() })
    }

    /// Whether only these may be left of the records.
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
        looks.wrote(&records(&[1, 2, 3]), ids(&[3]), T(1_000));
        assert!(may_leave(&looks, &[1, 2, 3], &[1, 3]) && !may_leave(&looks, &[1, 2, 3], &[1, 2]));
        looks.wrote(&records(&[1, 2]), ids(&[]), T(2_000));
        assert!(!may_leave(&looks, &[1, 2, 3], &[1, 3]));
        assert_eq!(looks.next(), Some(T(5_050)));
    }

    #[test]
    fn a_name_that_was_written_whole_is_looked_at_when_what_others_wrote_must_show() {
        for (seen, left) in [(&[][..], &[1, 2][..]), (&[1], &[1]), (&[1], &[])] {
            let mut looks = once(seen);
            looks.wrote(&records(left), ids(left), T(1_000));
            assert_eq!((looks.next(), looks.agree()), (Some(T(31_000)), false), "{left:?}");
            assert!(may_leave(&looks, left, &left[..left.len().min(1)]));
        }
        let mut unseen = Looks::default();
        unseen.wrote(&records(&[1]), ids(&[1]), T(1_000));
        assert_eq!((unseen.next(), unseen.agree()), (None, false));
    }

    #[test]
    fn a_look_soon_after_a_write_confirms_what_it_shows_and_tells_nothing_else() {
        let mut looks = once(&[1, 2, 3]);
        looks.wrote(&records(&[1, 2, 3, 4]), ids(&[4]), T(1_000));
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
    fn where_nothing_is_known_a_look_soon_after_a_write_is_one_of_two() {
        for times in [1, 2] {
            let mut looks = once(&[1, 2]);
            if times == 2 {
                looks.look(T(5_050), T(5_100), None, &records(&[1, 2]));
            }
            looks.wrote(&records(&[1]), ids(&[]), T(6_000));
            assert_eq!(looks.look(T(6_500), T(6_550), None, &records(&[1, 2])), Shown::Present);
            assert_eq!((looks.next(), looks.agree()), (Some(T(36_000)), false));
            assert!(!may_leave(&looks, &[1, 2], &[2]), "it was just deleted");
            looks.trust(T(35_999));
            assert!(!may_leave(&looks, &[1, 2], &[2]));
            looks.trust(T(36_000));
            assert!(may_leave(&looks, &[1, 2], &[2]));
        }
    }
}

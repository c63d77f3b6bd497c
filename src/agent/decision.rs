//! Decides through which address pods leave, purely from the node's annotation and the metadata service.
//!
//! Invariants: the agent starts to use an address only if both name it. A failed read changes nothing, with one
//! exception: without the annotation, the agent stops using an address once the last good read is [`BLIND_MS`] old.

use flipop_core::model::Moment;
use std::net::Ipv4Addr;

/// Without the annotation, an address stays in use for this long after the last good read of the metadata service.
pub const BLIND_MS: u64 = 30_000;

/// The reserved IP in the node's annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Annotation {
    /// The node has not been seen yet.
    Unseen,
    /// There is no annotation, or no node.
    Absent,
    /// This address.
    Names(Ipv4Addr),
}

impl Annotation {
    /// The address that it names.
    pub fn address(self) -> Option<Ipv4Addr> {
        match self {
            Self::Names(ip) => Some(ip),
            Self::Unseen | Self::Absent => None,
        }
    }
}

/// The reserved IP according to the metadata service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// There is none.
    Inactive,
    /// This one.
    Active(Ipv4Addr),
}

/// The facts, and the address in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    standing: Option<Ipv4Addr>,
    /// The annotation as last seen.
    annotation: Annotation,
    /// The last good read of the metadata service.
    metadata: Option<Reserved>,
    /// Whether the last read was good.
    fresh: bool,
    /// The time of the last good read, or of the agent's start.
    good_at: Moment,
}

impl Decision {
    /// Knows only the address in the kernel.
    pub fn new(standing: Option<Ipv4Addr>, now: Moment) -> Self {
        Self { standing, annotation: Annotation::Unseen, metadata: None, fresh: false, good_at: now }
    }

    /// Takes in the address in the kernel.
    pub fn stands(&mut self, standing: Option<Ipv4Addr>) {
        self.standing = standing;
    }

    /// Takes in the annotation. Returns whether it has changed.
    pub fn annotated(&mut self, annotation: Annotation) -> bool {
        std::mem::replace(&mut self.annotation, annotation) != annotation
    }

    /// The annotation as last seen.
    pub fn annotation(&self) -> Annotation {
        self.annotation
    }

    /// Takes in a read of the metadata service. `None`: the read failed. Returns whether it differs from the one
    /// before.
    pub fn read(&mut self, reserved: Option<Reserved>, now: Moment) -> bool {
        let before = self.metadata.filter(|_| self.fresh);
        self.fresh = reserved.is_some();
        if reserved.is_some() {
            self.metadata = reserved;
            self.good_at = now;
        }
        before != reserved
    }

    /// The address through which pods leave from now on, and the latest moment to decide again.
    pub fn decide(&mut self, now: Moment) -> (Option<Ipv4Addr>, Option<Moment>) {
        let mut wake = None;
        if let Some(standing) = self.standing {
            let blind_at = self.good_at.plus_millis(BLIND_MS);
            let without = self.annotation == Annotation::Absent;
            let denied = match self.metadata {
                Some(Reserved::Inactive) => true,
                Some(Reserved::Active(ip)) => ip != standing,
                None => false,
            };
            let replaced = self.annotation.address().is_some_and(|ip| ip != standing);
            if denied || replaced || without && blind_at <= now {
                self.standing = None;
            } else if without {
                wake = Some(blind_at);
            }
        }
        if self.standing.is_none()
            && self.fresh
            && let (Some(annotation), Some(Reserved::Active(ip))) = (self.annotation.address(), self.metadata)
            && annotation == ip
        {
            self.standing = Some(ip);
        }
        (self.standing, wake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
    const B: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 11);

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn started() -> Decision {
        let mut decision = Decision::new(None, at(0));
        decision.annotated(Annotation::Names(A));
        decision.read(Some(Reserved::Active(A)), at(0));
        assert_eq!(decision.decide(at(0)), (Some(A), None));
        decision
    }

    #[test]
    fn it_starts_only_where_both_name_the_same_address() {
        let says = [None, Some(Reserved::Inactive), Some(Reserved::Active(A)), Some(Reserved::Active(B))];
        for annotation in [Annotation::Unseen, Annotation::Absent, Annotation::Names(A), Annotation::Names(B)]
        {
            for metadata in says {
                let mut decision = Decision::new(None, at(0));
                decision.annotated(annotation);
                decision.read(metadata, at(0));
                let both = annotation.address().filter(|ip| metadata == Some(Reserved::Active(*ip)));
                assert_eq!(decision.decide(at(0)).0, both, "{annotation:?} {metadata:?}");
            }
        }
    }

    #[test]
    fn it_does_not_start_on_a_read_that_is_not_the_last() {
        let mut decision = Decision::new(None, at(0));
        decision.read(Some(Reserved::Active(A)), at(0));
        decision.read(None, at(1_000));
        decision.annotated(Annotation::Names(A));
        assert_eq!(decision.decide(at(1_000)).0, None);
        decision.read(Some(Reserved::Active(A)), at(2_000));
        assert_eq!(decision.decide(at(2_000)).0, Some(A));
    }

    #[test]
    fn it_stops_when_either_denies_the_address() {
        let mut decision = started();
        decision.read(Some(Reserved::Inactive), at(1_000));
        assert_eq!(decision.decide(at(1_000)).0, None);
        let mut decision = started();
        decision.read(Some(Reserved::Active(B)), at(1_000));
        assert_eq!(decision.decide(at(1_000)).0, None);
        let mut decision = started();
        decision.annotated(Annotation::Names(B));
        assert_eq!(decision.decide(at(1_000)).0, None);
        decision.read(Some(Reserved::Active(B)), at(2_000));
        assert_eq!(decision.decide(at(2_000)).0, Some(B), "and starts once both agree on another");
    }

    #[test]
    fn failed_reads_keep_what_stands_for_as_long_as_the_annotation_does() {
        let mut decision = started();
        for second in 1..3_600 {
            decision.read(None, at(second * 1_000));
            assert_eq!(decision.decide(at(second * 1_000)), (Some(A), None));
        }
        decision.annotated(Annotation::Absent);
        assert_eq!(decision.decide(at(3_600_000)).0, None, "nothing vouches for it any more");
    }

    #[test]
    fn without_the_annotation_it_stands_on_good_reads_and_thirty_seconds_longer() {
        let mut decision = started();
        decision.annotated(Annotation::Absent);
        for second in 1..100 {
            decision.read(Some(Reserved::Active(A)), at(second * 1_000));
            assert_eq!(decision.decide(at(second * 1_000)).0, Some(A));
        }
        decision.read(None, at(100_000));
        assert_eq!(decision.decide(at(128_999)), (Some(A), Some(at(129_000))));
        assert_eq!(decision.decide(at(129_000)).0, None);
    }

    #[test]
    fn what_stands_at_a_start_counts_as_started() {
        let mut decision = Decision::new(Some(A), at(0));
        decision.read(None, at(0));
        assert_eq!(decision.decide(at(3_600_000)).0, Some(A), "both are away");
        decision.annotated(Annotation::Absent);
        assert_eq!(decision.decide(at(3_600_000)).0, None);
        let mut decision = Decision::new(Some(A), at(0));
        decision.annotated(Annotation::Absent);
        assert_eq!(decision.decide(at(29_999)).0, Some(A), "metadata had no time to answer");
        let mut decision = Decision::new(Some(A), at(0));
        decision.read(Some(Reserved::Active(B)), at(0));
        assert_eq!(decision.decide(at(0)).0, None);
    }

    proptest! {
        /// An address is in use only if the last good read named it and the annotation names no other, in whatever
        /// order the events come.
        #[test]
        fn no_address_stands_that_was_denied(events in proptest::collection::vec((0..9_u8, 0..40_u64), 0..60)) {
            let mut decision = Decision::new(None, at(0));
            let mut now = 0;
            let (mut annotation, mut metadata) = (None, None);
            for (event, seconds) in events {
                now += seconds * 1_000;
                match event {
                    0 => { annotation = Some(A); decision.annotated(Annotation::Names(A)); }
                    1 => { annotation = Some(B); decision.annotated(Annotation::Names(B)); }
                    2 => { annotation = None; decision.annotated(Annotation::Absent); }
                    3 | 4 => { metadata = Some(Reserved::Active(A)); decision.read(metadata, at(now)); }
                    5 => { metadata = Some(Reserved::Active(B)); decision.read(metadata, at(now)); }
                    6 => { metadata = Some(Reserved::Inactive); decision.read(metadata, at(now)); }
                    _ => { decision.read(None, at(now)); }
                }
                if let (Some(ip), _) = decision.decide(at(now)) {
                    prop_assert_eq!(metadata, Some(Reserved::Active(ip)), "the last good read");
                    prop_assert!(annotation.is_none_or(|annotation| annotation == ip));
                }
            }
        }
    }
}

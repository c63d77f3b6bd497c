//! The conditions about DNS records on a `NodeDNSRecordSet` and, with the prefix `RecordSet`, on a pool.

use crate::model::fault::FaultKind;

sections! {
    Ready: "Present once FLIPOP has evaluated the records. `RecordSetReady` does not affect `Ready` of the pool." {
        /// Reasons while the records are as wanted.
        enum Settled {
            Published => True,
                "The name holds exactly the addresses that the message names.",
                "None.";
            Kept => True,
                "There is no address to publish, and the last records stay. The message says why: matching nodes \
                 lack an address, or no node matches, and `whenEmpty` is `Keep` or no node has matched this \
                 version of the spec yet.",
                "None. See also [`AddressMissing`](#addressmissing).";
            Empty => True,
                "There is no address to publish. Any records at the name were written by others.",
                "If you did not expect this, see \
                 [No node matches](../operations/troubleshooting.md#no-node-matches).";
        }
        /// Reasons while a change of the records is due.
        enum UnderWay {
            InProgress => False,
                "A change is due or under way, or waits for the limit or the second read that the message names.",
                "Wait.";
            Paused => False,
                "The records are out of date, and stay so because the object is paused. The message quotes the \
                 annotation.",
                "See [`Paused`](#paused).";
        }
        /// Reasons why FLIPOP cannot write the records until a fault passes or somebody corrects it.
        enum Obstacle {
            InvalidSpec => False,
                "The spec has a mistake. The records stay as they are.",
                "Correct the field that the message names.";
            NameClaimed => False,
                "An older object has the same provider, zone and name. \
                 [`Conflict` or `RecordSetConflict`](#conflict-and-recordsetconflict) is True too.",
                "Choose another `recordName` for one of the two objects.";
            ZoneNotAllowed => False,
                "The operator runs with `--zones`, and the zone is none of them. The records stay as they are, and so \
                 does the claim to their name.",
                "Choose an allowed zone, or add the zone to the flag.";
            CNAME => False,
                "A `CNAME` record is at the name. FLIPOP writes nothing there.",
                "Delete the `CNAME`, or choose another `recordName`. FLIPOP reads the name again within 10 min.";
            NotFound => False,
                "The account does not have the zone, or the token cannot see it.",
                "Create the zone, correct `zone`, or let the token read the zone.";
            Unauthorized => False,
                "The token may not read or change the records.",
                "See [Tokens](../operations/tokens.md). FLIPOP retries once a minute.";
            Transient | NodeInUse | Invalid | Quota | Permanent => False,
                "The records cannot be read or written.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    Conflict: "Present while an older object owns the name, and [keeps \
               it](../concepts/records.md#when-two-objects-want-the-same-name)." {
        /// Reasons of `Conflict` about a name.
        enum Conflict {
            NameClaimed => True,
                "An older object, which the message names, has the same provider, zone and name. This one writes \
                 no records.",
                "Choose another `recordName` for one of the two objects.";
        }
    }

    TTLRaised: "Present while the records have a longer TTL than the spec asks for." {
        /// Reasons of `TTLRaised`.
        enum TTLRaised {
            BelowFloor => True,
                "`ttl` is too low for the zone. The records have the lowest TTL that it accepts.",
                "Raise `ttl`.";
        }
    }

    ExternalDNS: "Present while [external-dns](https://github.com/kubernetes-sigs/external-dns) may change the \
                  same records." {
        /// Reasons of `ExternalDNS`.
        enum ExternalDNS {
            OwnershipRecord => True,
                "external-dns has an ownership `TXT` record at the name or at `a-<name>`, as the message says.",
                "Let only one of the two manage the name. If external-dns no longer does, delete that record; the \
                 condition ends within 10 min.";
        }
    }
}

impl UnderWay {
    /// Whether a reason, as it is written, is one of these.
    pub fn is_reason(reason: &str) -> bool {
        [Self::InProgress, Self::Paused].iter().any(|known| known.as_str() == reason)
    }
}

impl Obstacle {
    /// The obstacle after a failed call about records. `None` if FLIPOP only has to wait.
    pub fn of(kind: FaultKind) -> Option<Self> {
        Some(match kind {
            FaultKind::InProgress | FaultKind::Throttled => return None,
            FaultKind::Transient => Self::Transient,
            FaultKind::NotFound => Self::NotFound,
            FaultKind::NodeInUse => Self::NodeInUse,
            FaultKind::Invalid => Self::Invalid,
            FaultKind::Quota => Self::Quota,
            FaultKind::Unauthorized => Self::Unauthorized,
            FaultKind::Permanent => Self::Permanent,
        })
    }
}

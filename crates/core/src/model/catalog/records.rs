//! The conditions about DNS records on a `NodeDNSRecordSet` and, with the prefix `RecordSet`, on a pool.

use crate::model::fault::FaultKind;

sections! {
    Ready: "`Ready` on a `NodeDNSRecordSet`, and `RecordSetReady` on a pool with `dnsRecordSet`, is present once \
            FLIPOP has evaluated the records. `RecordSetReady` does not affect `Ready` of the pool." {
        /// Reasons while the records are as wanted.
        enum Settled {
            Published => True,
                "The name holds exactly the addresses that the message names.",
                "None.";
            Kept => True,
                "There is no address to publish, and the last records stay. Either matching nodes lack an address, or no \
                 node matches the pool and `whenEmpty` is `Keep`, or it is `Delete` and no node has matched this version \
                 of the spec yet. The message says which.",
                "None. See also [`AddressMissing`](#addressmissing).";
            Empty => True,
                "There is no address to publish, and FLIPOP publishes none. Any records at the name were written by \
                 others.",
                "If you did not expect this, see \
                 [No node matches](../operations/troubleshooting.md#no-node-matches).";
        }
        /// Reasons while a change of the records is due.
        enum UnderWay {
            InProgress => False,
                "A change is due or under way, or waits for the limit that the message names. A name without records may \
                 also be waiting for a second read.",
                "Wait.";
            Paused => False,
                "The records differ from what is wanted, and the object is paused. They stay as they are. The message has \
                 the text of the annotation.",
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
                "Delete the `CNAME`, or choose another `recordName`. FLIPOP reads the name again after 1 minute, after 5 \
                 minutes, and then every 10 minutes.";
            NotFound => False,
                "The account does not have the zone, or the token cannot see it.",
                "Create the zone, correct `zone`, or let the token read the zone.";
            Unauthorized => False,
                "The token may not read or change the records.",
                "See [Tokens and scopes](../operations/tokens.md). FLIPOP retries once a minute, rotating through the \
                 zones that refuse the token.";
            Transient | NodeInUse | Invalid | Quota | Permanent => False,
                "The records cannot be read or written.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    Conflict: "The condition is present, with status True, while an older object owns the name. The older object keeps \
               the name: see [DNS records](../concepts/records.md)." {
        /// Reasons of `Conflict` about a name.
        enum Conflict {
            NameClaimed => True,
                "An older object has the same provider, zone and name. This object writes no records. The message names \
                 the other one.",
                "Choose another `recordName` for one of the two objects.";
        }
    }

    TTLRaised: "The condition is present, with status True, while the records have a longer TTL than the spec asks for." {
        /// Reasons of `TTLRaised`.
        enum TTLRaised {
            BelowFloor => True,
                "The zone does not accept a TTL as low as `ttl`. The records have the lowest TTL that it accepts.",
                "Raise `ttl`.";
        }
    }

    ExternalDNS: "The condition is present, with status True, while \
                  [external-dns](https://github.com/kubernetes-sigs/external-dns) may change the same records." {
        /// Reasons of `ExternalDNS`.
        enum ExternalDNS {
            OwnershipRecord => True,
                "external-dns has marked the name as its own with a `TXT` record, at the name or at `a-<name>`. The \
                 message says where.",
                "Let only one of the two manage the name. If external-dns no longer manages it, delete that `TXT` \
                 record; the warning ends within 10 minutes.";
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

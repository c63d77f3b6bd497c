//! The reasons of Events.

use super::records::Obstacle;
use crate::model::ids::ObjectKind;

const POOL: &[ObjectKind] = &[ObjectKind::Pool];
const BOTH: &[ObjectKind] = &[ObjectKind::Pool, ObjectKind::RecordSet];

/// The type of the Events with one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
    /// Either, as the text of the entry says.
    Either,
}

/// The documentation of the Events with one reason.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The reason.
    pub reason: EventReason,
    /// The kinds of objects that have such Events.
    pub objects: &'static [ObjectKind],
    /// Their type.
    pub severity: Severity,
    /// Their meaning.
    pub meaning: &'static str,
}

/// Declares [`EventReason`] and its texts.
macro_rules! events {
    ($($($reason:ident)|+ => $severity:ident on $objects:ident, $meaning:literal;)+) => {
        /// The reason of an Event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EventReason {$($(
            #[doc = $meaning]
            $reason,
        )+)+}

        impl EventReason {
            /// The reason as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {$($(Self::$reason => stringify!($reason),)+)+}
            }
        }

        /// Every reason, in the order of the documentation.
        pub const ALL: &[Entry] = &[$($(Entry {
            reason: EventReason::$reason,
            objects: $objects,
            severity: Severity::$severity,
            meaning: $meaning,
        },)+)+];
    };
}

events! {
    Assigned => Normal on POOL,
        "The provider confirmed that the address is on the node's droplet.";
    Unassigned => Normal on POOL,
        "The provider confirmed that the address is no longer on the node's droplet. FLIPOP does this only to make \
         room for a used address, or to delete this one.";
    AssignmentFailed => Warning on POOL,
        "An assignment or unassignment failed. FLIPOP retries it.";
    MatchLost => Either on BOTH,
        "Nodes that have an address, or whose addresses are published, no longer match. The message counts them, \
         names up to three with the reason, and says what happens next. A Warning means that no other node takes \
         the address.";
    FailoverDelayed => Warning on BOTH,
        "A node that serves has failed for 2 s, and still matches during its grace period: see \
         [`Suspect`](conditions.md#suspect).";
    FailoverAvoided => Normal on BOTH,
        "A node that `FailoverDelayed` named matches again within its grace period. Nothing moved.";
    NodeUnreachable => Warning on BOTH,
        "The machine of a matching node has answered no [check](../concepts/node-checks.md) for some seconds, and \
         its kubelet missed a renewal of its Lease, or its provider reports it as switched off or gone.";
    MovedByOthers => Warning on POOL,
        "Someone else moved, unassigned or deleted the address. The message says where it is now.";
    Paused => Normal on BOTH,
        "The annotation `flipop.digitalocean.com/paused` was set: FLIPOP starts no new operations for the object. \
         The message quotes it.";
    Resumed => Normal on BOTH,
        "The annotation was removed. FLIPOP acts again once it has re-read the account or the records.";
    MoveRefused => Warning on POOL,
        "FLIPOP or the provider refused a [move by hand](../recipes/move-by-hand.md). The message says why. To ask \
         again, set the annotation with another text after `#`.";
    MoveIgnored => Warning on POOL,
        "FLIPOP cannot tell whether a request to move an address is new: it was there when the leader first saw \
         the pool, or the leader answered the same text before. To ask again, set the annotation with another text \
         after `#`.";
    MoveInterrupted => Warning on POOL,
        "A move by hand was not finished: the leader changed, the provider did not carry it out, or the annotation \
         was changed before it began. To ask again, set the annotation with another text after `#`.";
    AddressesIdle => Warning on POOL,
        "The condition [`AddressesIdle`](conditions.md#addressesidle) became True.";
    NotReady => Warning on BOTH,
        "`Ready` has been False or Unknown for 5 s. The text has its reason and message.";
    RecordSetNotReady => Warning on POOL,
        "`RecordSetReady` has been False for 5 s. The text has its reason and message.";
    Recovered => Normal on BOTH,
        "`Ready` or `RecordSetReady` is True again after `NotReady` or `RecordSetNotReady`.";
    Created => Either on POOL,
        "FLIPOP created an address. A Warning means that no node had matched for 60 s: the provider charges for the \
         address while it is on no machine, and the message says how to release it.";
    Adopted => Normal on POOL,
        "An address counts as created by FLIPOP from now on. FLIPOP found it after an interrupted creation, or you \
         put it into `spec.ips`.";
    CreatedWithoutPool => Warning on POOL,
        "An address was created, or may have been, for a pool that was deleted meanwhile. Put it into `spec.ips` \
         of another pool, or delete it in the account.";
    CreationFailed => Warning on POOL,
        "A creation failed: see [`CreationFailed`](conditions.md#creationfailed).";
    CreationUncertain => Warning on POOL,
        "FLIPOP found addresses that may be the pool's: see \
         [`CreationUncertain`](conditions.md#creationuncertain).";
    InvalidSpec => Warning on BOTH,
        "The spec has a mistake. For a pool, [`SpecValid`](conditions.md#specvalid) became False. For DNS records, \
         [`Ready` or `RecordSetReady`](conditions.md#ready-and-recordsetready) has this reason.";
    ProviderNotReady => Warning on POOL,
        "[`ProviderReady`](conditions.md#providerready) became False.";
    Conflict => Warning on POOL,
        "The condition [`Conflict`](conditions.md#conflict) became True.";
    NodesBlocked => Warning on POOL,
        "The condition [`NodesBlocked`](conditions.md#nodesblocked) became True, with a reason other than \
         `AssignmentFailed`, which has an Event of its own.";
    Stalled => Warning on POOL,
        "The condition [`Stalled`](conditions.md#stalled) became True.";
    FirewallNotReady => Warning on POOL,
        "[`FirewallReady`](conditions.md#firewallready) became False.";
    FirewallWouldIsolate => Warning on POOL,
        "FLIPOP took nodes out of a firewall of the pool, because no firewall of yours covers them any more: see \
         [`FirewallWouldIsolate`](conditions.md#firewallwouldisolate). The message names the nodes.";
    FirewallLeft => Warning on POOL,
        "The pool was deleted. FLIPOP no longer manages its firewalls, which the message names: delete those that \
         nobody needs.";
    Reclaimed => Normal on POOL,
        "FLIPOP deleted an address that it had created for the pool (`reclaimPolicy: Delete`), and a read has confirmed it.";
    ReclaimBlocked => Warning on POOL,
        "The condition [`ReclaimBlocked`](conditions.md#reclaimblocked) became True.";
    ReclaimKept => Warning on POOL,
        "FLIPOP does not delete an address that it was asked to delete, because it is in use: see \
         [`ReclaimKept`](conditions.md#reclaimkept).";
    CRDsOutdated => Warning on POOL,
        "The condition [`CRDsOutdated`](conditions.md#crdsoutdated) became True.";
    AnnotationsDenied => Warning on POOL,
        "The condition [`AnnotationsDenied`](conditions.md#annotationsdenied) became True.";
    LabelsDenied => Warning on POOL,
        "The condition [`LabelsDenied`](conditions.md#labelsdenied) became True.";
    WriteDenied => Warning on POOL,
        "The condition [`WriteDenied`](conditions.md#writedenied) became True.";
    WatchFailing => Warning on POOL,
        "The condition [`WatchFailing`](conditions.md#watchfailing) became True.";
    RecordsChanged => Normal on BOTH,
        "The records of the name are now as the message says.";
    RecordsRemoved => Warning on BOTH,
        "FLIPOP deleted the last records of the name because no node matches (`whenEmpty: Delete`), or because their \
         address is about to be deleted. The message names them.";
    RecordsLeft => Warning on BOTH,
        "An edit named another `recordName`, `zone` or `provider`, or removed `dnsRecordSet`, and the records that \
         the message names stay. Delete them unless somebody uses them. After an edit while FLIPOP was not \
         running, the message lacks the zone, and a change of the provider alone is not noticed.";
    NameClaimed | ZoneNotAllowed | CNAME | NotFound | Unauthorized | Transient | NodeInUse | Invalid | Quota | Permanent =>
        Warning on BOTH,
        "The records cannot be written: [`Ready` or `RecordSetReady`](conditions.md#ready-and-recordsetready) has this \
         reason.";
}

impl From<Obstacle> for EventReason {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::InvalidSpec => Self::InvalidSpec,
            Obstacle::NameClaimed => Self::NameClaimed,
            Obstacle::ZoneNotAllowed => Self::ZoneNotAllowed,
            Obstacle::CNAME => Self::CNAME,
            Obstacle::NotFound => Self::NotFound,
            Obstacle::Unauthorized => Self::Unauthorized,
            Obstacle::Transient => Self::Transient,
            Obstacle::NodeInUse => Self::NodeInUse,
            Obstacle::Invalid => Self::Invalid,
            Obstacle::Quota => Self::Quota,
            Obstacle::Permanent => Self::Permanent,
        }
    }
}

/// Whether the operator can write this Event about this kind of object. All names are spelled as in manifests.
pub fn contains(object: &str, kind: &str, reason: &str) -> bool {
    let types: &[&str] = match ALL.iter().find(|entry| is_about(entry, object, reason)) {
        None => &[],
        Some(Entry { severity: Severity::Normal, .. }) => &["Normal"],
        Some(Entry { severity: Severity::Warning, .. }) => &["Warning"],
        Some(Entry { severity: Severity::Either, .. }) => &["Normal", "Warning"],
    };
    types.contains(&kind)
}

fn is_about(entry: &Entry, object: &str, reason: &str) -> bool {
    entry.reason.as_str() == reason && entry.objects.iter().any(|kind| kind.as_str() == object)
}

//! What the decisions ask the shell to do, and what the shell tells back.
//!
//! An action names every detail, so that whoever executes it decides nothing. Each action is answered by exactly
//! one [`Outcome`], except [`Action::Report`], which nobody waits for.

use crate::catalog::events::EventReason;
use crate::dns::{ChangeSet, Record, Zone};
use crate::facts::{ActionStatus, ReservedIp, ReservedIpList};
use crate::fault::Fault;
pub use crate::fault::{CallFailure, WriteFailure};
use crate::ids::{ActionId, DropletId, ObjectKind, ObjectRef, Owner, Uid};
use crate::moment::Moment;
use crate::pool::status::PoolStatus;
use crate::record_set::name::ZoneRef;
use crate::record_set::status::RecordSetStatus;
use std::net::Ipv4Addr;

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read every address of an account.
    List {
        /// The provider.
        provider: String,
    },
    /// Read one address.
    Get {
        /// The provider.
        provider: String,
        /// The pool that names the address.
        pool: Option<ObjectRef>,
        /// The address.
        ip: Ipv4Addr,
    },
    /// Find out whether the token may read droplets.
    ProveDropletRead {
        /// The provider.
        provider: String,
    },
    /// Ask how far an action is.
    Poll {
        /// The provider.
        provider: String,
        /// The pool on whose behalf the action runs.
        pool: Option<ObjectRef>,
        /// The address that it changes.
        ip: Ipv4Addr,
        /// The action.
        action: ActionId,
    },
    /// Put an address on a droplet.
    Assign {
        /// The provider.
        provider: String,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// The address.
        ip: Ipv4Addr,
        /// The droplet.
        droplet: DropletId,
        /// Name of the node on it, for logs.
        node: String,
    },
    /// Take an address off its droplet.
    Unassign {
        /// The provider.
        provider: String,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// The address.
        ip: Ipv4Addr,
        /// The droplet, for logs.
        droplet: DropletId,
    },
    /// Buy an address.
    Create {
        /// The provider.
        provider: String,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// Region slug.
        region: String,
    },
    /// Replace the status of a pool.
    WriteStatus {
        /// The pool.
        pool: ObjectRef,
        /// The version that the write replaces.
        resource_version: String,
        /// `metadata.generation` that the status describes.
        generation: i64,
        /// The whole status.
        status: Box<PoolStatus>,
    },
    /// Add created addresses to `spec.ips`.
    WriteIps {
        /// The pool.
        pool: ObjectRef,
        /// What to add where it is missing, in order.
        add: Vec<Ipv4Addr>,
    },
    /// Set or remove the annotation of a node.
    Annotate {
        /// Name of the node.
        node: String,
        /// Its uid, which the write must meet.
        uid: Uid,
        /// The value, `None` to remove it.
        value: Option<Ipv4Addr>,
    },
    /// Read the annotation of every node.
    SweepAnnotations,
    /// Find out how many nodes the cluster has.
    CountNodes,
    /// Find out which zone is meant.
    FindZone {
        /// The provider of DNS.
        provider: String,
        /// The object on whose behalf.
        owner: Owner,
        /// The zone as the spec refers to it.
        zone: ZoneRef,
    },
    /// Read every record of a name.
    ReadRecords {
        /// The provider of DNS.
        provider: String,
        /// The object on whose behalf.
        owner: Owner,
        /// The zone.
        zone: Zone,
        /// The name.
        fqdn: String,
        /// The name whose mark of external-dns is looked for there; `None` where the records themselves are.
        mark_of: Option<String>,
    },
    /// Change the address records of a name.
    ApplyRecords {
        /// The provider of DNS.
        provider: String,
        /// The object on whose behalf.
        owner: Owner,
        /// The zone.
        zone: Zone,
        /// The name.
        fqdn: String,
        /// What to do, in this order.
        set: ChangeSet,
    },
    /// Replace the status of a record set.
    WriteRecordSetStatus {
        /// The record set.
        record_set: ObjectRef,
        /// The version that the write replaces.
        resource_version: String,
        /// `metadata.generation` that the status describes.
        generation: i64,
        /// The whole status.
        status: Box<RecordSetStatus>,
    },
    /// Tell the user of a change, as an Event on the object.
    Report(Notice),
}

/// An Event on one of our objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// The object.
    pub object: ObjectRef,
    /// True for `Warning`, false for `Normal`.
    pub warning: bool,
    /// Its reason.
    pub reason: EventReason,
    /// What it is about, such as an address: with the reason it tells one happening from another.
    pub subject: String,
    /// What happened.
    pub message: String,
}

/// What a write of a status left on the server.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenStatus<S = PoolStatus> {
    /// The object's new version.
    pub resource_version: String,
    /// The status as the server kept it.
    pub status: S,
}

/// A change set that was carried out in part, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// So many changes, from the front of the list, certainly had their effect.
    pub done: usize,
    /// The records that updates and creates among them left, where they are known.
    pub records: Vec<Record>,
    /// Why the next one failed.
    pub cause: CallFailure,
}

/// An annotated node, as the sweep finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotatedNode {
    /// Name of the node.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// The annotation, verbatim.
    pub value: String,
    /// It was last written by field manager `flipop`.
    pub ours: bool,
}

/// The answer to an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// To [`Action::List`].
    Listed {
        /// The provider.
        provider: String,
        /// When the first request was sent.
        begun: Moment,
        /// The list.
        result: Result<ReservedIpList, Fault>,
    },
    /// To [`Action::Get`].
    Got {
        /// The provider.
        provider: String,
        /// The address.
        ip: Ipv4Addr,
        /// When the request was sent.
        begun: Moment,
        /// What was read.
        result: Result<ReservedIp, Fault>,
    },
    /// To [`Action::ProveDropletRead`].
    Proved {
        /// The provider.
        provider: String,
        /// Whether the scope is there.
        result: Result<bool, Fault>,
    },
    /// To [`Action::Poll`].
    Polled {
        /// When the call began.
        begun: Moment,
        /// The provider.
        provider: String,
        /// The address.
        ip: Ipv4Addr,
        /// Status of the action.
        result: Result<ActionStatus, Fault>,
    },
    /// To [`Action::Assign`] and [`Action::Unassign`].
    Changed {
        /// The provider.
        provider: String,
        /// The address.
        ip: Ipv4Addr,
        /// The action that the provider started.
        result: Result<(ActionId, ActionStatus), CallFailure>,
    },
    /// To [`Action::Create`].
    Created {
        /// The provider.
        provider: String,
        /// The pool.
        pool: ObjectRef,
        /// The new address.
        result: Result<Ipv4Addr, CallFailure>,
    },
    /// To [`Action::WriteStatus`].
    StatusWritten {
        /// The pool.
        pool: Uid,
        /// What the server kept.
        result: Result<Box<WrittenStatus>, WriteFailure>,
    },
    /// To [`Action::WriteIps`].
    IpsWritten {
        /// The pool.
        pool: Uid,
        /// What was to be added.
        add: Vec<Ipv4Addr>,
        /// Whether it stands there now.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::Annotate`].
    Annotated {
        /// The node.
        node: String,
        /// Its uid.
        uid: Uid,
        /// What was to be written.
        value: Option<Ipv4Addr>,
        /// Whether it stands there now.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::SweepAnnotations`].
    Swept(Result<Vec<AnnotatedNode>, WriteFailure>),
    /// To [`Action::CountNodes`].
    NodesCounted(Result<u64, WriteFailure>),
    /// To [`Action::FindZone`].
    ZoneFound {
        /// The provider of DNS.
        provider: String,
        /// The zone as the spec refers to it.
        zone: ZoneRef,
        /// The zone.
        result: Result<Zone, Fault>,
    },
    /// To [`Action::ReadRecords`].
    RecordsRead {
        /// The provider of DNS.
        provider: String,
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The name whose mark was looked for there, as in the action.
        mark_of: Option<String>,
        /// Every record of the name.
        result: Result<Vec<Record>, Fault>,
    },
    /// To [`Action::ApplyRecords`].
    RecordsApplied {
        /// The provider of DNS.
        provider: String,
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The records that updates and creates left, in the order of the changes.
        result: Result<Vec<Record>, Unfinished>,
    },
    /// To [`Action::WriteRecordSetStatus`].
    RecordSetStatusWritten {
        /// The record set.
        record_set: Uid,
        /// What the server kept.
        result: Result<Box<WrittenStatus<RecordSetStatus>>, WriteFailure>,
    },
}

//! The value of `/debug`: the latest facts of this process, for people, for the web page and for the commands.
//!
//! Owns its form. Waits for nothing, and decides nothing.
//!
//! Invariant: every field has a default, so a command reads the answer of an older or a newer leader.

use crate::clock::Clock;
use crate::version::VERSION;
use flipop_core::addresses::pool::manual_move::result::LastMove;
use flipop_core::addresses::pool::status::IpState;
use flipop_core::fleet::{
    Change, Details, IpDetails, IpSnapshot, LeftOut, PoolDetails, PoolSnapshot, RecordSetSnapshot, Snapshot,
};
use flipop_core::mechanism::evidence::{CheckedNode, Standing};
use flipop_core::model::{Address, Condition, ConditionType, Moment, ObjectKind, catalog};
use serde::{Deserialize, Serialize};

/// Declares the parts of the value.
macro_rules! views {
    ($($(#[$meta:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(crate) struct $name {
            $($(#[$of_field])* pub(crate) $field: $type,)*
        }
    )*};
}

views! {
    /// Everything that the process tells.
    View {
        version: String,
        /// The identity of the leader, as far as known.
        leader: String,
        /// Whether this process leads.
        leading: bool,
        /// No admission policy limits the operator's changes of nodes.
        #[serde(rename = "changesOfNodesUnlimited")]
        unlimited: bool,
        now_seconds: i64,
        /// The age of the details: the queue, the nodes that do not match, and the place and next event of each
        /// address.
        details_age_ms: Option<u64>,
        pools: Vec<PoolView>,
        record_sets: Vec<SetView>,
        accounts: Vec<AccountView>,
        checks: Vec<CheckView>,
        /// The last changes of addresses, the oldest first.
        changes: Vec<ChangeView>,
    }

    /// A pool.
    PoolView {
        namespace: String,
        name: String,
        provider: String,
        conditions: Vec<ConditionView>,
        ips: Vec<IpView>,
        /// The first nodes without an address, in the order in which they get one.
        #[serde(rename = "nodesWithoutIP")]
        line: Vec<WaitView>,
        /// The number of nodes without an address.
        waiting: usize,
        /// The move by hand that is not finished.
        pending_move: Option<MoveView>,
        suspects: Vec<SuspectView>,
        records: Option<RecordsView>,
        left_out: Vec<LeftOutView>,
    }

    /// An address of a pool.
    IpView {
        ip: String,
        state: String,
        /// The node on the machine where it was last seen.
        node: String,
        /// That machine.
        #[serde(rename = "providerID")]
        provider_id: String,
        /// The node to which it is being moved.
        target: String,
        /// The next event, and its time.
        next: String,
        /// Why that node no longer matches, and since when.
        why: Option<String>,
        since_seconds: Option<i64>,
        error: String,
        assignments: u64,
        errors: u64,
    }

    /// A node without an address.
    WaitView {
        node: String,
        waits_for: String,
        /// When its assignment is tried again.
        retry_seconds: Option<i64>,
    }

    /// A move by hand that is not finished.
    MoveView { ip: String, from: String, to: String, since_seconds: i64, waits_for: String, }

    /// A node whose grace is running.
    SuspectView { node: String, reason: String, since_seconds: i64, ends_seconds: i64, }

    /// The records of a pool.
    RecordsView { name: String, addresses: Vec<String>, }

    /// A record set.
    SetView {
        namespace: String,
        name: String,
        provider: String,
        dns: String,
        records: usize,
        addresses: Vec<String>,
        state: String,
        error: String,
        conditions: Vec<ConditionView>,
        left_out: Vec<LeftOutView>,
    }

    /// A condition of an object.
    ConditionView {
        #[serde(rename = "type")]
        kind: String,
        status: String,
        reason: String,
        message: String,
        /// Since when it has this reason, as far as known.
        since_seconds: Option<i64>,
        remedy: String,
    }

    /// Nodes that do not match, for one reason.
    LeftOutView { reason: String, count: usize, nodes: Vec<String>, }

    /// A token.
    AccountView {
        provider: String,
        requests_left: Option<u64>,
        /// Since when all calls to it fail.
        out_since_seconds: Option<i64>,
    }

    /// A checked node.
    CheckView {
        node: String,
        address: String,
        /// `unknown`, `alive`, `failing` or `dead`.
        standing: String,
        last_passed_ms: Option<u64>,
        failures: u64,
        lease_age_ms: Option<u64>,
        /// Its failures do not count, because its Lease is renewed.
        doubted: bool,
    }

    /// A change of an address.
    ChangeView {
        time: String,
        namespace: String,
        name: String,
        ip: String,
        from: String,
        to: String,
        reason: String,
        phases: Option<PhasesView>,
    }

    /// The duration of each phase of a change.
    #[expect(clippy::struct_field_names, reason = "the unit belongs into each name")]
    PhasesView {
        noticed_ms: Option<u64>,
        decided_ms: u64,
        confirmed_ms: u64,
        published_ms: Option<u64>,
    }
}

impl View {
    /// The facts, without the leader. `details`: with their age.
    pub(crate) fn new(
        snapshot: &Snapshot,
        (details, details_age_ms): (&Details, Option<u64>),
        (checked, unlimited): (&[CheckedNode], bool),
        clock: &Clock,
    ) -> Self {
        let sets = snapshot.record_sets.iter().map(|set| record_set(set, details, clock));
        let accounts = snapshot.accounts.iter().map(|account| AccountView {
            provider: account.provider.clone(),
            requests_left: account.rate_remaining,
            out_since_seconds: account.out_since_s,
        });
        Self {
            version: VERSION.to_owned(),
            leader: String::new(),
            leading: snapshot.leading,
            unlimited,
            now_seconds: clock.timestamp().as_second(),
            details_age_ms,
            pools: snapshot.pools.iter().map(|of| pool(of, details, clock)).collect(),
            record_sets: sets.collect(),
            accounts: accounts.collect(),
            checks: checked.iter().map(check).collect(),
            changes: snapshot.changes.iter().map(|of| change(of, clock)).collect(),
        }
    }
}

fn check(node: &CheckedNode) -> CheckView {
    let standing = match node.standing {
        Standing::Unknown => "unknown",
        Standing::Alive => "alive",
        Standing::Deprioritized => "failing",
        Standing::Dead => "dead",
    };
    CheckView {
        node: node.name.clone(),
        address: node.at.clone(),
        standing: standing.to_owned(),
        last_passed_ms: node.last_pass_ms,
        failures: node.failures.into(),
        lease_age_ms: node.lease_ms,
        doubted: node.doubted,
    }
}

fn pool(pool: &PoolSnapshot, details: &Details, clock: &Clock) -> PoolView {
    let (none, unseen) = (PoolDetails::default(), IpDetails::default());
    let PoolDetails { left_out, line, waiting, ips } = details.pools.get(&pool.name).unwrap_or(&none);
    let line = line.iter().map(|(node, why, at)| WaitView {
        node: node.clone(),
        waits_for: why.clone(),
        retry_seconds: at.map(|at| seconds(at, clock)),
    });
    let suspects = pool.suspects.iter().map(|suspect| SuspectView {
        node: suspect.node.clone(),
        reason: suspect.reason.clone(),
        since_seconds: suspect.since_s,
        ends_seconds: suspect.ends_s,
    });
    let records = || RecordsView { name: pool.dns.clone(), addresses: texts(&pool.published) };
    PoolView {
        namespace: pool.name.namespace.clone(),
        name: pool.name.name.clone(),
        provider: pool.provider.clone(),
        conditions: conditions((ObjectKind::Pool, &pool.conditions, &pool.unready), clock),
        ips: pool.ips.iter().map(|of| ip(of, ips.get(&of.ip).unwrap_or(&unseen), clock)).collect(),
        line: line.collect(),
        waiting: *waiting,
        pending_move: pool.pending_move.as_ref().map(pending_move),
        suspects: suspects.collect(),
        records: (!pool.dns.is_empty()).then(records),
        left_out: groups(left_out),
    }
}

fn ip(ip: &IpSnapshot, details: &IpDetails, clock: &Clock) -> IpView {
    // The details may be older than the state, which says everything about an address that serves.
    let serves = ip.state == IpState::Active.as_str();
    let (why, since_seconds) = ip.lost.as_ref().map(|(why, at)| (why.clone(), seconds(*at, clock))).unzip();
    let unless_it_serves = |text: &str| if serves { String::new() } else { text.to_owned() };
    IpView {
        ip: ip.ip.to_string(),
        state: ip.state.clone(),
        node: if serves { ip.node.clone() } else { details.node.clone() },
        provider_id: if serves { ip.provider_id.clone() } else { details.provider_id.clone() },
        target: unless_it_serves(&details.target),
        next: unless_it_serves(&details.next),
        why,
        since_seconds,
        error: ip.error.clone(),
        assignments: ip.assignments,
        errors: ip.errors,
    }
}

fn pending_move(last: &LastMove) -> MoveView {
    MoveView {
        ip: last.ip.map(|ip| ip.to_string()).unwrap_or_default(),
        from: last.from.clone(),
        to: last.to.clone(),
        since_seconds: last.time_s,
        waits_for: last.message.clone(),
    }
}

fn record_set(set: &RecordSetSnapshot, details: &Details, clock: &Clock) -> SetView {
    SetView {
        namespace: set.name.namespace.clone(),
        name: set.name.name.clone(),
        provider: set.provider.clone(),
        dns: set.dns.clone(),
        records: set.records,
        addresses: texts(&set.addresses),
        state: set.state.clone(),
        error: set.error.clone(),
        conditions: conditions((ObjectKind::RecordSet, &set.conditions, &set.unready), clock),
        left_out: groups(details.record_sets.get(&set.name).map_or(&[], Vec::as_slice)),
    }
}

fn texts(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// The conditions of an object of this kind, with the remedy of each, and since when it has its reason if known.
fn conditions(
    (object, conditions, unready): (ObjectKind, &[Condition], &[(ConditionType, Moment)]),
    clock: &Clock,
) -> Vec<ConditionView> {
    let view = |condition: &Condition| {
        let since = unready.iter().find(|(kind, _)| condition.is(*kind)).map(|(_, at)| seconds(*at, clock));
        let Condition { kind, status, reason, message } = condition.clone();
        let remedy = catalog::remedy(object, &kind, &reason).unwrap_or_default().to_owned();
        ConditionView { kind, status, reason, message, since_seconds: since, remedy }
    };
    conditions.iter().map(view).collect()
}

/// A moment in seconds since 1970.
fn seconds(at: Moment, clock: &Clock) -> i64 {
    clock.time_of(at).as_second()
}

fn groups(left_out: &[LeftOut]) -> Vec<LeftOutView> {
    let view = |LeftOut { reason, count, nodes }: LeftOut| LeftOutView { reason, count, nodes };
    left_out.iter().cloned().map(view).collect()
}

fn change(change: &Change, clock: &Clock) -> ChangeView {
    let phases = change.phases.map(|phases| PhasesView {
        noticed_ms: change.failover.map(|failover| failover.noticed_ms),
        decided_ms: phases.decided_ms,
        confirmed_ms: phases.confirmed_ms,
        published_ms: phases.published_ms,
    });
    ChangeView {
        time: format!("{:.3}", clock.time_of(change.at)),
        namespace: change.object.namespace.clone(),
        name: change.object.name.clone(),
        ip: change.ip.to_string(),
        from: change.from.clone(),
        to: change.to.clone(),
        reason: change.reason.clone(),
        phases,
    }
}

//! Consistent lists of the objects of both kinds, and the addresses that they name.
//!
//! Watches lag, and show a list of addresses only up to its bound. So an address is looked for in such lists before it
//! is deleted for good or adopted.

use super::action::{Action, Objects as Found};
use crate::addresses::pool::reclaim::Listed;
use crate::addresses::pool::status::PoolObject;
use crate::mechanism::{Call, Effects};
use crate::model::{Address, Context, Moment, ObjectKind, WriteFailure};
use crate::records::status::described;
use std::collections::BTreeSet;

/// The lists of both kinds.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// The lists under way.
    asked: Option<(Moment, BTreeSet<Address>)>,
    last: Option<Listed>,
    call: Call,
    failure: Option<String>,
}

impl Objects {
    /// Forgets earlier lists when leadership begins, because they prove nothing.
    pub(super) fn restart(&mut self) {
        self.last = None;
    }

    /// The content of the last lists.
    pub(super) fn last(&self) -> Option<&Listed> {
        self.last.as_ref()
    }

    /// Why the last lists failed, if they did.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Asks for lists that begin at `since` or later, and in which these addresses are sought.
    pub(super) fn want(
        &mut self,
        since: Moment,
        sought: BTreeSet<Address>,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let answers = |last: &Listed| last.begun >= since && sought.is_subset(&last.sought);
        if self.last.as_ref().is_some_and(answers) {
            return;
        }
        if let Err(at) = self.call.ready(now) {
            return out.later(at);
        }
        self.call.sent();
        self.asked = Some((now, sought.clone()));
        out.act(Action::ListObjects { asked: now, sought });
    }

    /// Takes in the answer to the lists.
    pub(super) fn answered(
        &mut self,
        asked: Moment,
        result: Result<Box<Found>, WriteFailure>,
        at @ Context { now, .. }: Context,
    ) {
        self.call.answered(result.as_ref().err(), at);
        let call = self.asked.take();
        match result {
            Ok(found) => {
                self.failure = None;
                let sought = call.map(|(_, sought)| sought).unwrap_or_default();
                self.last = Some(Listed { begun: asked, done: now, sought, ..named(&found) });
            }
            Err(WriteFailure::NotSent) => {}
            Err(failure) => {
                let why = match failure {
                    WriteFailure::Forbidden(why)
                    | WriteFailure::Invalid(why)
                    | WriteFailure::Transient(why)
                    | WriteFailure::Throttled { message: why, .. } => why,
                    WriteFailure::NotSent | WriteFailure::Conflict | WriteFailure::Gone => String::new(),
                };
                self.failure = Some(format!("the objects cannot be listed: {why}"));
            }
        }
    }
}

/// The addresses that objects name.
fn named(Found { pools, record_sets }: &Found) -> Listed {
    let mut listed = Listed::default();
    for pool in pools {
        let text = described(ObjectKind::Pool, &pool.object.name);
        if pool.spec.is_err() {
            listed.unread.push(text.clone());
        }
        for ip in names_of(pool) {
            listed.naming.entry(ip).or_default().push((pool.object.uid.clone(), text.clone()));
        }
    }
    for set in record_sets.iter().filter(|set| !set.deleting) {
        let text = described(ObjectKind::RecordSet, &set.object.name);
        for ip in &set.status.addresses {
            listed.publishing.entry(*ip).or_insert_with(|| text.clone());
        }
    }
    listed
}

/// The addresses that a pool names, in its spec or as bought for it.
fn names_of(pool: &PoolObject) -> BTreeSet<Address> {
    let memory = pool.status.memory.iter();
    let purchased = memory.clone().flat_map(|memory| &memory.purchased);
    let purchased = purchased.filter(|bought| bought.uid == pool.object.uid).map(|bought| bought.ip);
    let created = memory.flat_map(|memory| &memory.created).map(|created| created.ip);
    let written = pool.spec.iter().flat_map(|spec| &spec.ips).filter_map(|ip| Address::v4(ip));
    // A pool that is being deleted needs only the addresses that it gives back.
    let used = written.chain(created).filter(|_| !pool.deleting);
    used.chain(purchased).collect()
}

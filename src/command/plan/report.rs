//! The report on a rehearsal, as data and as text.

use super::changes::{self, Change, Sign, named_object, with_new_things_named};
use super::rehearsal::Outcome;
use super::world::World;
use crate::command::copy::{self, Judged};
use crate::command::matched::{LeftOut, Matched};
use crate::command::output::{Output, Tone, first_of, shown};
use crate::exit::Exit;
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::model::catalog::{pool, records};
use flipop_core::model::provider::Providers;
use flipop_core::model::{Condition, ConditionType, ObjectKind, ObjectName};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The most nodes that a line names. `-o wide` names all.
const MAX_NAMED: usize = 5;

/// Everything that is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    changes: Vec<Change>,
    invalid: Vec<Invalid>,
    objects: Vec<ObjectReport>,
    /// Events of type Warning that FLIPOP would write.
    warnings: Vec<String>,
    settled: bool,
    /// Seconds of simulated time from the start to the last change.
    last_change_seconds: u64,
    simulated_seconds: u64,
    notes: Vec<String>,
}

/// An object with mistakes in its spec.
#[derive(Debug, Serialize)]
struct Invalid {
    kind: &'static str,
    namespace: String,
    name: String,
    problems: Vec<String>,
}

/// An object at the end of the rehearsal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReport {
    kind: &'static str,
    namespace: String,
    name: String,
    ready: String,
    reason: String,
    message: String,
    /// It changes nothing, because other objects own everything that it asks for. Only of objects in the files.
    #[serde(rename = "claimed")]
    is_claimed: bool,
    matching: Vec<String>,
    left_out: Vec<LeftOut>,
}

/// The report on a rehearsal. `asked`: the objects of the files.
pub(super) fn make(
    world: &World,
    outcome: &Outcome,
    providers: &Providers,
    (asked, mut notes): (&BTreeSet<(ObjectKind, ObjectName)>, Vec<String>),
) -> Report {
    let changes = changes::all(world);
    let (mut invalid, mut objects) = (Vec::new(), Vec::new());
    for object in copy::judged(world.pools.values(), world.sets.values(), providers) {
        let about = named_object(object.kind, object.name);
        let claimed = asked.contains(&(object.kind, object.name.clone()))
            && object.problems.is_empty()
            && !changes.iter().any(|change| change.object == about)
            && object.conditions.iter().any(is_claimed);
        objects.push(self::object(world, &object, claimed));
        invalid.extend(mistakes(object));
    }
    notes.extend(world.pools.values().filter_map(|pool| refused_move(world, pool)));
    objects.sort_by(|a, b| (a.kind, &a.namespace, &a.name).cmp(&(b.kind, &b.namespace, &b.name)));
    Report {
        changes,
        invalid,
        objects,
        warnings: outcome.warnings.iter().map(|text| with_new_things_named(world, text)).collect(),
        settled: outcome.settled,
        last_change_seconds: outcome.last_change_ms.div_ceil(1_000),
        simulated_seconds: outcome.simulated_ms / 1_000,
        notes,
    }
}

fn mistakes(object: Judged<'_>) -> Option<Invalid> {
    let (kind, problems) = (object.kind.as_str(), object.problems);
    let ObjectName { namespace, name } = object.name.clone();
    (!problems.is_empty()).then_some(Invalid { kind, namespace, name, problems })
}

/// Whether a condition says that other objects own everything that its object asks for.
fn is_claimed(condition: &Condition) -> bool {
    let claims = [
        pool::Ready::AddressClaimed.as_str(),
        pool::Ready::NodesClaimed.as_str(),
        records::Obstacle::NameClaimed.as_str(),
    ];
    condition.is(ConditionType::Ready) && claims.contains(&condition.reason.as_str())
}

fn object(world: &World, object: &Judged<'_>, is_claimed: bool) -> ObjectReport {
    let ready = object.conditions.iter().find(|condition| condition.is(ConditionType::Ready)).cloned();
    let ready = ready.unwrap_or_else(|| Condition {
        kind: "Ready".to_owned(),
        status: "Unknown".to_owned(),
        reason: "NotLookedAt".to_owned(),
        message: String::new(),
    });
    let matched =
        object.criteria.as_ref().map(|criteria| Matched::new(&world.lists, world.nodes(), criteria));
    ObjectReport {
        kind: object.kind.as_str(),
        namespace: object.name.namespace.clone(),
        name: object.name.name.clone(),
        ready: ready.status,
        reason: ready.reason,
        message: with_new_things_named(world, &ready.message),
        is_claimed,
        matching: matched.iter().flat_map(|matched| matched.matching.iter().cloned()).collect(),
        left_out: matched.as_ref().map(Matched::left_out).unwrap_or_default(),
    }
}

/// Why the pool's status refuses a request to move, if it does.
fn refused_move(world: &World, pool: &PoolObject) -> Option<String> {
    let last = pool.status.last_move.as_ref()?;
    let before = world.first_pools.get(&pool.object.uid).and_then(|pool| pool.status.last_move.as_ref());
    let fresh = before.map(|before| &before.request) != Some(&last.request);
    let refused = fresh && !last.message.is_empty();
    let (outcome, name) = (last.outcome.as_str(), &pool.object.name);
    refused.then(|| format!("the request {} of {name} would be {outcome}: {}", last.request, last.message))
}

impl Report {
    /// The exit code.
    pub(super) fn exit(&self) -> Exit {
        if !self.invalid.is_empty() {
            Exit::Invalid
        } else if !self.settled {
            Exit::Unsettled
        } else if self.objects.iter().any(|object| object.is_claimed) {
            Exit::Claimed
        } else if self.changes.is_empty() {
            Exit::Success
        } else {
            Exit::Changes
        }
    }

    /// The report as text.
    pub(super) fn text(&self, output: Output) -> String {
        let mut text = String::new();
        for Change { sign, text: what, object, .. } in &self.changes {
            let (sign, tone) = match sign {
                Sign::Add => ("+", Tone::Good),
                Sign::Change => ("~", Tone::Doubtful),
                Sign::Remove => ("-", Tone::Bad),
                Sign::Destroy => ("x", Tone::Bad),
            };
            let object = if object.is_empty() { String::new() } else { format!("   ({object})") };
            let _infallible =
                writeln!(text, "{} {}", output.tinted(tone, sign), shown(&format!("{what}{object}")));
        }
        for Invalid { kind, namespace, name, problems } in &self.invalid {
            for problem in problems {
                let line = format!("{kind} {namespace}/{name} is invalid: {problem}");
                let _infallible = writeln!(text, "{} {}", output.mark(Tone::Bad), shown(&line));
            }
        }
        for ObjectReport { kind, namespace, name, message, .. } in
            self.objects.iter().filter(|of| of.is_claimed)
        {
            let line = format!(
                "{kind} {namespace}/{name} changes nothing, because others own what it asks for: {message}"
            );
            let _infallible = writeln!(text, "{} {}", output.mark(Tone::Bad), shown(&line));
        }
        let _infallible = writeln!(text, "{}", self.summary());
        let most = if output.is_wide() { usize::MAX } else { MAX_NAMED };
        for object in &self.objects {
            text.push('\n');
            text.push_str(&object.text(output, most));
        }
        if !self.notes.is_empty() || !self.warnings.is_empty() {
            text.push('\n');
        }
        for warning in &self.warnings {
            let _infallible =
                writeln!(text, "{} {}", output.tinted(Tone::Doubtful, "Warning:"), shown(warning));
        }
        for note in &self.notes {
            let _infallible = writeln!(text, "{} {}", output.tinted(Tone::Doubtful, "Note:"), shown(note));
        }
        text
    }

    fn summary(&self) -> String {
        let changes = match self.changes.len() {
            0 => "Nothing to do".to_owned(),
            1 => "1 change".to_owned(),
            many => format!("{many} changes"),
        };
        let when = if !self.settled {
            format!("; it did not settle within {} s of simulated time", self.simulated_seconds)
        } else if self.changes.is_empty() {
            String::new()
        } else {
            format!(", the last one after {} s", self.last_change_seconds)
        };
        let invalid = match self.invalid.len() {
            0 => String::new(),
            1 => "; 1 object is invalid".to_owned(),
            many => format!("; {many} objects are invalid"),
        };
        format!("{changes}{when}{invalid}. Nothing was written.")
    }
}

impl ObjectReport {
    fn text(&self, output: Output, most: usize) -> String {
        let Self { kind, namespace, name, ready, reason, message, matching, left_out, .. } = self;
        let tone = Tone::of_ready(ready);
        let mut text = format!(
            "{}   {} then Ready={} {}\n",
            output.bold(&shown(&format!("{kind} {namespace}/{name}"))),
            output.mark(tone),
            output.tinted(tone, &shown(ready)),
            shown(reason),
        );
        if !message.is_empty() {
            let _infallible = writeln!(text, "  {}", shown(message));
        }
        let named = if matching.is_empty() { "no node".to_owned() } else { first_of(matching, most) };
        let _infallible = writeln!(text, "  Match: {}", shown(&named));
        for left_out in left_out {
            let _infallible = writeln!(text, "  Not matching: {}", left_out.text(most));
        }
        text
    }
}

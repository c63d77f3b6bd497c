//! The events of a simulation, as data. A plan can be written by hand, drawn from a seed, shrunk and committed.
//!
//! Invariant: a plan determines a run completely. Latencies and dice come from its seed; the plan states everything
//! else.

pub use super::act::{Act, Side};
pub use super::ailments::{Ail, Ailment, Machines};
use flipop_cloud::Provider;
use serde::{Deserialize, Serialize};

/// The usual rest at the end of a run: the longest pause between two tries of a failed change.
pub const REST_MS: u64 = 600_000;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its subject, for people.
    pub name: String,
    /// Decides latencies, dice and identifiers.
    pub seed: u64,
    /// Replicas of the operator.
    #[serde(default = "one")]
    pub replicas: usize,
    /// The acts of users, machines and the cloud, in the order of time.
    pub steps: Vec<Step>,
    /// Faults that last for a while.
    #[serde(default)]
    pub weather: Vec<Weather>,
    /// Faults at one particular call or event.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// When steps and faults are over. From then on everything has to become right.
    pub end_ms: u64,
    /// How long the right state has to last without a write, after the end.
    #[serde(default = "rest_ms", skip_serializing_if = "is_usual")]
    pub rest_ms: u64,
    /// For how long the operator may act on outdated state. It follows from the faults of the plan.
    #[serde(default)]
    pub staleness_ms: u64,
    /// The largest error of a process's wall clock, in seconds, either way. Each start draws another error, so the time
    /// of day jumps at every restart.
    #[serde(default, skip_serializing_if = "is_right")]
    pub skew_s: u64,
    /// The troubles of machines and of the paths to them.
    #[serde(default, skip_serializing_if = "Machines::is_default")]
    pub machines: Machines,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_right(skew_s: &u64) -> bool {
    *skew_s == 0
}

fn one() -> usize {
    1
}

const fn rest_ms() -> u64 {
    REST_MS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_usual(rest_ms: &u64) -> bool {
    *rest_ms == REST_MS
}

/// An act at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, in milliseconds from the beginning.
    pub at_ms: u64,
    /// The act.
    pub act: Act,
}

/// The calls that a fault is for. An absent field matches everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Calls of this replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<usize>,
    /// Calls to this side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Calls to this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Calls whose description contains this text, for example `assign` or `PUT leases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A fault that lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weather {
    /// Its beginning.
    pub from_ms: u64,
    /// Its end.
    pub to_ms: u64,
    /// The calls that can meet it.
    #[serde(default)]
    pub which: Which,
    /// How many of a hundred such calls meet it.
    pub percent: u64,
    /// The fault.
    pub fault: Fault,
}

/// The longest time from the end of an outage of an account to the calls that waited for it. FLIPOP tests the account
/// every 5 s, and a test that hangs takes 4 s.
pub(crate) const OUTAGE_MS: u64 = 10_000;

impl Weather {
    /// Whether every call to a provider fails with the whole account.
    pub(crate) fn is_outage(&self) -> bool {
        let Which { replica, side, provider, text } = &self.which;
        let all = replica.is_none() && text.is_none() && (provider.is_some() || *side == Some(Side::Cloud));
        let broken = matches!(
            self.fault,
            Fault::ResetBefore
                | Fault::ResetAfter
                | Fault::HangBefore
                | Fault::HangAfter
                | Fault::Refuse { status: 408 | 500.., .. }
                | Fault::RefuseAfter { status: 408 | 500.. }
        );
        all && broken && self.percent == 100
    }
}

/// The faults of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the name of a field, or the sentence about its fault, says what it is")]
pub enum Fault {
    /// It takes longer, up to this much before its effect and as much after it.
    Delay { ms: u64 },
    /// The connection is reset before it takes effect.
    ResetBefore,
    /// The connection is reset after it took effect.
    ResetAfter,
    /// It never arrives, and nothing comes back.
    HangBefore,
    /// It takes effect, and nothing comes back.
    HangAfter,
    /// It is refused with this status and has no effect.
    Refuse {
        status: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u64>,
    },
    /// It takes effect, but is answered with this status.
    RefuseAfter { status: u16 },
    /// It takes effect, but the answer cannot be read.
    Garble,
    /// It takes effect, but the answer is odd.
    Odd(Oddity),
    /// The action that it starts fails.
    ActionFails,
    /// The action that it starts takes this long.
    ActionTakes { ms: u64 },
    /// 422: something is pending on the address.
    Pending,
    /// 422: the account may not have more addresses.
    QuotaReached,
    /// 400 at Cloudflare, without effect: the record already exists. If `identical`, in every field (81058); otherwise
    /// in type and content (81057).
    RecordExists { identical: bool },
}

/// The content of an odd answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    /// A page of HTML with status 200.
    Html,
    /// Nothing.
    Empty,
    /// JSON `null`.
    Null,
    /// The right content and some unknown fields: no fault at all.
    UnknownFields,
    /// More than an answer may hold.
    Oversized,
    /// A list whose total is one more than the items that it shows.
    WrongTotal,
}

/// A fault at one call or event, counted over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// The call or the event.
    pub on: On,
    /// The fault.
    pub then: Then,
}

/// The place of a trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum On {
    /// The n-th call, from 1, except renewals of the lease and Events.
    Call(u64),
    /// The n-th renewal of the lease or Event.
    Clockwork(u64),
    /// The n-th frame, from 1, that shows a change on a watch of nodes, pods or our objects.
    Frame(u64),
}

/// The effect of a trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the name of a field, or the sentence about its fault, says what it is")]
pub enum Then {
    /// The process dies before it sends the call, and restarts after a while.
    CrashBefore { restart_ms: u64 },
    /// It dies after the call's effect, before it learns of it.
    CrashAfterEffect { restart_ms: u64 },
    /// It dies after it has processed the answer.
    CrashAfterReply { restart_ms: u64 },
    /// The call meets this fault.
    Meet(Fault),
    /// The call, a list, shows the state from this long ago. For a while all lists and watches of its replica do so
    /// too; 0 means only this list.
    Older { ms: u64, for_ms: u64 },
    /// The watch shows nothing for this long, and then 410. Of the changes meanwhile only the end state is seen.
    Hide { for_ms: u64 },
    /// The watch goes silent for ever.
    Stall,
    /// The watch breaks off in the middle of the frame.
    Tear,
    /// The watch ends before the frame, as when an API server shuts down.
    End,
    /// The watch ends with 410 instead.
    Expire,
    /// The watch breaks off in the middle of the frame, and the API server has forgotten all history.
    Forget,
    /// The frame and all later ones are delayed.
    Late { ms: u64 },
    /// The frame comes twice.
    Twice,
}

/// Why a plan cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the plan: {0}")]
pub struct PlanError(String);

impl Plan {
    /// Parses YAML.
    ///
    /// # Errors
    /// If the text is no plan.
    pub fn from_yaml(text: &str) -> Result<Self, PlanError> {
        serde_saphyr::from_str(text).map_err(|error| PlanError(error.to_string()))
    }

    /// Formats the plan as YAML.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn to_yaml(&self) -> Result<String, PlanError> {
        serde_saphyr::to_string(self).map_err(|error| PlanError(error.to_string()))
    }
}

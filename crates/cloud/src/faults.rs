//! Faults as data: the fault, the calls it affects, and how often.
//!
//! Owns the queue of injections and the choice of one for a call. It does not own a fault's effect on a reply (see
//! `exchange`) or on a connection (see `server`). Invariant: the first injection that matches applies, and a used-up
//! injection is gone.

use std::fmt;

use super::actions::ActionPlan;
use super::wire::{Op, Provider};

/// Before or after the call takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The call never took effect.
    Before,
    /// The call took effect, but its answer is lost.
    After,
}

/// A refusal in the provider's own words. The call has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// 422: an event is pending on the address.
    PendingEventOnIp,
    /// 422: an event is pending on the droplet.
    PendingEventOnDroplet,
    /// 422: the droplet already has a reserved IP.
    NodeInUse,
    /// 422: the droplet is in another datacenter.
    WrongDatacenter,
    /// 404.
    NotFound,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 422: the account may not have more reserved IPs.
    Quota,
    /// 400 of Cloudflare with code 81058: the record already exists.
    IdenticalRecord,
    /// Any other status with a message of the caller's choice.
    Status(u16, String),
}

/// How to spoil the answer of a call that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Garble {
    /// The body is cut in the middle but has the right length, so the JSON does not parse.
    MalformedJson,
    /// Status 200 with a page of HTML.
    Html,
    /// The connection ends before the announced length.
    Truncated,
    /// This many bytes of white space before the JSON.
    Oversized(usize),
    /// An empty body with the right status.
    Empty,
    /// JSON `null` with the right status.
    Null,
    /// Each object of the answer has an extra field.
    UnknownFields,
    /// `meta.total` of a list is one too high.
    WrongTotal,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The provider refuses.
    Refuse(Refusal),
    /// 429, with `retry-after` in seconds if given.
    Throttle {
        /// Value of the header.
        retry_after_s: Option<u64>,
    },
    /// The connection is reset.
    Reset(When),
    /// No answer ever comes.
    Hang(When),
    /// The call takes longer, before and after its effect.
    Delay {
        /// Milliseconds before the effect.
        before_ms: u64,
        /// Milliseconds between the effect and the answer.
        after_ms: u64,
    },
    /// The call takes effect, but its answer is spoilt.
    Garble(Garble),
    /// A custom answer. The call has no effect.
    Answer {
        /// HTTP status.
        status: u16,
        /// Headers.
        headers: Vec<(String, String)>,
        /// Body.
        body: Vec<u8>,
    },
    /// `links.pages.next` of a list leads to another host.
    ForeignNext {
        /// Scheme and host.
        base: String,
    },
    /// The action that the call starts takes this course.
    Action(ActionPlan),
}

impl Fault {
    /// A redirect to `location`.
    pub fn redirect(status: u16, location: &str) -> Self {
        let headers = vec![("location".to_owned(), location.to_owned())];
        Self::Answer { status, headers, body: Vec::new() }
    }

    /// A bare status with a message in the provider's format.
    pub fn status(status: u16) -> Self {
        Self::Refuse(Refusal::Status(status, "injected".to_owned()))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(refusal) => write!(f, "refuse {refusal:?}"),
            Self::Throttle { retry_after_s: Some(s) } => write!(f, "throttle for {s} s"),
            Self::Throttle { retry_after_s: None } => f.write_str("throttle"),
            Self::Reset(when) => write!(f, "reset {when:?}"),
            Self::Hang(when) => write!(f, "hang {when:?}"),
            Self::Delay { before_ms, after_ms } => write!(f, "delay {before_ms}+{after_ms} ms"),
            Self::Garble(garble) => write!(f, "garble {garble:?}"),
            Self::Answer { status, .. } => write!(f, "answer {status}"),
            Self::ForeignNext { base } => write!(f, "next page at {base}"),
            Self::Action(plan) => write!(f, "action {:?}", plan.outcome),
        }
    }
}

/// The calls that a fault applies to. Every given field must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The provider.
    pub provider: Option<Provider>,
    /// The operation.
    pub op: Option<Op>,
    /// If true, only calls that can change something.
    pub mutating: bool,
    /// Start of the path.
    pub path_prefix: Option<String>,
    /// A text in path, query or body, for example an address.
    pub contains: Option<String>,
    /// Name of the token.
    pub token: Option<String>,
}

impl Target {
    /// Every call.
    pub fn any() -> Self {
        Self::default()
    }

    /// The calls of one operation.
    pub fn op(op: Op) -> Self {
        Self { op: Some(op), ..Self::default() }
    }

    /// The calls to one provider.
    pub fn provider(provider: Provider) -> Self {
        Self { provider: Some(provider), ..Self::default() }
    }

    /// This target, limited to one provider.
    pub fn of(self, provider: Provider) -> Self {
        Self { provider: Some(provider), ..self }
    }

    /// This target, limited to calls with this text in path, query or body.
    pub fn containing(self, text: &str) -> Self {
        Self { contains: Some(text.to_owned()), ..self }
    }

    /// This target, limited to calls that can change something.
    pub fn mutating(self) -> Self {
        Self { mutating: true, ..self }
    }

    /// This target, limited to calls with this token.
    pub fn token(self, name: &str) -> Self {
        Self { token: Some(name.to_owned()), ..self }
    }

    fn matches(&self, call: &Subject<'_>) -> bool {
        self.provider.is_none_or(|provider| provider == call.provider)
            && self.op.is_none_or(|op| op == call.op)
            && (!self.mutating || call.op.mutates())
            && self.path_prefix.as_deref().is_none_or(|prefix| call.path.starts_with(prefix))
            && self.token.as_deref().is_none_or(|token| token == call.token)
            && self
                .contains
                .as_deref()
                .is_none_or(|text| [call.path, call.query, call.body].iter().any(|part| part.contains(text)))
    }
}

/// The parts of a call that an injection checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) provider: Provider,
    pub(super) op: Op,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) body: &'a str,
    pub(super) token: &'a str,
}

/// A fault, its target, and how many calls it affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    target: Target,
    skip: u64,
    times: Option<u64>,
    fault: Fault,
}

impl Injection {
    /// The next matching call only.
    pub fn once(target: Target, fault: Fault) -> Self {
        Self { target, skip: 0, times: Some(1), fault }
    }

    /// The n-th matching call from now on, counted from 1.
    pub fn nth(target: Target, n: u64, fault: Fault) -> Self {
        Self { target, skip: n.saturating_sub(1), times: Some(1), fault }
    }

    /// The next `times` matching calls.
    pub fn times(target: Target, times: u64, fault: Fault) -> Self {
        Self { target, skip: 0, times: Some(times), fault }
    }

    /// Every matching call until the injection is withdrawn.
    pub fn always(target: Target, fault: Fault) -> Self {
        Self { target, skip: 0, times: None, fault }
    }
}

/// The ID of an injection, for withdrawing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InjectionId(u64);

/// The injections in force, oldest first.
#[derive(Debug, Default)]
pub(super) struct FaultQueue {
    next: u64,
    injections: Vec<(InjectionId, Injection)>,
}

impl FaultQueue {
    /// Appends an injection.
    pub(super) fn push(&mut self, injection: Injection) -> InjectionId {
        let id = InjectionId(self.next);
        self.next = self.next.saturating_add(1);
        self.injections.push((id, injection));
        id
    }

    /// Withdraws an injection. Returns false if it is used up or unknown.
    pub(super) fn withdraw(&mut self, id: InjectionId) -> bool {
        let before = self.injections.len();
        self.injections.retain(|(other, _)| *other != id);
        self.injections.len() < before
    }

    /// Withdraws all injections.
    pub(super) fn clear(&mut self) {
        self.injections.clear();
    }

    /// Whether the injection is in force.
    pub(super) fn holds(&self, id: InjectionId) -> bool {
        self.injections.iter().any(|(other, _)| *other == id)
    }

    /// The fault for this call. An injection that still skips calls counts this one, unless another injection takes it.
    pub(super) fn take(&mut self, call: &Subject<'_>) -> Option<Fault> {
        let mut hit = None;
        for (index, (_, injection)) in self.injections.iter_mut().enumerate() {
            if !injection.target.matches(call) {
                continue;
            }
            if injection.skip > 0 {
                injection.skip = injection.skip.saturating_sub(1);
                continue;
            }
            if let Some(times) = &mut injection.times {
                *times = times.saturating_sub(1);
            }
            hit = Some((index, injection.times == Some(0), injection.fault.clone()));
            break;
        }
        let (index, used_up, fault) = hit?;
        if used_up {
            self.injections.remove(index);
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: Op, path: &'static str) -> Subject<'static> {
        Subject { provider: Provider::DigitalOcean, op, path, query: "", body: "", token: "main" }
    }

    #[test]
    fn the_third_matching_call_is_hit_and_no_other() {
        let mut queue = FaultQueue::default();
        let id = queue.push(Injection::nth(Target::op(Op::GetAction), 3, Fault::Reset(When::After)));
        let get = call(Op::GetAction, "/v2/reserved_ips/1.2.3.4/actions/1");
        let hits: Vec<bool> = (0..4).map(|_| queue.take(&get).is_some()).collect();
        assert_eq!(hits, [false, false, true, false]);
        assert!(!queue.holds(id));
    }

    #[test]
    fn a_lasting_fault_ends_when_it_is_withdrawn() {
        let mut queue = FaultQueue::default();
        let target = Target::any().mutating().containing("1.2.3.4").token("main");
        let id = queue.push(Injection::always(target, Fault::status(503)));
        assert!(queue.take(&call(Op::GetAction, "/1.2.3.4")).is_none());
        assert!(queue.take(&call(Op::AssignIp, "/1.2.3.5")).is_none());
        assert!(queue.take(&call(Op::AssignIp, "/1.2.3.4")).is_some());
        assert!(queue.take(&call(Op::AssignIp, "/1.2.3.4")).is_some());
        assert!(queue.withdraw(id));
        assert!(queue.take(&call(Op::AssignIp, "/1.2.3.4")).is_none());
    }
}

//! The closed set of ways in which a call can fail. For a provider's call, the kind is the metric label, the
//! condition's reason, and the choice of retry schedule. Writes to the Kubernetes API have their own set.

use std::fmt;

/// Why a provider call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The provider is still working on an earlier request for the same thing.
    InProgress,
    /// Timeout, reset, 5xx, malformed body: the same request may succeed soon.
    Transient,
    /// 429, or the budget is used up.
    Throttled,
    /// 404.
    NotFound,
    /// The machine already has a reserved IP.
    NodeInUse,
    /// The provider refuses the request as it stands.
    Invalid,
    /// The account may not have more of these.
    Quota,
    /// 401 or 403: the token is wrong or lacks a scope.
    Unauthorized,
    /// Any other refusal.
    Permanent,
}

/// Declares the texts of each kind of failure, in the order of the documentation.
macro_rules! faults {
    ($($kind:ident => $answered:literal, $remedy:literal;)+) => {
        impl FaultKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The kind as a reason in `CamelCase`, for conditions and events.
            pub const fn reason(self) -> &'static str {
                match self {$(Self::$kind => stringify!($kind),)+}
            }

            /// The provider's answer, as users read it.
            pub const fn answered(self) -> &'static str {
                match self {$(Self::$kind => $answered,)+}
            }

            /// The remedy.
            pub const fn remedy(self) -> &'static str {
                match self {$(Self::$kind => $remedy,)+}
            }
        }
    };
}

faults! {
    Unauthorized =>
        "401 or 403. At Cloudflare also 400, if it is about the token.",
        "401: the token is not valid; set another one. 403: the token lacks scopes. See \
         [Tokens](../operations/tokens.md).";
    Throttled =>
        "429.",
        "Wait. Give other users of the token their own. See [Request budgets](../how-it-works/budgets.md).";
    Quota =>
        "403 or 422 about a limit, in answer to a creation. At Cloudflare: the zone is full.",
        "Addresses: ask for more reserved IPs, or lower `desiredIPs`. Records: delete some, or change the plan.";
    NotFound =>
        "404. At Cloudflare also an id that is malformed.",
        "The droplet, address or zone does not exist, or the token cannot see it.";
    NodeInUse =>
        "422: the droplet already has an address.",
        "See `ForeignAddress` of [`NodesBlocked`](#nodesblocked). FLIPOP lists the account at once.";
    Invalid =>
        "400, or any other 422.",
        "See the message. One cause is an address in another datacenter than the droplet.";
    InProgress =>
        "409, or 422 about a pending event.",
        "Wait.";
    Transient =>
        "5xx, 408, a timeout, a reset, an answer that cannot be read, or an action that ended as `errored`.",
        "Wait.";
    Permanent =>
        "Anything else, including a redirect, or a refusal that is `not in the API's format`, such as the page of \
         a filter, a captcha or the login of a proxy.",
        "Check `DIGITALOCEAN_API_URL`, `CLOUDFLARE_API_URL` and the proxy, and from which addresses the API may be \
         called.";
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

/// A failed provider call, as the core sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of failure.
    pub kind: FaultKind,
    /// The message for users: bounded in length, without secrets.
    pub message: String,
    /// True if the request may have taken effect although the answer was lost.
    pub outcome_unknown: bool,
    /// How long the provider asked to wait, in milliseconds from the answer.
    pub retry_after_ms: Option<u64>,
    /// True if nothing in the account would have fared better: no connection, no answer, or the provider is broken.
    pub whole: bool,
}

impl Fault {
    /// A failure of this one call that certainly had no effect.
    pub const fn new(kind: FaultKind, message: String) -> Self {
        Self { kind, message, outcome_unknown: false, retry_after_ms: None, whole: false }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why a write to Kubernetes brought no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteFailure {
    /// Not sent: there was no permit.
    NotSent,
    /// The object has changed since. The next write waits for the newest version from the watch.
    Conflict,
    /// The object is gone.
    Gone,
    /// The operator lacks this right. The text names the missing verb.
    Forbidden(String),
    /// The API server refuses the content.
    Invalid(String),
    /// Anything that may pass. The write may have taken effect.
    Transient(String),
    /// As `Transient`, and the API server said how long to wait.
    Throttled {
        /// The API server's message.
        message: String,
        /// Milliseconds from the answer.
        wait_ms: u64,
    },
}

impl WriteFailure {
    /// The API server's reason, if it refuses the write until somebody acts.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Forbidden(message) | Self::Invalid(message) => Some(message),
            Self::NotSent | Self::Conflict | Self::Gone | Self::Transient(_) | Self::Throttled { .. } => None,
        }
    }
}

/// Why a call to a provider brought no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// Not sent: there was no permit, the process is ending, or the token must be left alone. A refusal of another
    /// epoch also counts as this.
    NotSent,
    /// It was sent and failed.
    Fault(Fault),
}

//! The kinds of failure of a provider's call, as users read them.

use crate::model::fault::FaultKind;

/// Declares the texts of each kind of failure.
macro_rules! faults {
    ($($kind:ident => $answered:literal, $remedy:literal;)+) => {
        /// Every kind of failure, in the order of the documentation.
        pub const ALL: &[FaultKind] = &[$(FaultKind::$kind,)+];

        /// The provider's answer.
        pub const fn answered(kind: FaultKind) -> &'static str {
            match kind {$(FaultKind::$kind => $answered,)+}
        }

        /// The remedy.
        pub const fn remedy(kind: FaultKind) -> &'static str {
            match kind {$(FaultKind::$kind => $remedy,)+}
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

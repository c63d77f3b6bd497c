//! The meaning of a refusal by `DigitalOcean`. Its `id` only repeats the status, so the message is searched for the few
//! phrases that have been in use for years. If none of them is found, the status decides.

use crate::provider::http::kind_of;
use flipop_core::model::FaultKind;
use http::StatusCode;

/// The purpose of the request: a phrase means different things in different requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Reading.
    Read,
    /// Buying an address.
    Create,
    /// Moving an address.
    Assign,
}

/// An action on the address or on the droplet is pending. (A droplet's volumes count too.)
const PENDING: [&str; 4] = ["pending event", "pending action", "is locked", "currently being processed"];

/// The account has reached a limit.
const QUOTA: [&str; 4] = ["limit", "quota", "maximum", "exceed"];

/// The droplet already has such an address, called by its new or its old name.
const IN_USE: [&str; 6] = [
    "already has a reserved ip",
    "already has a floating ip",
    "already has an ip",
    "already has a byoip",
    "already assigned",
    "already has a public",
];

/// The remedy for a token that is refused as a whole, whatever its scopes.
pub(super) const TOKEN_REFUSED: &str =
    "the token is refused: set DIGITALOCEAN_ACCESS_TOKEN to a valid one, or renew its file";

/// The remedy for a token that lacks a scope for reserved IPs.
pub(super) const SCOPE_MISSING: &str = "the token may not do this: reserved IPs need the scopes reserved_ip:read and \
                                        reserved_ip:update, and reserved_ip:create for desiredIPs";

/// The remedy for a token that may not delete reserved IPs.
pub(super) const DELETION_REFUSED: &str =
    "the token may not do this: reclaimPolicy Delete needs the scope reserved_ip:delete";

/// The kind of fault that a refusal means.
pub(super) fn kind(status: StatusCode, message: &str, intent: Intent) -> FaultKind {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match status {
        // The conflict is with another operation on the same thing, which ends by itself.
        StatusCode::CONFLICT => FaultKind::InProgress,
        StatusCode::UNPROCESSABLE_ENTITY if says(&PENDING) => FaultKind::InProgress,
        StatusCode::UNPROCESSABLE_ENTITY if intent == Intent::Assign && says(&IN_USE) => FaultKind::NodeInUse,
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::FORBIDDEN
            if intent == Intent::Create && says(&QUOTA) =>
        {
            FaultKind::Quota
        }
        _ => kind_of(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FaultKind::{
        InProgress, Invalid, NodeInUse, NotFound, Permanent, Quota, Throttled, Transient, Unauthorized,
    };

    fn check(intent: Intent, table: &[(u16, &str, FaultKind)]) {
        for (status, message, expected) in table {
            let status = StatusCode::from_u16(*status).unwrap();
            assert_eq!(kind(status, message, intent), *expected, "{status} {message}");
        }
    }

    #[test]
    fn refusals_of_an_assignment() {
        check(
            Intent::Assign,
            &[
                (401, "Unable to authenticate you", Unauthorized),
                (403, "You do not have permission to perform this action.", Unauthorized),
                (403, "You have exceeded your limit", Unauthorized),
                (404, "The resource you were accessing could not be found.", NotFound),
                (409, "The request could not be completed due to a conflict.", InProgress),
                (412, "The droplet's host is under maintenance", Permanent),
                (422, "The floating IP already has a pending event.", InProgress),
                (422, "Droplet already has a pending event.", InProgress),
                (422, "The reserved IP is locked", InProgress),
                (422, "The droplet already has a reserved IP assigned", NodeInUse),
                (422, "Droplet already has a floating IP", NodeInUse),
                (422, "The reserved IP and the droplet must be in the same datacenter", Invalid),
                (422, "", Invalid),
                (429, "API rate limit exceeded.", Throttled),
                (500, "Server was unable to give you a response.", Transient),
                (503, "", Transient),
            ],
        );
    }

    #[test]
    fn refusals_of_a_creation() {
        check(
            Intent::Create,
            &[
                (401, "Unable to authenticate you", Unauthorized),
                (403, "You do not have permission to perform this action.", Unauthorized),
                (403, "You have reached your reserved IP limit", Quota),
                (422, "creating this reserved IP will exceed your limit", Quota),
                (422, "Reserved IP quota reached", Quota),
                (422, "Region is not available", Invalid),
                (422, "specify either droplet or region", Invalid),
                (429, "Too many creations: limit is 12 per 60 seconds", Throttled),
            ],
        );
    }

    #[test]
    fn refusals_of_a_read() {
        check(
            Intent::Read,
            &[
                (403, "Your token is missing the scope reserved_ip:read; limit reached", Unauthorized),
                (404, "The resource you requested could not be found.", NotFound),
                (429, "API rate limit exceeded.", Throttled),
                (301, "", Permanent),
            ],
        );
    }
}

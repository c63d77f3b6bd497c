//! The meaning of a refusal by Cloudflare. Its codes are many and stable. The relevant ones are known here; for the
//! rest the status decides.
//!
//! A token that may not see a zone gets the same answer as for a zone that does not exist, and not always a 404. So the
//! message must name both causes.

use super::wire;
use crate::provider::http::{Answer, kind_of};
use flipop_core::model::{Fault, FaultKind};
use http::StatusCode;
use std::net::IpAddr;

/// The record already exists, either identical or with another TTL or proxying.
const EXISTS: [u64; 2] = [81_057, 81_058];

/// No such zone, or the ID is malformed.
const NO_ZONE: [u64; 3] = [1_001, 7_000, 7_003];

/// No such record.
const NO_RECORD: u64 = 81_044;

/// The token is wrong or lacks a right.
const UNAUTHORISED: [u64; 6] = [1_000, 6_003, 6_111, 9_106, 9_109, 10_000];

/// The codes among them that reject the token itself, whatever it was used for.
const MALFORMED_TOKEN: [u64; 2] = [6_003, 6_111];

/// Too many requests.
const THROTTLED: [u64; 2] = [971, 10_429];

/// The zone may have no more records.
const QUOTA: u64 = 81_045;

/// The name already has a CNAME, or a CNAME is wanted where an A record exists.
const CNAME: [u64; 2] = [81_053, 81_054];

/// The record is proxied but must not be: its address is private, or its type or name cannot be proxied.
const NOT_PROXIABLE: [u64; 3] = [9_003, 9_004, 9_041];

/// The name is invalid.
const BAD_NAME: u64 = 9_000;

/// The TTL is out of range.
const BAD_TTL: u64 = 9_021;

/// The fault of a failed answer.
pub(super) fn fault(answer: &Answer) -> Fault {
    if let Some(fault) = answer.refused_in_between() {
        return fault;
    }
    let errors = wire::errors(answer.body());
    let codes: Vec<u64> = errors.iter().map(|(code, _)| *code).filter(|code| *code > 0).collect();
    let messages: Vec<&str> =
        errors.iter().map(|(_, text)| text.as_str()).filter(|text| !text.is_empty()).collect();
    let message = messages.join("; ");
    let kind = kind(answer.status(), &codes);
    let id = codes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let advice = match filtered(&message) {
        Some(seen) => format!(
            "the token's filter of client IP addresses refuses {seen}: allow the address from which Cloudflare sees \
             this process, or give it another"
        ),
        None if kind == FaultKind::Unauthorized && refuses_token(answer) => {
            "the token is refused: set CLOUDFLARE_TOKEN to a valid one".to_owned()
        }
        None => advice(answer.status(), kind, &codes, &message).to_owned(),
    };
    answer.refused_with(kind, &advice, &id, &message)
}

/// Whether the answer refuses a change because a record already exists. Never true for a server error.
pub(super) fn says_exists(answer: &Answer) -> bool {
    answer.status().is_client_error()
        && wire::errors(answer.body()).iter().any(|(code, _)| EXISTS.contains(code))
}

/// Whether the body of an answer with this status complains of too many requests. Never true for a server error.
pub(super) fn says_excess(status: StatusCode, body: &[u8]) -> bool {
    !status.is_server_error() && wire::errors(body).iter().any(|(code, _)| THROTTLED.contains(code))
}

/// Whether the token as a whole is refused, and not only this use of it.
pub(super) fn refuses_token(answer: &Answer) -> bool {
    let says = |(code, message): &(u64, String)| {
        MALFORMED_TOKEN.contains(code) || message.to_ascii_lowercase().contains("access token")
    };
    answer.status() == StatusCode::UNAUTHORIZED || wire::errors(answer.body()).iter().any(says)
}

/// The address that a token's filter of addresses refuses.
fn filtered(message: &str) -> Option<IpAddr> {
    let (_, seen) = message.split_once("access token from location:")?;
    seen.split_whitespace().next()?.trim_end_matches(['.', ';']).parse().ok()
}

fn kind(status: StatusCode, codes: &[u64]) -> FaultKind {
    let any = |known: &[u64]| codes.iter().any(|code| known.contains(code));
    if status.is_server_error() {
        return FaultKind::Transient;
    }
    if status == StatusCode::TOO_MANY_REQUESTS || any(&THROTTLED) {
        FaultKind::Throttled
    } else if any(&UNAUTHORISED) {
        FaultKind::Unauthorized
    } else if any(&NO_ZONE) || any(&[NO_RECORD]) {
        FaultKind::NotFound
    } else if any(&[QUOTA]) {
        FaultKind::Quota
    } else if status == StatusCode::CONFLICT {
        // The conflict is with another change of the same zone, which ends by itself.
        FaultKind::InProgress
    } else if status.is_success() {
        // The status reports success and the envelope does not.
        FaultKind::Transient
    } else {
        kind_of(status)
    }
}

fn advice(status: StatusCode, kind: FaultKind, codes: &[u64], message: &str) -> &'static str {
    let any = |known: &[u64]| codes.iter().any(|code| known.contains(code));
    match kind {
        FaultKind::NotFound if any(&[NO_RECORD]) => "the record is gone",
        FaultKind::NotFound => {
            "the token sees no such zone: check dnsRecordSet.zone (a name, or the zone's id)"
        }
        FaultKind::Unauthorized => {
            "the token may not do this, or the account has no such zone: give it the permission Zone > DNS > Edit \
             (and Zone > Zone > Read for zones by name), or check dnsRecordSet.zone"
        }
        FaultKind::Quota => "the zone may not have more records",
        FaultKind::Invalid if any(&CNAME) => {
            "this name has a CNAME: remove it, or change dnsRecordSet.recordName"
        }
        FaultKind::Invalid if any(&NOT_PROXIABLE) => {
            "the record is proxied, which Cloudflare refuses for it: turn proxying off for the record"
        }
        FaultKind::Invalid if any(&[BAD_NAME]) => "the name is not accepted: change dnsRecordSet.recordName",
        FaultKind::Invalid if any(&[BAD_TTL]) || message.to_ascii_lowercase().contains("ttl") => {
            "dnsRecordSet.ttl is not accepted: change it"
        }
        FaultKind::Permanent if status.is_redirection() => {
            "FLIPOP does not follow redirects: check the API URL"
        }
        // Cloudflare's message says more than a guess would.
        FaultKind::Invalid
        | FaultKind::InProgress
        | FaultKind::Transient
        | FaultKind::Throttled
        | FaultKind::NodeInUse
        | FaultKind::Permanent => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_statuses_have_their_kinds() {
        use FaultKind::{
            InProgress, Invalid, NotFound, Permanent, Quota, Throttled, Transient, Unauthorized,
        };
        let table: [(u16, &[u64], FaultKind); 21] = [
            (400, &[7_003, 7_000], NotFound),
            (404, &[1_001], NotFound),
            (404, &[81_044], NotFound),
            (404, &[], NotFound),
            (403, &[10_000], Unauthorized),
            (403, &[9_109], Unauthorized),
            (400, &[6_003, 6_111], Unauthorized),
            (400, &[9_106], Unauthorized),
            (401, &[], Unauthorized),
            (429, &[971], Throttled),
            (429, &[], Throttled),
            (400, &[81_045], Quota),
            (409, &[1_105], InProgress),
            (400, &[81_054], Invalid),
            (400, &[1_004, 9_021], Invalid),
            (400, &[], Invalid),
            (302, &[], Permanent),
            (405, &[10_405], Permanent),
            (500, &[10_000], Transient),
            (503, &[], Transient),
            (200, &[], Transient),
        ];
        for (status, codes, expected) in table {
            assert_eq!(kind(StatusCode::from_u16(status).unwrap(), codes), expected, "{status} {codes:?}");
        }
    }

    #[test]
    fn what_is_refused_by_rule_has_its_remedy_and_what_is_unknown_has_none() {
        let advice =
            |codes: &[u64], message| advice(StatusCode::BAD_REQUEST, FaultKind::Invalid, codes, message);
        for code in NOT_PROXIABLE {
            assert!(advice(&[1_004, code], "").contains("turn proxying off"), "{code}");
        }
        assert!(advice(&[1_004, 9_000], "").contains("recordName"));
        assert!(advice(&[1_004, 9_021], "").contains("ttl"));
        assert!(advice(&[1_004], "TTL must be between 60 and 86400").contains("ttl"));
        assert!(advice(&[81_053], "").contains("CNAME"));
        assert_eq!(advice(&[1_004, 9_999], "no luck"), "");
    }
}

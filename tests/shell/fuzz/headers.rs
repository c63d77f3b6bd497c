//! Headers about rate limits.

use super::transport::{Canned, config, decent, run};
use flipop::provider::cloudflare::{self, Cloudflare};
use flipop::provider::digitalocean::{self, DigitalOcean};
use flipop::provider::dns::DnsProvider;
use flipop::provider::{Account, CallContext, IpProvider};
use flipop_core::mechanism::{Budget, Purpose, RateReport};
use flipop_core::model::Moment;
use flipop_core::model::provider::Limits;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

/// The longest time that a provider may silence us.
const LONGEST_MS: u64 = 3_600_000;

const NAMES: [&str; 7] = [
    "retry-after",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "ratelimit",
    "ratelimit-policy",
    "date",
];

const VALUES: [&str; 22] = [
    "0",
    "1",
    "-1",
    "60",
    "1800000060",
    "18446744073709551615",
    "18446744073709551616",
    "1e9",
    "",
    " 7 ",
    "inf",
    "Sat, 16 Jan 2027 08:00:00 GMT",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "\"default\";r=50;t=30",
    "\"default\";q=1200;w=300",
    "\"a\";r=0;t=18446744073709551615,\"b\";r=1",
    ";;==,,;",
    "r=5",
    "\"d\";r=0;t=-5",
    "\"d\";r=0;t=0",
];

fn value() -> impl Strategy<Value = HeaderValue> {
    prop_oneof![
        3 => prop::sample::select(VALUES.to_vec()).prop_map(|text| HeaderValue::from_str(text).unwrap()),
        1 => prop::collection::vec(32..=126_u8, 0..40).prop_map(|text| HeaderValue::from_bytes(&text).unwrap()),
        1 => prop::collection::vec(128..=255_u8, 0..40).prop_map(|text| HeaderValue::from_bytes(&text).unwrap()),
    ]
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let pair = (prop::sample::select(NAMES.to_vec()), value());
    prop::collection::vec(pair, 0..8).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    })
}

/// Checks the bounds on what is believed about a token's limits, and on what follows from it.
fn sound(report: &RateReport, now: Moment, limits: Limits) {
    let end = now.plus_millis(LONGEST_MS);
    assert!(report.blocked_until.is_none_or(|until| until <= end), "{report:?}");
    assert!(report.quota.is_none_or(|quota| quota.reset_at <= end), "{report:?}");
    let mut budget = Budget::new(limits);
    budget.observe(now, report);
    for purpose in [Purpose::Assign, Purpose::Dns, Purpose::Poll] {
        if let Err(at) = budget.admit(purpose, now) {
            assert!(at > now && at <= end, "{report:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_header_silences_a_token_for_longer_than_an_hour(
        status in prop::sample::select(vec![200, 401, 403, 404, 422, 429, 500, 503]),
        headers in headers(),
    ) {
        run(async {
            let answer = Canned { headers, ..Canned::new(status, b"{}") };
            let ours = config(answer.clone());
            let clock = ours.clock.clone();
            let context = CallContext::account_wide();
            let addresses = DigitalOcean::new(ours).unwrap();
            decent(&addresses.list_reserved_ips(&context).await.unwrap_err());
            sound(&addresses.api().rate().borrow(), clock.now(), digitalocean::DESCRIPTOR.limits);
            let names = Cloudflare::new(config(answer)).unwrap();
            if let Err(fault) = names.find_zone(&context, "example.com").await {
                decent(&fault);
            }
            sound(&names.api().rate().borrow(), clock.now(), cloudflare::DESCRIPTOR.limits);
        });
    }
}

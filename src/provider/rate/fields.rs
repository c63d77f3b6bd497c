//! The headers `RateLimit` and `RateLimit-Policy` in their structured form (IETF draft on rate-limit fields for HTTP),
//! which Cloudflare sends: `"default";r=50;t=30` and `"default";q=1200;w=300`. Commas separate several policies.
//! Unreadable parts are skipped.

use http::HeaderMap;

const RATELIMIT: &str = "ratelimit";
const POLICY: &str = "ratelimit-policy";

/// More policies than any provider has. It bounds the work on an absurd header.
const MAX_POLICIES: usize = 16;

/// The remaining allowance of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Number of requests that the policy grants in all.
    pub(super) limit: Option<u64>,
    /// Requests that are left.
    pub(super) remaining: u64,
    /// Seconds until some are granted again.
    pub(super) reset_s: Option<u64>,
}

impl Allowance {
    /// For how long no request is admitted, if the policy is used up and says so.
    pub(super) fn block_ms(self) -> Option<u64> {
        let seconds = self.reset_s.filter(|_| self.remaining == 0)?;
        Some(seconds.saturating_mul(1_000).min(super::MAX_BLOCK_MS))
    }
}

/// The policy with the fewest requests left. Among equals, the one that takes longest to grant more.
pub(super) fn tightest(headers: &HeaderMap) -> Option<Allowance> {
    let policies: Vec<Item<'_>> = items(headers, POLICY).collect();
    let limit_of = |name: &str| {
        let same = policies.iter().find(|policy| policy.name == name);
        same.or_else(|| policies.first().filter(|_| policies.len() == 1))?.number("q")
    };
    let allowances = items(headers, RATELIMIT).filter_map(|item| {
        let remaining = item.number("r")?;
        Some(Allowance { limit: limit_of(item.name), remaining, reset_s: item.number("t") })
    });
    allowances.min_by_key(|allowance| (allowance.remaining, std::cmp::Reverse(allowance.reset_s)))
}

/// A name and its parameters.
struct Item<'a> {
    name: &'a str,
    parameters: &'a str,
}

impl Item<'_> {
    fn number(&self, key: &str) -> Option<u64> {
        self.parameters.split(';').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            (name.trim() == key).then(|| value.trim().parse().ok()).flatten()
        })
    }
}

fn items<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = Item<'a>> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).take(MAX_POLICIES).map(|item| {
        let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
        Item { name: name.trim().trim_matches('"'), parameters }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(limit: &str, policy: &str) -> Option<Allowance> {
        let mut headers = HeaderMap::new();
        for (name, value) in [(RATELIMIT, limit), (POLICY, policy)] {
            if !value.is_empty() {
                headers.append(name, HeaderValue::from_str(value).unwrap());
            }
        }
        tightest(&headers)
    }

    #[test]
    fn of_several_policies_the_tightest_counts() {
        let allowance = |limit, remaining, reset_s| Some(Allowance { limit, remaining, reset_s });
        let table = [
            ("\"default\";r=50;t=30", "\"default\";q=1200;w=300", allowance(Some(1_200), 50, Some(30))),
            ("default; t=30; r=50", "\"other\";q=9;w=1", allowance(Some(9), 50, Some(30))),
            (
                "\"burst\";r=99;t=1, \"daily\";r=3;t=7000",
                "\"burst\";q=100;w=60,\"daily\";q=1000;w=86400",
                allowance(Some(1_000), 3, Some(7_000)),
            ),
            ("\"a\";r=0;t=5,\"b\";r=0;t=9", "", allowance(None, 0, Some(9))),
            ("\"default\";r=0", "", allowance(None, 0, None)),
        ];
        for (limit, policy, expected) in table {
            assert_eq!(read(limit, policy), expected, "{limit}");
        }
    }

    #[test]
    fn nonsense_is_no_allowance() {
        for limit in ["", "50", "\"default\"", "\"default\";r=;t=30", "\"default\";r=-1", ";;==,,;", "r=5"] {
            assert_eq!(read(limit, ""), None, "{limit}");
        }
    }
}

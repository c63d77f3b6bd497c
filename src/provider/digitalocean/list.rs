//! The list of all reserved IPs of an account, over as many pages as it takes.
//!
//! Addresses come and go while the pages are read, and then one may stand on two pages or on none. So what was
//! collected must be as many different addresses as every page says there are; else the listing begins anew.

use super::refusal::Intent;
use super::{accepted, wire};
use crate::provider::http::{Api, Request};
use flipop_core::facts::{ReservedIp, ReservedIpList};
use flipop_core::fault::{Fault, FaultKind};
use reqwest::Url;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The most that the API gives.
const PER_PAGE: &str = "200";

/// Accounts have three addresses by default, and some hundreds at most: 10,000 is no list but a loop.
const MAX_PAGES: u64 = 50;

/// A list that changes during this many readings in a row is given up for now: the next poll tries again.
const MAX_TRIES: u32 = 3;

/// Every reserved IP of the account.
pub(super) async fn reserved_ips(api: &Api) -> Result<ReservedIpList, Fault> {
    for _ in 0..MAX_TRIES {
        if let Some(ips) = all_pages(api).await? {
            return Ok(ReservedIpList { ips });
        }
        tracing::debug!("the list of addresses changed while it was read");
    }
    Err(Fault {
        kind: FaultKind::Transient,
        message: format!("the list of reserved IPs changed during each of {MAX_TRIES} readings"),
        outcome_unknown: false,
        retry_after_ms: None,
    })
}

/// The addresses on all pages; `None` if the pages do not fit together.
async fn all_pages(api: &Api) -> Result<Option<BTreeMap<Ipv4Addr, ReservedIp>>, Fault> {
    let mut ips = BTreeMap::new();
    let mut total = None;
    let mut page = 1;
    loop {
        let number = page.to_string();
        let query = [("per_page", PER_PAGE), ("page", number.as_str())];
        let answer = api.read(Request::get(&["v2", "reserved_ips"], &query)).await?;
        let body: wire::ReservedIpsBody = accepted(&answer, Intent::Read)?.decode()?;
        let next =
            body.next().map(|link| next_page(link, page)).transpose().map_err(|why| answer.malformed(why))?;
        let listed = body.total();
        if listed.is_none() && (next.is_some() || page > 1) {
            return Err(answer.malformed("a list of several pages without meta.total"));
        }
        if page > 1 && listed != total {
            return Ok(None);
        }
        total = listed;
        for entry in body.reserved_ips {
            let facts = entry.into_facts();
            if ips.insert(facts.ip, facts).is_some() {
                return Ok(None);
            }
        }
        match next {
            Some(next) if next <= MAX_PAGES => page = next,
            Some(_) => return Err(answer.malformed(&format!("a list of more than {MAX_PAGES} pages"))),
            None => break,
        }
    }
    let collected = u64::try_from(ips.len()).unwrap_or(u64::MAX);
    Ok(total.is_none_or(|total| total == collected).then_some(ips))
}

/// The page that a link leads to. Host and path are ignored: the token goes to the configured host only.
fn next_page(link: &str, current: u64) -> Result<u64, &'static str> {
    // Relative links have been seen behind proxies.
    let url = Url::parse("https://host.invalid/").and_then(|base| base.join(link));
    let url = url.map_err(|_unparsable| "the link to the next page is no URL")?;
    let number = url.query_pairs().find(|(key, _)| key == "page").and_then(|(_, value)| value.parse().ok());
    match number {
        Some(next) if next == current.saturating_add(1) => Ok(next),
        Some(_) => Err("the link to the next page does not lead to the next page"),
        None => Err("the link to the next page has no page number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_link_only_the_page_number_is_taken() {
        for link in [
            "https://api.digitalocean.com/v2/reserved_ips?page=2&per_page=200",
            "http://evil.example/steal?page=2",
            "/v2/reserved_ips?per_page=200&page=2",
            "?page=2",
        ] {
            assert_eq!(next_page(link, 1), Ok(2), "{link}");
        }
    }

    #[test]
    fn a_link_that_leads_anywhere_but_forward_is_malformed() {
        for link in
            ["", "?page=", "?page=x", "?page=1", "?page=0", "?page=3", "?page=-2", "http://[", "?per_page=2"]
        {
            assert!(next_page(link, 1).is_err(), "{link}");
        }
    }
}

//! Lists all reserved IPs of an account, page by page, and follows the links between pages.

use super::refusal::Intent;
use super::{accepted, wire};
use crate::provider::http::{Answer, Api, Request};
use crate::provider::paging::{self, Listed, Page, Pages};
use flipop_core::model::facts::{ReservedIp, ReservedIpList};
use flipop_core::model::fault::Fault;
use flipop_core::model::ids::Address;
use reqwest::Url;

/// The largest page that the API allows.
pub(super) const PER_PAGE: &str = "200";

/// Every reserved IP of the account, or the entries of a list that contradicts itself.
pub(super) async fn reserved_ips(api: &Api) -> Result<ReservedIpList, Fault> {
    let Listed { entries, contradiction } = paging::listed(&ReservedIps { api }).await?;
    Ok(ReservedIpList { ips: entries, contradiction })
}

struct ReservedIps<'a> {
    api: &'a Api,
}

impl Pages for ReservedIps<'_> {
    type Entry = ReservedIp;
    type Key = Address;

    const WHAT: &'static str = "reserved IPs";

    const TOTAL_IS_OF_LIST: bool = true;

    // Accounts have three addresses by default, and some hundreds at most. This is room for 10,000.
    const MAX_PAGES: u64 = 50;

    fn api(&self) -> &Api {
        self.api
    }

    async fn page(&self, number: u64) -> Result<Page<ReservedIp>, Fault> {
        let page = number.to_string();
        let query = [("per_page", PER_PAGE), ("page", page.as_str())];
        let answer = self.api.read(Request::get(&["v2", "reserved_ips"], &query)).await?;
        let wire::ReservedIpsBody { reserved_ips, paging } = accepted(&answer, Intent::Read)?.decode()?;
        let more = is_followed(&answer, paging.next(), number)?;
        let entries = reserved_ips.into_iter().map(wire::ReservedIpEntry::into_facts).collect();
        Ok(Page { entries, total: paging.total(), more, answer })
    }

    fn key(entry: &ReservedIp) -> Address {
        entry.ip
    }
}

/// Whether another page follows this one. Fails if the link does not lead to the next page.
pub(super) fn is_followed(answer: &Answer, next: Option<&str>, number: u64) -> Result<bool, Fault> {
    let next = next.map(|link| next_page(link, number)).transpose().map_err(|why| answer.malformed(why))?;
    Ok(next.is_some())
}

/// The page that a link leads to. Host and path are ignored, because the token must go to the configured host only.
fn next_page(link: &str, current: u64) -> Result<u64, &'static str> {
    // Relative links have been seen behind proxies.
    let url = Url::parse("https://host.invalid/").and_then(|base| base.join(link));
    let url = url.map_err(|_unparsable| "the link to the next page is not a URL")?;
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

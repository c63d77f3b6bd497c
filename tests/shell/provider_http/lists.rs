//! Lists of several pages, with and without changes during the read.

use super::server::{Received, Reply, Server, answer, json};
use super::{account, client, ip};
use flipop::provider::IpProvider;
use flipop_core::model::{Address, Fault, FaultKind, ReservedIpList};
use std::net::Ipv4Addr;
use std::sync::Mutex;

fn addresses(count: u32) -> Vec<Address> {
    (0..count).map(|n| Ipv4Addr::from(u32::from(ip("45.55.0.0")) + n).into()).collect()
}

/// One page as `DigitalOcean` renders it, with links to `host`.
fn page(ips: &[Address], request: &Received, host: &str) -> Reply {
    page_with(ips.len(), ips, request, host)
}

fn page_with(total: usize, ips: &[Address], request: &Received, host: &str) -> Reply {
    assert_eq!(request.query("per_page"), Some("200"));
    let number: usize = request.query("page").unwrap().parse().unwrap();
    let start = (number - 1) * 200;
    let entries: Vec<String> = ips.iter().skip(start).take(200).map(|ip| entry(*ip)).collect();
    let links = if start + 200 < ips.len() {
        format!(r#"{{"pages": {{"next": "{host}/v2/reserved_ips?page={}&per_page=200"}}}}"#, number + 1)
    } else {
        "{}".to_owned()
    };
    json(
        200,
        &format!(
            r#"{{"reserved_ips": [{}], "links": {links}, "meta": {{"total": {total}}}}}"#,
            entries.join(",")
        ),
    )
}

fn entry(ip: Address) -> String {
    format!(r#"{{"ip": "{ip}", "region": {{"slug": "nyc3"}}, "droplet": null, "locked": false}}"#)
}

#[tokio::test]
async fn every_address_is_listed_once_whatever_the_number_of_pages() {
    for (count, pages) in [(0, 1), (1, 1), (199, 1), (200, 1), (201, 2), (400, 2), (1_000, 5)] {
        let ips = addresses(count);
        let expected = ips.clone();
        let server = Server::start(move |request| page(&ips, request, "https://api.digitalocean.com")).await;
        let list = client(&server.url()).list_reserved_ips(&account()).await.unwrap();
        assert!(list.ips.keys().eq(&expected), "{count} addresses");
        assert_eq!(server.received().len(), pages, "{count} addresses");
    }
}

/// Reads a list whose first answer alone shows the addresses `before`. Returns the number of requests.
async fn requests_of(before: Vec<Address>, after: Vec<Address>) -> usize {
    let (expected, asked) = (after.clone(), Mutex::new(0));
    let server = Server::start(move |request| {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        page(if *asked == 1 { &before } else { &after }, request, "https://api.digitalocean.com")
    })
    .await;
    let list = client(&server.url()).list_reserved_ips(&account()).await.unwrap();
    assert!(list.ips.keys().eq(&expected));
    server.received().len()
}

#[tokio::test]
async fn an_address_that_goes_while_pages_are_read_hides_no_other() {
    let (before, after) = (addresses(250), addresses(250).split_off(1));
    // Number 201 moves from the second page to the first, which was already read.
    assert_eq!(requests_of(before, after).await, 4);
}

#[tokio::test]
async fn an_address_that_comes_while_pages_are_read_is_not_doubled() {
    requests_of(addresses(250).split_off(1), addresses(250)).await;
}

#[tokio::test]
async fn a_list_that_never_holds_still_is_a_fault_after_a_few_readings() {
    let asked = Mutex::new(0);
    let server = Server::start(move |request| {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        page(&addresses(250 + *asked), request, "https://api.digitalocean.com")
    })
    .await;
    let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Transient);
    assert_eq!(server.received().len(), 6);
}

#[tokio::test]
async fn a_list_is_not_read_anew_while_the_token_has_to_be_left_alone() {
    let body = format!(r#"{{"reserved_ips": [{}], "meta": {{"total": 2}}}}"#, entry(ip("45.55.0.1").into()));
    let server = Server::start(move |_| answer(200, &[("ratelimit", "\"default\";r=0;t=30")], &body)).await;
    let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
    let wait = fault.retry_after_ms.unwrap_or_default();
    assert!(fault.kind == FaultKind::Throttled && (25_000..=30_000).contains(&wait), "{fault:?}");
    assert!(fault.message.contains("reserved IPs") && fault.message.contains("digitalocean"), "{fault}");
    assert_eq!(server.received().len(), 1);
}

/// Others decide when a call may be made. A client holds back only the follow-up calls that it makes itself.
#[tokio::test]
async fn a_list_that_is_asked_for_is_begun_whatever_the_token_was_told_before() {
    let asked = Mutex::new(0);
    let server = Server::start(move |_| {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        match *asked {
            1 => answer(429, &[("retry-after", "30")], "{}"),
            _ => json(200, r#"{"reserved_ips": [], "meta": {"total": 0}}"#),
        }
    })
    .await;
    let client = client(&server.url());
    assert_eq!(client.list_reserved_ips(&account()).await.unwrap_err().kind, FaultKind::Throttled);
    assert!(client.list_reserved_ips(&account()).await.unwrap().ips.is_empty());
}

/// Gives the n-th reading of a one-page list this many addresses and this total.
async fn readings(told: [(u32, u32); 3]) -> (Server, Result<ReservedIpList, Fault>) {
    let asked = Mutex::new(0);
    let server = Server::start(move |_| {
        let mut asked = asked.lock().unwrap();
        let (count, total) = told[*asked];
        *asked += 1;
        let entries: Vec<String> = addresses(count).into_iter().map(entry).collect();
        let entries = entries.join(",");
        json(200, &format!(r#"{{"reserved_ips": [{entries}], "links": {{}}, "meta": {{"total": {total}}}}}"#))
    })
    .await;
    let list = client(&server.url()).list_reserved_ips(&account()).await;
    (server, list)
}

#[tokio::test]
async fn a_list_that_contradicts_its_total_three_times_shows_places_and_says_what_contradicts_what() {
    for (count, total) in [(1, 2), (2, 1), (0, 1), (1, 0)] {
        let (server, list) = readings([(count, total); 3]).await;
        let list = list.unwrap();
        assert!(list.ips.keys().eq(&addresses(count)));
        let says = format!("its total is {total}, and it shows {count}");
        assert!(list.contradiction.as_ref().is_some_and(|told| told.contains(&says)), "{list:?}");
        assert_eq!(server.received().len(), 3);
    }
}

#[tokio::test]
async fn a_list_that_contradicts_its_total_in_another_way_each_time_has_changed() {
    for told in [[(1, 2), (1, 2), (1, 3)], [(2, 3), (1, 2), (1, 2)], [(1, 2), (2, 3), (1, 2)]] {
        let (_server, list) = readings(told).await;
        let fault = list.unwrap_err();
        assert!(fault.kind == FaultKind::Transient && fault.message.contains("changed"), "{fault:?}");
    }
}

#[tokio::test]
async fn a_list_that_fits_its_total_in_the_end_is_complete() {
    let (_server, list) = readings([(1, 2), (1, 2), (2, 2)]).await;
    let list = list.unwrap();
    assert_eq!((list.ips.len(), list.contradiction), (2, None));
}

#[tokio::test]
async fn a_list_of_several_pages_that_contradicts_its_total_has_changed() {
    let ips = addresses(250);
    let server =
        Server::start(move |request| page_with(251, &ips, request, "https://api.digitalocean.com")).await;
    let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
    assert!(fault.kind == FaultKind::Transient && fault.message.contains("changed"), "{fault:?}");
}

/// Without totals nobody could notice an address that moved from one page to another during the read.
#[tokio::test]
async fn a_list_of_several_pages_has_a_total_on_each() {
    let total = r#", "meta": {"total": 2}"#;
    for (first, second, pages) in [("", "", 1), ("", total, 1), (total, "", 2)] {
        let server = Server::start(move |request| {
            let (ip, links, total) = match request.query("page") {
                Some("1") => (ip("45.55.0.1"), r#"{"pages": {"next": "?page=2"}}"#, first),
                _ => (ip("45.55.0.2"), "{}", second),
            };
            json(200, &format!(r#"{{"reserved_ips": [{}], "links": {links}{total}}}"#, entry(ip.into())))
        })
        .await;
        let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
        assert!(fault.message.contains("several pages without their total"), "{first:?} {second:?}: {fault}");
        assert_eq!(server.received().len(), pages, "{first:?} {second:?}");
    }
    let body = format!(r#"{{"reserved_ips": [{}]}}"#, entry(ip("45.55.0.1").into()));
    let server = Server::start(move |_| json(200, &body)).await;
    let list = client(&server.url()).list_reserved_ips(&account()).await.unwrap();
    assert!(list.ips.keys().eq([&ip("45.55.0.1").into()]), "one page needs none");
}

#[tokio::test]
async fn a_link_to_another_host_gets_neither_request_nor_token() {
    let other = Server::start(|_| json(200, "{}")).await;
    let ips = addresses(400);
    let host = other.url();
    let server = Server::start(move |request| page(&ips, request, &host)).await;
    let list = client(&server.url()).list_reserved_ips(&account()).await.unwrap();
    assert_eq!(list.ips.len(), 400);
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_list_without_end_is_given_up() {
    let server =
        Server::start(move |request| page(&addresses(100_000), request, "https://api.digitalocean.com"))
            .await;
    let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
    assert!(fault.message.contains("more than 50 pages"), "{}", fault.message);
    assert_eq!(server.received().len(), 50);
}

#[tokio::test]
async fn a_list_with_one_unreadable_entry_is_no_list() {
    let good = entry(ip("45.55.0.1").into());
    for bad in [r#"{"ip": "45.55.0"}"#, r#"{"ip": null}"#, r#"{"ip": "45.55.0.2", "droplet": {}}"#, "7"] {
        let body = format!(r#"{{"reserved_ips": [{good}, {bad}], "meta": {{"total": 2}}}}"#);
        let server = Server::start(move |_| json(200, &body)).await;
        let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Transient, "{bad}");
        assert!(fault.message.contains("failed to read the answer"), "{}", fault.message);
    }
}

//! Rate limits in answers.

use super::server::{Server, answer, json};
use super::{account, client};
use flipop::clock::Clock;
use flipop::provider::{Account, IpProvider};
use flipop_core::model::FaultKind;

#[tokio::test]
async fn the_quota_of_the_last_answer_can_be_read() {
    let reset = Clock::system().timestamp().as_second() + 30;
    let server = Server::start(move |_| {
        let reset = reset.to_string();
        let headers = [
            ("ratelimit-limit", "5000"),
            ("ratelimit-remaining", "4816"),
            ("ratelimit-reset", reset.as_str()),
        ];
        answer(200, &headers, r#"{"droplets": []}"#)
    })
    .await;
    let client = client(&server.url());
    client.prove_machine_read(&account()).await.unwrap();
    let report = *client.api().rate().borrow();
    let quota = report.quota.unwrap();
    assert_eq!((report.requests, quota.limit, quota.remaining), (1, Some(5_000), 4_816));
    let wait = quota.reset_at.millis_since(quota.observed_at);
    assert!((28_000..=30_000).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_refusal_for_excess_blocks_the_token_in_either_notation() {
    let later = Clock::system().timestamp() + jiff::SignedDuration::from_secs(90);
    let date = later.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    for (notation, least, most) in
        [(Some("7".to_owned()), 7_000, 7_000), (Some(date), 85_000, 90_000), (None, 1_000, 1_000)]
    {
        let header = notation.clone();
        let server = Server::start(move |_| {
            let headers: Vec<(&str, &str)> =
                header.iter().map(|value| ("retry-after", value.as_str())).collect();
            answer(429, &headers, r#"{"id": "too_many_requests", "message": "API rate limit exceeded."}"#)
        })
        .await;
        let client = client(&server.url());
        let before = Clock::system().now();
        let fault = client.list_reserved_ips(&account()).await.unwrap_err();
        let after = Clock::system().now();
        assert_eq!(fault.kind, FaultKind::Throttled);
        assert_eq!(fault.retry_after_ms.is_some(), notation.is_some());
        let end = client.api().rate().borrow().blocked_until.unwrap();
        assert!(end >= before.plus_millis(least) && end <= after.plus_millis(most), "{notation:?}");
    }
}

#[tokio::test]
async fn the_time_that_a_server_asks_for_counts_when_it_refuses_for_excess_or_is_down() {
    for (status, wait_ms) in [(429, Some(7_000)), (503, Some(7_000)), (500, None), (403, None)] {
        let server =
            Server::start(move |_| answer(status, &[("retry-after", "7")], r#"{"message": "no"}"#)).await;
        let fault = client(&server.url()).list_reserved_ips(&account()).await.unwrap_err();
        assert_eq!(fault.retry_after_ms, wait_ms, "{status}");
    }
}

#[tokio::test]
async fn every_page_counts_as_a_request() {
    let server = Server::start(|request| {
        let page = request.query("page").unwrap();
        let links = if page == "1" { r#"{"pages": {"next": "?page=2"}}"# } else { "{}" };
        let body = r#"{"reserved_ips": [{"ip": "45.55.0.PAGE"}], "links": LINKS, "meta": {"total": 2}}"#;
        json(200, &body.replace("PAGE", page).replace("LINKS", links))
    })
    .await;
    let client = client(&server.url());
    assert_eq!(client.list_reserved_ips(&account()).await.unwrap().ips.len(), 2);
    assert_eq!(client.api().rate().borrow().requests, 2);
}

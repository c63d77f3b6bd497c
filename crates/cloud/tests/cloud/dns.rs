//! The DNS of both simulated providers, over real connections.

use crate::support::{cloudflare, digitalocean, send, start};
use flipop_cloud::{CloudServer, Plan, Provider, RecordView};
use serde_json::{Value, json};

const ZONE: &str = "example.com";
const RECORDS: &str = "v2/domains/example.com/records";

#[tokio::test]
async fn a_domain_is_created_with_its_first_records_and_deleted() {
    let server = start().await;
    let made =
        digitalocean(&server, "POST", "v2/domains", Some(json!({"name": ZONE, "ip_address": "192.0.2.1"})))
            .await;
    assert_eq!((made.status, made.json()["domain"]["ttl"].clone()), (201, json!(1800)));
    let types: Vec<Value> = digitalocean(&server, "GET", RECORDS, None).await.json()["domain_records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["type"].clone())
        .collect();
    assert_eq!(types, ["SOA", "NS", "NS", "NS", "A"]);
    for body in [json!({"name": ZONE}), json!({}), json!({"name": "no dot"}), json!({"name": 1})] {
        assert_eq!(digitalocean(&server, "POST", "v2/domains", Some(body)).await.status, 422);
    }
    assert_eq!(digitalocean(&server, "GET", "v2/domains", None).await.json()["meta"]["total"], 1);
    assert_eq!(digitalocean(&server, "DELETE", "v2/domains/example.com", None).await.status, 204);
    assert_eq!(digitalocean(&server, "GET", "v2/domains/example.com", None).await.status, 404);
    assert_eq!(digitalocean(&server, "GET", RECORDS, None).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn a_digitalocean_record_is_kept_to_the_rules_of_its_type() {
    let server = start().await;
    server.cloud().add_domain(ZONE);
    let post = |body: Value| digitalocean(&server, "POST", RECORDS, Some(body));
    let made = post(json!({"type": "A", "name": "WWW", "data": "192.0.2.1", "ttl": 30})).await;
    assert_eq!(made.status, 201);
    let record = made.json()["domain_record"].clone();
    let fields: Vec<&String> = record.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["data", "flags", "id", "name", "port", "priority", "tag", "ttl", "type", "weight"]);
    assert_eq!((record["name"].clone(), record["priority"].clone()), (json!("www"), Value::Null));

    for (body, status) in [
        (json!({"type": "A", "name": "www", "data": "192.0.2.1"}), 201),
        (json!({"type": "A", "name": "@", "data": "192.0.2.1", "priority": 0, "port": 0}), 201),
        (json!({"type": "A", "name": "x.example.com.", "data": "192.0.2.1"}), 201),
        (json!({"type": "TXT", "name": "www", "data": "heritage=external-dns"}), 201),
        (json!({"type": "CNAME", "name": "alias", "data": "www.example.com."}), 201),
        (json!({"type": "MX", "name": "@", "data": "mail.example.com.", "priority": 10}), 201),
        (json!({"name": "www", "data": "192.0.2.1"}), 422),
        (json!({"type": "A", "data": "192.0.2.1"}), 422),
        (json!({"type": "A", "name": "www"}), 422),
        (json!({"type": "A", "name": "www", "data": "192.0.2.300"}), 422),
        (json!({"type": "A", "name": "www", "data": "192.0.2.1", "ttl": 29}), 422),
        (json!({"type": "A", "name": "www", "data": "192.0.2.1", "ttl": "60"}), 422),
        (json!({"type": "A", "name": "www.other.org.", "data": "192.0.2.1"}), 422),
        (json!({"type": "A", "name": "alias", "data": "192.0.2.1"}), 422),
        (json!({"type": "CNAME", "name": "www", "data": "x."}), 422),
        (json!({"type": "CNAME", "name": "b", "data": "x"}), 422),
        (json!({"type": "MX", "name": "@", "data": "mail."}), 422),
        (json!({"type": "SOA", "name": "@", "data": "1"}), 422),
    ] {
        assert_eq!(post(body.clone()).await.status, status, "{body}");
    }
    let a = server.cloud().a_records(Provider::DigitalOcean, ZONE, "www.example.com");
    assert_eq!(a, ["192.0.2.1", "192.0.2.1"]);
    assert_eq!(server.cloud().a_records(Provider::DigitalOcean, ZONE, "x.example.com"), ["192.0.2.1"]);
    server.stop().await;
}

#[tokio::test]
async fn a_digitalocean_record_is_altered_found_by_its_full_name_and_deleted() {
    let server = start().await;
    server.cloud().add_domain(ZONE);
    let record = RecordView::new("www.example.com", "A", "192.0.2.1", 60);
    let id = server.cloud().add_record(Provider::DigitalOcean, ZONE, &record).unwrap();
    let path = format!("{RECORDS}/{id}");
    let put = digitalocean(&server, "PUT", &path, Some(json!({"type": "A", "data": "192.0.2.2"}))).await;
    let after = put.json()["domain_record"].clone();
    assert_eq!(
        (put.status, after["data"].clone(), after["ttl"].clone()),
        (200, json!("192.0.2.2"), json!(60))
    );
    let changed = digitalocean(&server, "PATCH", &path, Some(json!({"type": "A", "ttl": 300}))).await;
    assert_eq!((changed.status, changed.json()["domain_record"]["ttl"].clone()), (200, json!(300)));
    assert_eq!(digitalocean(&server, "PUT", &path, Some(json!({"data": "192.0.2.2"}))).await.status, 422);

    for (query, found) in [
        ("name=www.example.com", 1),
        ("name=WWW.example.com", 1),
        ("name=www", 0),
        ("name=example.com", 4),
        ("name=www.example.com&type=A", 1),
        ("name=www.example.com&type=CNAME", 0),
        ("type=NS", 3),
    ] {
        let list = digitalocean(&server, "GET", &format!("{RECORDS}?{query}"), None).await.json();
        assert_eq!(list["meta"]["total"], found, "{query}");
    }
    assert_eq!(digitalocean(&server, "GET", &format!("{RECORDS}?type=X"), None).await.status, 422);
    assert_eq!(digitalocean(&server, "DELETE", &path, None).await.status, 204);
    assert_eq!(digitalocean(&server, "DELETE", &path, None).await.status, 404);
    assert_eq!(digitalocean(&server, "GET", &path, None).await.status, 404);
    server.stop().await;
}

fn fill(server: &CloudServer, provider: Provider, count: u16) {
    for n in 0..count {
        let data = format!("10.0.{}.{}", n / 256, n % 256);
        let record = RecordView::new("many.example.com", "A", &data, 60);
        server.cloud().add_record(provider, ZONE, &record).unwrap();
    }
}

#[tokio::test]
async fn records_are_paged_by_name_at_both_providers() {
    for (total, sizes) in
        [(0, vec![0]), (1, vec![1]), (199, vec![199]), (200, vec![200]), (201, vec![200, 1])]
    {
        let server = start().await;
        server.cloud().add_domain(ZONE);
        let zone = server.cloud().add_zone(ZONE, Plan::Free);
        fill(&server, Provider::DigitalOcean, total);
        fill(&server, Provider::Cloudflare, total);
        let query = "name=many.example.com&per_page=200";
        let (mut digital, mut flare) = (Vec::new(), Vec::new());
        for page in 1..=sizes.len() {
            let list =
                digitalocean(&server, "GET", &format!("{RECORDS}?{query}&page={page}"), None).await.json();
            assert_eq!(list["meta"]["total"], total);
            assert_eq!(list["links"]["pages"].get("next").is_some(), page < sizes.len());
            if let Some(next) = list["links"]["pages"]["next"].as_str() {
                assert!(next.contains("name=many.example.com"), "{next}");
            }
            digital.push(list["domain_records"].as_array().unwrap().len());
            let path = format!("/zones/{zone}/dns_records?{query}&page={page}");
            let list = cloudflare(&server, "GET", &path, None).await.json();
            let info = &list["result_info"];
            flare.push(list["result"].as_array().unwrap().len());
            let expected = json!({
                "page": page, "per_page": 200, "count": sizes[page - 1], "total_count": total,
                "total_pages": usize::from(total).div_ceil(200),
            });
            assert_eq!(*info, expected);
        }
        assert_eq!((digital, flare), (sizes.clone(), sizes));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_cloudflare_record_is_kept_to_the_rules_of_its_zone() {
    let server = start().await;
    let zone = server.cloud().add_zone(ZONE, Plan::Free);
    let big = server.cloud().add_zone("big.example", Plan::Enterprise);
    for (zone, body, status, code) in [
        (&zone, json!({"type": "A", "name": "www", "content": "192.0.2.1", "ttl": 60}), 200, 0),
        (
            &zone,
            json!({"type": "A", "name": "www.example.com", "content": "192.0.2.1", "ttl": 60}),
            400,
            81058,
        ),
        (&zone, json!({"type": "A", "name": "www", "content": "192.0.2.1", "ttl": 1}), 400, 81057),
        (&zone, json!({"type": "CNAME", "name": "www", "content": "x.org"}), 400, 81053),
        (&zone, json!({"type": "TXT", "name": "www", "content": "x"}), 200, 0),
        (&zone, json!({"type": "CNAME", "name": "alias", "content": "x.org"}), 200, 0),
        (&zone, json!({"type": "A", "name": "alias", "content": "192.0.2.1"}), 400, 81054),
        (&zone, json!({"type": "A", "name": "a", "content": "192.0.2.1", "ttl": 59}), 400, 1004),
        (&zone, json!({"type": "A", "name": "a", "content": "192.0.2.1", "ttl": 86401}), 400, 1004),
        (&zone, json!({"type": "A", "name": "a", "content": "2001:db8::1"}), 400, 1004),
        (&zone, json!({"type": "A", "name": "a"}), 400, 1004),
        (&zone, json!({"type": "A", "content": "192.0.2.1"}), 400, 1004),
        (&zone, json!({"name": "a", "content": "192.0.2.1"}), 400, 1004),
        (&zone, json!({"type": "TXT", "name": "t", "content": "x", "proxied": true}), 400, 1004),
        (&zone, json!({"type": "A", "name": "a", "content": "192.0.2.1", "tags": ["a:b"]}), 400, 9300),
        (&zone, json!({"type": "A", "name": "a", "content": "192.0.2.1", "ttl": "60"}), 400, 9207),
        (&zone, json!({"type": "A", "name": "a", "content": "192.0.2.1", "proxied": 1}), 400, 9207),
        (&big, json!({"type": "A", "name": "a", "content": "192.0.2.1", "ttl": 30, "tags": ["a:b"]}), 200, 0),
        (&big, json!({"type": "A", "name": "a", "content": "192.0.2.2", "ttl": 29}), 400, 1004),
    ] {
        let path = format!("/zones/{zone}/dns_records");
        let answer = cloudflare(&server, "POST", &path, Some(body.clone())).await;
        assert_eq!(answer.status, status, "{body}");
        let envelope = answer.json();
        assert_eq!(envelope["success"], status == 200);
        assert_eq!(envelope["messages"], json!([]));
        assert_eq!(envelope["errors"][0]["code"].as_u64().unwrap_or(0), code, "{body}");
    }
    let a = server.cloud().a_records(Provider::Cloudflare, ZONE, "www.example.com");
    assert_eq!(a, ["192.0.2.1"]);
    server.stop().await;
}

#[tokio::test]
async fn a_patch_keeps_and_a_put_resets_what_was_not_given() {
    let server = start().await;
    let zone = server.cloud().add_zone(ZONE, Plan::Enterprise);
    let mut record = RecordView::new("www.example.com", "A", "192.0.2.1", 1);
    record.proxied = true;
    record.comment = Some("by hand".to_owned());
    record.tags = vec!["team:web".to_owned()];
    let id = server.cloud().add_record(Provider::Cloudflare, ZONE, &record).unwrap();
    let path = format!("/zones/{zone}/dns_records/{id}");
    let changed =
        cloudflare(&server, "PATCH", &path, Some(json!({"content": "192.0.2.2", "ttl": 60}))).await.json();
    let kept = &changed["result"];
    assert_eq!(
        (&kept["proxied"], &kept["ttl"], &kept["content"]),
        (&json!(true), &json!(1), &json!("192.0.2.2"))
    );
    assert_eq!((&kept["comment"], &kept["tags"]), (&json!("by hand"), &json!(["team:web"])));
    let body = json!({"type": "A", "name": "www", "content": "192.0.2.3", "ttl": 60});
    let put = cloudflare(&server, "PUT", &path, Some(body)).await.json();
    let reset = &put["result"];
    assert_eq!(
        (&reset["proxied"], &reset["comment"], &reset["tags"]),
        (&json!(false), &Value::Null, &json!([]))
    );
    assert_eq!(reset["id"], id);
    let gone = cloudflare(&server, "DELETE", &path, None).await.json();
    assert_eq!(gone["result"], json!({"id": id}));
    let again = cloudflare(&server, "DELETE", &path, None).await;
    assert_eq!((again.status, again.json()["errors"][0]["code"].clone()), (404, json!(81044)));
    server.stop().await;
}

#[tokio::test]
async fn a_batch_deletes_first_does_all_or_nothing_and_has_a_limit() {
    let server = start().await;
    let zone = server.cloud().add_zone(ZONE, Plan::Free);
    let path = format!("/zones/{zone}/dns_records/batch");
    let batch = |body: Value| cloudflare(&server, "POST", &path, Some(body));
    let contents = || server.cloud().a_records(Provider::Cloudflare, ZONE, "www.example.com");
    let a = |content: &str| json!({"type": "A", "name": "www", "content": content, "ttl": 60});
    let made = batch(json!({"posts": [a("192.0.2.1"), a("192.0.2.2")]})).await.json();
    let ids: Vec<Value> =
        made["result"]["posts"].as_array().unwrap().iter().map(|r| r["id"].clone()).collect();
    assert_eq!(made["result"]["deletes"], json!([]));

    // Not a duplicate, only because deletes come first.
    let swap = batch(json!({"posts": [a("192.0.2.1")], "deletes": [{"id": ids[0]}]})).await;
    assert_eq!(swap.status, 200);
    assert_eq!(swap.json()["result"]["deletes"][0]["content"], "192.0.2.1");
    assert_eq!(contents(), ["192.0.2.1", "192.0.2.2"]);

    for (bad, status, code) in [
        (json!({"deletes": [{"id": ids[1]}], "posts": [a("192.0.2.9"), a("192.0.2.1")]}), 400, 81058),
        (
            json!({"patches": [{"id": ids[1], "content": "192.0.2.8"}], "deletes": [{"id": ids[0]}]}),
            404,
            81044,
        ),
        (json!({"puts": [{"id": ids[1], "content": "192.0.2.8"}]}), 400, 1004),
        (json!({"patches": [{"content": "192.0.2.8"}]}), 400, 1004),
        (json!({"posts": {"type": "A"}}), 400, 9207),
    ] {
        let answer = batch(bad.clone()).await;
        assert_eq!(
            (answer.status, answer.json()["errors"][0]["code"].clone()),
            (status, json!(code)),
            "{bad}"
        );
        assert_eq!(contents(), ["192.0.2.1", "192.0.2.2"], "{bad}");
    }
    let many =
        |count: u8| (0..count).map(|n| json!({"type": "A", "name": "m", "content": format!("10.0.0.{n}")}));
    assert_eq!(batch(json!({"posts": many(201).collect::<Vec<_>>()})).await.status, 400);
    assert_eq!(batch(json!({"posts": many(200).collect::<Vec<_>>()})).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn cloudflare_tells_tokens_and_zones_apart() {
    let server = start().await;
    let cloud = server.cloud();
    let zone = cloud.add_zone(ZONE, Plan::Free);
    cloud.add_token(Provider::Cloudflare, "dns-only", "t-dns", &["dns:edit"]);
    let base = server.cloudflare_url();
    let records = format!("{base}/zones/{zone}/dns_records");
    let get = |url: String, token: Option<&'static str>| async move {
        let answer = send("GET", &url, token, None).await.unwrap();
        (answer.status, answer.json()["errors"][0]["code"].as_u64().unwrap_or(0))
    };
    assert_eq!(get(records.clone(), Some("t-dns")).await, (200, 0));
    assert_eq!(get(format!("{base}/zones/{zone}"), Some("t-dns")).await, (403, 9109));
    let list = send("GET", &format!("{base}/zones?name={ZONE}"), Some("t-dns"), None).await.unwrap().json();
    assert_eq!((&list["result"], &list["result_info"]["total_count"]), (&json!([]), &json!(0)));
    assert_eq!(get(records.clone(), Some("nobody")).await, (403, 9109));
    assert_eq!(get(records.clone(), None).await, (400, 9106));
    assert_eq!(get(format!("{base}/user/tokens/verify"), Some("nobody")).await, (401, 1000));
    assert_eq!(get(format!("{base}/user/tokens/verify"), Some("t-dns")).await, (200, 0));
    let foreign = "0123456789abcdef0123456789abcdef";
    assert_eq!(get(format!("{base}/zones/{foreign}/dns_records"), Some("t-dns")).await, (403, 10000));
    assert_eq!(get(format!("{base}/zones/{ZONE}/dns_records"), Some("t-dns")).await, (400, 7003));
    let found = cloudflare(&server, "GET", &format!("/zones?name={ZONE}"), None).await.json();
    assert_eq!(found["result"][0]["id"], zone);
    server.stop().await;
}

#[tokio::test]
async fn cloudflare_shows_a_zone_in_its_script_and_its_records_in_ascii() {
    let server = start().await;
    let zone = server.cloud().add_zone("xn--bcher-kva.example", Plan::Free);
    for name in ["xn--bcher-kva.example", "b%C3%BCcher.example", "B%C3%9CCHER.example"] {
        let found = cloudflare(&server, "GET", &format!("/zones?name={name}"), None).await.json();
        assert_eq!(found["result"][0]["name"], "b\u{fc}cher.example", "{name}");
    }
    let read = cloudflare(&server, "GET", &format!("/zones/{zone}"), None).await.json();
    assert_eq!(read["result"]["name"], "b\u{fc}cher.example");
    let record = json!({"type": "A", "name": "www.xn--bcher-kva.example", "content": "192.0.2.1", "ttl": 60});
    let records = format!("/zones/{zone}/dns_records");
    let made = cloudflare(&server, "POST", &records, Some(record)).await.json();
    assert_eq!(made["result"]["name"], "www.xn--bcher-kva.example");
    server.stop().await;
}

#[tokio::test]
async fn cloudflare_blocks_for_five_minutes_once_its_limit_is_passed() {
    let server = start().await;
    server.cloud().exhaust(Provider::Cloudflare, "cf", 1);
    let last = cloudflare(&server, "GET", "/zones", None).await;
    assert_eq!((last.status, last.header("ratelimit-policy")), (200, Some("\"default\";q=1200;w=300")));
    assert!(last.header("ratelimit").unwrap().starts_with("\"default\";r=0;t="));
    let blocked = cloudflare(&server, "GET", "/zones", None).await;
    assert_eq!((blocked.status, blocked.header("retry-after")), (429, Some("300")));
    assert_eq!(blocked.json()["success"], false);
    server.stop().await;
}

//! The web page at `/`: three files that show what `/debug` says, and change nothing.
//!
//! Invariants: the page loads nothing from elsewhere and runs nothing inline. A browser that comes under another host
//! name (DNS rebinding) gets nothing, because during a port-forward any web site can reach the port.

use crate::version::VERSION;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use std::net::{IpAddr, SocketAddr};

/// The page; `{version}` stands for the version, `{more}` for further elements of its head.
const INDEX: &str = include_str!("page/index.html");
/// Its style.
const STYLE: &str = include_str!("page/page.css");
/// Its script.
const SCRIPT: &str = include_str!("page/page.js");

/// The page's rights: it loads script and style from here, and fetches from here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Host names by which a browser on this machine may reach the page.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Lets only those requests pass that come from this machine and name it as their host.
///
/// # Errors
/// The refusal: 403 from elsewhere, 421 for another host.
pub fn admit<B>(request: &Request<B>) -> Result<(), (StatusCode, &'static str)> {
    let peer = request.extensions().get::<SocketAddr>();
    if !peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
        return Err((StatusCode::FORBIDDEN, "only from this machine: use kubectl port-forward\n"));
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
    if host.is_some_and(is_local) {
        Ok(())
    } else {
        Err((StatusCode::MISDIRECTED_REQUEST, "use localhost, 127.0.0.1 or [::1] as the host\n"))
    }
}

/// Lets a request from this machine pass only under `localhost` or an address. During a port-forward a web site could
/// otherwise read the answer under a name of its own. A probe through the proxy of a service mesh has an address.
///
/// # Errors
/// The refusal: 421.
pub fn admit_name<B>(request: &Request<B>) -> Result<(), (StatusCode, &'static str)> {
    let peer = request.extensions().get::<SocketAddr>();
    let here = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
    let named = |host: &HeaderValue| !host.to_str().is_ok_and(|host| is_local(host) || is_address(host));
    if here && request.headers().get_all(header::HOST).iter().any(named) {
        return Err((StatusCode::MISDIRECTED_REQUEST, "use localhost or an IP address as the host\n"));
    }
    Ok(())
}

/// Whether a Host header is an address, with any port.
fn is_address(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.parse::<SocketAddr>().is_ok() || bare.parse::<IpAddr>().is_ok()
}

/// Whether a Host header names this machine, with any port.
fn is_local(host: &str) -> bool {
    HOSTS.iter().any(|local| {
        let rest = host.get(..local.len()).filter(|name| name.eq_ignore_ascii_case(local));
        let rest = rest.and_then(|_| host.get(local.len()..));
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
    })
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The page with its files. `more` goes into its head: elements that load further files from the same origin.
pub fn routes(more: &str) -> Router {
    let index = INDEX.replace("{version}", VERSION).replace("{more}", more);
    Router::new()
        .route("/", file("text/html; charset=utf-8", index))
        .route("/page.css", file("text/css; charset=utf-8", STYLE))
        .route("/page.js", file("text/javascript; charset=utf-8", SCRIPT))
}

/// A file of the page.
pub fn file(kind: &'static str, text: impl Into<Bytes>) -> MethodRouter {
    let text = text.into();
    get(async move |request: Request<Body>| match admit(&request) {
        Ok(()) => guarded((([(header::CONTENT_TYPE, kind)]), text).into_response()),
        Err(refusal) => refusal.into_response(),
    })
}

/// The answer with the headers that restrict the browser.
pub fn guarded(mut response: Response) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_pass() {
        for good in ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:65535"] {
            assert!(is_local(good), "{good}");
        }
        for bad in [
            "",
            "x",
            "evil.example",
            "localhost.evil.example",
            "localhost:80.evil",
            "127.0.0.1.nip.io",
            "[::1]x",
            "localhost:",
            "localhost:+80",
            "127.0.0.2",
            "0.0.0.0",
            "::1",
            "localhost:70000",
            "é",
        ] {
            assert!(!is_local(bad), "{bad}");
        }
    }

    #[test]
    fn the_three_files_are_small_and_name_no_other_place() {
        assert!(INDEX.len() + STYLE.len() + SCRIPT.len() <= 60 << 10);
        for text in [INDEX, STYLE, SCRIPT] {
            for other in ["http:", "https:", "url(", "@import", "innerHTML", "document.write", "eval("] {
                assert!(!text.contains(other), "{other}");
            }
        }
        assert!(
            !INDEX.contains("style=")
                && !INDEX.contains("onclick")
                && INDEX.contains("{version}")
                && INDEX.contains("{more}")
        );
    }
}

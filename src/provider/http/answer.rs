//! An answer of a provider, and the faults made from it.
//!
//! Invariant: every message is bounded, on one line, and free of the token.

use crate::provider::http::MAX_BODY_BYTES;
use crate::proxy::Proxy;
use bytes::Bytes;
use flipop_core::model::{Fault, FaultKind};
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::de::{DeserializeOwned, IgnoredAny};

/// Longest message of a fault. It goes into status and Events, and has room for a sentence or two.
pub const MAX_MESSAGE_CHARS: usize = 300;

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unread {
    /// It exceeded the limit.
    TooLarge,
    /// The connection broke.
    CutOff,
}

/// The source of an answer.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) provider: &'static str,
    /// Whether a body has the form of every refusal of the provider.
    pub(super) is_own: fn(&[u8]) -> bool,
    pub(super) host: String,
    /// The proxy to that host.
    pub(super) proxy: Option<Proxy>,
    pub(super) secret: SecretString,
    pub(super) mutating: bool,
    /// The value of `Content-Type`.
    pub(super) content_type: Option<String>,
}

/// An answer of any status, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Result<Bytes, Unread>,
    pub(super) encoded: bool,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) origin: Origin,
}

impl Answer {
    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The body. Empty if it was not read to its end.
    pub fn body(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }

    /// Decodes the body of a success.
    ///
    /// # Errors
    /// A transient fault if the content is not as expected.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        if self.body.is_err() {
            let megabytes = MAX_BODY_BYTES >> 20;
            return Err(self.malformed(&format!("it is longer than {megabytes} MiB")));
        }
        if self.encoded {
            return Err(self.malformed("it is compressed, although FLIPOP did not ask for that"));
        }
        serde_json::from_slice(self.body()).map_err(|error| {
            let foreign = !self.body().is_empty() && !self.is_json();
            self.malformed(&if foreign { self.unlike_the_api() } else { error.to_string() })
        })
    }

    /// The fault of a refusal that is not in the API's format. Something in between sent it. It says nothing about the
    /// token, and the outcome of a change stays unknown.
    pub fn refused_in_between(&self) -> Option<Fault> {
        // For these, the status alone decides.
        let waits = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY];
        let refused = self.status.is_client_error() && !waits.contains(&self.status);
        if !refused || !self.is_foreign() {
            return None;
        }
        let (provider, status) = (self.origin.provider, self.status.as_u16());
        let between =
            self.origin.proxy.as_ref().map_or("a proxy".to_owned(), |proxy| format!("the proxy {proxy}"));
        let message = if self.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            format!(
                "{between} asks for a user name and a password ({status}) before it lets calls to {provider} through; write \
                 them into its URL, as http://user:password@host:port"
            )
        } else {
            format!("the call to {provider} was answered {status}, and {}", self.unlike_the_api())
        };
        let fault = self.fault(FaultKind::Permanent, &message);
        Some(Fault { outcome_unknown: self.origin.mutating, ..fault })
    }

    /// Whether a refusal is certainly not the API's own.
    fn is_foreign(&self) -> bool {
        // Nothing is certain about a body that was not read to its end.
        let Ok(body) = &self.body else { return false };
        match self.status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => true,
            // These would put a right of the token in doubt.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => !(self.origin.is_own)(body),
            // And these whether something exists.
            StatusCode::NOT_FOUND | StatusCode::GONE => !body.is_empty() && !(self.origin.is_own)(body),
            _ => !body.is_empty() && !self.is_json(),
        }
    }

    fn is_json(&self) -> bool {
        serde_json::from_slice::<IgnoredAny>(self.body()).is_ok()
    }

    fn unlike_the_api(&self) -> String {
        let kind = self.origin.content_type.as_deref().unwrap_or("without a content type");
        let words = first_words(&String::from_utf8_lossy(self.body()));
        let mark = if words.is_empty() { "" } else { ": " };
        format!(
            "it is not in the API's format ({kind}), so a proxy or a filter in between may have sent it{mark}{words}"
        )
    }

    /// The fault of a successful answer with unusable content.
    pub fn malformed(&self, why: &str) -> Fault {
        let status = self.status.as_u16();
        self.fault(
            FaultKind::Transient,
            &format!("failed to read the answer of {} ({status}): {why}", self.origin.host),
        )
    }

    /// The fault of a refusal. `id` and `message` come from the provider.
    pub fn refused(&self, kind: FaultKind, id: &str, message: &str) -> Fault {
        let Origin { provider, .. } = self.origin;
        let status = self.status.as_u16();
        let id = if id.is_empty() { String::new() } else { format!(" ({id})") };
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        self.fault(kind, &format!("{provider} answered {status}{id}{message}"))
    }

    /// Like [`Self::refused`], with advice in front. If both are long, the provider's text is cut.
    pub fn refused_with(&self, kind: FaultKind, advice: &str, id: &str, message: &str) -> Fault {
        let words = self.refused(kind, id, message);
        if advice.is_empty() { words } else { self.fault(kind, &format!("{advice}: {}", words.message)) }
    }

    fn fault(&self, kind: FaultKind, message: &str) -> Fault {
        // Only a clear refusal shows that nothing happened. A gateway's timeout does not.
        let refused = self.status.is_client_error() && self.status != StatusCode::REQUEST_TIMEOUT;
        let broken = self.status.is_server_error() || self.status == StatusCode::REQUEST_TIMEOUT;
        Fault {
            outcome_unknown: self.origin.mutating && !refused,
            retry_after_ms: self.retry_after_ms,
            whole: broken && kind == FaultKind::Transient,
            ..Fault::new(kind, scrubbed(message, &self.origin.secret))
        }
    }
}

/// Enough for the title of a page.
const MAX_WORDS: usize = 16;

/// The first words of an HTML page, without markup.
fn first_words(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        text.push(' ');
        let (tag, after) = tag.split_once('>').unwrap_or((tag, ""));
        // The content of these elements is not text.
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let hidden = ["script", "style"].into_iter().find(|hidden| name.eq_ignore_ascii_case(hidden));
        rest = hidden.map_or(after, |name| behind(after, name));
    }
    text.push_str(rest);
    text.split_whitespace().take(MAX_WORDS).collect::<Vec<_>>().join(" ")
}

/// The text from the closing tag of an element on.
fn behind<'a>(text: &'a str, name: &str) -> &'a str {
    let end = text.to_ascii_lowercase().find(&format!("</{name}"));
    end.and_then(|at| text.get(at..)).unwrap_or_default()
}

/// The kind of fault for a status alone. Providers refine it.
pub fn kind_of(status: StatusCode) -> FaultKind {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => FaultKind::Unauthorized,
        StatusCode::NOT_FOUND | StatusCode::GONE => FaultKind::NotFound,
        StatusCode::TOO_MANY_REQUESTS => FaultKind::Throttled,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => FaultKind::Transient,
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => FaultKind::Invalid,
        _ if status.is_server_error() => FaultKind::Transient,
        _ => FaultKind::Permanent,
    }
}

/// `text` without the token, on one line and bounded.
pub(super) fn scrubbed(text: &str, secret: &SecretString) -> String {
    // Replace the token first: a cut could leave most of it standing.
    bounded(&text.replace(secret.expose_secret(), "[token]"))
}

/// `text` on one line and bounded.
pub(crate) fn bounded(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_MESSAGE_CHARS.saturating_add(1))
        .collect();
    if line.chars().count() > MAX_MESSAGE_CHARS {
        line = line.chars().take(MAX_MESSAGE_CHARS.saturating_sub(1)).chain(['…']).collect();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str, mutating: bool) -> Answer {
        let origin = Origin {
            provider: "digitalocean",
            is_own: |body| body.starts_with(br#"{"id""#),
            proxy: None,
            host: "api.example.com".to_owned(),
            secret: "dop_v1_secret".into(),
            mutating,
            content_type: Some("text/html".to_owned()),
        };
        let (status, body) = (StatusCode::from_u16(status).unwrap(), Ok(Bytes::from(body)));
        Answer { status, body, encoded: false, retry_after_ms: None, origin }
    }

    #[test]
    fn a_message_is_bounded_on_one_line_and_without_the_token() {
        let echo = format!("bad token dop_v1_secret\r\n{}", "é".repeat(1_000));
        let fault = answer(400, "", true).refused(FaultKind::Invalid, "bad_request", &echo);
        assert!(fault.message.starts_with("digitalocean answered 400 (bad_request): bad token [token]  é"));
        assert_eq!(fault.message.chars().count(), MAX_MESSAGE_CHARS);
        assert!(!fault.message.contains(char::is_control));
    }

    const PAGE: &str = "<!DOCTYPE html><html><head><title>Access denied</title><style>h1 {x: y}</style></head><body>\
                        <SCRIPT>if (a < b) {}</SCRIPT><h1>One more step</h1><p>Complete the security check</p>";

    #[test]
    fn a_page_that_refuses_is_none_of_the_api_s_and_leaves_open_what_became_of_a_change() {
        for mutating in [true, false] {
            let fault = answer(403, PAGE, mutating).refused_in_between().unwrap();
            assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Permanent, mutating));
            let says = "the call to digitalocean was answered 403, and it is not in the API's format (text/html), so a \
                        proxy or a filter in between may have sent it: Access denied One more step Complete the \
                        security check";
            assert_eq!(fault.message, says);
        }
        let own = r#"{"id": "x"}"#;
        let other = r#"{"error": "blocked"}"#;
        for (status, api_s) in [
            (400, &["", own, other][..]),
            (401, &[own]),
            (403, &[own]),
            (404, &["", own]),
            (407, &[]),
            (410, &["", own]),
            (422, &["", own, other]),
        ] {
            for body in ["", own, other, "go away"] {
                let fault = answer(status, body, true).refused_in_between();
                assert_eq!(fault.is_none(), api_s.contains(&body), "{status} {body:?}: {fault:?}");
            }
            let cut = Answer { body: Err(Unread::CutOff), ..answer(status, "", true) };
            assert!(cut.refused_in_between().is_none(), "{status}");
        }
        for status in [302, 408, 425, 429, 500, 503] {
            assert!(answer(status, PAGE, true).refused_in_between().is_none(), "{status}");
        }
        let login = answer(200, PAGE, true).decode::<u64>().unwrap_err();
        assert!(login.outcome_unknown && login.message.contains("(text/html)"), "{login}");
        assert!(
            login.message.ends_with(": Access denied One more step Complete the security check"),
            "{login}"
        );
    }

    #[test]
    fn of_a_page_that_is_cut_off_there_are_words_too() {
        for (page, words) in
            [("<b>a</b", "a"), ("a <script>b", "a"), ("<", ""), ("a < b > c", "a c"), ("x", "x")]
        {
            assert_eq!(first_words(page), words, "{page}");
        }
    }

    #[test]
    fn a_token_at_the_edge_of_the_bound_is_not_cut_in_half_but_removed() {
        let echo = format!("{}dop_v1_secret", "x".repeat(MAX_MESSAGE_CHARS - 40));
        let fault = answer(400, "", true).refused(FaultKind::Invalid, "", &echo);
        assert!(!fault.message.contains("dop_v1"), "{}", fault.message);
    }

    #[test]
    fn a_change_is_certainly_not_made_only_if_it_was_refused() {
        for (status, unknown) in
            [(400, false), (404, false), (408, true), (422, false), (429, false), (500, true)]
        {
            let fault = answer(status, "", true).refused(FaultKind::Permanent, "", "");
            assert_eq!(fault.outcome_unknown, unknown, "{status}");
        }
        for status in [201, 302] {
            assert!(answer(status, "", true).malformed("x").outcome_unknown, "{status}");
        }
        assert!(
            !answer(500, "", false).refused(FaultKind::Transient, "", "").outcome_unknown,
            "a read changes nothing"
        );
    }

    #[test]
    fn a_value_that_the_decoder_quotes_is_scrubbed_too() {
        let fault = answer(200, r#"{"id": "dop_v1_secret"}"#, false).decode::<u64>().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Transient);
        assert!(!fault.message.contains("dop_v1_secret"), "{}", fault.message);
    }

    #[test]
    fn statuses_have_the_kinds_of_the_contract() {
        use FaultKind::{Invalid, NotFound, Permanent, Throttled, Transient, Unauthorized};
        let table = [
            (302, Permanent),
            (400, Invalid),
            (401, Unauthorized),
            (403, Unauthorized),
            (404, NotFound),
            (410, NotFound),
            (408, Transient),
            (412, Permanent),
            (422, Invalid),
            (429, Throttled),
            (451, Permanent),
            (500, Transient),
            (503, Transient),
            (522, Transient),
        ];
        for (status, kind) in table {
            assert_eq!(kind_of(StatusCode::from_u16(status).unwrap()), kind, "{status}");
        }
    }
}

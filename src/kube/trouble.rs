//! The meaning of a failed call to the API server, in our own words.
//!
//! This module does not decide how to react. Texts are bounded and hold no credentials: they say only what the server
//! answered, or how the connection failed.

use crate::permit::PermitEnded;
use kube::client::AuthError;

/// Longest text kept of an answer: enough for a sentence of the API server, too short to flood a status.
const MAX_MESSAGE_CHARS: usize = 300;

/// Longest chain of causes that is followed, since a chain may be a cycle.
const MAX_CAUSES: usize = 8;

flipop_core::described! {
    /// The kind of a failure.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TroubleKind {
        /// The request was not sent, because the process may not write.
        PermitEnded = "permit_ended",
        /// 401: the API server does not accept the credentials.
        Unauthorized = "unauthorized",
        /// 403: the service account lacks a permission.
        Forbidden = "forbidden",
        /// 404: the object or its kind does not exist.
        NotFound = "not_found",
        /// 409: somebody else wrote first, or the object exists already.
        Conflict = "conflict",
        /// 410: the API server no longer has the version that was asked for. The list is read again.
        Expired = "expired",
        /// 400, 405, 413, 415 or 422: the API server refuses the request as it is.
        Invalid = "invalid",
        /// 429: the API server asks for fewer requests.
        Throttled = "throttled",
        /// 5xx: the API server failed.
        ServerError = "server_error",
        /// No connection could be made.
        Unreachable = "unreachable",
        /// The connection broke, or no answer came in time.
        Interrupted = "interrupted",
        /// The answer could not be understood.
        Undecodable = "undecodable",
    }
    /// The label's value.
    fn label -> &'static str;
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Trouble {
    /// Its kind.
    pub kind: TroubleKind,
    /// The failure in words, bounded.
    pub message: String,
    /// How long the server asked us to wait.
    pub retry_after_ms: Option<u64>,
    /// Names of the fields that the server rejected.
    pub fields: Vec<String>,
}

impl Trouble {
    /// A failure that we detected ourselves.
    pub fn new(kind: TroubleKind, message: impl AsRef<str>) -> Self {
        Self { kind, message: bounded(message.as_ref()), retry_after_ms: None, fields: Vec::new() }
    }

    /// A call given up after `after_ms`.
    pub fn timed_out(after_ms: u64) -> Self {
        Self::new(TroubleKind::Interrupted, format!("no answer within {after_ms} ms"))
    }

    /// Whether the server may have carried out the request although the call failed.
    pub fn outcome_unknown(&self) -> bool {
        match self.kind {
            TroubleKind::ServerError | TroubleKind::Interrupted | TroubleKind::Undecodable => true,
            TroubleKind::PermitEnded
            | TroubleKind::Unauthorized
            | TroubleKind::Forbidden
            | TroubleKind::NotFound
            | TroubleKind::Conflict
            | TroubleKind::Expired
            | TroubleKind::Invalid
            | TroubleKind::Throttled
            | TroubleKind::Unreachable => false,
        }
    }

    /// Whether the API server answered, with any status.
    pub fn answered(&self) -> bool {
        match self.kind {
            TroubleKind::PermitEnded | TroubleKind::Unreachable | TroubleKind::Interrupted => false,
            TroubleKind::Unauthorized
            | TroubleKind::Forbidden
            | TroubleKind::NotFound
            | TroubleKind::Conflict
            | TroubleKind::Expired
            | TroubleKind::Invalid
            | TroubleKind::Throttled
            | TroubleKind::ServerError
            | TroubleKind::Undecodable => true,
        }
    }
}

impl From<kube::Error> for Trouble {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "another crate's errors: the rest happens on the wire"
    )]
    fn from(error: kube::Error) -> Self {
        if let Some(ended) = permit_ended(&error) {
            return Self::new(TroubleKind::PermitEnded, ended.to_string());
        }
        match &error {
            kube::Error::Api(status) => Self::from(status.as_ref()),
            kube::Error::Service(source) => from_service_error(source.as_ref()),
            kube::Error::SerdeError(source) => {
                Self::new(TroubleKind::Undecodable, format!("the answer could not be decoded: {source}"))
            }
            kube::Error::FromUtf8(_) => Self::new(TroubleKind::Undecodable, "the answer is not UTF-8"),
            kube::Error::Auth(source) => Self::from(source),
            kube::Error::BuildRequest(source) => Self::new(TroubleKind::Invalid, causes(source)),
            _ => Self::new(TroubleKind::Interrupted, causes(&error)),
        }
    }
}

impl From<&AuthError> for Trouble {
    /// Our own words. kube's text repeats the command of an exec plugin with its environment, and its output.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "another crate's errors: only what is known is repeated"
    )]
    fn from(error: &AuthError) -> Self {
        let text = match error {
            AuthError::AuthExecStart(source) => format!("the exec plugin cannot be started: {source}"),
            AuthError::AuthExecRun { out, .. } => format!("the exec plugin failed with {}", out.status),
            AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
                "the exec plugin printed no ExecCredential with a status".to_owned()
            }
            AuthError::MissingCommand => "the exec plugin has no command".to_owned(),
            AuthError::ReadTokenFile(source, path) => {
                format!("failed to read the token file {}: {source}", path.display())
            }
            AuthError::InvalidBasicAuth(_) | AuthError::InvalidBearerToken(_) => {
                "the credentials contain characters that cannot be sent".to_owned()
            }
            _ => "the user entry of the kubeconfig cannot be used".to_owned(),
        };
        Self::new(TroubleKind::Unauthorized, format!("no credentials: {text}"))
    }
}

impl From<&kube::core::Status> for Trouble {
    fn from(status: &kube::core::Status) -> Self {
        let details = status.details.as_ref();
        let kind = match status.code {
            401 => TroubleKind::Unauthorized,
            403 => TroubleKind::Forbidden,
            404 => TroubleKind::NotFound,
            409 => TroubleKind::Conflict,
            410 => TroubleKind::Expired,
            429 => TroubleKind::Throttled,
            400..500 => TroubleKind::Invalid,
            _ => TroubleKind::ServerError,
        };
        let text = if status.message.is_empty() { &status.reason } else { &status.message };
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        Self {
            kind,
            message: bounded(&format!("{} {text}", status.code)),
            retry_after_ms: Some(u64::from(seconds).saturating_mul(1_000)).filter(|ms| *ms > 0),
            fields: details.map_or_else(Vec::new, |details| {
                details.causes.iter().map(|cause| cause.field.clone()).collect()
            }),
        }
    }
}

fn from_service_error(source: &(dyn std::error::Error + Send + Sync + 'static)) -> Trouble {
    if let Some(error) = source.downcast_ref::<AuthError>() {
        return Trouble::from(error);
    }
    let refused = source.downcast_ref::<hyper_util::client::legacy::Error>();
    let kind = if refused.is_some_and(hyper_util::client::legacy::Error::is_connect) {
        TroubleKind::Unreachable
    } else {
        TroubleKind::Interrupted
    };
    let text = causes(source);
    let remedy = remedy_of_certificate(&text);
    Trouble::new(kind, text + remedy)
}

/// The remedy for a server's certificate that other clients trust where it is itself in the place of its authority.
fn remedy_of_certificate(text: &str) -> &'static str {
    if !text.contains("invalid peer certificate") {
        ""
    } else if text.contains("CaUsedAsEndEntity") {
        ": the server's certificate is that of an authority; give the server one that an authority has signed, without \
         CA:TRUE"
    } else if text.contains("UnknownIssuer") {
        ": name the authority that signed the server's certificate, and not that certificate (in a kubeconfig: \
         certificate-authority-data)"
    } else {
        ""
    }
}

/// The refusal of a request's body, which the connection wraps.
fn permit_ended<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a PermitEnded> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.take(MAX_CAUSES).find_map(|error| error.downcast_ref())
}

/// The error and its causes, without repetition.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    for _ in 0..MAX_CAUSES {
        let Some(cause) = next else { break };
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    bounded(&text)
}

/// One line of at most [`MAX_MESSAGE_CHARS`] characters.
fn bounded(text: &str) -> String {
    let mut line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE_CHARS).collect();
    if text.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> Trouble {
        Trouble::from(kube::Error::Api(kube::core::Status::failure("text", "Reason").with_code(code).boxed()))
    }

    #[test]
    fn each_status_has_its_kind() {
        let kinds = [401, 403, 404, 409, 410, 422, 429, 500, 503].map(|code| answer(code).kind);
        assert_eq!(
            kinds,
            [
                TroubleKind::Unauthorized,
                TroubleKind::Forbidden,
                TroubleKind::NotFound,
                TroubleKind::Conflict,
                TroubleKind::Expired,
                TroubleKind::Invalid,
                TroubleKind::Throttled,
                TroubleKind::ServerError,
                TroubleKind::ServerError,
            ]
        );
    }

    #[test]
    fn a_long_answer_is_cut_and_put_on_one_line() {
        let status = kube::core::Status::failure(&"x\n".repeat(10_000), "Reason").with_code(500);
        let trouble = Trouble::from(&status);
        assert!(trouble.message.chars().count() <= MAX_MESSAGE_CHARS + 1);
        assert!(!trouble.message.contains('\n'));
    }

    #[test]
    fn an_exec_plugin_that_fails_is_told_of_without_its_environment_and_its_output() {
        let failed = || {
            let output = std::process::Command::new("false").output().unwrap();
            let out = Box::new(std::process::Output { stdout: b"a-token".to_vec(), ..output });
            AuthError::AuthExecRun { cmd: "ACCESS_TOKEN=\"a-token\" \"plugin\"".to_owned(), out }
        };
        for error in [kube::Error::Auth(failed()), kube::Error::Service(Box::new(failed()))] {
            let trouble = Trouble::from(error);
            assert_eq!(trouble.kind, TroubleKind::Unauthorized);
            assert_eq!(trouble.message, "no credentials: the exec plugin failed with exit status: 1");
        }
    }

    #[test]
    fn a_refusal_by_the_fence_is_told_apart() {
        let trouble = Trouble::from(kube::Error::Service(Box::new(PermitEnded)));
        assert_eq!(trouble.kind, TroubleKind::PermitEnded);
        assert!(!trouble.outcome_unknown());
    }
}

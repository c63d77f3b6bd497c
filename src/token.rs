//! An API token: its source, its current value, and its secrecy.
//!
//! Owns the re-reading of token files and the count of changes. It does not judge the token: only the server's 401
//! does.
//!
//! Invariants: the token appears in no `Debug` output, error or log. If a file cannot be read for a while (a volume is
//! being swapped), the last good token stays in use.

use crate::clock::Clock;
use flipop_core::model::Moment;
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Shortest time between two reads of a token file. A read takes microseconds, and a rotated secret takes the kubelet
/// up to a minute to deliver anyway.
const RECHECK_MS: u64 = 2_000;

/// Longest accepted token. Those of service accounts may have thousands of characters.
const MAX_TOKEN_BYTES: usize = 65_536;

/// The source of a token.
#[derive(Debug, Clone)]
pub enum TokenSource {
    /// A fixed value.
    Value(SecretString),
    /// A file, which may change.
    File(PathBuf),
}

/// Why there is no usable token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file could not be read.
    #[error("failed to read the token file {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The source is empty.
    #[error("failed to use the token from {origin}: it is empty")]
    Empty {
        /// Where it came from.
        origin: String,
    },
    /// It cannot be a token.
    #[error(
        "failed to use the token from {origin}: it is longer than {MAX_TOKEN_BYTES} bytes or holds characters that no token has"
    )]
    Malformed {
        /// Where it came from.
        origin: String,
    },
}

/// A token as used by one request.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    /// The value of the header `Authorization`, marked sensitive.
    pub(crate) header: HeaderValue,
    /// The bare token, to be removed from the provider's echoes.
    pub(crate) secret: SecretString,
    /// Number of the token, counted by changes.
    pub(crate) generation: u64,
}

/// The current token and its history.
#[derive(Debug)]
pub struct Token {
    source: TokenSource,
    clock: Clock,
    seen: Mutex<Seen>,
    generation: watch::Sender<u64>,
}

#[derive(Debug)]
struct Seen {
    secret: Option<SecretString>,
    /// When the file was last checked. `None` requests a check at the next opportunity.
    checked_at: Option<Moment>,
    /// The last check could not read the file, and this was logged.
    unreadable: bool,
}

impl Token {
    /// Takes the token from its source.
    ///
    /// # Errors
    /// If the source has no usable token now.
    pub fn new(source: TokenSource, clock: Clock) -> Result<Self, TokenError> {
        let secret = load(&source)?;
        let seen = Seen { secret: Some(secret), checked_at: Some(clock.now()), unreadable: false };
        Ok(Self { source, clock, seen: Mutex::new(seen), generation: watch::Sender::new(1) })
    }

    /// Counts the changes, starting with 1.
    pub(crate) fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The token to send. Checks the file first if that is due.
    pub(crate) fn bearer(&self) -> Result<Bearer, TokenError> {
        self.recheck();
        let seen = self.lock();
        let secret = seen.secret.clone().ok_or_else(|| TokenError::Empty { origin: self.source.origin() })?;
        let mut header = HeaderValue::from_str(&format!("Bearer {}", secret.expose_secret()))
            .map_err(|_refused| TokenError::Malformed { origin: self.source.origin() })?;
        header.set_sensitive(true);
        Ok(Bearer { header, secret, generation: *self.generation.borrow() })
    }

    /// Checks the file unless it was checked within [`RECHECK_MS`].
    pub(crate) fn recheck(&self) {
        let TokenSource::File(path) = &self.source else { return };
        let now = self.clock.now();
        let mut seen = self.lock();
        if seen.checked_at.is_some_and(|at| now.millis_since(at) < RECHECK_MS) {
            return;
        }
        seen.checked_at = Some(now);
        match load(&self.source) {
            Ok(secret) => {
                if std::mem::take(&mut seen.unreadable) {
                    tracing::info!(file = %path.display(), "the token file can be read again");
                }
                let same =
                    seen.secret.as_ref().is_some_and(|old| old.expose_secret() == secret.expose_secret());
                if !same {
                    seen.secret = Some(secret);
                    drop(seen);
                    self.generation.send_modify(|generation| *generation += 1);
                    tracing::info!(file = %path.display(), "the token has changed");
                }
            }
            Err(error) if std::mem::replace(&mut seen.unreadable, true) => {
                tracing::debug!(file = %path.display(), %error, "still keeping the token that was read before");
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "keeping the token that was read before");
            }
        }
    }

    /// The server refused the token: the next call checks the file, however recent the last check.
    pub(crate) fn doubt(&self) {
        self.lock().checked_at = None;
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // The content is replaced as a whole, so a panic elsewhere cannot leave it half changed.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenSource {
    fn origin(&self) -> String {
        match self {
            Self::Value(_) => "the environment".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

fn load(source: &TokenSource) -> Result<SecretString, TokenError> {
    let secret = match source {
        TokenSource::Value(secret) => SecretString::from(secret.expose_secret().trim()),
        TokenSource::File(path) => read(path)?,
    };
    let text = secret.expose_secret();
    if text.is_empty() {
        return Err(TokenError::Empty { origin: source.origin() });
    }
    if text.len() > MAX_TOKEN_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::Malformed { origin: source.origin() });
    }
    Ok(secret)
}

fn read(path: &Path) -> Result<SecretString, TokenError> {
    let unreadable = |source| TokenError::Unreadable { path: path.to_owned(), source };
    let limit = u64::try_from(MAX_TOKEN_BYTES).unwrap_or(u64::MAX).saturating_add(2);
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(unreadable)?;
    Ok(SecretString::from(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn clock() -> Clock {
        Clock::simulated(jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_token_shows_itself_in_no_debug_output_and_no_error() {
        let token = Token::new(TokenSource::Value("dop_v1_secret".into()), Clock::system()).unwrap();
        let bearer = token.bearer().unwrap();
        assert_eq!(bearer.header.as_bytes(), b"Bearer dop_v1_secret");
        assert!(!format!("{token:?} {bearer:?}").contains("dop_v1_secret"));
        let error = Token::new(TokenSource::Value("dop v1\nsecret".into()), Clock::system()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_noticed_after_two_seconds_and_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\n").unwrap();
        let token = Token::new(TokenSource::File(file.path().to_owned()), clock()).unwrap();
        std::fs::write(file.path(), "second").unwrap();
        assert_eq!(token.bearer().unwrap().secret.expose_secret(), "first");
        tokio::time::advance(Duration::from_millis(RECHECK_MS)).await;
        let bearer = token.bearer().unwrap();
        assert_eq!((bearer.secret.expose_secret(), bearer.generation), ("second", 2));
        tokio::time::advance(Duration::from_millis(RECHECK_MS)).await;
        assert_eq!(token.bearer().unwrap().generation, 2, "the same content is no change");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_token_is_read_again_at_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first").unwrap();
        let token = Token::new(TokenSource::File(file.path().to_owned()), clock()).unwrap();
        std::fs::write(file.path(), "second").unwrap();
        token.doubt();
        assert_eq!(token.bearer().unwrap().secret.expose_secret(), "second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_missing_for_a_while_leaves_the_last_token_in_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first").unwrap();
        let token = Token::new(TokenSource::File(file.path().to_owned()), clock()).unwrap();
        for content in ["", "not a token", "first"] {
            std::fs::write(file.path(), content).unwrap();
            tokio::time::advance(Duration::from_millis(RECHECK_MS)).await;
            let bearer = token.bearer().unwrap();
            assert_eq!((bearer.secret.expose_secret(), bearer.generation), ("first", 1));
        }
    }

    #[test]
    fn an_empty_token_and_a_missing_file_are_told_apart() {
        let empty = Token::new(TokenSource::Value(" \n".into()), Clock::system()).unwrap_err();
        assert!(matches!(empty, TokenError::Empty { .. }), "{empty}");
        let missing =
            Token::new(TokenSource::File("/nonexistent/token".into()), Clock::system()).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/token"), "{missing}");
    }
}

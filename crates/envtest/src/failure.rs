//! Why a test cannot continue: a text and the place in the test.
//!
//! `?` on any error creates one. It is deliberately no [`std::error::Error`], so that the conversion can be generic.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::panic::Location;

/// The result of a test or of one of its steps.
pub type Outcome<T = ()> = Result<T, Failure>;

/// A failed step.
pub struct Failure(String);

impl Failure {
    /// A failure in the caller's words.
    #[track_caller]
    pub fn new(message: impl fmt::Display) -> Self {
        Self::at(Location::caller(), message)
    }

    pub(crate) fn at(place: &Location<'_>, message: impl fmt::Display) -> Self {
        Self(format!("{}:{}: {message}", place.file(), place.line()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Error> From<E> for Failure {
    #[track_caller]
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            // Writing into a string cannot fail.
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        Self::at(Location::caller(), text)
    }
}

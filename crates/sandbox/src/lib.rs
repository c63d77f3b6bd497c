//! The part that the demonstration shares with the tests: the API server's warnings.

pub mod advice;

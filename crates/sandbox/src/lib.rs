//! What the demonstration shares with the tests: the warnings of the API server, and the picture of README.

pub mod advice;
pub mod picture;

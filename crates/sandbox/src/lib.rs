//! The parts that the demonstration shares with the tests: the API server's warnings, and the picture in README.

pub mod advice;
pub mod picture;

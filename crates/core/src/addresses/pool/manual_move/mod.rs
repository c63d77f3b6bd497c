//! A move that an annotation asks for: the request, its progress and its result.

pub(super) mod progress;
mod request;
pub mod result;

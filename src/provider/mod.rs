//! Cloud providers.

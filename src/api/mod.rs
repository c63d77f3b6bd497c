//! Our two custom resources.

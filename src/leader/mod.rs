//! Leadership: who may write.

pub mod permit;

//! The decisions of FLIPOP.

pub mod facts;
pub mod fault;
pub mod ids;

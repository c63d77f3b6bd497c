//! The decisions of FLIPOP: pure functions and plain state. No clock, randomness, I/O or logging.

pub mod account;
pub mod action;
pub mod budget;
pub mod catalog;
pub mod condition;
pub mod described;
pub mod dns;
pub mod facts;
pub mod failure;
pub mod fault;
pub mod fleet;
pub mod ids;
pub mod matching;
pub mod mismatch;
pub mod moment;
pub mod pool;
pub mod record_set;
pub mod retry;
pub mod selector;
pub mod spec;
pub mod survey;
pub mod words;
pub mod writes;

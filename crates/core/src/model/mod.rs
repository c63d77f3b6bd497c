//! Names, facts, failures, time, and the words of messages about them. The only decision here is which nodes match.
//!
//! Reexports the names that most files need; the rest is named by its module.

pub mod bounds;
pub mod catalog;
pub mod condition;
pub mod described;
pub mod facts;
pub mod fault;
pub mod ids;
pub mod label_mode;
pub mod machine;
pub mod matching;
pub mod mismatch;
pub mod moment;
pub mod node_check;
pub mod node_labels;
pub mod pause;
pub mod provider;
pub mod selector;
pub mod spec;
pub mod survey;
pub mod words;

pub use self::{
    condition::*, facts::*, fault::*, ids::*, machine::*, matching::*, mismatch::*, moment::*, node_check::*,
};

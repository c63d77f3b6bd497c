//! Mechanisms for any decision: its result, when a request may be sent, and when it is repeated. They know neither
//! addresses nor records.
//!
//! Reexports the names that most files need; `evidence` is named by its module.

pub mod budget;
pub mod effects;
pub mod epoch;
pub mod evidence;
pub mod follower;
pub mod outage;
pub mod retry;
pub mod suspects;
pub mod suspicion;
pub mod writes;

pub use self::{
    budget::*, effects::*, epoch::*, follower::*, outage::*, retry::*, suspects::*, suspicion::*, writes::*,
};

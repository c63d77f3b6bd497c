//! The files of the repository agree with each other and with the binary: the shape of the sources, CRDs, manifests,
//! documents, completion scripts, and the start of the binary before it finds a cluster.

mod architecture;
mod book;
mod completion;
mod crds;
mod fault_table;
mod layers;
mod manifests;
mod reference;
mod start;

use book::pages::root;
use serde_json::Value;

#[expect(clippy::panic, reason = "a test may stop at once")]
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

//! Entry point of the sandbox.
fn main() {}

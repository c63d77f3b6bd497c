//! Stub.
use super::digitalocean::Problem;
use super::wire::Reply;
use super::world::{Context, World};
#[derive(Debug, Clone)]
pub(super) struct Domain {}
impl World {
    pub(super) fn domain_call(&mut self, _call: &Context<'_>) -> Result<Reply, Problem> {
        Err(Problem::not_found())
    }
}

//! Stub.
use super::token::Token;
use super::wire::{Op, Reply, Request, Route};
use super::world::{Context, World};
#[derive(Debug, Clone)]
pub(super) struct Zone {}
pub(super) fn route(_request: &Request) -> Route {
    Route::new(Op::Unknown, &[])
}
impl World {
    pub(super) fn cloudflare(&mut self, _token: Option<&Token>, _call: &Context<'_>) -> Reply {
        Reply::empty(404)
    }
}

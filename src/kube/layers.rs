//! The layers around every request to the API server: the token, and the leadership fence of writes.
//!
//! Each request gets the token of the pod's service account, or of a kubeconfig's `tokenFile`, as the file has it now.
//! kube decides by the wall clock when to read the file again. If a fast clock was set back, kube would keep a token
//! that was replaced long ago; a 401 would not make it look. No request is repeated here.
//!
//! Invariant: a request with a [`Permit`] in its extensions is sent only if that permit allows it. The permit is
//! checked before a connection is looked for, and again by the request's body when the connection is about to write it
//! (see [`crate::permit::gate`]): credentials, a proxy and TLS may take seconds in between. The refusal is a
//! [`PermitEnded`], or has one among its causes.

use crate::permit::gate::{Gate, GatedBody};
use crate::permit::{Permit, PermitEnded};
use crate::token::{Token, TokenError};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use tower::filter::{AsyncFilter, FilterLayer};
use tower::util::MapResponseLayer;
use tower::{BoxError, Layer};

/// Layers a service that refuses requests which their permit no longer allows.
#[derive(Debug, Clone, Copy)]
pub struct Fence;

impl<S> Layer<S> for Fence {
    type Service = AsyncFilter<S, fn(Request<Body>) -> BoxFuture<'static, Result<Request<Body>, BoxError>>>;

    fn layer(&self, inner: S) -> Self::Service {
        AsyncFilter::new(inner, |request| gated(request).boxed())
    }
}

/// The request, with a body that is handed out only under its permit, if it has one.
async fn gated(request: Request<Body>) -> Result<Request<Body>, BoxError> {
    let Some(permit) = request.extensions().get::<Permit>().cloned() else { return Ok(request) };
    permit.may_start()?;
    let (parts, body) = request.into_parts();
    let body = GatedBody::new(body.collect_bytes().await?, Gate::new(permit));
    Ok(Request::from_parts(parts, into_body(body).await?))
}

/// kube builds a custom body only from an answer, so the body briefly poses as one.
async fn into_body(body: GatedBody) -> kube::Result<Body> {
    let mut body = Some(body);
    let echo = tower::service_fn(move |_| ready(body.take().map(Response::new).ok_or(PermitEnded)));
    Client::new(echo, String::new()).send(Request::new(Body::empty())).await.map(Response::into_body)
}

/// Adds this token to each request. kube handles the credentials of a kubeconfig.
pub(super) fn authorise(
    token: Arc<Token>,
) -> FilterLayer<impl Fn(Request<Body>) -> Result<Request<Body>, TokenError> + Clone> {
    FilterLayer::new(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, token.bearer()?.header);
        Ok(request)
    })
}

/// Doubts this token after a 401.
pub(super) fn doubt<B>(token: Arc<Token>) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |answer: Response<B>| {
        if answer.status() == StatusCode::UNAUTHORIZED {
            token.doubt();
        }
        answer
    })
}

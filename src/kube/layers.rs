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
use crate::token::Token;
use futures::future::{BoxFuture, ready};
use futures::{FutureExt as _, TryFutureExt as _};
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

/// Layers a service that checks the permit.
#[derive(Debug, Clone, Copy)]
pub struct Fence;

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner }
    }
}

/// Refuses requests that their permit no longer allows.
#[derive(Debug, Clone)]
pub struct Fenced<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        async move {
            let request = gated(request).await?;
            inner.call(request).await.map_err(Into::into)
        }
        .boxed()
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

/// Layers an [`Authorised`] service.
#[derive(Debug, Clone)]
pub(super) struct Credentials(pub(super) Option<Arc<Token>>);

impl<S> Layer<S> for Credentials {
    type Service = Authorised<S>;

    fn layer(&self, inner: S) -> Authorised<S> {
        Authorised { inner, token: self.0.clone() }
    }
}

/// Adds the token, if there is one. kube handles the credentials of a kubeconfig.
#[derive(Debug, Clone)]
pub(super) struct Authorised<S> {
    inner: S,
    token: Option<Arc<Token>>,
}

impl<S, B> Service<Request<Body>> for Authorised<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(token) = self.token.clone() else { return self.inner.call(request).boxed() };
        match token.bearer() {
            Ok(bearer) => request.headers_mut().insert(AUTHORIZATION, bearer.header),
            Err(error) => return ready(Err(error.into())).boxed(),
        };
        let answer = self.inner.call(request);
        let doubt = move |answer: &Response<B>| {
            if answer.status() == StatusCode::UNAUTHORIZED {
                token.doubt();
            }
        };
        answer.inspect_ok(doubt).boxed()
    }
}

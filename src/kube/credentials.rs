//! Sends the token of the pod's service account, or of a kubeconfig's `tokenFile`, with each request, as the file has
//! it now.
//!
//! kube decides by the wall clock when to read the file again. If a fast clock was set back, kube would keep a token
//! that was replaced long ago; a 401 would not make it look. No request is repeated here.

use crate::token::Token;
use futures::future::{BoxFuture, ready};
use futures::{FutureExt as _, TryFutureExt as _};
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

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

//! The last check before a mutating request is written.
//!
//! A connection may take seconds to open, and the permit may end meanwhile. So the permit is checked again when the
//! connection wants the request's body: the HTTP/1 client buffers the head, asks for the body and only then writes
//! both. If the body refuses, nothing is written. The gate also knows whether anything was sent at all.
//!
//! A request without a body is checked too. The HTTP client asks whether there is a body just before it writes the
//! head, because the head depends on it. If the permit is over, the body claims to exist, and then refuses to be read.

use super::{Permit, PermitEnded};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// The gate that a call and its body share.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    permit: Permit,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    passed: AtomicBool,
    refused: AtomicBool,
}

impl Gate {
    pub(crate) fn new(permit: Permit) -> Self {
        Self { permit, state: Arc::default() }
    }

    /// Whether bytes of the request may have been written.
    pub(crate) fn passed(&self) -> bool {
        self.state.passed.load(Ordering::SeqCst)
    }

    /// Whether the permit had ended when the request was about to be written.
    pub(crate) fn refused(&self) -> bool {
        self.state.refused.load(Ordering::SeqCst)
    }

    fn ask(&self) -> Result<(), PermitEnded> {
        let asked = self.permit.may_start();
        match asked {
            Ok(()) => self.state.passed.store(true, Ordering::SeqCst),
            Err(PermitEnded) => self.state.refused.store(true, Ordering::SeqCst),
        }
        asked
    }
}

/// A request body, possibly empty, that is handed out only under a permit.
#[derive(Debug)]
pub(crate) struct GatedBody {
    bytes: Option<Bytes>,
    gate: Gate,
}

impl GatedBody {
    pub(crate) fn new(bytes: Bytes, gate: Gate) -> Self {
        Self { bytes: Some(bytes), gate }
    }
}

impl Body for GatedBody {
    type Data = Bytes;
    type Error = PermitEnded;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, PermitEnded>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        if bytes.is_empty() {
            // An empty body is polled only after it refused in `is_end_stream`.
            self.gate.state.refused.store(true, Ordering::SeqCst);
            return Poll::Ready(Some(Err(PermitEnded)));
        }
        Poll::Ready(Some(self.gate.ask().map(|()| Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.bytes {
            None => true,
            Some(bytes) => bytes.is_empty() && self.gate.ask().is_ok(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        // The length of an empty body is asked for only after it refused by claiming to exist.
        let length = self.bytes.as_ref().map_or(0, |bytes| bytes.len().max(1));
        SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::permit::PermitSource;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    /// Sends a gated body to a listener. Returns the bytes that arrived.
    async fn send(method: http::Method, body: &'static [u8], gate: &Gate) -> Vec<u8> {
        crate::provider::install_tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let client = reqwest::Client::builder().no_proxy().http1_only().tls_certs_only([]).build().unwrap();
        let end = [b"\r\n\r\n", body].concat();
        let body = reqwest::Body::wrap(GatedBody::new(Bytes::from_static(body), gate.clone()));
        let call = client.request(method, url).body(body).send();
        let arrived = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut arrived = Vec::new();
            while stream.read_buf(&mut arrived).await.unwrap() > 0 && !arrived.ends_with(&end) {}
            arrived
        };
        let (result, arrived) = tokio::join!(call, arrived);
        assert!(result.is_err(), "the listener never answers");
        arrived
    }

    fn gate() -> (PermitSource, Gate) {
        let clock = Clock::system();
        let source = PermitSource::new(clock.clone());
        source.extend(clock.now());
        let gate = Gate::new(source.permit());
        (source, gate)
    }

    #[tokio::test]
    async fn a_permit_that_ends_while_the_connection_comes_up_leaves_not_a_byte_written() {
        for (method, body) in [(http::Method::POST, b"{}".as_slice()), (http::Method::DELETE, b"")] {
            let (source, gate) = gate();
            source.revoke();
            assert_eq!(send(method, body, &gate).await, b"", "not even the head of the request");
            assert_eq!((gate.passed(), gate.refused()), (false, true));
        }
    }

    #[tokio::test]
    async fn under_a_permit_the_body_goes_out_with_its_length() {
        let (_source, gate) = gate();
        let arrived = String::from_utf8(send(http::Method::POST, b"{}", &gate).await).unwrap();
        assert!(arrived.contains("content-length: 2\r\n") && arrived.ends_with("{}"), "{arrived}");
        assert_eq!((gate.passed(), gate.refused()), (true, false));
    }

    #[tokio::test]
    async fn under_a_permit_a_request_without_a_body_goes_out_as_such() {
        let (_source, gate) = gate();
        let arrived = String::from_utf8(send(http::Method::DELETE, b"", &gate).await).unwrap();
        assert!(arrived.starts_with("DELETE / HTTP/1.1\r\n"), "{arrived}");
        assert!(!arrived.contains("content-length") && !arrived.contains("transfer-encoding"), "{arrived}");
        assert_eq!((gate.passed(), gate.refused()), (true, false));
    }
}

//! A [`Client`] for unit tests on a paused clock. A function plays the API server.
#![expect(clippy::unnecessary_wraps, reason = "every answer has the type that a service returns")]

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tower::BoxError;

pub(crate) type StubBody = UnsyncBoxBody<Bytes, BoxError>;
pub(crate) type Answer = Result<Response<StubBody>, BoxError>;

/// A client whose requests are answered by `answer`. It gets complete bodies.
pub(crate) fn client<F, Fut>(answer: F) -> Client
where
    F: Fn(Request<Vec<u8>>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes().to_vec();
            answer(Request::from_parts(parts, body)).await
        }
    });
    Client::new(service, "default")
}

/// One request that waits for its answer. Dropping it leaves the request unanswered.
pub(crate) struct Call {
    pub(crate) request: Request<Vec<u8>>,
    answer: oneshot::Sender<Answer>,
}

impl Call {
    pub(crate) fn answer(self, answer: Answer) {
        // The caller may have given up.
        let _gone = self.answer.send(answer);
    }

    pub(crate) fn uri(&self) -> String {
        self.request.uri().to_string()
    }

    pub(crate) fn body(&self) -> Value {
        serde_json::from_slice(self.request.body()).unwrap()
    }
}

/// The requests of a client, in order, for a test to answer.
pub(crate) struct Calls(mpsc::UnboundedReceiver<Call>);

impl Calls {
    pub(crate) async fn next(&mut self) -> Call {
        let wait = std::time::Duration::from_mins(5);
        tokio::time::timeout(wait, self.0.recv()).await.expect("a request").unwrap()
    }

    pub(crate) fn is_quiet(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// A client that a test answers by hand.
pub(crate) fn by_hand() -> (Client, Calls) {
    let (sender, calls) = mpsc::unbounded_channel();
    let client = client(move |request| {
        let (answer, answered) = oneshot::channel();
        let sent = sender.send(Call { request, answer });
        async move {
            if sent.is_err() {
                return broken();
            }
            match answered.await {
                Ok(answer) => answer,
                Err(_dropped) => std::future::pending().await,
            }
        }
    });
    (client, Calls(calls))
}

/// An answer with an object or a list.
pub(crate) fn object(value: &Value) -> Answer {
    Ok(with_code(200, value))
}

/// A refusal in the API server's format.
pub(crate) fn refusal(code: u16, reason: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": format!("refused: {reason}")});
    Ok(with_code(code, &status))
}

/// A refusal that tells the client how many seconds to wait.
pub(crate) fn throttled(code: u16, seconds: u32) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Busy", "message": "busy", "details": {"retryAfterSeconds": seconds}});
    Ok(with_code(code, &status))
}

/// An answer with any body.
pub(crate) fn raw(code: u16, body: Vec<u8>) -> Answer {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
    Ok(Response::builder().status(code).body(body).unwrap())
}

/// An answer that breaks off after these bytes.
pub(crate) fn cut(begin: &'static [u8]) -> Answer {
    let frames =
        [Ok(http_body::Frame::data(Bytes::from_static(begin))), Err("connection reset by the stub".into())];
    let body = StreamBody::new(futures::stream::iter(frames)).boxed_unsync();
    Ok(Response::builder().status(200).body(body).unwrap())
}

fn with_code(code: u16, value: &Value) -> Response<StubBody> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

/// The lines of a watch. It ends when the sender is dropped.
pub(crate) fn events(lines: mpsc::UnboundedReceiver<Value>) -> Answer {
    let frames = futures::stream::unfold(lines, |mut lines| async move {
        let line = lines.recv().await?;
        // A string is sent verbatim, which allows broken lines.
        let line = line.as_str().map_or_else(|| format!("{line}\n"), str::to_owned);
        Some((Ok(http_body::Frame::data(Bytes::from(line))), lines))
    });
    let body = StreamBody::new(frames.boxed()).boxed_unsync();
    Ok(Response::builder().status(200).body(body).unwrap())
}

/// The error of a refused or cut connection.
pub(crate) fn broken() -> Answer {
    Err("connection reset by the stub".into())
}

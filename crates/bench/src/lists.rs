//! The reads that a start is compared with: a client that reads the operator's lists of nodes and pods, page by page,
//! and throws them away.

use crate::world::World;
use flipop_envtest::apiserver::connect;
use flipop_envtest::{Failure, Outcome};
use futures::{AsyncBufRead as _, AsyncBufReadExt as _};
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use prost::Message;
use reqwest::header::{ACCEPT, HeaderValue};
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// As many objects in a page as the operator asks for.
const PAGE: u32 = 500;

/// Every protobuf answer begins with this.
const MAGIC: &[u8] = b"k8s\0";

const FORM: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");

/// `k8s.io.apimachinery.pkg.runtime.Unknown`.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

/// A list, without its items.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
}

/// `ListMeta`.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    /// The token of the next page.
    #[prost(string, tag = "3")]
    more: String,
}

/// The time to connect and to read both lists, as the operator does: each page after the one before it, nodes and pods
/// side by side.
pub(crate) async fn read(world: &World, nodes: &str, pods: &str) -> Outcome<Duration> {
    let started = Instant::now();
    let client = connect(&world.kubeconfig).await?;
    let of_nodes = ListParams::default().limit(PAGE).labels(nodes);
    let of_pods = ListParams::default().limit(PAGE).labels(pods).fields("status.phase=Running");
    tokio::try_join!(
        pages(&client, "/api/v1/nodes", of_nodes),
        pages(&client, "/api/v1/namespaces/web/pods", of_pods)
    )?;
    Ok(started.elapsed())
}

async fn pages(client: &Client, path: &str, mut params: ListParams) -> Outcome {
    loop {
        let mut request = Request::new(path).list(&params)?;
        request.headers_mut().insert(ACCEPT, FORM);
        let mut stream = pin!(client.request_stream(request).await?);
        let mut body = Vec::new();
        // `read_to_end` takes longer: it clears its spare capacity for each piece.
        loop {
            let piece = stream.fill_buf().await?;
            if piece.is_empty() {
                break;
            }
            body.extend_from_slice(piece);
            let read = piece.len();
            stream.as_mut().consume(read);
        }
        let message = body.strip_prefix(MAGIC).ok_or_else(|| Failure::new("a page that is no protobuf"))?;
        let list = List::decode(Envelope::decode(message)?.raw.as_slice())?;
        match list.metadata.unwrap_or_default().more {
            more if more.is_empty() => return Ok(()),
            more => params.continue_token = Some(more),
        }
    }
}

//! Reads one page of a list. Only one copy is held while it is decoded.
//!
//! `Api::list` holds three copies of the body, has no size limit, and logs the whole body if it cannot decode it.

use crate::kube::objects::protobuf::DecodeList;
use crate::kube::protobuf;
use bytes::Bytes;
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use http::header::{ACCEPT, HeaderValue};
use kube::api::ListParams;
use kube::core::{ObjectList, Request};
use kube::{Api, Error, Resource};
use serde::de::{DeserializeOwned, Error as _};
use std::fmt::Debug;
use std::pin::pin;

/// Longest body: far larger than a page of the largest pods, and less than the Deployment's memory.
const MAX_BYTES: usize = 96 << 20;

/// Reads a page, in protobuf if `decode` is given and the API server supports it.
pub(super) async fn read<K>(
    api: &Api<K>,
    params: &ListParams,
    decode: Option<DecodeList<K>>,
) -> kube::Result<ObjectList<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut request = Request::new(api.resource_url()).list(params).map_err(Error::BuildRequest)?;
    if decode.is_some() {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(protobuf::ACCEPT));
    }
    let body = api.clone().into_client().request_stream(request).await?;
    let bytes = whole(body, MAX_BYTES).await.map_err(Error::ReadEvents)?;
    match decode.and_then(|decode| decode(&bytes)) {
        Some(page) => page.map_err(|error| Error::SerdeError(serde_json::Error::custom(error))),
        None => serde_json::from_slice(&bytes).map_err(Error::SerdeError),
    }
}

/// Reads a body to its end. `read_to_end` would clear its spare capacity for each piece, which takes a third of the
/// time for a large list.
async fn whole(body: impl AsyncBufRead, most: usize) -> std::io::Result<Bytes> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    loop {
        let piece = body.fill_buf().await?;
        if piece.is_empty() {
            return Ok(bytes.into());
        }
        if bytes.len().saturating_add(piece.len()) > most {
            return Err(std::io::Error::other("the page is too long"));
        }
        bytes.extend_from_slice(piece);
        let read = piece.len();
        body.as_mut().consume(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::io::BufReader;

    #[tokio::test]
    async fn a_body_is_read_to_its_end_and_never_beyond_its_bound() {
        let body: Vec<u8> = (0..=255).collect();
        for piece in [1, 7, 255, 256, 1_024] {
            let read = |most| whole(BufReader::with_capacity(piece, body.as_slice()), most);
            assert_eq!(read(256).await.unwrap(), body, "pieces of {piece}");
            assert_eq!(read(255).await.unwrap_err().to_string(), "the page is too long", "pieces of {piece}");
        }
        assert!(whole(futures::io::empty(), 0).await.unwrap().is_empty());
    }
}

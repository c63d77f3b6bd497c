//! One page of a list, held once while it is decoded.
//!
//! `Api::list` holds the body three times over, has no bound, and logs all of it when it cannot be decoded.

use crate::kube::objects::protobuf::DecodeList;
use crate::kube::protobuf;
use bytes::Bytes;
use futures::AsyncReadExt as _;
use http::header::{ACCEPT, HeaderValue};
use kube::api::ListParams;
use kube::core::{ObjectList, Request};
use kube::{Api, Error, Resource};
use serde::de::{DeserializeOwned, Error as _};
use std::fmt::Debug;
use std::pin::pin;

/// Longest body: far more than a page of the largest pods, less than the Deployment's memory.
const MAX_BYTES: u64 = 96 << 20;

/// Reads a page, as protobuf where `decode` can read that and the API server can write it.
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
    let mut bytes = Vec::new();
    let read = pin!(body).take(MAX_BYTES).read_to_end(&mut bytes).await.map_err(Error::ReadEvents)?;
    if u64::try_from(read).is_ok_and(|read| read >= MAX_BYTES) {
        return Err(Error::ReadEvents(std::io::Error::other("the page is too long")));
    }
    let bytes = Bytes::from(bytes);
    match decode.and_then(|decode| decode(&bytes)) {
        Some(page) => page.map_err(|error| Error::SerdeError(serde_json::Error::custom(error))),
        None => serde_json::from_slice(&bytes).map_err(Error::SerdeError),
    }
}

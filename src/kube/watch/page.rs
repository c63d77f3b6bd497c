//! Reads one page of a list. In protobuf each object is reduced to its facts as soon as it has arrived.
//!
//! `Api::list` holds three copies of the body, has no size limit, and logs the whole body if it cannot decode it. It
//! buffers all objects before it decodes the first one.

use crate::kube::objects::protobuf::{DecodeItem, ITEM, METADATA, list_metadata};
use crate::kube::protobuf::{self, MAGIC, invalid};
use bytes::Bytes;
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use http::header::{ACCEPT, HeaderValue};
use kube::api::ListParams;
use kube::core::{ListMeta, Request};
use kube::{Api, Error, Resource};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;
use std::io;
use std::pin::pin;

/// Objects per page of a list. An API server before Kubernetes 1.33 holds each page in memory while it sends it. Each
/// page costs it a walk over all objects of the kind.
pub(super) const PAGE_SIZE: u32 = 500;

/// Most pages of one list. Far beyond the largest supported cluster; an endless list must not hang us.
pub(super) const MAX_PAGES: u32 = 20_000;

/// Longest page in JSON, which is in memory as a whole. A longer one is asked for again with fewer objects.
const MAX_PAGE_BYTES: usize = 16 << 20;

/// Objects per page after a page that was too long. One object is at most 1.5 MiB.
const SMALLER_PAGES: [u32; 3] = [100, 20, 1];

/// The form in which a list is asked for.
#[derive(Debug)]
pub enum Form<K> {
    /// JSON.
    Json,
    /// Protobuf if the API server supports it, or else JSON.
    Protobuf(DecodeItem<K>),
    /// The same, and only the metadata of each object.
    Metadata(DecodeItem<K>),
}

/// One page.
#[derive(Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Its objects, in the order of the list.
    pub items: Vec<T>,
    /// The version of the list.
    pub version: Option<String>,
    /// The token of the next page, if there is one.
    pub more: Option<String>,
}

/// Reads a page. `params.limit` is lowered while pages are too long, and raised while they are short.
///
/// # Errors
/// If there is no whole answer, the API server refuses, or an object cannot be decoded.
pub async fn read<K, I, T>(
    api: &Api<K>,
    params: &mut ListParams,
    form: &Form<I>,
    cut: impl Fn(I) -> T,
) -> kube::Result<Page<T>>
where
    K: Resource + Clone,
    I: DeserializeOwned,
{
    loop {
        let limit = params.limit.unwrap_or(PAGE_SIZE);
        let read = read_once(api, params, form, &cut).await;
        let length = match &read {
            Ok((_, length)) => *length,
            Err(Error::ReadEvents(error)) if error.kind() == io::ErrorKind::FileTooLarge => usize::MAX,
            Err(_) => return read.map(|(page, _)| page),
        };
        if length <= MAX_PAGE_BYTES {
            let larger = SMALLER_PAGES.into_iter().chain([PAGE_SIZE]).filter(|larger| *larger > limit).min();
            let times = larger.map_or(1, |larger| larger.div_ceil(limit));
            if length.saturating_mul(usize::try_from(times).unwrap_or(usize::MAX)) <= MAX_PAGE_BYTES {
                params.limit = larger.or(params.limit);
            }
            return read.map(|(page, _)| page);
        }
        let Some(smaller) = SMALLER_PAGES.into_iter().find(|smaller| *smaller < limit) else {
            return read.map(|(page, _)| page);
        };
        params.limit = Some(smaller);
    }
}

/// Reads a page, and tells the length of its body in JSON.
async fn read_once<K, I, T>(
    api: &Api<K>,
    params: &ListParams,
    form: &Form<I>,
    cut: &impl Fn(I) -> T,
) -> kube::Result<(Page<T>, usize)>
where
    K: Resource + Clone,
    I: DeserializeOwned,
{
    let mut request = Request::new(api.resource_url()).list(params).map_err(Error::BuildRequest)?;
    let (accept, decode) = match form {
        Form::Json => (None, None),
        Form::Protobuf(decode) => (Some(protobuf::ACCEPT), Some(*decode)),
        Form::Metadata(decode) => (Some(protobuf::ACCEPT_METADATA), Some(*decode)),
    };
    if let Some(accept) = accept {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
    }
    let mut body = pin!(api.clone().into_client().request_stream(request).await?);
    let first = body.fill_buf().await.map_err(Error::ReadEvents)?.first();
    if let Some(decode) = decode.filter(|_| first == MAGIC.first()) {
        return of_protobuf(&mut body, decode, cut).await.map(|page| (page, 0)).map_err(unread);
    }
    let body = whole(body, MAX_PAGE_BYTES).await.map_err(Error::ReadEvents)?;
    of_json(&body, cut).map(|page| (page, body.len())).map_err(Error::SerdeError)
}

fn unread(error: io::Error) -> Error {
    // A connection that breaks has an error of its own. If only the list ends too early, the answer makes no sense.
    if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) {
        Error::SerdeError(serde_json::Error::custom(error))
    } else {
        Error::ReadEvents(error)
    }
}

async fn of_protobuf<K, T>(
    body: &mut (impl AsyncBufRead + Unpin),
    decode: DecodeItem<K>,
    cut: &impl Fn(K) -> T,
) -> io::Result<Page<T>> {
    let mut page = Page { items: Vec::new(), version: None, more: None };
    let mut known = false;
    let take_in = |number, content: Bytes| {
        match number {
            METADATA if std::mem::replace(&mut known, true) => return Err(invalid("the list begins twice")),
            METADATA => (page.version, page.more) = list_metadata(content).map_err(invalid)?,
            ITEM => page.items.push(cut(decode(content).map_err(invalid)?)),
            _ => {}
        }
        Ok(())
    };
    protobuf::fields(body, take_in).await?;
    Ok(page)
}

/// Each object is cut before the next one is decoded.
fn of_json<I: DeserializeOwned, T>(body: &[u8], cut: &impl Fn(I) -> T) -> serde_json::Result<Page<T>> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(default)]
        metadata: ListMeta,
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
    }
    let List { metadata, items } = serde_json::from_slice(body)?;
    let items = items.into_iter().flatten().map(|item| serde_json::from_str(item.get()).map(cut));
    let present = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (version, more) = (present(metadata.resource_version), present(metadata.continue_));
    Ok(Page { items: items.collect::<Result<_, _>>()?, version, more })
}

/// Reads a body to its end. `read_to_end` would clear its spare capacity for each piece, which takes a third of the
/// time for a large list.
async fn whole(body: impl AsyncBufRead, most: usize) -> io::Result<Vec<u8>> {
    let (mut body, mut bytes) = (pin!(body), Vec::new());
    loop {
        let piece = body.fill_buf().await?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        if bytes.len().saturating_add(piece.len()) > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the page is too long"));
        }
        bytes.extend_from_slice(piece);
        let read = piece.len();
        body.as_mut().consume(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::io::BufReader;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use prost::{DecodeError, Message};

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

    #[derive(Clone, PartialEq, Message)]
    struct Metadata {
        #[prost(string, tag = "2")]
        version: String,
        #[prost(string, tag = "3")]
        more: String,
        #[prost(int64, optional, tag = "4")]
        remaining: Option<i64>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Item {
        #[prost(string, tag = "1")]
        name: String,
    }

    /// A list with fields that nobody knows yet, one of each form.
    #[derive(Clone, PartialEq, Message)]
    struct List {
        #[prost(message, optional, tag = "1")]
        metadata: Option<Metadata>,
        #[prost(message, repeated, tag = "2")]
        items: Vec<Item>,
        #[prost(uint64, tag = "3")]
        number: u64,
        #[prost(fixed64, tag = "4")]
        eight: u64,
        #[prost(fixed32, tag = "5")]
        four: u32,
        #[prost(string, tag = "600")]
        text: String,
    }

    /// The fields of a list that are read.
    #[derive(Clone, PartialEq, Message)]
    struct Known {
        #[prost(message, optional, tag = "1")]
        metadata: Option<KnownMetadata>,
        #[prost(message, repeated, tag = "2")]
        items: Vec<Item>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct KnownMetadata {
        #[prost(bytes = "bytes", tag = "2")]
        version: Bytes,
        #[prost(bytes = "bytes", tag = "3")]
        more: Bytes,
    }

    fn text(bytes: &[u8]) -> Option<String> {
        Some(String::from_utf8_lossy(bytes).into_owned()).filter(|text| !text.is_empty())
    }

    fn item(bytes: Bytes) -> Result<String, DecodeError> {
        Item::decode(bytes).map(|item| item.name)
    }

    async fn decoded(body: &[u8], piece: usize) -> io::Result<Page<usize>> {
        of_protobuf(&mut BufReader::with_capacity(piece, body), item, &|name: String| name.len()).await
    }

    /// The lengths of the names.
    const LENGTHS: [usize; 4] = [3, 0, 300, 70_000];

    fn list() -> Bytes {
        let items = LENGTHS.map(|length| Item { name: "n".repeat(length) }).to_vec();
        let metadata =
            Metadata { version: "7".to_owned(), more: "next".to_owned(), remaining: Some(1 << 40) };
        let (number, text) = (u64::MAX, "new".to_owned());
        protobuf::body(&List { metadata: Some(metadata), items, number, eight: 8, four: 4, text })
    }

    #[tokio::test]
    async fn a_protobuf_list_is_read_object_by_object_in_whatever_pieces_it_comes() {
        for piece in [1, 7, 4_096, 1 << 20] {
            let page = decoded(&list(), piece).await.unwrap();
            let (version, more) = (Some("7".to_owned()), Some("next".to_owned()));
            assert_eq!(page, Page { items: LENGTHS.to_vec(), version, more }, "pieces of {piece}");
        }
        let nothing = List { metadata: Some(Metadata::default()), ..List::default() };
        let empty = decoded(&protobuf::body(&nothing), 64).await.unwrap();
        assert_eq!(empty, Page { items: Vec::new(), version: None, more: None });
    }

    proptest! {
        /// An accepted page means the same as to a reader of whole bodies.
        #[test]
        fn a_list_that_is_read_object_by_object_is_the_list_that_is_read_whole(
            changes in vec((any::<Index>(), any::<u8>()), 0..4),
            more in vec(any::<u8>(), 0..12),
            names in vec("[a-z]{0,3}", 0..4),
        ) {
            let items = names.into_iter().map(|name| Item { name }).collect();
            let metadata = Metadata { version: "7".to_owned(), more: "n".to_owned(), remaining: Some(3) };
            let mut body = protobuf::body(&List { metadata: Some(metadata), items, ..List::default() }).to_vec();
            body.extend(more);
            for (at, byte) in changes {
                let at = at.index(body.len());
                body[at] = byte;
            }
            if let Some(Ok(page)) = decoded(&body, 5).now_or_never() {
                let whole = protobuf::message::<Known>(&Bytes::from(body)).unwrap().unwrap();
                let KnownMetadata { version, more } = whole.metadata.unwrap_or_default();
                let items = whole.items.into_iter().map(|item| item.name.len()).collect();
                prop_assert_eq!(page, Page { items, version: text(&version), more: text(&more) });
            }
        }
    }

    #[tokio::test]
    async fn a_protobuf_list_that_is_cut_or_broken_is_no_list() {
        let whole = list();
        for end in (0..whole.len()).filter(|end| *end < 400 || end % 997 == 0 || whole.len() - end < 400) {
            assert!(decoded(&whole[..end], 64).await.is_err(), "{end} of {}", whole.len());
        }
        let too_long = [b"k8s\0\x12".as_slice(), &[0xff; 9], &[0x01]].concat();
        let overlong = [b"k8s\0\x12".as_slice(), &[0xff; 10], &[0x01]].concat();
        let large = [b"k8s\0\x12\x85\x80\x80\x10\x12\xff\xff\xff\x0f".as_slice(), &[0; 64]].concat();
        for (body, why) in [
            (too_long.as_slice(), "the body is too long"),
            (&overlong, "a number is too long"),
            (&large, "the object is too long"),
            (b"k8s\0\x12\0\x12\0", "the body holds two messages"),
            (b"k8s\0\x12\x04\x0a\0\x0a\0", "the list begins twice"),
            (b"k8s\0\x12\x02\x10\x05", "a field of the wrong form"),
            (b"k8s\0\x02\0", "a field of the wrong form"),
            (b"k8s\0\x0b", "a field of an unknown form"),
            (b"k8s\x01\x12\0", "the body is no protobuf of Kubernetes"),
        ] {
            let error = decoded(body, 64).await.unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidData, why));
        }
    }
}

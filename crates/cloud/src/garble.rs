//! Spoils answers on purpose.

use bytes::Bytes;
use serde_json::Value;

use super::faults::Garble;
use super::wire::Reply;

/// Spoils an answer. `Truncated` is left to the connection.
pub(super) fn spoil(mut reply: Reply, garble: &Garble) -> Reply {
    match garble {
        Garble::MalformedJson => reply.body = first_half(&reply.body),
        Garble::Html => {
            let page = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>";
            reply = Reply::empty(200).with_header("content-type", "text/html");
            reply.body = Bytes::from_static(page.as_bytes());
        }
        Garble::Oversized(bytes) => {
            let mut body = vec![b' '; *bytes];
            body.extend_from_slice(&reply.body);
            reply.body = Bytes::from(body);
        }
        Garble::Empty => reply.body = Bytes::new(),
        Garble::Null => reply.body = Bytes::from_static(b"null"),
        Garble::UnknownFields => {
            let mut value = reply.value();
            add_unknown(&mut value);
            reply.body = Bytes::from(value.to_string());
        }
        Garble::WrongTotal => {
            let mut value = reply.value();
            if let Some(total) = value.pointer_mut("/meta/total") {
                *total = serde_json::json!(total.as_u64().unwrap_or_default() + 1);
            }
            reply.body = Bytes::from(value.to_string());
        }
        Garble::Truncated => {}
    }
    reply
}

/// The first half of a body.
pub(super) fn first_half(body: &Bytes) -> Bytes {
    body.slice(..body.len() / 2)
}

fn add_unknown(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for inner in object.values_mut() {
                add_unknown(inner);
            }
            object.insert("x_unknown".to_owned(), serde_json::json!({"of": ["no", null, 1.5]}));
        }
        Value::Array(items) => items.iter_mut().for_each(add_unknown),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

//! The format of `DigitalOcean`'s answers: errors and pages of lists.

use serde_json::{Map, Value, json};

use super::faults::{Fault, Refusal};
use super::wire::{MalformedBody, Page, Reply};
use super::world::Context;

const PER_PAGE_DEFAULT: usize = 20;
const PER_PAGE_MAX: usize = 200;

/// An error in the provider's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(status: u16, message: &str) -> Self {
        Self { status, message: message.to_owned() }
    }

    pub(super) fn not_found() -> Self {
        Self::new(404, "The resource you were accessing could not be found.")
    }

    pub(super) fn unprocessable(message: &str) -> Self {
        Self::new(422, message)
    }

    pub(super) fn id(&self) -> &'static str {
        match self.status {
            400 => "bad_request",
            401 => "unauthorized",
            403 => "forbidden",
            404 => "not_found",
            405 => "method_not_allowed",
            409 => "conflict",
            422 => "unprocessable_entity",
            429 => "too_many_requests",
            503 => "service_unavailable",
            _ => "server_error",
        }
    }
}

impl From<MalformedBody> for Problem {
    fn from(_: MalformedBody) -> Self {
        Self::new(400, "error parsing request body")
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::PendingEventOnIp => Self::unprocessable("The reserved IP already has a pending event."),
            Refusal::PendingEventOnDroplet => Self::unprocessable("Droplet already has a pending event."),
            Refusal::NodeInUse => Self::unprocessable("The Droplet already has a reserved IP."),
            Refusal::WrongDatacenter => {
                Self::unprocessable("The reserved IP and the Droplet must be in the same datacenter.")
            }
            Refusal::NotFound => Self::not_found(),
            Refusal::Unauthorized => Self::new(401, "Unable to authenticate you"),
            Refusal::Forbidden => Self::new(403, "You are not authorized to perform this operation"),
            Refusal::Quota => {
                Self::unprocessable("You have reached the limit of reserved IPs for your account.")
            }
            Refusal::IdenticalRecord => Self::unprocessable("An identical record already exists."),
            Refusal::Status(status, message) => Self::new(*status, message),
        }
    }
}

/// One page of a list, with its links and total.
pub(super) fn list(call: &Context<'_>, key: &str, entries: Vec<Value>) -> Result<Reply, Problem> {
    let page = Page::read(call.request, PER_PAGE_DEFAULT, PER_PAGE_MAX)
        .map_err(|name| Problem { status: 400, message: format!("{name} is out of range") })?;
    let total = entries.len();
    let mut body = Map::new();
    body.insert(key.to_owned(), Value::Array(page.cut(entries)));
    body.insert("links".to_owned(), links(call, page, total));
    body.insert("meta".to_owned(), json!({ "total": total }));
    Ok(Reply::json(200, &Value::Object(body)))
}

fn links(call: &Context<'_>, page: Page, total: usize) -> Value {
    let last = page.count(total);
    let base = match call.fault {
        Some(Fault::ForeignNext { base }) => base.trim_end_matches('/'),
        _ => call.request.base.trim_end_matches('/'),
    };
    let kept: String = call
        .request
        .query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("page=") && !pair.starts_with("per_page="))
        .flat_map(|pair| [pair, "&"])
        .collect();
    let url = |number: usize| {
        let (path, per_page) = (&call.request.path, page.per_page);
        Value::String(format!("{base}{path}?{kept}page={number}&per_page={per_page}"))
    };
    let mut pages = Map::new();
    if page.page > 1 {
        pages.insert("first".to_owned(), url(1));
        pages.insert("prev".to_owned(), url(page.page.saturating_sub(1).min(last)));
    }
    if page.page < last {
        pages.insert("next".to_owned(), url(page.page.saturating_add(1)));
        pages.insert("last".to_owned(), url(last));
    }
    if pages.is_empty() { json!({}) } else { json!({ "pages": pages }) }
}

/// A field that must be text if present. `""` and null count as absent.
pub(super) fn text(
    body: &Map<String, Value>,
    name: &str,
    complaint: &str,
) -> Result<Option<String>, Problem> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(Problem::unprocessable(complaint)),
    }
}

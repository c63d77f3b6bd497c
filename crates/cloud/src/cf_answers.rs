//! The format of Cloudflare's answers: the envelope, errors, and pages of lists.

use serde_json::{Value, json};

use super::faults::Refusal;
use super::wire::{MalformedBody, Page, Reply};
use super::world::Context;

/// An error in the provider's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) code: u32,
    pub(super) message: String,
    /// The specific error behind a general one.
    pub(super) chain: Option<(u32, String)>,
}

impl Problem {
    pub(super) fn new(status: u16, code: u32, message: &str) -> Self {
        Self { status, code, message: message.to_owned(), chain: None }
    }

    /// The refusal of a record that breaks a rule.
    pub(super) fn validation(code: u32, message: &str) -> Self {
        let chain = Some((code, message.to_owned()));
        Self { status: 400, code: 1004, message: "DNS Validation Error".to_owned(), chain }
    }

    pub(super) fn no_record() -> Self {
        Self::new(404, 81044, "Record does not exist.")
    }

    pub(super) fn identical() -> Self {
        Self::new(400, 81058, "An identical record already exists.")
    }

    pub(super) fn forbidden() -> Self {
        Self::new(403, 10000, "Authentication error")
    }

    pub(super) fn render(&self) -> Reply {
        let mut error = json!({"code": self.code, "message": self.message});
        if let (Some((code, message)), Some(error)) = (&self.chain, error.as_object_mut()) {
            error.insert("error_chain".to_owned(), json!([{"code": code, "message": message}]));
        }
        let body = json!({"success": false, "errors": [error], "messages": [], "result": null});
        Reply::json(self.status, &body)
    }
}

impl From<MalformedBody> for Problem {
    fn from(_: MalformedBody) -> Self {
        Self::new(400, 9207, "Request body is invalid.")
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::no_record(),
            Refusal::Unauthorized => Self::new(401, 10000, "Authentication error"),
            Refusal::Forbidden => Self::forbidden(),
            Refusal::IdenticalRecord => Self::identical(),
            Refusal::Quota => Self::new(400, 81045, "Record quota exceeded."),
            Refusal::PendingEventOnIp | Refusal::PendingEventOnDroplet => {
                Self::new(409, 1105, "Please retry: another change is in progress.")
            }
            Refusal::NodeInUse | Refusal::WrongDatacenter => {
                Self::validation(9005, "Content for A record must be a valid IPv4 address.")
            }
            Refusal::Status(status, message) => Self::new(*status, 10001, message),
        }
    }
}

/// A successful answer.
pub(super) fn success(result: &Value) -> Reply {
    Reply::json(200, &json!({"success": true, "errors": [], "messages": [], "result": result}))
}

/// One page of a list.
pub(super) fn listing(page: Page, entries: Vec<Value>) -> Reply {
    let total = entries.len();
    let entries = page.cut(entries);
    // Here an empty list has no pages, unlike at DigitalOcean.
    let total_pages = total.div_ceil(page.per_page);
    let body = json!({
        "success": true,
        "errors": [],
        "messages": [],
        "result_info": {
            "page": page.page, "per_page": page.per_page, "count": entries.len(),
            "total_count": total, "total_pages": total_pages,
        },
        "result": entries,
    });
    Reply::json(200, &body)
}

/// The requested page.
pub(super) fn page(call: &Context<'_>, default: usize, max: usize) -> Result<Page, Problem> {
    Page::read(call.request, default, max).map_err(|name| Problem {
        status: 400,
        code: 1004,
        message: "Validation error".to_owned(),
        chain: Some((9001, format!("{name} is out of range"))),
    })
}

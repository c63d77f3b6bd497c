//! The request to move an address by hand, and the outcome of the last one, as data.
//!
//! This module defines the form of the annotation. It does not decide whether to move.

use crate::model::Address;

/// The annotation on a pool that asks for a move.
pub const MOVE_ANNOTATION: &str = "flipop.digitalocean.com/move";

/// The longest valid request: an address, the longest node name, and room for the text after `#`.
pub const MAX_CHARS: usize = 400;

crate::described! {
    /// Outcome of a request to move an address.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum MoveOutcome {
        /// FLIPOP accepted the request and has not finished the move.
        Pending = "Pending",
        /// The provider confirmed that the address is on the node's droplet.
        Done = "Done",
        /// The move began, or was about to begin, and was not finished. `message` says why.
        Interrupted = "Interrupted",
        /// FLIPOP or the provider refused the move. `message` says why.
        Refused = "Refused",
        /// FLIPOP cannot tell whether the request is a new one. Set the annotation again with another text after `#`.
        Ignored = "Ignored",
    }
    /// The word in the status.
    fn as_str -> &'static str;
}

impl MoveOutcome {
    /// Parses the word in the status.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|outcome| outcome.as_str() == word)
    }
}

/// `status.lastMove`; empty strings mean absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastMove {
    /// The annotation, cut if it is longer than any valid request.
    pub request: String,
    /// The address; absent if the request could not be read.
    pub ip: Option<Address>,
    /// The node that had the address, or its machine; empty if it was on none.
    pub from: String,
    /// The node that is to get it.
    pub to: String,
    /// When the outcome last changed, in seconds since the Unix epoch.
    pub time_s: i64,
    /// The outcome.
    pub outcome: MoveOutcome,
    /// Why, if the outcome needs a reason, or what a pending move waits for.
    pub message: String,
}

impl LastMove {
    /// True until the outcome is known.
    pub fn is_pending(&self) -> bool {
        self.outcome == MoveOutcome::Pending
    }
}

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The address.
    pub ip: Address,
    /// The node that is to get it.
    pub node: String,
}

impl Request {
    /// Parses the annotation.
    ///
    /// # Errors
    /// The mistake in it, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| Err(format!("{what}; write <address>=<node>, for example 203.0.113.10=edge-3"));
        if text.chars().count() > MAX_CHARS {
            return wrong("the annotation is longer than 400 characters");
        }
        let wanted = text.split_once('#').map_or(text, |(wanted, _)| wanted);
        let Some((ip, node)) = wanted.split_once('=').map(|(ip, node)| (ip.trim(), node.trim())) else {
            return wrong("the annotation has no '='");
        };
        let Some(ip) = Address::v4(ip) else {
            return wrong("the text before '=' is not an IPv4 address");
        };
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if node.is_empty() || !node.chars().all(fits) {
            return wrong("the text after '=' is not a node name");
        }
        Ok(Self { ip, node: node.to_owned() })
    }
}

/// The annotation in the form in which it is compared and remembered. `None` if it asks for nothing.
pub fn request_of(annotation: Option<&str>) -> Option<String> {
    let text = annotation?.trim();
    (!text.is_empty()).then(|| text.chars().take(MAX_CHARS.saturating_add(1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_an_address_and_a_node_and_may_have_a_text_of_its_own() {
        let read = |text: &str| Request::parse(text).map(|request| (request.ip.to_string(), request.node));
        let meant = Ok(("192.0.2.1".to_owned(), "edge-3.example".to_owned()));
        for text in [
            "192.0.2.1=edge-3.example",
            "192.0.2.1=edge-3.example#",
            "192.0.2.1=edge-3.example#2=3#4",
            " 192.0.2.1 = edge-3.example #2",
        ] {
            assert_eq!(read(text), meant, "{text}");
        }
        for (text, what) in [
            ("192.0.2.1", "no '='"),
            ("192.0.2.1#=edge-3", "no '='"),
            ("2001:db8::1=edge-3", "not an IPv4 address"),
            ("=edge-3", "not an IPv4 address"),
            ("192.0.2.1=", "not a node name"),
            ("192.0.2.1=Edge_3", "not a node name"),
            ("192.0.2.1=a=b", "not a node name"),
            (&format!("192.0.2.1=edge-3#{}", "x".repeat(MAX_CHARS)), "longer than 400"),
        ] {
            assert!(read(text).unwrap_err().contains(what), "{text}: {:?}", read(text));
        }
    }

    #[test]
    fn a_long_annotation_is_remembered_in_part_and_stays_too_long() {
        let long = request_of(Some(&"x".repeat(100_000))).unwrap();
        assert_eq!(long.len(), MAX_CHARS + 1);
        assert!(Request::parse(&long).unwrap_err().contains("longer"));
        assert_eq!([request_of(None), request_of(Some(" "))], [None, None], "nothing is asked for");
    }

    #[test]
    fn an_outcome_is_read_by_its_word() {
        for outcome in MoveOutcome::ALL {
            assert_eq!(MoveOutcome::parse(outcome.as_str()), Some(*outcome));
        }
        assert_eq!(MoveOutcome::parse("Moved"), None);
    }
}

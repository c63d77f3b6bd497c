//! Lists that come on pages, read whole.
//!
//! Entries come and go while the pages are read, and then one may stand on two pages or on none. So what was collected
//! must be different entries, of which every page says the same total, and as many as that where the total is known to
//! be of what is listed; else the listing begins anew. A token that has to be left alone meanwhile is asked no more.

use crate::provider::http::{Answer, Api};
use flipop_core::fault::{Fault, FaultKind};
use std::collections::BTreeMap;

/// A list that changes during this many readings in a row is given up for now: the next poll tries again.
const MAX_TRIES: u32 = 3;

/// One page.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// What it says.
    pub(super) entries: Vec<T>,
    /// Number of entries on all pages, if it says so; with or without those that a filter leaves out.
    pub(super) total: Option<u64>,
    /// Whether another page follows.
    pub(super) more: bool,
    /// The answer that it came in.
    pub(super) answer: Answer,
}

/// A list that can be asked for page by page.
pub(super) trait Pages {
    /// What the list is of.
    type Entry;
    /// What no two entries have in common.
    type Key: Ord;

    /// What the list is called in messages.
    const WHAT: &'static str;

    /// Whether the total counts what is listed. Of a filtered list it may count what the filter leaves out as well.
    const TOTAL_IS_OF_LIST: bool;

    /// Longer lists are no lists but loops.
    const MAX_PAGES: u64;

    /// What the pages are asked of.
    fn api(&self) -> &Api;

    /// Asks for a page; the first is number 1.
    fn page(&self, number: u64) -> impl Future<Output = Result<Page<Self::Entry>, Fault>> + Send;

    /// The key of an entry.
    fn key(entry: &Self::Entry) -> Self::Key;
}

/// The whole list: never a part of it.
pub(super) async fn whole<P: Pages>(list: &P) -> Result<BTreeMap<P::Key, P::Entry>, Fault> {
    for reading in 0..MAX_TRIES {
        if reading > 0 {
            may_read_on(list)?;
        }
        if let Some(entries) = all_pages(list).await? {
            return Ok(entries);
        }
        tracing::debug!(list = P::WHAT, "the list changed while it was read");
    }
    Err(Fault {
        kind: FaultKind::Transient,
        message: format!("the list of {} changed during each of {MAX_TRIES} readings", P::WHAT),
        outcome_unknown: false,
        retry_after_ms: None,
    })
}

/// Refuses to ask for more while the token has to be left alone: another call may have been told so meanwhile.
fn may_read_on<P: Pages>(list: &P) -> Result<(), Fault> {
    let Some(left_ms) = list.api().blocked_ms() else { return Ok(()) };
    let (what, provider) = (P::WHAT, list.api().provider());
    Err(Fault {
        kind: FaultKind::Throttled,
        message: format!(
            "the list of {what} was not read to its end: {provider} has to be left alone for now"
        ),
        outcome_unknown: false,
        retry_after_ms: Some(left_ms),
    })
}

/// The entries on all pages; `None` if the pages do not fit together.
async fn all_pages<P: Pages>(list: &P) -> Result<Option<BTreeMap<P::Key, P::Entry>>, Fault> {
    let mut collected = BTreeMap::new();
    let mut expected = None;
    let mut number = 1;
    loop {
        let Page { entries, total, more, answer } = list.page(number).await?;
        if total.is_none() && (more || number > 1) {
            return Err(answer.malformed("a list of several pages without their total"));
        }
        if number > 1 && total != expected {
            return Ok(None);
        }
        expected = total;
        for entry in entries {
            if collected.insert(P::key(&entry), entry).is_some() {
                return Ok(None);
            }
        }
        if !more {
            break;
        }
        if number >= P::MAX_PAGES {
            let max = P::MAX_PAGES;
            return Err(answer.malformed(&format!("a list of more than {max} pages")));
        }
        may_read_on(list)?;
        number = number.saturating_add(1);
    }
    if !P::TOTAL_IS_OF_LIST {
        return Ok(Some(collected));
    }
    let count = u64::try_from(collected.len()).unwrap_or(u64::MAX);
    Ok(expected.is_none_or(|total| total == count).then_some(collected))
}

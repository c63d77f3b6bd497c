//! Reads lists that come in pages.
//!
//! Entries come and go while the pages are read, so one may be on two pages or on none. Therefore all collected entries
//! must differ, and every page must give the same total. If the total counts the listed entries, it must equal their
//! number. Otherwise the listing begins again, unless the provider asks the token to wait.
//!
//! A list on one page that is the same in each reading is stable. If its total still contradicts its entries, they are
//! what the provider knows, and may be incomplete.

use crate::provider::http::{Answer, Api};
use flipop_core::model::{Fault, FaultKind};
use std::collections::BTreeMap;

/// If a list changes during this many readings in a row, the read fails. The next poll tries again.
const MAX_TRIES: u32 = 3;

/// One page.
#[derive(Debug)]
pub(super) struct Page<K, T> {
    /// The entries on it, each with the key that tells it apart.
    pub(super) entries: Vec<(K, T)>,
    /// Number of entries on all pages, if the page says so. It may include entries that a filter leaves out.
    pub(super) total: Option<u64>,
    /// Whether another page follows.
    pub(super) more: bool,
    /// The answer that contained the page.
    pub(super) answer: Answer,
}

/// A list that can be read page by page.
pub(super) trait Pages {
    /// An entry of the list.
    type Entry: PartialEq;
    /// The key of an entry.
    type Key: Ord;

    /// The noun for the entries in messages.
    const WHAT: &'static str;

    /// Whether the total counts the listed entries. The total of a filtered list may include entries that the filter
    /// leaves out.
    const TOTAL_IS_OF_LIST: bool;

    /// The longest list. A longer one is a loop.
    const MAX_PAGES: u64;

    /// Reads a page. The first one has number 1.
    fn page(
        &self,
        api: &Api,
        number: u64,
    ) -> impl Future<Output = Result<Page<Self::Key, Self::Entry>, Fault>> + Send;
}

/// The result of reading a list, up to [`MAX_TRIES`] times.
#[derive(Debug)]
pub(super) struct Listed<K, T> {
    /// The entries.
    pub(super) entries: BTreeMap<K, T>,
    /// `None` if the entries are complete. Otherwise the contradiction in the list.
    pub(super) contradiction: Option<String>,
}

/// Reads the whole list. Fails if it may be incomplete.
pub(super) async fn whole<P: Pages>(api: &Api, list: &P) -> Result<BTreeMap<P::Key, P::Entry>, Fault> {
    let Listed { entries, contradiction } = listed(api, list).await?;
    contradiction.map_or(Ok(entries), |message| Err(transient(message)))
}

/// Reads the whole list. If the list contradicts itself in the same way each time, returns its entries with the
/// contradiction.
pub(super) async fn listed<P: Pages>(api: &Api, list: &P) -> Result<Listed<P::Key, P::Entry>, Fault> {
    let mut miscounted = None;
    let mut still = true;
    for reading in 0..MAX_TRIES {
        if reading > 0 {
            may_read_on(api, P::WHAT)?;
        }
        let this = match all_pages(api, list).await? {
            Reading::Whole(entries) => return Ok(Listed { entries, contradiction: None }),
            Reading::Miscounted { entries, total } => Some((entries, total)),
            Reading::Torn => None,
        };
        still &= this.is_some() && (reading == 0 || this == miscounted);
        miscounted = this;
        tracing::debug!(list = P::WHAT, "the list does not fit together");
    }
    let what = P::WHAT;
    let Some((entries, total)) = miscounted.filter(|_| still) else {
        return Err(transient(format!("the list of {what} changed during each of {MAX_TRIES} readings")));
    };
    let count = entries.len();
    let contradiction = format!(
        "the list of {what} contradicts itself: its total is {total}, and it shows {count}, in each of {MAX_TRIES} \
         readings; FLIPOP draws no conclusion from missing entries"
    );
    Ok(Listed { entries, contradiction: Some(contradiction) })
}

fn transient(message: String) -> Fault {
    Fault::new(FaultKind::Transient, message)
}

/// One reading of all pages.
#[derive(Debug)]
enum Reading<K, T> {
    /// The pages fit together.
    Whole(BTreeMap<K, T>),
    /// One page, whose total contradicts its entries.
    Miscounted { entries: BTreeMap<K, T>, total: u64 },
    /// The pages do not fit together.
    Torn,
}

/// Refuses further requests while the token must be left alone. Another call may have learned of that meanwhile.
fn may_read_on(api: &Api, what: &str) -> Result<(), Fault> {
    let Some(left_ms) = api.blocked_ms() else { return Ok(()) };
    let provider = api.provider();
    Err(Fault {
        retry_after_ms: Some(left_ms),
        ..Fault::new(
            FaultKind::Throttled,
            format!("the list of {what} was not read to its end: {provider} asked FLIPOP to wait"),
        )
    })
}

async fn all_pages<P: Pages>(api: &Api, list: &P) -> Result<Reading<P::Key, P::Entry>, Fault> {
    let mut collected = BTreeMap::new();
    let mut expected = None;
    let mut number = 1;
    loop {
        let Page { entries, total, more, answer } = list.page(api, number).await?;
        if total.is_none() && (more || number > 1) {
            return Err(answer.malformed("a list of several pages without their total"));
        }
        if number > 1 && total != expected {
            return Ok(Reading::Torn);
        }
        expected = total;
        for (key, entry) in entries {
            if collected.insert(key, entry).is_some() {
                return Ok(Reading::Torn);
            }
        }
        if !more {
            break;
        }
        if number >= P::MAX_PAGES {
            let max = P::MAX_PAGES;
            return Err(answer.malformed(&format!("a list of more than {max} pages")));
        }
        may_read_on(api, P::WHAT)?;
        number = number.saturating_add(1);
    }
    let count = u64::try_from(collected.len()).unwrap_or(u64::MAX);
    Ok(match expected.filter(|total| P::TOTAL_IS_OF_LIST && *total != count) {
        None => Reading::Whole(collected),
        Some(total) if number == 1 => Reading::Miscounted { entries: collected, total },
        Some(_) => Reading::Torn,
    })
}

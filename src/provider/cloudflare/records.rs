//! Reads the records of one name, with one filtered list.

use super::{content, result, wire};
use crate::provider::dns::{self, Named};
use crate::provider::http::{Api, Request};
use crate::provider::paging::{self, Page, Pages};
use flipop_core::model::{Address, Fault};
use flipop_core::records::dns::{ADDRESS_KIND, Record, Zone};

/// Records per page. The API allows up to five million. This many stay below the limit on bodies even with comments and
/// tags.
const PER_PAGE: u64 = 1_000;

/// Every record of the name, of any type.
pub(super) async fn read(api: &Api, zone: &Zone, fqdn: &str) -> Result<Vec<Record>, Fault> {
    let entries = paging::whole(api, &Records { zone: &zone.id, fqdn }).await?;
    dns::of_name(entries.into_values(), fqdn)
}

/// The zone's name, derived from records that have one of these addresses at `fqdn` completed with the zone's name.
/// Every name below `fqdn` ends in the zone's name, so the shortest has nothing in between.
pub(super) async fn completed_with(
    api: &Api,
    zone: &Zone,
    fqdn: &str,
    addresses: &[Address],
) -> Result<Option<String>, Fault> {
    let below = format!("{fqdn}.");
    let query = [("name.startswith", below.as_str()), ("type", ADDRESS_KIND), ("per_page", "1000")];
    let answer = api.read(Request::get(&["zones", &zone.id, "dns_records"], &query)).await?;
    let records: Vec<wire::RecordEntry> = content(&answer)?;
    let zones = records.into_iter().filter_map(|entry| {
        let name = entry.name.strip_suffix('.').unwrap_or(&entry.name).to_ascii_lowercase();
        let zone = name.strip_prefix(&below)?.to_owned();
        let address = entry.into_record().address()?;
        addresses.contains(&address).then_some(zone)
    });
    Ok(zones.min_by_key(String::len))
}

struct Records<'a> {
    zone: &'a str,
    fqdn: &'a str,
}

impl Pages for Records<'_> {
    type Entry = Named;
    type Key = String;

    const WHAT: &'static str = "DNS records";

    // Documented as the total "without any search parameters". It may also be the total of the list.
    const TOTAL_IS_OF_LIST: bool = false;

    // Enough at full page size, and still 2,000 records if the API returns its default of 100 a page.
    const MAX_PAGES: u64 = 20;

    async fn page(&self, api: &Api, number: u64) -> Result<Page<String, Named>, Fault> {
        let (page, per_page) = (number.to_string(), PER_PAGE.to_string());
        let query = [("name", self.fqdn), ("per_page", per_page.as_str()), ("page", page.as_str())];
        let answer = api.read(Request::get(&["zones", self.zone, "dns_records"], &query)).await?;
        let envelope: wire::Envelope<Vec<wire::RecordEntry>> = result(&answer)?;
        let records = envelope.result.ok_or_else(|| answer.malformed("it has no result"))?;
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        let info = envelope.result_info.as_ref();
        let total = info.and_then(|info| info.total_count);
        let size = info.and_then(|info| info.per_page).filter(|size| *size > 0).unwrap_or(PER_PAGE);
        // After a full page there may be another one, unless the zone has no further records.
        let more = count >= size && total.is_none_or(|total| number.saturating_mul(size) < total);
        let named = |entry: wire::RecordEntry| {
            let of_name = entry.is_of(self.fqdn);
            (entry.id.clone(), Named { of_name, record: entry.into_record() })
        };
        Ok(Page { entries: records.into_iter().map(named).collect(), total, more, answer })
    }
}

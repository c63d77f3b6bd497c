//! `DigitalOcean`: reserved IPs over `/v2/reserved_ips`, DNS over `/v2/domains`, firewalls over `/v2/firewalls`.
//!
//! Owns paths, bodies, decoders and the meaning of this API's refusals. [`crate::provider::http`] owns everything else.
//!
//! Invariants: a list is complete, says that it contradicts itself, or is a fault. The answer to a creation needs only
//! the address, because the address is paid for. Of a link to the next page only the page number is used.

mod domains;
mod firewalls;
mod refusal;
mod wire;

use crate::permit::Permit;
use crate::provider::addresses::IpProvider;
use crate::provider::call::{Action, CallContext, CallError, Changing, Reading};
use crate::provider::entry::{Provider, Services, Variables, WriteScopes};
use crate::provider::http::{Account, Answer, Api, ApiConfig, BuildError, Request};
use crate::provider::observe::Call;
use crate::provider::paging::{self, Listed, Page, Pages};
use crate::provider::rate::{Refusals, SHORT_BLOCK_MS};
use flipop_core::model::provider::{Descriptor, FirewallLimits, Limits, ManagedNodes, Rules, ZoneForm};
use flipop_core::model::{
    ActionId, Address, Fault, FaultKind, MachineId, MachineKind, ReservedIp, ReservedIpList,
};
use futures::FutureExt;
use http::StatusCode;
use refusal::{Intent, SCOPE_MISSING};
use reqwest::Url;
use serde_json::json;
use std::sync::Arc;

/// The provider's name in specs and metric labels.
pub const NAME: &str = "digitalocean";

/// How long after it was sent a request may arrive and count: it may wait five seconds for its connection. So requests
/// that arrive within one window may have been sent within a window that is longer by this time.
const ARRIVAL_SPREAD_MS: u64 = 5_000;

/// The machines that addresses are on.
pub static DROPLETS: MachineKind = MachineKind {
    noun: "droplet",
    scheme: NAME,
    read_scope: "droplet:read",
    id: |id| id.parse::<u64>().ok().map(|id| id.to_string()),
};

/// The droplet with this id.
pub fn droplet(id: u64) -> MachineId {
    DROPLETS.machine(id.to_string())
}

/// The facts about `DigitalOcean` for decisions and documents.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    title: "DigitalOcean",
    token_variable: "DIGITALOCEAN_ACCESS_TOKEN",
    // 250 requests a minute, of which ten are left to other users of the token, and 12 new addresses a minute. The
    // headers of every answer have the hourly limit.
    limits: Limits {
        requests: 240,
        window_ms: 60_000 + ARRIVAL_SPREAD_MS,
        creations: 12,
        creation_window_ms: 60_000 + ARRIVAL_SPREAD_MS,
    },
    machines: Some(&DROPLETS),
    tells_power: true,
    managed_nodes: Some(ManagedNodes { product: "DOKS", label: "doks.digitalocean.com/node-id" }),
    // At least 30 s, although the API description names no bounds. The maximum is that of DNS itself (RFC 2181, section
    // 8).
    dns: Some(Rules {
        zone_form: ZoneForm::Name,
        ttl_floor: TTL_FLOOR,
        ttl_ceiling: 2_147_483_647,
        ttl_automatic: None,
        changes_per_request: 1,
    }),
    firewalls: Some(FirewallLimits { machines: 10, rules: 50, sources: 1_000 }),
};

/// The minimum TTL, in seconds.
const TTL_FLOOR: u32 = 30;

/// `DigitalOcean`, for addresses, DNS and firewalls.
pub(super) const PROVIDER: Provider = Provider {
    descriptor: DESCRIPTOR,
    variables: Variables {
        token_file: "DIGITALOCEAN_ACCESS_TOKEN_FILE",
        url: "DIGITALOCEAN_API_URL",
        user_agent: "DIGITALOCEAN_USER_AGENT",
    },
    default_url: "https://api.digitalocean.com/",
    write_scopes: WriteScopes {
        assign: "reserved_ip:update",
        create: "reserved_ip:create",
        delete: "reserved_ip:delete",
        firewalls: "firewall:create, firewall:update, firewall:delete",
        records: "domain:create, domain:update, domain:delete",
    },
    paths: "/v2/…",
    connect: |config| {
        let client = Arc::new(DigitalOcean::new(config)?);
        Ok(Services {
            ips: Some(Arc::<DigitalOcean>::clone(&client)),
            firewalls: Some(Arc::<DigitalOcean>::clone(&client)),
            dns: Some(client),
        })
    },
};

/// The client of one token.
#[derive(Debug)]
pub struct DigitalOcean {
    api: Api,
}

/// Only the status 429 says that there are too many requests.
const REFUSALS: Refusals =
    Refusals { is_own: wire::is_refusal, says_excess: |_, _| false, block_ms: SHORT_BLOCK_MS };

impl DigitalOcean {
    /// Sets up a client.
    ///
    /// # Errors
    /// If the configuration cannot work: see [`BuildError`].
    pub fn new(config: ApiConfig) -> Result<Self, BuildError> {
        Ok(Self { api: Api::new(NAME, REFUSALS, config)? })
    }

    async fn get_ip(&self, ip: Address) -> Result<ReservedIp, Fault> {
        let path = ip.to_string();
        let answer = self.api.read(Request::get(&["v2", "reserved_ips", &path], &[])).await?;
        let read: wire::ReservedIpBody = accepted(&answer, Intent::Read, SCOPE_MISSING)?.decode()?;
        let found = read.reserved_ip.into_facts();
        if found.ip == ip {
            Ok(found)
        } else {
            Err(answer.malformed(&format!("it is about {}, not {ip}", found.ip)))
        }
    }

    async fn droplets_readable(&self) -> Result<bool, Fault> {
        let answer = self.api.read(Request::get(&["v2", "droplets"], &[("per_page", "1")])).await?;
        // A 401 says nothing about scopes: the whole token is refused.
        if answer.status() == StatusCode::FORBIDDEN && answer.refused_in_between().is_none() {
            return Ok(false);
        }
        let _list: wire::DropletsBody = accepted(&answer, Intent::Read, SCOPE_MISSING)?.decode()?;
        Ok(true)
    }

    async fn is_off(&self, machine: &MachineId) -> Result<bool, Fault> {
        let answer = self.api.read(Request::get(&["v2", "droplets", machine.id()], &[])).await?;
        let read: wire::DropletBody = accepted(&answer, Intent::Read, SCOPE_MISSING)?.decode()?;
        let found = droplet(read.droplet.id);
        if found == *machine {
            Ok(read.droplet.status.as_deref() == Some("off"))
        } else {
            Err(answer.malformed(&format!("it is about {found}, not {machine}")))
        }
    }

    async fn create(&self, permit: &Permit, region: &str) -> Result<Address, CallError> {
        let request = Request::post(&["v2", "reserved_ips"], &json!({ "region": region }));
        let answer = self.api.write(permit, request).await?;
        let created: wire::CreatedBody = accepted(&answer, Intent::Create, SCOPE_MISSING)?.decode()?;
        Ok(created.reserved_ip.ip.into())
    }

    async fn delete_ip(&self, permit: &Permit, ip: Address) -> Result<(), CallError> {
        let path = ip.to_string();
        let answer = self.api.write(permit, Request::delete(&["v2", "reserved_ips", &path])).await?;
        accepted(&answer, Intent::Assign, refusal::DELETION_REFUSED)?;
        Ok(())
    }

    async fn act(&self, permit: &Permit, ip: Address, body: &serde_json::Value) -> Result<Action, CallError> {
        let path = ip.to_string();
        let path = ["v2", "reserved_ips", &path, "actions"];
        let answer = self.api.write(permit, Request::post(&path, body)).await?;
        Ok(action_of(&answer)?)
    }

    async fn action(&self, ip: Address, action: ActionId) -> Result<Action, Fault> {
        let (path, id) = (ip.to_string(), action.to_string());
        let answer = self.api.read(Request::get(&["v2", "reserved_ips", &path, "actions", &id], &[])).await?;
        let found = action_of(&answer)?;
        if found.id == action {
            Ok(found)
        } else {
            Err(answer.malformed(&format!("it is about action {}, not {action}", found.id)))
        }
    }
}

fn action_of(answer: &Answer) -> Result<Action, Fault> {
    let body: wire::ActionBody = accepted(answer, Intent::Assign, SCOPE_MISSING)?.decode()?;
    body.action
        .into_action()
        .map_err(|status| answer.malformed(&format!("the action has no known status: {status}")))
}

/// The answer if it is a success, else its fault.
fn accepted<'a>(answer: &'a Answer, intent: Intent, if_denied: &str) -> Result<&'a Answer, Fault> {
    accepted_or(answer, intent, |kind, _| {
        if kind == FaultKind::Unauthorized { if_denied.to_owned() } else { String::new() }
    })
}

/// Like [`accepted`]. `advice` is put in front of the message of a refusal.
fn accepted_or(
    answer: &Answer,
    intent: Intent,
    advice: impl Fn(FaultKind, &str) -> String,
) -> Result<&Answer, Fault> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    if let Some(fault) = answer.refused_in_between() {
        return Err(fault);
    }
    let words = wire::ErrorBody::read(answer.body());
    let kind = refusal::kind(answer.status(), &words.message, intent);
    if kind == FaultKind::Permanent && answer.status().is_redirection() {
        return Err(answer.refused(kind, "", "FLIPOP does not follow redirects: check the API URL"));
    }
    let advice = if answer.status() == StatusCode::UNAUTHORIZED {
        refusal::TOKEN_REFUSED.to_owned()
    } else {
        advice(kind, &words.message)
    };
    Err(answer.refused_with(kind, &advice, &words.id, &words.message))
}

impl Account for DigitalOcean {
    fn api(&self) -> &Api {
        &self.api
    }
}

impl IpProvider for DigitalOcean {
    fn list_reserved_ips<'a>(&'a self, context: &'a CallContext) -> Reading<'a, ReservedIpList> {
        self.api.operation(Call::ListIps, context, reserved_ips(&self.api)).boxed()
    }

    fn get_reserved_ip<'a>(&'a self, context: &'a CallContext, ip: Address) -> Reading<'a, ReservedIp> {
        self.api.operation(Call::GetIp, context, self.get_ip(ip)).boxed()
    }

    fn prove_machine_read<'a>(&'a self, context: &'a CallContext) -> Reading<'a, bool> {
        self.api.operation(Call::ListDroplets, context, self.droplets_readable()).boxed()
    }

    fn is_switched_off<'a>(&'a self, context: &'a CallContext, machine: &'a MachineId) -> Reading<'a, bool> {
        self.api.operation(Call::GetDroplet, context, self.is_off(machine)).boxed()
    }

    fn create_reserved_ip<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        region: &'a str,
    ) -> Changing<'a, Address> {
        self.api.operation(Call::CreateIp, context, self.create(permit, region)).boxed()
    }

    fn delete_reserved_ip<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
    ) -> Changing<'a, ()> {
        self.api.operation(Call::DeleteIp, context, self.delete_ip(permit, ip)).boxed()
    }

    fn assign<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
        machine: MachineId,
    ) -> Changing<'a, Action> {
        let work = async move {
            let Ok(droplet) = machine.id().parse::<u64>() else {
                let (kind, message) =
                    (FaultKind::Invalid, format!("{machine} has an id that is not a number"));
                return Err(Fault::new(kind, message).into());
            };
            self.act(permit, ip, &json!({ "type": "assign", "droplet_id": droplet })).await
        };
        self.api.operation(Call::AssignIp, context, work).boxed()
    }

    fn unassign<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
    ) -> Changing<'a, Action> {
        let work = async move { self.act(permit, ip, &json!({ "type": "unassign" })).await };
        self.api.operation(Call::UnassignIp, context, work).boxed()
    }

    fn get_action<'a>(
        &'a self,
        context: &'a CallContext,
        ip: Address,
        action: ActionId,
    ) -> Reading<'a, Action> {
        self.api.operation(Call::GetAction, context, self.action(ip, action)).boxed()
    }
}

/// The largest page that the API allows.
pub(super) const PER_PAGE: &str = "200";

/// Every reserved IP of the account, or the entries of a list that contradicts itself.
pub(super) async fn reserved_ips(api: &Api) -> Result<ReservedIpList, Fault> {
    let Listed { entries, contradiction } = paging::listed(api, &ReservedIps).await?;
    Ok(ReservedIpList { ips: entries, contradiction })
}

struct ReservedIps;

impl Pages for ReservedIps {
    type Entry = ReservedIp;
    type Key = Address;

    const WHAT: &'static str = "reserved IPs";

    const TOTAL_IS_OF_LIST: bool = true;

    // Accounts have three addresses by default, and some hundreds at most. This is room for 10,000.
    const MAX_PAGES: u64 = 50;

    async fn page(&self, api: &Api, number: u64) -> Result<Page<Address, ReservedIp>, Fault> {
        let page = number.to_string();
        let query = [("per_page", PER_PAGE), ("page", page.as_str())];
        let answer = api.read(Request::get(&["v2", "reserved_ips"], &query)).await?;
        let wire::ReservedIpsBody { reserved_ips, paging } =
            accepted(&answer, Intent::Read, SCOPE_MISSING)?.decode()?;
        let more = is_followed(&answer, paging.next(), number)?;
        let facts = reserved_ips.into_iter().map(wire::ReservedIpEntry::into_facts);
        let entries = facts.map(|facts| (facts.ip, facts)).collect();
        Ok(Page { entries, total: paging.total(), more, answer })
    }
}

/// Whether another page follows this one. Fails if the link does not lead to the next page.
pub(super) fn is_followed(answer: &Answer, next: Option<&str>, number: u64) -> Result<bool, Fault> {
    let next = next.map(|link| next_page(link, number)).transpose().map_err(|why| answer.malformed(why))?;
    Ok(next.is_some())
}

/// The page that a link leads to. Host and path are ignored, because the token must go to the configured host only.
fn next_page(link: &str, current: u64) -> Result<u64, &'static str> {
    // Relative links have been seen behind proxies.
    let url = Url::parse("https://host.invalid/").and_then(|base| base.join(link));
    let url = url.map_err(|_unparsable| "the link to the next page is not a URL")?;
    let number = url.query_pairs().find(|(key, _)| key == "page").and_then(|(_, value)| value.parse().ok());
    match number {
        Some(next) if next == current.saturating_add(1) => Ok(next),
        Some(_) => Err("the link to the next page does not lead to the next page"),
        None => Err("the link to the next page has no page number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_link_only_the_page_number_is_taken() {
        for link in [
            "https://api.digitalocean.com/v2/reserved_ips?page=2&per_page=200",
            "http://evil.example/steal?page=2",
            "/v2/reserved_ips?per_page=200&page=2",
            "?page=2",
        ] {
            assert_eq!(next_page(link, 1), Ok(2), "{link}");
        }
    }

    #[test]
    fn a_link_that_leads_anywhere_but_forward_is_malformed() {
        for link in
            ["", "?page=", "?page=x", "?page=1", "?page=0", "?page=3", "?page=-2", "http://[", "?per_page=2"]
        {
            assert!(next_page(link, 1).is_err(), "{link}");
        }
    }
}

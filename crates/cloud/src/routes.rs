//! The operation that a request asks for, by method and path, and the scope that it needs.

use serde_json::json;

use super::wire::Provider::{self, Cloudflare, DigitalOcean};
use super::wire::{DROPLETS, Op, Request, Route};

/// A line of the table of operations.
struct Row {
    op: Op,
    provider: Provider,
    method: &'static str,
    /// `*` stands for a variable segment.
    path: &'static str,
    /// `DigitalOcean` only. Empty: any token is enough.
    scope: &'static str,
}

const fn row(
    op: Op,
    provider: Provider,
    method: &'static str,
    path: &'static str,
    scope: &'static str,
) -> Row {
    Row { op, provider, method, path, scope }
}

static ROWS: &[Row] = &[
    row(Op::GetAccount, DigitalOcean, "GET", "v2/account", "account:read"),
    row(Op::ListDroplets, DigitalOcean, "GET", "v2/droplets", DROPLETS.read_scope),
    row(Op::GetDroplet, DigitalOcean, "GET", "v2/droplets/*", DROPLETS.read_scope),
    row(Op::ListReservedIps, DigitalOcean, "GET", "v2/reserved_ips", "reserved_ip:read"),
    row(Op::CreateReservedIp, DigitalOcean, "POST", "v2/reserved_ips", "reserved_ip:create"),
    row(Op::GetReservedIp, DigitalOcean, "GET", "v2/reserved_ips/*", "reserved_ip:read"),
    row(Op::DeleteReservedIp, DigitalOcean, "DELETE", "v2/reserved_ips/*", "reserved_ip:delete"),
    row(Op::ListActions, DigitalOcean, "GET", "v2/reserved_ips/*/actions", "reserved_ip:read"),
    row(Op::AssignIp, DigitalOcean, "POST", "v2/reserved_ips/*/actions", "reserved_ip:update"),
    row(Op::UnassignIp, DigitalOcean, "POST", "v2/reserved_ips/*/actions", "reserved_ip:update"),
    row(Op::GetAction, DigitalOcean, "GET", "v2/reserved_ips/*/actions/*", "reserved_ip:read"),
    row(Op::ListDomains, DigitalOcean, "GET", "v2/domains", "domain:read"),
    row(Op::CreateDomain, DigitalOcean, "POST", "v2/domains", "domain:create"),
    row(Op::GetDomain, DigitalOcean, "GET", "v2/domains/*", "domain:read"),
    row(Op::DeleteDomain, DigitalOcean, "DELETE", "v2/domains/*", "domain:delete"),
    row(Op::ListRecords, DigitalOcean, "GET", "v2/domains/*/records", "domain:read"),
    // Either of two scopes is enough for changes of records. `domain:update` is the one that covers all.
    row(Op::CreateRecord, DigitalOcean, "POST", "v2/domains/*/records", "domain:update"),
    row(Op::GetRecord, DigitalOcean, "GET", "v2/domains/*/records/*", "domain:read"),
    row(Op::PutRecord, DigitalOcean, "PUT", "v2/domains/*/records/*", "domain:update"),
    row(Op::PatchRecord, DigitalOcean, "PATCH", "v2/domains/*/records/*", "domain:update"),
    row(Op::DeleteRecord, DigitalOcean, "DELETE", "v2/domains/*/records/*", "domain:update"),
    row(Op::ListFirewalls, DigitalOcean, "GET", "v2/firewalls", "firewall:read"),
    row(Op::ListDropletFirewalls, DigitalOcean, "GET", "v2/droplets/*/firewalls", "firewall:read"),
    row(Op::CreateFirewall, DigitalOcean, "POST", "v2/firewalls", "firewall:create"),
    row(Op::GetFirewall, DigitalOcean, "GET", "v2/firewalls/*", "firewall:read"),
    row(Op::PutFirewall, DigitalOcean, "PUT", "v2/firewalls/*", "firewall:update"),
    row(Op::DeleteFirewall, DigitalOcean, "DELETE", "v2/firewalls/*", "firewall:delete"),
    row(Op::AddFirewallDroplets, DigitalOcean, "POST", "v2/firewalls/*/droplets", "firewall:update"),
    row(Op::RemoveFirewallDroplets, DigitalOcean, "DELETE", "v2/firewalls/*/droplets", "firewall:update"),
    row(Op::AddFirewallTags, DigitalOcean, "POST", "v2/firewalls/*/tags", "firewall:update"),
    row(Op::RemoveFirewallTags, DigitalOcean, "DELETE", "v2/firewalls/*/tags", "firewall:update"),
    row(Op::AddFirewallRules, DigitalOcean, "POST", "v2/firewalls/*/rules", "firewall:update"),
    row(Op::RemoveFirewallRules, DigitalOcean, "DELETE", "v2/firewalls/*/rules", "firewall:update"),
    row(Op::ListTags, DigitalOcean, "GET", "v2/tags", "tag:read"),
    row(Op::CreateTag, DigitalOcean, "POST", "v2/tags", "tag:create"),
    row(Op::GetTag, DigitalOcean, "GET", "v2/tags/*", "tag:read"),
    row(Op::TagResources, DigitalOcean, "POST", "v2/tags/*/resources", "tag:create"),
    row(Op::UntagResources, DigitalOcean, "DELETE", "v2/tags/*/resources", "tag:delete"),
    row(Op::VerifyToken, Cloudflare, "GET", "client/v4/user/tokens/verify", ""),
    row(Op::ListZones, Cloudflare, "GET", "client/v4/zones", ""),
    row(Op::GetZone, Cloudflare, "GET", "client/v4/zones/*", ""),
    row(Op::ListRecords, Cloudflare, "GET", "client/v4/zones/*/dns_records", ""),
    row(Op::CreateRecord, Cloudflare, "POST", "client/v4/zones/*/dns_records", ""),
    row(Op::BatchRecords, Cloudflare, "POST", "client/v4/zones/*/dns_records/batch", ""),
    row(Op::GetRecord, Cloudflare, "GET", "client/v4/zones/*/dns_records/*", ""),
    row(Op::PutRecord, Cloudflare, "PUT", "client/v4/zones/*/dns_records/*", ""),
    row(Op::PatchRecord, Cloudflare, "PATCH", "client/v4/zones/*/dns_records/*", ""),
    row(Op::DeleteRecord, Cloudflare, "DELETE", "client/v4/zones/*/dns_records/*", ""),
];

impl Op {
    /// Whether a call of this kind can change the provider's state.
    pub fn mutates(self) -> bool {
        ROWS.iter().any(|row| row.op == self && row.method != "GET")
    }

    /// The scope that a token of `DigitalOcean` needs. Empty: any token is enough.
    pub(super) fn scope(self) -> &'static str {
        ROWS.iter().find(|row| row.op == self).map_or("", |row| row.scope)
    }
}

impl Request {
    /// The operation that it asks for.
    pub fn op(&self) -> Op {
        self.route().op
    }

    /// The same, with the variable parts of the path.
    pub(super) fn route(&self) -> Route {
        let path = self.segments();
        let mut rows = ROWS.iter().filter(|row| row.provider == self.provider && self.method == row.method);
        let found = rows.find_map(|row| Some(Route { op: row.op, args: variables(row.path, &path)? }));
        let mut route = found.unwrap_or(Route { op: Op::Unknown, args: Vec::new() });
        // Assigning and unassigning share a path. The body tells them apart.
        let unassign = || self.object().is_ok_and(|body| body.get("type") == Some(&json!("unassign")));
        if route.op == Op::AssignIp && unassign() {
            route.op = Op::UnassignIp;
        }
        route
    }
}

/// The variable segments of a path, if it has this form.
fn variables(form: &str, path: &[String]) -> Option<Vec<String>> {
    let form: Vec<&str> = form.split('/').collect();
    let pairs = || form.iter().zip(path);
    let fits = form.len() == path.len() && pairs().all(|(part, segment)| *part == "*" || part == segment);
    fits.then(|| pairs().filter(|(part, _)| **part == "*").map(|(_, segment)| segment.clone()).collect())
}

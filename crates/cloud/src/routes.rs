//! The operation that a request asks for, by method and path.

use serde_json::json;

use super::wire::{Op, Provider, Request, Route};

impl Request {
    /// The operation that it asks for.
    pub fn op(&self) -> Op {
        self.route().op
    }

    /// The same, with the variable parts of the path.
    pub(super) fn route(&self) -> Route {
        match self.provider {
            Provider::DigitalOcean => digitalocean(self),
            Provider::Cloudflare => cloudflare(self),
        }
    }
}

fn digitalocean(request: &Request) -> Route {
    let segments = request.segments();
    let path: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = request.method.as_str();
    match *path.as_slice() {
        ["v2", "account"] if method == "GET" => Route::new(Op::GetAccount, &[]),
        ["v2", "droplets"] if method == "GET" => Route::new(Op::ListDroplets, &[]),
        ["v2", "droplets", id] if method == "GET" => Route::new(Op::GetDroplet, &[id]),
        ["v2", "firewalls", ..] | ["v2", "droplets", _, "firewalls"] => firewalls(method, &path),
        ["v2", "tags", ..] => tags(method, &path),
        ["v2", "reserved_ips"] if method == "GET" => Route::new(Op::ListReservedIps, &[]),
        ["v2", "reserved_ips"] if method == "POST" => Route::new(Op::CreateReservedIp, &[]),
        ["v2", "reserved_ips", ip] if method == "GET" => Route::new(Op::GetReservedIp, &[ip]),
        ["v2", "reserved_ips", ip] if method == "DELETE" => Route::new(Op::DeleteReservedIp, &[ip]),
        ["v2", "reserved_ips", ip, "actions"] if method == "GET" => Route::new(Op::ListActions, &[ip]),
        ["v2", "reserved_ips", ip, "actions"] if method == "POST" => Route::new(action_op(request), &[ip]),
        ["v2", "reserved_ips", ip, "actions", id] if method == "GET" => Route::new(Op::GetAction, &[ip, id]),
        ["v2", "domains"] if method == "GET" => Route::new(Op::ListDomains, &[]),
        ["v2", "domains"] if method == "POST" => Route::new(Op::CreateDomain, &[]),
        ["v2", "domains", name] if method == "GET" => Route::new(Op::GetDomain, &[name]),
        ["v2", "domains", name] if method == "DELETE" => Route::new(Op::DeleteDomain, &[name]),
        ["v2", "domains", name, "records"] if method == "GET" => Route::new(Op::ListRecords, &[name]),
        ["v2", "domains", name, "records"] if method == "POST" => Route::new(Op::CreateRecord, &[name]),
        ["v2", "domains", name, "records", id] if method == "GET" => Route::new(Op::GetRecord, &[name, id]),
        ["v2", "domains", name, "records", id] if method == "PUT" => Route::new(Op::PutRecord, &[name, id]),
        ["v2", "domains", name, "records", id] if method == "PATCH" => {
            Route::new(Op::PatchRecord, &[name, id])
        }
        ["v2", "domains", name, "records", id] if method == "DELETE" => {
            Route::new(Op::DeleteRecord, &[name, id])
        }
        _ => Route::new(Op::Unknown, &[]),
    }
}

fn firewalls(method: &str, path: &[&str]) -> Route {
    match (method, path) {
        ("GET", ["v2", "firewalls"]) => Route::new(Op::ListFirewalls, &[]),
        ("GET", ["v2", "droplets", id, "firewalls"]) => Route::new(Op::ListDropletFirewalls, &[id]),
        ("POST", ["v2", "firewalls"]) => Route::new(Op::CreateFirewall, &[]),
        ("GET", ["v2", "firewalls", id]) => Route::new(Op::GetFirewall, &[id]),
        ("PUT", ["v2", "firewalls", id]) => Route::new(Op::PutFirewall, &[id]),
        ("DELETE", ["v2", "firewalls", id]) => Route::new(Op::DeleteFirewall, &[id]),
        ("POST", ["v2", "firewalls", id, "droplets"]) => Route::new(Op::AddFirewallDroplets, &[id]),
        ("DELETE", ["v2", "firewalls", id, "droplets"]) => Route::new(Op::RemoveFirewallDroplets, &[id]),
        ("POST", ["v2", "firewalls", id, "tags"]) => Route::new(Op::AddFirewallTags, &[id]),
        ("DELETE", ["v2", "firewalls", id, "tags"]) => Route::new(Op::RemoveFirewallTags, &[id]),
        ("POST", ["v2", "firewalls", id, "rules"]) => Route::new(Op::AddFirewallRules, &[id]),
        ("DELETE", ["v2", "firewalls", id, "rules"]) => Route::new(Op::RemoveFirewallRules, &[id]),
        _ => Route::new(Op::Unknown, &[]),
    }
}

fn tags(method: &str, path: &[&str]) -> Route {
    match (method, path) {
        ("GET", ["v2", "tags"]) => Route::new(Op::ListTags, &[]),
        ("POST", ["v2", "tags"]) => Route::new(Op::CreateTag, &[]),
        ("GET", ["v2", "tags", name]) => Route::new(Op::GetTag, &[name]),
        ("POST", ["v2", "tags", name, "resources"]) => Route::new(Op::TagResources, &[name]),
        ("DELETE", ["v2", "tags", name, "resources"]) => Route::new(Op::UntagResources, &[name]),
        _ => Route::new(Op::Unknown, &[]),
    }
}

/// Assigning and unassigning share a path. The body tells them apart.
fn action_op(request: &Request) -> Op {
    let unassign = request.object().is_ok_and(|body| body.get("type") == Some(&json!("unassign")));
    if unassign { Op::UnassignIp } else { Op::AssignIp }
}

fn cloudflare(request: &Request) -> Route {
    let segments = request.segments();
    let path: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = request.method.as_str();
    let ["client", "v4", rest @ ..] = path.as_slice() else { return Route::new(Op::Unknown, &[]) };
    match *rest {
        ["user", "tokens", "verify"] if method == "GET" => Route::new(Op::VerifyToken, &[]),
        ["zones"] if method == "GET" => Route::new(Op::ListZones, &[]),
        ["zones", zone] if method == "GET" => Route::new(Op::GetZone, &[zone]),
        ["zones", zone, "dns_records"] if method == "GET" => Route::new(Op::ListRecords, &[zone]),
        ["zones", zone, "dns_records"] if method == "POST" => Route::new(Op::CreateRecord, &[zone]),
        ["zones", zone, "dns_records", "batch"] if method == "POST" => Route::new(Op::BatchRecords, &[zone]),
        ["zones", zone, "dns_records", id] if method == "GET" => Route::new(Op::GetRecord, &[zone, id]),
        ["zones", zone, "dns_records", id] if method == "PUT" => Route::new(Op::PutRecord, &[zone, id]),
        ["zones", zone, "dns_records", id] if method == "PATCH" => Route::new(Op::PatchRecord, &[zone, id]),
        ["zones", zone, "dns_records", id] if method == "DELETE" => Route::new(Op::DeleteRecord, &[zone, id]),
        _ => Route::new(Op::Unknown, &[]),
    }
}

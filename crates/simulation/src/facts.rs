//! The facts about a replica's call, from its request alone.

use super::plan::Side;
use flipop_cloud::Op;
use http::Method;
use serde_json::Value;
use std::net::Ipv4Addr;

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) side: Side,
    /// The provider whose limits it counts against.
    pub(super) account: Option<flipop_cloud::Provider>,
    /// The description for people and plans.
    pub(super) what: String,
    /// Distinguishes calls with the same description: the selection of a list or watch, or the content for a node or a
    /// name.
    pub(super) scope: String,
    pub(super) kind: Kind,
}

/// The purpose of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// The lease: a write, which takes or releases it, or a read.
    Lease { write: Option<Hold> },
    /// An Event.
    Event,
    /// A page of a list of objects.
    List {
        resource: String,
        /// The page size; 0 means unlimited.
        limit: u64,
        /// Whether it continues a list.
        goes_on: bool,
        selector: String,
    },
    /// A watch.
    Watch,
    /// A read of DNS records.
    ReadRecords,
    /// Any other read.
    Read,
    /// A write of an object.
    Write { resource: String },
    /// The list of the account's addresses.
    ListIps,
    /// Assigns an address to a droplet.
    Assign { ip: Ipv4Addr, droplet: u64 },
    /// Takes an address off its droplet.
    Unassign { ip: Ipv4Addr },
    /// Buys an address.
    CreateIp,
    /// Deletes an address.
    DeleteIp { ip: Ipv4Addr },
    /// Changes a DNS record.
    Record,
    /// Makes, changes or deletes a firewall.
    Firewall,
}

/// The effect of a write on the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Taken,
    Released,
}

impl Facts {
    /// Whether the call changes something, which needs leadership.
    pub(super) fn mutates(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Lease { .. }
                | Kind::Event
                | Kind::List { .. }
                | Kind::Watch
                | Kind::Read
                | Kind::ReadRecords
                | Kind::ListIps
        )
    }

    /// The kind of the call, without the names of things: the operation, or the verb and the resource.
    pub(super) fn sort(&self) -> String {
        let words = if self.side == Side::Kube { 2 } else { 1 };
        self.what.split(' ').take(words).collect::<Vec<_>>().join(" ")
    }

    /// The droplet that the call reads, if it reads a single one.
    pub(super) fn droplet(&self) -> Option<u64> {
        self.what.strip_prefix(DROPLET)?.parse().ok()
    }

    /// Whether triggers count the call. They ignore calls that only follow the clock.
    pub(super) fn counts(&self) -> bool {
        !matches!(self.kind, Kind::Lease { .. } | Kind::Event) && !self.what.starts_with("WATCH leases")
    }
}

/// The resource, the name and the subresource in the path of a request to the API server; empty if absent.
fn target(path: &str) -> [&str; 3] {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    // `api/VERSION` or `apis/GROUP/VERSION`.
    let skip = if parts.next() == Some("api") { 1 } else { 2 };
    let mut rest = parts.skip(skip).peekable();
    let mut first = rest.next().unwrap_or_default();
    if first == "namespaces" {
        let _namespace = rest.next();
        first = rest.next().unwrap_or(first);
    }
    [Some(first), rest.next(), rest.next()].map(Option::unwrap_or_default)
}

/// The facts of a request to the API server.
pub(super) fn of_kube(method: &Method, path: &str, query: &str, body: &[u8]) -> Facts {
    let [resource, name, subresource] = target(path);
    let watch = query.contains("watch=true") || query.contains("watch=1");
    let reads = *method == Method::GET;
    let kind = match resource {
        _ if watch => Kind::Watch,
        // Leases of nodes are read just as nodes are.
        "leases" if path.contains("/kube-node-lease/") => Kind::Read,
        "leases" if reads => Kind::Lease { write: None },
        "leases" => Kind::Lease { write: Some(hold(body)) },
        "events" => Kind::Event,
        // A read by fields is about one object, or about the pods of one node. It does not list a whole kind.
        _ if reads && is_of_one(query) => Kind::Read,
        _ if reads && name.is_empty() => list(resource, query),
        _ if reads => Kind::Read,
        _ => Kind::Write { resource: resource.to_owned() },
    };
    let verb = match (watch, reads, name.is_empty()) {
        (true, ..) => "WATCH",
        (_, true, true) => "LIST",
        _ => method.as_str(),
    };
    // The names of Events contain the machine's time.
    let name = if resource == "events" { "" } else { name };
    let what = [verb, resource, name, subresource].into_iter().filter(|part| !part.is_empty());
    let what = what.collect::<Vec<_>>().join(" ");
    // A write with another annotation is another request.
    let scope = match resource {
        "nodes" if !reads => String::from_utf8_lossy(body).into_owned(),
        // The finalizer and the addresses have writes of their own.
        "floatingippools" if !reads && subresource.is_empty() => {
            let object: Value = serde_json::from_slice(body).unwrap_or_default();
            let [finalizers, ips] =
                ["/metadata/finalizers", "/spec/ips"].map(|field| object.pointer(field).cloned());
            format!("{path} {finalizers:?} {ips:?}")
        }
        _ => scope(path, query),
    };
    Facts { side: Side::Kube, account: None, what, scope, kind }
}

/// Parameters of a query, decoded.
fn parameters(query: &str) -> Vec<(String, String)> {
    let url = reqwest::Url::parse(&format!("http://api/?{query}"));
    url.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default()
}

/// Whether a list is about one object, or about one node.
fn is_of_one(query: &str) -> bool {
    let of_one = |fields: &str| {
        ["metadata.name=", "spec.nodeName="].iter().any(|field| fields.starts_with(field) && fields != *field)
    };
    parameters(query).iter().any(|(name, value)| name == "fieldSelector" && of_one(value))
}

/// Distinguishes lists and watches of one kind by path, selectors and page size. (Nodes are counted with a list of
/// one.)
fn scope(path: &str, query: &str) -> String {
    let selects = |name: &String| ["labelSelector", "fieldSelector", "limit"].contains(&name.as_str());
    let selectors = parameters(query).into_iter().filter(|(name, _)| selects(name)).map(|(_, value)| value);
    std::iter::once(path.to_owned()).chain(selectors).collect::<Vec<_>>().join(" ")
}

fn list(resource: &str, query: &str) -> Kind {
    let value =
        |wanted: &str| parameters(query).into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    Kind::List {
        resource: resource.to_owned(),
        limit: value("limit").and_then(|limit| limit.parse().ok()).unwrap_or_default(),
        goes_on: value("continue").is_some_and(|token| !token.is_empty()),
        selector: value("labelSelector").unwrap_or_default(),
    }
}

fn hold(body: &[u8]) -> Hold {
    let lease: Value = serde_json::from_slice(body).unwrap_or_default();
    let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
    if holder.is_empty() { Hold::Released } else { Hold::Taken }
}

/// The description of a read of one droplet, before its id.
const DROPLET: &str = "read droplet ";

/// The facts of a request to a provider.
pub(super) fn of_cloud(request: &flipop_cloud::Request) -> Facts {
    let op = request.op();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let ip = || request.path.split('/').find_map(|part| part.parse::<Ipv4Addr>().ok());
    let droplet = || body.get("droplet_id").and_then(Value::as_u64);
    let (what, kind) = match (op, ip(), droplet()) {
        (Op::AssignIp, Some(ip), Some(droplet)) => {
            (format!("assign {ip} to {droplet}"), Kind::Assign { ip, droplet })
        }
        (Op::UnassignIp, Some(ip), _) => (format!("unassign {ip}"), Kind::Unassign { ip }),
        (Op::DeleteReservedIp, Some(ip), _) => (format!("delete {ip}"), Kind::DeleteIp { ip }),
        (Op::CreateReservedIp, ..) => ("create an address".to_owned(), Kind::CreateIp),
        (Op::ListReservedIps, ..) => ("list addresses".to_owned(), Kind::ListIps),
        (Op::GetReservedIp, Some(ip), _) => (format!("get {ip}"), Kind::Read),
        (Op::GetDroplet, ..) => (format!("{DROPLET}{}", last_part(&request.path)), Kind::Read),
        (Op::GetAction, Some(ip), _) => (format!("poll {ip}"), Kind::Read),
        _ if op.mutates() && request.path.contains("/firewalls") => {
            (format!("{op:?} {}", firewall(request, &body)), Kind::Firewall)
        }
        _ if op.mutates() => (format!("{op:?} {}", record(request, &body)), Kind::Record),
        (Op::ListRecords, ..) => (format!("{op:?}"), Kind::ReadRecords),
        _ => (format!("{op:?}"), Kind::Read),
    };
    // The descriptions of batches and of firewall changes leave out their content. The scope tells them apart.
    let scope = if op == Op::BatchRecords || kind == Kind::Firewall {
        String::from_utf8_lossy(&request.body).into_owned()
    } else {
        String::new()
    };
    Facts { side: Side::Cloud, account: Some(request.provider), what, scope, kind }
}

/// The id of a firewall, or the name of a new one.
fn firewall(request: &flipop_cloud::Request, body: &Value) -> String {
    let id = request.path.split('/').skip_while(|part| *part != "firewalls").nth(1);
    let name = body.get("name").and_then(Value::as_str);
    id.or(name).unwrap_or_default().to_owned()
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn record(request: &flipop_cloud::Request, body: &Value) -> String {
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, data) = (text("name"), text("data"));
    [last_part(&request.path).to_owned(), name, data]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kube(method: &Method, path: &str, query: &str, body: &str) -> Facts {
        of_kube(method, path, query, body.as_bytes())
    }

    #[test]
    fn a_request_to_the_api_server_is_told_by_verb_resource_and_name() {
        let list = kube(&Method::GET, "/api/v1/nodes", "limit=250", "");
        assert_eq!((list.what.as_str(), list.mutates()), ("LIST nodes", false));
        let path = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/default/floatingippools/pool/status";
        let write = kube(&Method::PUT, path, "", "{}");
        assert_eq!((write.what.as_str(), write.mutates()), ("PUT floatingippools pool status", true));
        assert_eq!(kube(&Method::GET, path, "watch=true", "").kind, Kind::Watch);
        let page = kube(&Method::GET, "/api/v1/nodes", "limit=2&labelSelector=role%3Dedge&continue=x", "");
        let selector = "role=edge".to_owned();
        let resource = "nodes".to_owned();
        assert_eq!(page.scope, "/api/v1/nodes 2 role=edge");
        assert_eq!(page.kind, Kind::List { resource, limit: 2, goes_on: true, selector });
        let one = kube(&Method::GET, "/api/v1/nodes", "&fieldSelector=metadata.name%3Dnode-1", "");
        assert_eq!((one.what.as_str(), one.kind), ("LIST nodes", Kind::Read), "it shows one node");
        let all = kube(&Method::GET, "/api/v1/pods", "fieldSelector=spec.nodeName%21%3D", "");
        assert!(matches!(all.kind, Kind::List { .. }), "{all:?}");
    }

    #[test]
    fn a_lease_without_a_holder_is_a_released_one() {
        let path = "/apis/coordination.k8s.io/v1/namespaces/flipop/leases/x";
        let taken = kube(&Method::PUT, path, "", r#"{"spec":{"holderIdentity":"a"}}"#);
        assert_eq!(taken.kind, Kind::Lease { write: Some(Hold::Taken) });
        let released = kube(&Method::PUT, path, "", r#"{"spec":{"holderIdentity":""}}"#);
        assert_eq!(released.kind, Kind::Lease { write: Some(Hold::Released) });
    }
}

//! The kernel settings for an address, as plain data, and the steps that lead there.
//!
//! Invariants: settings are made in the order NAT table, routes, rules. They are removed in reverse, and
//! connections end last. No step names anything that is not ours. Does not know how the kernel is told.

use crate::network::Network;
use std::fmt;
use std::net::Ipv4Addr;

/// Our protocol number of routes and rules (`rtm_protocol`), by which the kernel remembers who made them. iproute2
/// gives it no name.
pub const PROTOCOL: u8 = 141;

/// The routing table.
pub const TABLE: u32 = 7_141;

/// The priority of the rule that sends traffic of pods by the specific routes of the main table.
pub const SPECIFIC_PRIORITY: u32 = 7_140;

/// The priority of the rule that sends the rest of that traffic by our table.
pub const EGRESS_PRIORITY: u32 = 7_141;

/// Destinations that never leave through the address: private, shared and link-local networks.
pub const PRIVATE: [Network; 5] = [
    Network::new(Ipv4Addr::new(10, 0, 0, 0), 8),
    Network::new(Ipv4Addr::new(172, 16, 0, 0), 12),
    Network::new(Ipv4Addr::new(192, 168, 0, 0), 16),
    Network::new(Ipv4Addr::new(100, 64, 0, 0), 10),
    Network::new(Ipv4Addr::new(169, 254, 0, 0), 16),
];

/// The kernel's state while pods leave through an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The reserved IP. The kernel never uses it. Comments keep it for the next process.
    pub address: Ipv4Addr,
    /// The anchor address, from which the provider translates.
    pub anchor: Ipv4Addr,
    /// Its gateway.
    pub gateway: Ipv4Addr,
    /// The interface that has the anchor address, by number.
    pub interface: u32,
    /// The networks of the node's pods.
    pub pods: Vec<Network>,
    /// Destinations that pods reach without the address, besides the private ones.
    pub except: Vec<Network>,
    /// The bit that marks packets and connections.
    pub mark: u32,
}

/// Where a route of our table leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Back to the next rule.
    Throw,
    /// Through a gateway on an interface.
    Via(Ipv4Addr, u32),
}

/// A route of our table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The destination.
    pub to: Network,
    /// The way to it.
    pub way: Way,
}

/// A routing rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Traffic from this network goes by the specific routes of the main table.
    Specific(Network),
    /// Marked traffic from this network goes by our table.
    Egress(Network, u32),
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.way {
            Way::Throw => write!(f, "throw {} table {TABLE}", self.to),
            Way::Via(gateway, interface) => {
                write!(f, "{} via {gateway} on interface {interface} table {TABLE}", self.to)
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Specific(from) => {
                write!(f, "{SPECIFIC_PRIORITY}: from {from} lookup main suppress_prefixlength 0")
            }
            Self::Egress(from, mark) => {
                write!(f, "{EGRESS_PRIORITY}: from {from} fwmark {mark:#x}/{mark:#x} lookup {TABLE}")
            }
        }
    }
}

impl Layout {
    /// The routes of our table.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        let throws = PRIVATE.iter().chain(&self.except).map(|to| Route { to: *to, way: Way::Throw });
        let all = Network::new(Ipv4Addr::UNSPECIFIED, 0);
        let mut routes: Vec<Route> =
            throws.chain([Route { to: all, way: Way::Via(self.gateway, self.interface) }]).collect();
        routes.sort();
        routes.dedup();
        routes
    }

    /// The routing rules. Those that keep traffic on its usual way come first.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        let specific = self.pods.iter().map(|from| Rule::Specific(*from));
        specific.chain(self.pods.iter().map(|from| Rule::Egress(*from, self.mark))).collect()
    }

    /// The signature in the comments of the NAT table. Layouts with different tables have different signatures.
    #[must_use]
    pub fn signature(&self) -> Signature {
        let pods: Vec<String> = self.pods.iter().map(ToString::to_string).collect();
        Signature {
            address: self.address,
            anchor: self.anchor,
            gateway: self.gateway,
            mark: self.mark,
            pod_networks: pods.len(),
            pods: pods.join("+"),
        }
    }
}

/// How a NAT table of ours was made. The comment of each of its rules holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The reserved IP.
    pub address: Ipv4Addr,
    anchor: Ipv4Addr,
    gateway: Ipv4Addr,
    /// The bit that marks packets and connections.
    pub mark: u32,
    /// The number of pod networks.
    pub pod_networks: usize,
    pods: String,
}

/// The prefix of each of our comments.
const SIGNED: &str = "flipop-agent";

/// The longest signature in bytes. A longer one is cut.
const COMMENT_MAX: usize = 120;

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, anchor, gateway, mark, pod_networks, pods } = self;
        let text = format!("{SIGNED} {address} {anchor} {gateway} {mark:#x} {pod_networks} {pods}");
        f.write_str(text.get(..COMMENT_MAX).unwrap_or(&text))
    }
}

impl Signature {
    /// The anchor address and its gateway.
    #[must_use]
    pub fn anchor(&self) -> (Ipv4Addr, Ipv4Addr) {
        (self.anchor, self.gateway)
    }

    /// The networks of pods, as far as the comment had room for them.
    #[must_use]
    pub fn pods(&self) -> Vec<Network> {
        self.pods.split('+').filter_map(Network::parse).collect()
    }

    /// Parses a comment. `None`: it is not ours.
    #[must_use]
    pub fn parse(comment: &str) -> Option<Self> {
        let mut words = comment.split(' ');
        let mut word = || words.next();
        (word()? == SIGNED).then_some(())?;
        Some(Self {
            address: word()?.parse().ok()?,
            anchor: word()?.parse().ok()?,
            gateway: word()?.parse().ok()?,
            mark: word()?.strip_prefix("0x").and_then(|mark| u32::from_str_radix(mark, 16).ok())?,
            pod_networks: word()?.parse().ok()?,
            pods: word()?.to_owned(),
        })
    }

    /// Whether both are equal after a long comment has been cut.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// The NAT table as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Nat {
    /// No table has its name.
    #[default]
    Absent,
    /// The table is ours.
    Ours {
        /// How it was made. `None` if no rule says so.
        signature: Option<Signature>,
        /// No rule is missing, and none is there twice.
        whole: bool,
    },
    /// The table has rules of somebody else.
    Foreign,
}

/// The present state of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The NAT table.
    pub nat: Nat,
    /// Our routes in our table.
    pub routes: Vec<Route>,
    /// Our rules.
    pub rules: Vec<Rule>,
    /// Routes of others in the table that we use.
    pub foreign_routes: usize,
    /// Rules of others with a priority that we use.
    pub foreign_rules: usize,
    /// IPv4 addresses, with the numbers of their interfaces.
    pub addresses: Vec<(Ipv4Addr, u32)>,
    /// A device of a datapath that bypasses netfilter.
    pub bypass: Option<&'static str>,
}

impl Found {
    /// Whether anything of ours is there.
    #[must_use]
    pub fn any_ours(&self) -> bool {
        matches!(self.nat, Nat::Ours { .. }) || !self.routes.is_empty() || !self.rules.is_empty()
    }

    /// The address for which the settings were made, if all of them are there.
    #[must_use]
    pub fn intact(&self) -> Option<Ipv4Addr> {
        let Nat::Ours { signature: Some(signature), whole: true } = &self.nat else { return None };
        let ruled = |text: &str| {
            Network::parse(text).is_some_and(|pods| {
                let both = [Rule::Specific(pods), Rule::Egress(pods, signature.mark)];
                both.iter().all(|rule| self.rules.contains(rule))
            })
        };
        let leads = |route: &Route| matches!(route.way, Way::Via(gateway, _) if gateway == signature.gateway);
        let whole = signature.pods.split('+').all(ruled) && self.routes.iter().any(leads);
        whole.then_some(signature.address)
    }

    /// The interface of an address.
    #[must_use]
    pub fn interface_of(&self, address: Ipv4Addr) -> Option<u32> {
        self.addresses.iter().find(|(found, _)| *found == address).map(|(_, interface)| *interface)
    }
}

/// One change of the kernel's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make the NAT table, in place of one of ours.
    SetNat(Box<Layout>),
    /// Remove the NAT table.
    DropNat,
    /// Add a route.
    AddRoute(Route),
    /// Remove a route.
    DropRoute(Route),
    /// Add a rule.
    AddRule(Rule),
    /// Remove a rule.
    DropRule(Rule),
    /// End the connections with this mark.
    EndConnections(u32),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetNat(layout) => {
                write!(f, "set table inet flipop: {} leaves as {}", layout.signature().pods, layout.anchor)
            }
            Self::DropNat => f.write_str("remove table inet flipop"),
            Self::AddRoute(route) => write!(f, "add route {route}"),
            Self::DropRoute(route) => write!(f, "remove route {route}"),
            Self::AddRule(rule) => write!(f, "add rule {rule}"),
            Self::DropRule(rule) => write!(f, "remove rule {rule}"),
            Self::EndConnections(mark) => write!(f, "end connections with mark {mark:#x}"),
        }
    }
}

/// The steps from the present state to the wanted one. `mark`: the bit of connections if no signature names it.
#[must_use]
pub fn steps(found: &Found, wanted: Option<&Layout>, mark: u32) -> Vec<Step> {
    let same = |layout: &&Layout| match &found.nat {
        Nat::Ours { signature: Some(signature), .. } => signature.is(&layout.signature()),
        Nat::Ours { signature: None, .. } | Nat::Absent => true,
        Nat::Foreign => false,
    };
    match wanted {
        None => removal(found, mark),
        Some(layout) if !same(&layout) => {
            // The table was made for something else. Its connections would go on with a wrong source.
            let bare = Found { addresses: found.addresses.clone(), ..Found::default() };
            removal(found, mark).into_iter().chain(completion(&bare, layout)).collect()
        }
        Some(layout) => completion(found, layout),
    }
}

fn removal(found: &Found, mark: u32) -> Vec<Step> {
    let mut steps: Vec<Step> = found.rules.iter().rev().copied().map(Step::DropRule).collect();
    steps.extend(found.routes.iter().rev().copied().map(Step::DropRoute));
    let mut marks = vec![mark];
    if let Nat::Ours { signature, .. } = &found.nat {
        steps.push(Step::DropNat);
        marks.extend(signature.as_ref().map(|signature| signature.mark).filter(|other| *other != mark));
    }
    if !steps.is_empty() {
        steps.extend(marks.into_iter().map(Step::EndConnections));
    }
    steps
}

/// Adds missing settings, and removes surplus ones of ours.
fn completion(found: &Found, layout: &Layout) -> Vec<Step> {
    let (routes, rules) = (layout.routes(), layout.rules());
    let mut steps: Vec<Step> = Vec::new();
    steps.extend(found.rules.iter().filter(|rule| !rules.contains(rule)).copied().map(Step::DropRule));
    steps.extend(found.routes.iter().filter(|route| !routes.contains(route)).copied().map(Step::DropRoute));
    if !matches!(found.nat, Nat::Ours { whole: true, signature: Some(_) }) {
        steps.push(Step::SetNat(Box::new(layout.clone())));
    }
    steps.extend(routes.into_iter().filter(|route| !found.routes.contains(route)).map(Step::AddRoute));
    steps.extend(rules.into_iter().filter(|rule| !found.rules.contains(rule)).map(Step::AddRule));
    steps
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;

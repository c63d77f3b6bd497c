//! What the agent sets in the kernel for an address, as plain data, and what has to be done to get there.
//!
//! Invariants: what is set goes in the order NAT, table, rules, and is removed in reverse, connections last; what is not
//! ours is never named in a step. Does not know how the kernel is told.

use crate::network::Network;
use std::fmt;
use std::net::Ipv4Addr;

/// Our number of a route's or rule's protocol (`rtm_protocol`), by which the kernel remembers who made it. None of the
/// numbers that iproute2 names.
pub const PROTOCOL: u8 = 141;

/// The routing table.
pub const TABLE: u32 = 7_141;

/// The rule that sends traffic of pods by the specific routes of the main table.
pub const SPECIFIC_PRIORITY: u32 = 7_140;

/// The rule that sends what is left of it by our table.
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
    /// The reserved IP. The kernel never uses it. A comment keeps it for the next process.
    pub address: Ipv4Addr,
    /// The anchor address, from which the provider translates.
    pub anchor: Ipv4Addr,
    /// Its gateway.
    pub gateway: Ipv4Addr,
    /// The interface that has the anchor address, by number.
    pub interface: u32,
    /// The networks of the node's pods.
    pub pods: Vec<Network>,
    /// Destinations beside the private ones that keep the usual way.
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
    /// Where to.
    pub to: Network,
    /// How.
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

    /// What the rules of the NAT table say of themselves. Two layouts whose tables differ differ here.
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

/// How a NAT table of ours was made. It stands in the comment of each of its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The reserved IP.
    pub address: Ipv4Addr,
    anchor: Ipv4Addr,
    gateway: Ipv4Addr,
    /// The bit that marks packets and connections.
    pub mark: u32,
    /// How many networks of pods there are.
    pub pod_networks: usize,
    pods: String,
}

/// What each of our comments begins with.
const SIGNED: &str = "flipop-agent";

/// A comment has room for so many bytes, the zero byte at its end included.
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

    /// Reads a comment; `None`: it is not ours.
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

    /// The same, as it is read back where a long comment was cut.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// The NAT table as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Nat {
    /// There is none of its name.
    #[default]
    Absent,
    /// Ours, made like this. `whole`: none of its rules is missing.
    Ours {
        /// How it was made; `None` where nothing in it says so.
        signature: Option<Signature>,
        /// None of its rules is missing, none is there twice.
        whole: bool,
    },
    /// Somebody else's rules are in it.
    Foreign,
}

/// What was found in the kernel.
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
    /// Something of ours stands.
    #[must_use]
    pub fn any_ours(&self) -> bool {
        matches!(self.nat, Nat::Ours { .. }) || !self.routes.is_empty() || !self.rules.is_empty()
    }

    /// The address for which all that stands was made, if all of it is there.
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

/// One thing to tell the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make the NAT table, in place of what is there of ours.
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

/// What leads from what was found to what is wanted. `mark`: the bit of connections where nothing that stands says it.
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
            // Made for something else: its connections would go on with a wrong source.
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

/// What is missing, and what of ours is too much.
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

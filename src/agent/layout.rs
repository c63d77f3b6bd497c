//! The kernel settings for an address, as plain data, and the steps that lead there.
//!
//! Invariants: settings are made in the order NAT table, routes, rules. They are removed in reverse, and
//! connections end last. While a layout blocks, no step lets traffic of pods take its usual way. No step names anything
//! that is not ours. Does not know how the kernel is told.

use crate::network::{Network, PUBLIC6};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// Our protocol number of routes and rules (`rtm_protocol`), by which the kernel remembers who made them. iproute2
/// gives it no name.
pub const PROTOCOL: u8 = 141;

/// The routing table.
pub const TABLE: u32 = 7_141;

/// The priority of the rules that send traffic of pods to public subnets of the node by our table.
pub const SUBNET_PRIORITY: u32 = 7_139;

/// The priority of the rule that sends traffic of pods by the specific routes of the main table.
pub const SPECIFIC_PRIORITY: u32 = 7_140;

/// The priority of the rule that sends the rest of that traffic by our table.
pub const EGRESS_PRIORITY: u32 = 7_141;

/// The metric of our unreachable routes. A route through the gateway has a lower one, and so takes precedence.
pub const UNREACHABLE_METRIC: u32 = 7_141;

/// Destinations that never leave through the address: private, shared and link-local networks.
pub const PRIVATE: [Network; 5] = [
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v4([100, 64, 0, 0], 10),
    v4([169, 254, 0, 0], 16),
];

/// All of IPv4.
const ALL: Network = v4([0, 0, 0, 0], 0);

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Network {
    Network::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length)
}

/// The way out through an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The reserved IP. The kernel never uses it. Comments keep it for the next process.
    pub address: Ipv4Addr,
    /// The anchor address, from which the provider translates.
    pub anchor: Ipv4Addr,
    /// Its gateway.
    pub gateway: Ipv4Addr,
    /// The interface that has the anchor address, by number.
    pub interface: u32,
}

/// The kernel's state while pods leave through an address, or while nothing of theirs leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The way out. `None`: the node has no address.
    pub exit: Option<Exit>,
    /// The networks of the node's pods.
    pub pods: Vec<Network>,
    /// Destinations that pods reach without the address, besides the private ones.
    pub except: Vec<Network>,
    /// Public subnets of the node. Their hosts count as outside, although the main table leads to them directly.
    pub subnets: Vec<Network>,
    /// Whether nothing leaves without the address.
    pub block: bool,
    /// The IPv6 networks that pods reach although public IPv6 is blocked. `None`: it is not blocked.
    pub except6: Option<Vec<Network>>,
    /// The bit that marks packets and connections.
    pub mark: u32,
}

/// Where a route of our table leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Back to the next rule.
    Throw,
    /// Nowhere: the sender gets an error.
    Unreachable,
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

/// A route of the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MainRoute {
    /// The destination.
    pub to: Network,
    /// The interface on whose link the destination is. `None`: the route leads through a gateway, or nowhere.
    pub link: Option<u32>,
}

/// A routing rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Traffic from this network goes by the specific routes of the main table.
    Specific(Network),
    /// Marked traffic from this network goes by our table.
    Egress(Network, u32),
    /// Marked traffic from the first network to the second goes by our table.
    Subnet(Network, Network, u32),
    /// Marked IPv6 traffic goes by our table.
    Egress6(u32),
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.way {
            Way::Throw => write!(f, "throw {} table {TABLE}", self.to),
            Way::Unreachable => write!(f, "unreachable {} table {TABLE}", self.to),
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
            Self::Subnet(from, to, mark) => {
                write!(f, "{SUBNET_PRIORITY}: from {from} to {to} fwmark {mark:#x}/{mark:#x} lookup {TABLE}")
            }
            Self::Egress6(mark) => {
                write!(f, "{EGRESS_PRIORITY}: from IPv6 fwmark {mark:#x}/{mark:#x} lookup {TABLE}")
            }
        }
    }
}

impl Layout {
    /// The routes of our table. The way out comes last.
    pub fn routes(&self) -> Vec<Route> {
        let throws = PRIVATE.iter().chain(&self.except).chain(self.except6.iter().flatten());
        let mut routes: Vec<Route> = throws.map(|to| Route { to: *to, way: Way::Throw }).collect();
        routes.sort();
        routes.dedup();
        let blocked = [self.block.then_some(ALL), self.except6.as_ref().map(|_| PUBLIC6)];
        routes.extend(blocked.into_iter().flatten().map(|to| Route { to, way: Way::Unreachable }));
        routes.extend(self.exit.map(|exit| Route { to: ALL, way: Way::Via(exit.gateway, exit.interface) }));
        routes
    }

    /// The routing rules. Those that keep traffic on its usual way come before the rule for everything else.
    pub fn rules(&self) -> Vec<Rule> {
        let specific = self.pods.iter().map(|from| Rule::Specific(*from));
        let egress = self.pods.iter().map(|from| Rule::Egress(*from, self.mark));
        let subnets = self
            .subnets
            .iter()
            .flat_map(|to| self.pods.iter().map(move |from| Rule::Subnet(*from, *to, self.mark)));
        subnets
            .chain(specific)
            .chain(egress)
            .chain(self.except6.as_ref().map(|_| Rule::Egress6(self.mark)))
            .collect()
    }

    /// The signature in the comments of the NAT table. Layouts with different tables have different signatures.
    pub fn signature(&self) -> Signature {
        let pods: Vec<String> = self.pods.iter().map(ToString::to_string).collect();
        Signature {
            block: self.block,
            exit: self.exit.map(|exit| [exit.address, exit.anchor, exit.gateway]),
            mark: self.mark,
            pod_networks: pods.len(),
            pods: pods.join("+"),
        }
    }
}

/// How a NAT table of ours was made. The comment of each of its rules holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Whether nothing leaves without the address.
    pub block: bool,
    /// The reserved IP, the anchor address and its gateway.
    exit: Option<[Ipv4Addr; 3]>,
    /// The bit that marks packets and connections.
    pub mark: u32,
    /// The number of pod networks.
    pub pod_networks: usize,
    pods: String,
}

/// The prefix of each of our comments, and that of a table that blocks.
const SIGNED: &str = "flipop-agent";
const SIGNED_BLOCK: &str = "flipop-agent-block";

/// The longest signature in bytes. A longer one is cut.
const COMMENT_MAX: usize = 120;

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, exit, mark, pod_networks, pods } = self;
        let signed = if *block { SIGNED_BLOCK } else { SIGNED };
        let [address, anchor, gateway] = exit.unwrap_or([Ipv4Addr::UNSPECIFIED; 3]);
        let text = format!("{signed} {address} {anchor} {gateway} {mark:#x} {pod_networks} {pods}");
        f.write_str(text.get(..COMMENT_MAX).unwrap_or(&text))
    }
}

impl Signature {
    /// The anchor address and its gateway.
    pub fn anchor(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        self.exit.map(|[_, anchor, gateway]| (anchor, gateway))
    }

    /// The networks of pods, as far as the comment had room for them.
    pub fn pods(&self) -> Vec<Network> {
        self.pods.split('+').filter_map(Network::parse).collect()
    }

    /// Parses a comment. `None`: it is not ours.
    pub fn parse(comment: &str) -> Option<Self> {
        let mut words = comment.split(' ');
        let mut word = || words.next();
        let block = match word()? {
            SIGNED => false,
            SIGNED_BLOCK => true,
            _ => return None,
        };
        let exit: [Ipv4Addr; 3] = [word()?.parse().ok()?, word()?.parse().ok()?, word()?.parse().ok()?];
        Some(Self {
            block,
            exit: (exit != [Ipv4Addr::UNSPECIFIED; 3]).then_some(exit),
            mark: word()?.strip_prefix("0x").and_then(|mark| u32::from_str_radix(mark, 16).ok())?,
            pod_networks: word()?.parse().ok()?,
            pods: word()?.to_owned(),
        })
    }

    /// Whether both are equal after a long comment has been cut.
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
    /// IPv4 routes of others in the table that we use.
    pub foreign_routes: usize,
    /// IPv6 routes of others in that table.
    pub foreign_routes6: usize,
    /// Rules of others with a priority that we use.
    pub foreign_rules: usize,
    /// The specific IPv4 routes of the main table.
    pub main: Vec<MainRoute>,
    /// A network of pods outside of those that the agent knows.
    pub outside: Option<Network>,
    /// IPv4 addresses, with the numbers of their interfaces.
    pub addresses: Vec<(Ipv4Addr, u32)>,
    /// Whether the kernel has IPv6.
    pub ipv6: bool,
    /// A device of a datapath that bypasses netfilter.
    pub bypass: Option<&'static str>,
}

impl Found {
    /// The address for which the settings were made, if all of them are there.
    pub fn intact(&self) -> Option<Ipv4Addr> {
        let Nat::Ours { signature: Some(signature), whole: true } = &self.nat else { return None };
        let ruled = |text: &str| {
            Network::parse(text).is_some_and(|pods| {
                let both = [Rule::Specific(pods), Rule::Egress(pods, signature.mark)];
                both.iter().all(|rule| self.rules.contains(rule))
            })
        };
        let [address, _, gateway] = signature.exit?;
        let leads = |route: &Route| matches!(route.way, Way::Via(via, _) if via == gateway);
        let whole = signature.pods.split('+').all(ruled) && self.routes.iter().any(leads);
        whole.then_some(address)
    }

    /// Our routes through a gateway.
    fn ways_out(&self) -> impl Iterator<Item = Route> {
        self.routes.iter().copied().filter(|route| matches!(route.way, Way::Via(..)))
    }

    /// Whose connections end with the settings: a bit of connections, and the anchor address through which they leave.
    /// `mark` and `anchor` are those of the agent. A table of ours may have been made with others.
    fn ends(&self, mark: u32, anchor: Option<Ipv4Addr>) -> Vec<Step> {
        let made = match &self.nat {
            Nat::Ours { signature: Some(signature), .. } => {
                signature.anchor().map(|(anchor, _)| Step::EndConnections(signature.mark, anchor))
            }
            Nat::Ours { signature: None, .. } | Nat::Absent | Nat::Foreign => None,
        };
        let own = anchor.map(|anchor| Step::EndConnections(mark, anchor));
        let mut ends: Vec<Step> = made.into_iter().chain(own).collect();
        ends.dedup();
        ends
    }

    /// The public subnets of the node, and the networks within them that the main table reaches in another way: through
    /// a gateway, or among these pods.
    pub fn subnets(&self, pods: &[Network]) -> (Vec<Network>, Vec<Network>) {
        let is_private = |at: Ipv4Addr| PRIVATE.iter().any(|network| network.contains(IpAddr::V4(at)));
        let is_public = |link| self.addresses.iter().any(|(at, on)| *on == link && !is_private(*at));
        let inside = |route: &MainRoute| PRIVATE.iter().chain(pods).any(|network| network.covers(route.to));
        let own = |route: &MainRoute| route.link.is_some_and(is_public) && !inside(route);
        let of = |routes: Vec<MainRoute>| routes.into_iter().map(|route| route.to);
        let (subnets, others) = self.main.iter().partition(|route| own(route));
        let subnets: Vec<Network> = of(subnets).collect();
        let others = of(others).filter(|other| subnets.iter().any(|subnet| subnet.covers(*other))).collect();
        (subnets, others)
    }

    /// The interface of an address.
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
    /// End the connections with this mark that leave through this anchor address.
    EndConnections(u32, Ipv4Addr),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetNat(layout) => {
                let pods = layout.signature().pods;
                match layout.exit {
                    Some(exit) => write!(f, "set table inet flipop: {pods} leaves as {}", exit.anchor),
                    None => write!(f, "set table inet flipop: {pods} does not leave"),
                }
            }
            Self::DropNat => f.write_str("remove table inet flipop"),
            Self::AddRoute(route) => write!(f, "add route {route}"),
            Self::DropRoute(route) => write!(f, "remove route {route}"),
            Self::AddRule(rule) => write!(f, "add rule {rule}"),
            Self::DropRule(rule) => write!(f, "remove rule {rule}"),
            Self::EndConnections(mark, anchor) => {
                write!(f, "end connections with mark {mark:#x} through {anchor}")
            }
        }
    }
}

/// The steps from the present state to the wanted one. `mark` and `anchor` say which connections end, besides those of
/// the signature.
pub fn steps(found: &Found, wanted: Option<&Layout>, mark: u32, anchor: Option<Ipv4Addr>) -> Vec<Step> {
    let same = |layout: &&Layout| match &found.nat {
        Nat::Ours { signature: Some(signature), .. } => signature.is(&layout.signature()),
        Nat::Ours { signature: None, .. } | Nat::Absent => true,
        Nat::Foreign => false,
    };
    let lost = |layout: &&Layout| layout.exit.is_none() && found.ways_out().next().is_some();
    match wanted {
        None => removal(found, mark, anchor),
        Some(layout) if layout.block && (!same(&layout) || lost(&layout)) => {
            exchange(found, layout, found.ends(mark, anchor))
        }
        Some(layout) if !same(&layout) => {
            // The table was made for something else. Its connections would go on with a wrong source.
            let bare = Found { addresses: found.addresses.clone(), ..Found::default() };
            removal(found, mark, anchor).into_iter().chain(completion(&bare, layout)).collect()
        }
        Some(layout) => completion(found, layout),
    }
}

fn removal(found: &Found, mark: u32, anchor: Option<Ipv4Addr>) -> Vec<Step> {
    let mut steps: Vec<Step> = found.rules.iter().rev().copied().map(Step::DropRule).collect();
    steps.extend(found.routes.iter().rev().copied().map(Step::DropRoute));
    if matches!(found.nat, Nat::Ours { .. }) {
        steps.push(Step::DropNat);
    }
    if !steps.is_empty() {
        steps.extend(found.ends(mark, anchor));
    }
    steps
}

/// The steps after which nothing leaves through an address, while no layout is possible: the ways out go, and
/// everything else stays.
pub fn withdrawal(found: &Found, mark: u32, anchor: Option<Ipv4Addr>) -> Vec<Step> {
    let mut steps: Vec<Step> = found.ways_out().map(Step::DropRoute).collect();
    if !steps.is_empty() {
        steps.extend(found.ends(mark, anchor));
    }
    steps
}

/// Changes what blocks for something else that blocks: first everything becomes unreachable, and the new way out comes
/// last.
fn exchange(found: &Found, layout: &Layout, ends: Vec<Step>) -> Vec<Step> {
    let rules = layout.rules();
    let (out, inside): (Vec<Route>, Vec<Route>) =
        layout.routes().into_iter().partition(|route| matches!(route.way, Way::Via(..)));
    let mut steps: Vec<Step> = Vec::new();
    steps.extend(lacking(&inside, &found.routes).map(Step::AddRoute));
    steps.extend(lacking(&found.routes, &inside).map(Step::DropRoute));
    steps.extend(lacking(&rules, &found.rules).map(Step::AddRule));
    steps.push(Step::SetNat(Box::new(layout.clone())));
    steps.extend(lacking(&found.rules, &rules).map(Step::DropRule));
    steps.extend(ends);
    steps.extend(out.into_iter().map(Step::AddRoute));
    steps
}

/// The items of the first list that the second lacks.
fn lacking<'a, T: Copy + PartialEq>(all: &'a [T], known: &'a [T]) -> impl Iterator<Item = T> + 'a {
    all.iter().copied().filter(|item| !known.contains(item))
}

/// Adds missing settings, and removes surplus ones of ours.
fn completion(found: &Found, layout: &Layout) -> Vec<Step> {
    let (routes, rules) = (layout.routes(), layout.rules());
    let mut steps: Vec<Step> = Vec::new();
    steps.extend(lacking(&found.rules, &rules).map(Step::DropRule));
    steps.extend(lacking(&found.routes, &routes).map(Step::DropRoute));
    if !matches!(found.nat, Nat::Ours { whole: true, signature: Some(_) }) {
        steps.push(Step::SetNat(Box::new(layout.clone())));
    }
    steps.extend(lacking(&routes, &found.routes).map(Step::AddRoute));
    steps.extend(lacking(&rules, &found.rules).map(Step::AddRule));
    steps
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;

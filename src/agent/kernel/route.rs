//! Routes, rules and addresses: messages of rtnetlink.

use super::Whose;
use super::message::{ACK, Attribute, CREATE, EXCLUSIVE, Message, attribute, u8_at, u32_at};
use super::socket::Answer;
use crate::agent::layout::{
    EGRESS_PRIORITY, MainRoute, PROTOCOL, Route, Rule, SPECIFIC_PRIORITY, SUBNET_PRIORITY, TABLE,
    UNREACHABLE_METRIC, Way,
};
use crate::network::Network;
use std::net::{IpAddr, Ipv4Addr};

/// Types of messages (`linux/rtnetlink.h`).
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const GET_RULE: u16 = 34;

/// The groups of notifications about IPv4 addresses, routes and rules (`RTMGRP_IPV4_*`), and about IPv6 routes
/// (`RTMGRP_IPV6_ROUTE`) and rules (`RTNLGRP_IPV6_RULE`).
pub(super) const GROUPS: u32 = 0x10 | 0x40 | 0x80 | 0x400 | 0x4_0000;

/// IPv4 and IPv6 (`AF_INET`, `AF_INET6`).
pub(super) const INET: u8 = 2;
pub(super) const INET6: u8 = 10;

/// The main table, and the value that leaves the table to a 32-bit attribute.
const MAIN_TABLE: u32 = 254;
const OTHER_TABLE: u8 = 0;

/// Types of routes.
const UNICAST: u8 = 1;
const UNREACHABLE: u8 = 7;
const THROW: u8 = 9;

/// The scope that matches any route in a deletion.
const ANY_SCOPE: u8 = 255;

/// The scope of destinations on a link. Narrower scopes have greater numbers.
const LINK_SCOPE: u8 = 253;

/// The action of a rule that looks up a table.
const TO_TABLE: u8 = 1;

/// The length of the fixed headers of routes and rules.
const FIXED: usize = 12;

/// Attributes of routes.
const ROUTE_TO: u16 = 1;
const ROUTE_INTERFACE: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_METRIC: u16 = 6;
const ROUTE_TABLE: u16 = 15;

/// Attributes of rules.
const RULE_TO: u16 = 1;
const RULE_FROM: u16 = 2;
const RULE_PRIORITY: u16 = 6;
const RULE_MARK: u16 = 10;
const RULE_SUPPRESS: u16 = 14;
const RULE_TABLE: u16 = 15;
const RULE_MASK: u16 = 16;
const RULE_PROTOCOL: u16 = 21;

/// Attributes of addresses and links.
const LOCAL_ADDRESS: u16 = 2;
const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_KIND: u16 = 1;

/// The length of the fixed header of links, and the flag of one that is up with a carrier (`IFF_LOWER_UP`).
const LINK_FIXED: usize = 16;
const CARRIER: u32 = 0x1_0000;

pub(super) fn add_route(route: Route) -> Message {
    route_message(NEW_ROUTE, ACK | CREATE | EXCLUSIVE, route, 0)
}

pub(super) fn delete_route(route: Route) -> Message {
    route_message(DELETE_ROUTE, ACK, route, ANY_SCOPE)
}

fn route_message(kind: u16, flags: u16, Route { to, way }: Route, scope: u8) -> Message {
    let form = match way {
        Way::Throw => THROW,
        Way::Unreachable => UNREACHABLE,
        Way::Via(..) => UNICAST,
    };
    let family = if to.is_ipv6() { INET6 } else { INET };
    let fixed = [family, to.length(), 0, 0, OTHER_TABLE, PROTOCOL, scope, form, 0, 0, 0, 0];
    let mut attributes = vec![Attribute::number(ROUTE_TABLE, TABLE)];
    if to.length() > 0 {
        attributes.push(Attribute::bytes(ROUTE_TO, &to.octets()));
    }
    match way {
        Way::Throw => {}
        Way::Unreachable => attributes.push(Attribute::number(ROUTE_METRIC, UNREACHABLE_METRIC)),
        Way::Via(gateway, interface) => {
            attributes.push(Attribute::bytes(ROUTE_GATEWAY, &gateway.octets()));
            attributes.push(Attribute::number(ROUTE_INTERFACE, interface));
        }
    }
    Message::new(kind, flags, &fixed, &attributes)
}

pub(super) fn add_rule(rule: Rule) -> Message {
    rule_message(NEW_RULE, ACK | CREATE | EXCLUSIVE, rule)
}

pub(super) fn delete_rule(rule: Rule) -> Message {
    rule_message(DELETE_RULE, ACK, rule)
}

fn rule_message(kind: u16, flags: u16, rule: Rule) -> Message {
    let by_mark = |priority, mark| {
        vec![
            Attribute::number(RULE_PRIORITY, priority),
            Attribute::number(RULE_TABLE, TABLE),
            Attribute::number(RULE_MARK, mark),
            Attribute::number(RULE_MASK, mark),
        ]
    };
    let (family, from, to, mut attributes) = match rule {
        Rule::Specific(from) => {
            let own = vec![
                Attribute::number(RULE_PRIORITY, SPECIFIC_PRIORITY),
                Attribute::number(RULE_TABLE, MAIN_TABLE),
                Attribute::number(RULE_SUPPRESS, 0),
            ];
            (INET, Some(from), None, own)
        }
        Rule::Egress(from, mark) => (INET, Some(from), None, by_mark(EGRESS_PRIORITY, mark)),
        Rule::Subnet(from, to, mark) => (INET, Some(from), Some(to), by_mark(SUBNET_PRIORITY, mark)),
        Rule::Egress6(mark) => (INET6, None, None, by_mark(EGRESS_PRIORITY, mark)),
    };
    let length = |network: Option<Network>| network.map_or(0, Network::length);
    let fixed = [family, length(to), length(from), 0, OTHER_TABLE, 0, 0, TO_TABLE, 0, 0, 0, 0];
    attributes.extend(from.map(|from| Attribute::bytes(RULE_FROM, &from.octets())));
    attributes.extend(to.map(|to| Attribute::bytes(RULE_TO, &to.octets())));
    attributes.push(Attribute::bytes(RULE_PROTOCOL, &[PROTOCOL]));
    Message::new(kind, flags, &fixed, &attributes)
}

/// A request for all routes of a family.
pub(super) fn list_routes(family: u8) -> Message {
    Message::new(GET_ROUTE, 0, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[])
}

/// A request for all rules of a family.
pub(super) fn list_rules(family: u8) -> Message {
    Message::new(GET_RULE, 0, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[])
}

pub(super) fn list_addresses() -> Message {
    Message::new(GET_ADDRESS, 0, &[INET, 0, 0, 0, 0, 0, 0, 0], &[])
}

/// A request for a device by name.
pub(super) fn find_link(name: &str) -> Message {
    Message::new(GET_LINK, ACK, &[0; LINK_FIXED], &[Attribute::text(LINK_NAME, name)])
}

pub(super) fn find_link_by_number(number: u32) -> Message {
    Message::new(GET_LINK, ACK, &[[0; 4], number.to_ne_bytes(), [0; 4], [0; 4]].concat(), &[])
}

/// Whether pods are at this destination on a link: CNIs connect them with a bridge, or route each address to one end of
/// a pair of devices. A device without a carrier connects nobody.
pub(super) fn leads_to_pods(Answer { kind, body }: &Answer, to: Network) -> bool {
    let kind_of = || attribute(attribute(body, LINK_FIXED, LINK_INFO)?, 0, LINK_KIND);
    let up = *kind == NEW_LINK && u32_at(body, 8).is_some_and(|flags| flags & CARRIER != 0);
    match kind_of() {
        Some(b"bridge\0") => up,
        Some(b"veth\0" | b"netkit\0") => up && to.length() == 32,
        _ => false,
    }
}

/// A route in a table that matters.
pub(super) enum Listed {
    /// In our table. It is ours if it has a form that we write.
    Egress(Whose<Route>),
    /// A specific IPv4 route in the main table.
    Main(MainRoute),
}

pub(super) fn read_route(answer: &Answer) -> Option<Listed> {
    let Answer { kind: NEW_ROUTE, body } = answer else { return None };
    match number(body, ROUTE_TABLE)? {
        TABLE => Some(Listed::Egress(Whose::of(own_route(body)))),
        MAIN_TABLE => main_route(body).map(Listed::Main),
        _ => None,
    }
}

fn main_route(body: &[u8]) -> Option<MainRoute> {
    let to = address(body, ROUTE_TO).filter(IpAddr::is_ipv4)?;
    let on_link = u8_at(body, 6)? >= LINK_SCOPE;
    let link = number(body, ROUTE_INTERFACE).filter(|_| on_link);
    Some(MainRoute { to: Network::new(to, u8_at(body, 1)?), link })
}

fn own_route(body: &[u8]) -> Option<Route> {
    let length = u8_at(body, 1)?;
    let all = (u8_at(body, 0)? == INET && length == 0).then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let to = address(body, ROUTE_TO).or(all)?;
    let way = match u8_at(body, 7)? {
        THROW => Way::Throw,
        UNREACHABLE if number(body, ROUTE_METRIC) == Some(UNREACHABLE_METRIC) => Way::Unreachable,
        UNICAST => match address(body, ROUTE_GATEWAY)? {
            IpAddr::V4(gateway) => Way::Via(gateway, number(body, ROUTE_INTERFACE)?),
            IpAddr::V6(_) => return None,
        },
        _ => return None,
    };
    (u8_at(body, 5)? == PROTOCOL).then_some(Route { to: Network::new(to, length), way })
}

/// A rule with a priority of ours. It is ours if it has a form that we write. `None`: it has another priority.
pub(super) fn read_rule(answer: &Answer) -> Option<Whose<Rule>> {
    let Answer { kind: NEW_RULE, body } = answer else { return None };
    let priority = number(body, RULE_PRIORITY).unwrap_or(0);
    matches!(priority, SUBNET_PRIORITY | SPECIFIC_PRIORITY | EGRESS_PRIORITY)
        .then(|| Whose::of(own_rule(body, priority)))
}

fn own_rule(body: &[u8], priority: u32) -> Option<Rule> {
    let (to_length, from_length) = (u8_at(body, 1)?, u8_at(body, 2)?);
    let from = address(body, RULE_FROM).map(|from| Network::new(from, from_length));
    let to = address(body, RULE_TO).map(|to| Network::new(to, to_length));
    let table = number(body, RULE_TABLE)?;
    let mark = number(body, RULE_MARK).unwrap_or(0);
    let by_mark = table == TABLE && number(body, RULE_MASK) == Some(mark);
    let rule = match (priority, u8_at(body, 0)?, from, to) {
        (SPECIFIC_PRIORITY, INET, Some(from), None)
            if table == MAIN_TABLE && number(body, RULE_SUPPRESS) == Some(0) && mark == 0 =>
        {
            Rule::Specific(from)
        }
        (EGRESS_PRIORITY, INET, Some(from), None) if by_mark => Rule::Egress(from, mark),
        (SUBNET_PRIORITY, INET, Some(from), Some(to)) if by_mark => Rule::Subnet(from, to, mark),
        (EGRESS_PRIORITY, INET6, None, None) if by_mark => Rule::Egress6(mark),
        _ => return None,
    };
    let protocol = attribute(body, FIXED, RULE_PROTOCOL).and_then(|value| u8_at(value, 0));
    (protocol == Some(PROTOCOL)).then_some(rule)
}

/// An address and the number of its interface.
pub(super) fn read_address(answer: &Answer) -> Option<(Ipv4Addr, u32)> {
    let Answer { kind: NEW_ADDRESS, body } = answer else { return None };
    let local = attribute(body, 8, LOCAL_ADDRESS)?.first_chunk::<4>()?;
    Some((Ipv4Addr::from(*local), u32_at(body, 4)?))
}

fn number(body: &[u8], kind: u16) -> Option<u32> {
    attribute(body, FIXED, kind).and_then(|value| u32_at(value, 0))
}

fn address(body: &[u8], kind: u16) -> Option<IpAddr> {
    let value = attribute(body, FIXED, kind)?;
    let six = || <[u8; 16]>::try_from(value).ok().map(IpAddr::from);
    <[u8; 4]>::try_from(value).ok().map(IpAddr::from).or_else(six)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_at_a_bridge_or_at_one_end_of_a_pair_that_has_a_carrier() {
        let leads = |kind: &str, flags: u32, to: &str| {
            let fixed = [[0; 4], [0; 4], flags.to_ne_bytes(), [0; 4]].concat();
            let info = Attribute::nest(LINK_INFO, &[Attribute::text(LINK_KIND, kind)]);
            let Message { body, .. } = Message::new(NEW_LINK, 0, &fixed, &[info]);
            leads_to_pods(&Answer { kind: NEW_LINK, body }, Network::parse(to).unwrap())
        };
        assert!(leads("bridge", CARRIER, "10.88.0.0/16"));
        assert!(leads("veth", CARRIER, "10.0.1.5/32") && leads("netkit", CARRIER, "10.0.1.5/32"));
        for (kind, flags, to) in [
            ("bridge", 0, "10.88.0.0/16"),
            ("veth", CARRIER, "10.0.1.0/24"),
            ("wireguard", CARRIER, "10.0.1.5/32"),
            ("", CARRIER, "192.0.2.1/32"),
        ] {
            assert!(!leads(kind, flags, to), "{kind} {flags} {to}");
        }
    }
}

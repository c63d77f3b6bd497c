//! The table `inet flipop`, as messages of nftables.
//!
//! Invariant: one transaction makes the table, so it is there as a whole or not at all. The comments of its rules
//! say how it was made.
//!
//! Only the first packet of a connection is marked, in `prerouting`. Later packets take the mark over from the
//! connection. A connection that does not leave by our gateway loses its mark at its first packet. So only
//! connections through the address keep a mark, and only those end with the address.
//!
//! A table that blocks also marks each packet of IPv6 that is not a reply, whoever sent it. Only the packets that the
//! node forwards are routed by that mark.
//!
//! The mark of a packet serves only its routing, so `forward` removes it. Other chains give such bits a meaning of
//! their own: that of the CNI plugin portmap masquerades what carries its bit.

use super::Whose;
use super::message::{ACK, APPEND, Attribute, CREATE, Message, attribute};
use super::socket::Answer;
use crate::agent::layout::{Layout, Signature};
use crate::network::Network;
use std::net::Ipv4Addr;

/// The group of notifications about tables (`NFNLGRP_NFTABLES`), as a bit.
pub(super) const GROUPS: u32 = 1 << 6;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = NEW_TABLE + 1;
const DELETE_TABLE: u16 = NEW_TABLE + 2;
const NEW_CHAIN: u16 = NEW_TABLE + 3;
const NEW_RULE: u16 = NEW_TABLE + 6;
const GET_RULE: u16 = NEW_TABLE + 7;

/// The family of tables for IPv4 and IPv6 (`NFPROTO_INET`), IPv4 (`NFPROTO_IPV4`) and IPv6 (`NFPROTO_IPV6`).
const INET: u8 = 1;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// The fixed header (`nfgenmsg`).
const FIXED: usize = 4;

/// The name of our table.
const TABLE: &str = "flipop";

/// The register that expressions share.
const REGISTER: u32 = 1;

/// Hooks of the chains, with their priorities: after connection tracking; before local delivery; before all others that
/// see what is forwarded; before the `srcnat` of CNIs, which is 100.
const PREROUTING: (&str, &str, u32, i32) = ("prerouting", "filter", 0, -150);
const INPUT: (&str, &str, u32, i32) = ("input", "filter", 1, 0);
const FORWARD: (&str, &str, u32, i32) = ("forward", "filter", 2, -400);
const POSTROUTING: (&str, &str, u32, i32) = ("postrouting", "nat", 4, 99);

/// The flag of a table that is switched off (dormant).
const DORMANT: u32 = 1;

fn message(kind: u16, flags: u16, attributes: &[Attribute]) -> Message {
    Message::new(kind, flags, &[INET, 0, 0, 0], attributes)
}

/// Frames changes as one transaction.
fn transaction(changes: Vec<Message>) -> Vec<Message> {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    let frame = |kind| Message::new(kind, 0, &[0, 0, high, low], &[]);
    std::iter::once(frame(BATCH_BEGIN)).chain(changes).chain([frame(BATCH_END)]).collect()
}

fn drop_message() -> Message {
    message(DELETE_TABLE, ACK, &[Attribute::text(1, TABLE)])
}

/// Removes the table.
pub(super) fn remove() -> Vec<Message> {
    transaction(vec![drop_message()])
}

/// Makes the table. `replace`: one of ours is there already.
pub(super) fn make(layout: &Layout, replace: bool) -> Vec<Message> {
    let mut changes: Vec<Message> = replace.then(drop_message).into_iter().collect();
    changes.push(message(NEW_TABLE, ACK | CREATE, &[Attribute::text(1, TABLE), Attribute::big(2, 0)]));
    changes.extend([PREROUTING, INPUT, FORWARD, POSTROUTING].map(chain));
    changes.extend(rules(layout).into_iter().map(|(chain, expressions)| {
        let comment = layout.signature().to_string();
        let length = u8::try_from(comment.len() + 1).unwrap_or(u8::MAX);
        let comment = [&[0, length], comment.as_bytes(), &[0]].concat();
        let attributes = [
            Attribute::text(1, TABLE),
            Attribute::text(2, chain),
            Attribute::nest(4, &expressions),
            Attribute::bytes(7, &comment),
        ];
        message(NEW_RULE, ACK | CREATE | APPEND, &attributes)
    }));
    transaction(changes)
}

fn chain((name, kind, hook, priority): (&str, &str, u32, i32)) -> Message {
    let hook = [Attribute::big(1, hook), Attribute::bytes(2, &priority.to_be_bytes())];
    let attributes = [
        Attribute::text(1, TABLE),
        Attribute::text(3, name),
        Attribute::nest(4, &hook),
        Attribute::text(7, kind),
    ];
    message(NEW_CHAIN, ACK | CREATE, &attributes)
}

/// The rules in their order, each with its chain.
fn rules(layout: &Layout) -> Vec<(&'static str, Vec<Attribute>)> {
    let mark = layout.mark;
    let mark_new = |pods: &Network| {
        let begins = [original(), new_connection(), comes_from(*pods)].concat();
        ("prerouting", [family(IPV4), begins, set_connection_mark(mark, true)].concat())
    };
    let mut rules: Vec<(&str, Vec<Attribute>)> = layout.pods.iter().map(mark_new).collect();
    let marked = || [family(IPV4), original(), has_mark(mark)].concat();
    for (chain, set) in [("prerouting", true), ("forward", false)] {
        rules.push((chain, [marked(), set_packet_mark(mark, set)].concat()));
        if layout.block {
            rules.push((chain, [family(IPV6), original(), set_packet_mark(mark, set)].concat()));
        }
    }
    rules.push(("input", [marked(), set_connection_mark(mark, false)].concat()));
    if let Some(exit) = layout.exit {
        let leaves = [marked(), next_hop(exit.gateway), source_nat(exit.anchor)].concat();
        rules.push(("postrouting", leaves));
    }
    rules.push(("postrouting", [marked(), set_connection_mark(mark, false)].concat()));
    rules
}

/// The number of rules of the table.
pub(super) fn rule_count(signature: &Signature) -> usize {
    signature.pod_networks + 4 + 2 * usize::from(signature.block) + usize::from(signature.anchor().is_some())
}

fn expression(name: &str, data: &[Attribute]) -> Attribute {
    Attribute::nest(1, &[Attribute::text(1, name), Attribute::nest(2, data)])
}

fn load(name: &str, key: u32, destination: u16, key_kind: u16) -> Attribute {
    expression(name, &[Attribute::big(destination, REGISTER), Attribute::big(key_kind, key)])
}

fn load_meta(key: u32) -> Attribute {
    load("meta", key, 1, 2)
}

fn load_connection(key: u32) -> Attribute {
    load("ct", key, 1, 2)
}

/// Compares the register with a value, for equality or (`!equal`) for difference.
fn compare(equal: bool, value: &[u8]) -> Attribute {
    let value = Attribute::nest(3, &[Attribute::bytes(1, value)]);
    expression("cmp", &[Attribute::big(1, REGISTER), Attribute::big(2, u32::from(!equal)), value])
}

/// `register = (register & mask) ^ exclusive`.
fn bitwise(mask: [u8; 4], exclusive: [u8; 4]) -> Attribute {
    let data = |kind, value: [u8; 4]| Attribute::nest(kind, &[Attribute::bytes(1, &value)]);
    let registers = [Attribute::big(1, REGISTER), Attribute::big(2, REGISTER), Attribute::big(3, 4)];
    expression("bitwise", &[registers.as_slice(), &[data(4, mask), data(5, exclusive)]].concat())
}

/// `meta nfproto`.
fn family(number: u8) -> Vec<Attribute> {
    vec![load_meta(15), compare(true, &[number])]
}

/// `ct direction original`.
fn original() -> Vec<Attribute> {
    vec![load_connection(1), compare(true, &[0])]
}

/// `ct state new`.
fn new_connection() -> Vec<Attribute> {
    vec![load_connection(0), bitwise(8_u32.to_ne_bytes(), [0; 4]), compare(false, &[0; 4])]
}

/// `ip saddr`.
fn comes_from(network: Network) -> Vec<Attribute> {
    let payload =
        [Attribute::big(1, REGISTER), Attribute::big(2, 1), Attribute::big(3, 12), Attribute::big(4, 4)];
    let masked = bitwise(network.mask().to_be_bytes(), [0; 4]);
    vec![expression("payload", &payload), masked, compare(true, &network.octets())]
}

/// `ct mark and MARK != 0`.
fn has_mark(mark: u32) -> Vec<Attribute> {
    vec![load_connection(3), bitwise(mark.to_ne_bytes(), [0; 4]), compare(false, &[0; 4])]
}

fn change_bit(mark: u32, set: bool) -> Attribute {
    let exclusive = if set { mark } else { 0 };
    bitwise((!mark).to_ne_bytes(), exclusive.to_ne_bytes())
}

/// `ct mark set ct mark or MARK`, or the same without the bit.
fn set_connection_mark(mark: u32, set: bool) -> Vec<Attribute> {
    let store = expression("ct", &[Attribute::big(2, 3), Attribute::big(4, REGISTER)]);
    vec![load_connection(3), change_bit(mark, set), store]
}

/// `meta mark set meta mark or MARK`, or the same without the bit.
fn set_packet_mark(mark: u32, set: bool) -> Vec<Attribute> {
    let store = expression("meta", &[Attribute::big(2, 3), Attribute::big(3, REGISTER)]);
    vec![load_meta(3), change_bit(mark, set), store]
}

/// `rt ip nexthop`.
fn next_hop(gateway: Ipv4Addr) -> Vec<Attribute> {
    vec![load("rt", 1, 1, 2), compare(true, &gateway.octets())]
}

/// `snat ip to`.
fn source_nat(anchor: Ipv4Addr) -> Vec<Attribute> {
    let address = Attribute::nest(2, &[Attribute::bytes(1, &anchor.octets())]);
    let kind = [Attribute::big(1, 0), Attribute::big(2, u32::from(IPV4)), Attribute::big(3, REGISTER)];
    vec![expression("immediate", &[Attribute::big(1, REGISTER), address]), expression("nat", &kind)]
}

/// A request for the table.
pub(super) fn find_table() -> Message {
    message(GET_TABLE, ACK, &[Attribute::text(1, TABLE)])
}

/// Whether a table is switched off.
pub(super) fn is_dormant(answer: &Answer) -> bool {
    let flags = attribute(&answer.body, FIXED, 2).and_then(|flags| flags.first_chunk::<4>());
    answer.kind == NEW_TABLE && flags.is_some_and(|flags| u32::from_be_bytes(*flags) & DORMANT != 0)
}

/// A request for the rules of the table.
pub(super) fn list_rules() -> Message {
    message(GET_RULE, 0, &[Attribute::text(1, TABLE)])
}

/// The signature of a rule of our table.
pub(super) fn read_rule(answer: &Answer) -> Option<Whose<Signature>> {
    let ours = attribute(&answer.body, FIXED, 1)? == b"flipop\0" && answer.body.first() == Some(&INET);
    (answer.kind == NEW_RULE && ours).then(|| Whose::of(signature(&answer.body)))
}

fn signature(body: &[u8]) -> Option<Signature> {
    let data = attribute(body, FIXED, 7)?;
    let [0, length, rest @ ..] = data else { return None };
    let comment = rest.get(..usize::from(*length).saturating_sub(1))?;
    Signature::parse(std::str::from_utf8(comment).ok()?)
}

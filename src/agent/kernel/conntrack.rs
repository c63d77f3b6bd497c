//! Connections that carry our mark: messages of ctnetlink.

use super::message::{ACK, Attribute, Message, attribute};
use super::socket::Answer;
use std::net::Ipv4Addr;

const SUBSYSTEM: u16 = 1;
const NEW: u16 = SUBSYSTEM << 8;
const GET: u16 = NEW + 1;
const DELETE: u16 = NEW + 2;

/// Attributes of a connection.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const MARK: u16 = 8;
const ID: u16 = 12;
const ZONE: u16 = 18;
const MARK_MASK: u16 = 21;

/// Attributes of a direction, and of its addresses.
const ADDRESSES: u16 = 1;
const IPV4_DESTINATION: u16 = 2;

/// The fixed header (`nfgenmsg`), and IPv4 (`AF_INET`).
const FIXED: usize = 4;
const INET: u8 = 2;

fn message(kind: u16, flags: u16, attributes: &[Attribute]) -> Message {
    Message::new(kind, flags, &[INET, 0, 0, 0], attributes)
}

/// A request for the IPv4 connections with this mark.
pub(super) fn list(mark: u32) -> Message {
    message(GET, 0, &[Attribute::big(MARK, mark), Attribute::big(MARK_MASK, mark)])
}

/// Deletes the entry of a connection, if it has this mark and its replies go to this address. The number of the entry
/// keeps a newer connection with the same addresses.
pub(super) fn end(answer: &Answer, mark: u32, anchor: Ipv4Addr) -> Option<Message> {
    let Answer { kind: NEW, body } = answer else { return None };
    let found = |kind| attribute(body, FIXED, kind);
    let carried = u32::from_be_bytes(*found(MARK)?.first_chunk()?);
    let replies_to = attribute(attribute(found(REPLY)?, 0, ADDRESSES)?, 0, IPV4_DESTINATION)?;
    if carried & mark == 0 || replies_to != anchor.octets() {
        return None;
    }
    let named = [(ORIGINAL, true), (ID, false), (ZONE, false)].into_iter().filter_map(|(kind, nested)| {
        let value = found(kind)?;
        Some(if nested { Attribute::nested(kind, value) } else { Attribute::bytes(kind, value) })
    });
    Some(message(DELETE, ACK, &named.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry as the kernel sends it: from a pod, through the anchor.
    fn entry(mark: u32, anchor: Ipv4Addr) -> Answer {
        let way = |kind, from: [u8; 4], to: [u8; 4]| {
            let addresses = [Attribute::bytes(1, &from), Attribute::bytes(IPV4_DESTINATION, &to)];
            Attribute::nest(kind, &[Attribute::nest(ADDRESSES, &addresses)])
        };
        let attributes = [
            way(ORIGINAL, [10, 244, 1, 2], [198, 51, 100, 9]),
            way(REPLY, [198, 51, 100, 9], anchor.octets()),
            Attribute::big(MARK, mark),
            Attribute::big(ID, 77),
        ];
        Answer { kind: NEW, body: message(NEW, 0, &attributes).body }
    }

    #[test]
    fn only_a_connection_with_the_mark_through_the_anchor_is_ended() {
        let (anchor, other) = (Ipv4Addr::new(10, 10, 0, 11), Ipv4Addr::new(192, 0, 2, 11));
        let ended = end(&entry(0x2001, anchor), 0x2000, anchor).unwrap();
        assert_eq!((ended.kind, attribute(&ended.body, FIXED, ID)), (DELETE, Some([0, 0, 0, 77].as_slice())));
        let original = attribute(&ended.body, FIXED, ORIGINAL).and_then(|way| attribute(way, 0, ADDRESSES));
        assert_eq!(attribute(original.unwrap(), 0, IPV4_DESTINATION), Some([198, 51, 100, 9].as_slice()));
        assert_eq!(end(&entry(0x2000, other), 0x2000, anchor), None, "somebody else set the bit");
        assert_eq!(end(&entry(0x1000, anchor), 0x2000, anchor), None, "the bit is not set");
        let strange = Answer { kind: DELETE, ..entry(0x2000, anchor) };
        assert_eq!(end(&strange, 0x2000, anchor), None);
    }
}

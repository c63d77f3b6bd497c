//! Connections that carry our mark: a message of ctnetlink.

use super::message::{ACK, Attribute, Message};

const SUBSYSTEM: u16 = 1;
const DELETE: u16 = (SUBSYSTEM << 8) + 2;

/// Attributes of a connection.
const MARK: u16 = 8;
const MARK_MASK: u16 = 21;

/// IPv4 (`AF_INET`).
const INET: u8 = 2;

/// Deletes the entries of all IPv4 connections with this mark. Without a tuple in the message the kernel deletes by
/// filter.
pub(super) fn end(mark: u32) -> Message {
    Message::new(
        DELETE,
        ACK,
        &[INET, 0, 0, 0],
        &[Attribute::big(MARK, mark), Attribute::big(MARK_MASK, mark)],
    )
}

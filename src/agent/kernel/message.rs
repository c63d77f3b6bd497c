//! Netlink messages as bytes: headers and attributes, in both directions.
//!
//! Owns only the format. The module that makes a message says what it means.

/// Flags of a message (`linux/netlink.h`).
pub(super) const REQUEST: u16 = 0x1;
pub(super) const ACK: u16 = 0x4;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const DUMP: u16 = 0x300;
pub(super) const CREATE: u16 = 0x400;
pub(super) const APPEND: u16 = 0x800;
/// A flag of answers: a change interrupted the dump.
pub(super) const INTERRUPTED: u16 = 0x10;

/// Types of messages that all families share.
pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;

/// Bits of an attribute's type that are not part of its number.
const NESTED: u16 = 0x8000;
const KIND_MASK: u16 = 0x3fff;

const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;

/// A message without its length and number. The socket fills them in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) flags: u16,
    /// The family's fixed header and the attributes.
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn new(kind: u16, flags: u16, fixed: &[u8], attributes: &[Attribute]) -> Self {
        Self { kind, flags: REQUEST | flags, body: [fixed, &bytes_of(attributes)].concat() }
    }

    /// The message as bytes for the kernel.
    pub(super) fn encode(&self, number: u32) -> Vec<u8> {
        let length = u32::try_from(HEADER + self.body.len()).unwrap_or(u32::MAX);
        let mut bytes = [
            length.to_ne_bytes().as_slice(),
            &self.kind.to_ne_bytes(),
            &self.flags.to_ne_bytes(),
            &number.to_ne_bytes(),
            // The sender. The kernel knows it.
            &0_u32.to_ne_bytes(),
            &self.body,
        ]
        .concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }
}

/// An attribute, encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribute(Vec<u8>);

impl Attribute {
    pub(super) fn bytes(kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).unwrap_or(u16::MAX);
        let mut bytes = [length.to_ne_bytes().as_slice(), &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        Self(bytes)
    }

    /// A number in host byte order, as in messages about routes.
    pub(super) fn number(kind: u16, value: u32) -> Self {
        Self::bytes(kind, &value.to_ne_bytes())
    }

    /// A number in network byte order, as in messages about netfilter.
    pub(super) fn big(kind: u16, value: u32) -> Self {
        Self::bytes(kind, &value.to_be_bytes())
    }

    /// A text with a zero byte at its end.
    pub(super) fn text(kind: u16, value: &str) -> Self {
        Self::bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn nest(kind: u16, attributes: &[Self]) -> Self {
        Self::nested(kind, &bytes_of(attributes))
    }

    /// Attributes that are encoded already.
    pub(super) fn nested(kind: u16, attributes: &[u8]) -> Self {
        Self::bytes(kind | NESTED, attributes)
    }
}

fn bytes_of(attributes: &[Attribute]) -> Vec<u8> {
    attributes.iter().flat_map(|attribute| attribute.0.iter().copied()).collect()
}

/// A message from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) number: u32,
    pub(super) body: &'a [u8],
}

/// The messages of a datagram. A truncated message ends the iteration.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = Received<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let (header, _) = rest.split_first_chunk::<HEADER>()?;
        let length = usize::try_from(u32_at(header, 0)?).ok()?;
        let message = rest.get(..length)?;
        let received = Received {
            kind: u16_at(header, 4)?,
            flags: u16_at(header, 6)?,
            number: u32_at(header, 8)?,
            body: message.get(HEADER..)?,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(received)
    })
}

/// The attributes after a fixed header of this length, with their numbers.
pub(super) fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(fixed..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & KIND_MASK;
        let value = rest.get(ATTRIBUTE_HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The attribute with this number.
pub(super) fn attribute(body: &[u8], fixed: usize, kind: u16) -> Option<&[u8]> {
    attributes(body, fixed).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

pub(super) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_read_back() {
        let inner = [Attribute::text(1, "ab"), Attribute::big(2, 7)];
        let message = Message::new(77, ACK, &[9; 4], &[Attribute::number(3, 5), Attribute::nest(4, &inner)]);
        let bytes = [message.encode(1), message.encode(2)].concat();
        let read: Vec<Received<'_>> = messages(&bytes).collect();
        assert_eq!(read.iter().map(|message| message.number).collect::<Vec<_>>(), [1, 2]);
        let Received { kind, flags, body, .. } = read[0];
        assert_eq!((kind, flags, &body[..4]), (77, REQUEST | ACK, [9; 4].as_slice()));
        assert_eq!(attribute(body, 4, 3).and_then(|value| u32_at(value, 0)), Some(5));
        let nest = attribute(body, 4, 4).unwrap();
        assert_eq!(attribute(nest, 0, 1), Some(b"ab\0".as_slice()));
        assert_eq!(attribute(nest, 0, 2), Some([0, 0, 0, 7].as_slice()));
    }

    #[test]
    fn what_is_cut_short_or_nonsense_ends_the_reading() {
        let message = Message::new(77, ACK, &[9; 4], &[Attribute::number(3, 5)]).encode(1);
        for length in 0..message.len() {
            assert_eq!(messages(&message[..length]).count(), 0, "{length}");
        }
        for length in [0_u16, 1, 3, 200] {
            let bytes = [length.to_ne_bytes().as_slice(), &[1, 0, 9, 9]].concat();
            assert!(attributes(&bytes, 0).count() <= 1, "{length}");
        }
        assert_eq!(messages(&[0; 64]).take(100).count(), 0, "a length of nothing does not go on for ever");
    }
}

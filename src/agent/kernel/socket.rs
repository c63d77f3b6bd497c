//! A netlink socket for requests, which the kernel answers at once, and for notifications.
//!
//! Owns numbers, answers and their bounds. The kernel answers a request within the call that sends it, so the wait
//! for the answer is short. Only a kernel in great trouble takes longer, and then [`ANSWER_TIMEOUT`] ends the wait.

use super::message::{ACK, DONE, DUMP, ERROR, INTERRUPTED, Message, messages, u32_at};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest datagram. The kernel fills at most 32 KiB of a dump into one.
const BUFFER: usize = 64 << 10;

/// How often a dump is read again after a change interrupted it.
const DUMP_TRIES: usize = 5;

/// Most datagrams of one answer. This is far beyond the routes of the largest node.
const MAX_DATAGRAMS: usize = 10_000;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused it, or the socket failed.
    #[error("netlink: {0}")]
    Refused(Errno),
    /// The answer is incomplete.
    #[error("netlink: the answer is incomplete")]
    Incomplete,
}

impl NetlinkError {
    pub(super) fn of(error: &std::io::Error) -> Self {
        Self::Refused(Errno::from_io_error(error).unwrap_or(Errno::INVAL))
    }

    pub(super) fn is(self, errno: Errno) -> bool {
        self == Self::Refused(errno)
    }
}

impl From<Errno> for NetlinkError {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

/// A message of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) kind: u16,
    pub(super) body: Vec<u8>,
}

/// A socket of one protocol.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    number: u32,
    buffer: Vec<u8>,
}

/// Opens a socket that also receives the notifications of these groups. `None` stands for the protocol of routes,
/// which has the number 0.
pub(super) fn open(protocol: Option<Protocol>, groups: u32, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
    Ok(fd)
}

impl Socket {
    pub(super) fn open(protocol: Option<Protocol>) -> Result<Self, NetlinkError> {
        let fd = open(protocol, 0, SocketFlags::empty())?;
        set_socket_timeout(&fd, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
        // All acknowledgements of a large batch come at once. The system may cut this size, which does no harm.
        let _cut = set_socket_recv_buffer_size(&fd, 1 << 20);
        Ok(Self { fd, number: 0, buffer: vec![0; BUFFER] })
    }

    /// The values read from the messages of a dump. The others take no memory.
    pub(super) fn dump<T>(
        &mut self,
        message: &Message,
        read: impl Fn(&Answer) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let message = Message { flags: message.flags | DUMP, ..message.clone() };
        for _ in 0..DUMP_TRIES {
            if let Some(found) = self.dump_once(&message, &read)? {
                return Ok(found);
            }
        }
        Err(NetlinkError::Incomplete)
    }

    fn dump_once<T>(
        &mut self,
        message: &Message,
        read: &impl Fn(&Answer) -> Option<T>,
    ) -> Result<Option<Vec<T>>, NetlinkError> {
        let first = self.send(std::slice::from_ref(message))?;
        let (mut found, mut interrupted) = (Vec::new(), false);
        for _ in 0..MAX_DATAGRAMS {
            let length = self.receive()?;
            for received in messages(self.buffer.get(..length).unwrap_or_default()) {
                if received.number != first {
                    continue;
                }
                interrupted |= received.flags & INTERRUPTED != 0;
                match received.kind {
                    DONE => return Ok((!interrupted).then_some(found)),
                    ERROR => {
                        return errno(received.body).map_or(Ok(Some(Vec::new())), |errno| Err(errno.into()));
                    }
                    kind => found.extend(read(&Answer { kind, body: received.body.to_vec() })),
                }
            }
        }
        Err(NetlinkError::Incomplete)
    }

    /// The answer to one request that asks for an acknowledgement.
    pub(super) fn ask(&mut self, message: &Message) -> Result<Vec<Answer>, NetlinkError> {
        let number = self.send(std::slice::from_ref(message))?;
        let mut found = Vec::new();
        for _ in 0..MAX_DATAGRAMS {
            let length = self.receive()?;
            for received in messages(self.buffer.get(..length).unwrap_or_default()) {
                if received.number != number {
                    continue;
                }
                if received.kind == ERROR {
                    return errno(received.body).map_or(Ok(found), |errno| Err(errno.into()));
                }
                found.push(Answer { kind: received.kind, body: received.body.to_vec() });
            }
        }
        Err(NetlinkError::Incomplete)
    }

    /// Sends changes as one datagram, and waits until each is acknowledged. Messages without the flag [`ACK`] frame
    /// the others.
    pub(super) fn change(&mut self, changes: &[Message]) -> Result<(), NetlinkError> {
        let first = self.send(changes)?;
        let last = first.wrapping_add(u32::try_from(changes.len()).unwrap_or(u32::MAX));
        let mut awaited = changes.iter().filter(|message| message.flags & ACK != 0).count();
        let mut refused = None;
        while awaited > 0 {
            let length = self.receive()?;
            for received in messages(self.buffer.get(..length).unwrap_or_default()) {
                if received.kind == ERROR && (first..last).contains(&received.number) {
                    awaited = awaited.saturating_sub(1);
                    refused = refused.or(errno(received.body));
                }
            }
            if refused.is_some() {
                break;
            }
        }
        refused.map_or(Ok(()), |errno| Err(errno.into()))
    }

    /// Sends messages. Returns the number of the first.
    fn send(&mut self, parts: &[Message]) -> Result<u32, NetlinkError> {
        let first = self.number.wrapping_add(1);
        let mut datagram = Vec::new();
        for message in parts {
            self.number = self.number.wrapping_add(1);
            datagram.extend(message.encode(self.number));
        }
        rustix::net::sendto(&self.fd, &datagram, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(first)
    }

    fn receive(&mut self) -> Result<usize, NetlinkError> {
        loop {
            match rustix::net::recv(&self.fd, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((length, _)) => return Ok(length),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// The error in an acknowledgement. `None`: success.
fn errno(body: &[u8]) -> Option<Errno> {
    let code = u32_at(body, 0).map(|code| i32::from_ne_bytes(code.to_ne_bytes()))?;
    (code != 0).then(|| Errno::from_raw_os_error(code.saturating_neg()))
}

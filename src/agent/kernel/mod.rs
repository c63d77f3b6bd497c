//! The kernel's present state, and changes of it.
//!
//! Invariants: nothing without our mark is ever changed. The mark is the protocol number of routes and rules, and
//! the comment of rules of the NAT table. One change is one message, or one transaction of nftables.

mod conntrack;
mod message;
mod nft;
mod route;
mod socket;

pub use socket::NetlinkError;

use crate::agent::layout::{Found, MainRoute, Nat, Signature, Step};
use crate::network::Network;
use message::Message;
use route::Listed;
use rustix::io::Errno;
use rustix::net::{Protocol, SocketFlags, netlink};
use socket::{Answer, Socket, open};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixDatagram as AnyDatagram;
use tokio::net::UnixDatagram;

/// Devices of datapaths that may bypass netfilter: Cilium's, and Calico's with eBPF.
const BYPASSING: [&str; 2] = ["cilium_host", "bpfin.cali"];

/// How often connections are listed to end them, and how many end with one datagram.
const END_TRIES: usize = 5;
const ENDS_AT_A_TIME: usize = 64;

/// An object in the kernel, in a place that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose<T> {
    /// It has our mark.
    Ours(T),
    /// Somebody else made it.
    Others,
}

impl<T> Whose<T> {
    fn of(ours: Option<T>) -> Self {
        ours.map_or(Self::Others, Self::Ours)
    }
}

/// The two sockets to the kernel.
#[derive(Debug)]
pub struct Kernel {
    routes: Socket,
    netfilter: Socket,
}

impl Kernel {
    /// Opens both sockets.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { routes: Socket::open(None)?, netfilter: Socket::open(Some(netlink::NETFILTER))? })
    }

    /// Reads everything that matters.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn look(&mut self) -> Result<Found, NetlinkError> {
        let mut found = Found { nat: self.nat()?, bypass: self.bypass()?, ipv6: true, ..Found::default() };
        for family in [route::INET, route::INET6] {
            let rules = match self.routes.dump(&route::list_rules(family), route::read_rule) {
                Err(error) if error.is(Errno::AFNOSUPPORT) => {
                    found.ipv6 = false;
                    break;
                }
                rules => rules?,
            };
            for rule in rules {
                match rule {
                    Whose::Ours(rule) => found.rules.push(rule),
                    Whose::Others => found.foreign_rules += 1,
                }
            }
            let foreign =
                if family == route::INET { &mut found.foreign_routes } else { &mut found.foreign_routes6 };
            for route in self.routes.dump(&route::list_routes(family), route::read_route)? {
                match route {
                    Listed::Egress(Whose::Ours(route)) => found.routes.push(route),
                    Listed::Egress(Whose::Others) => *foreign += 1,
                    Listed::Main(route) => found.main.push(route),
                }
            }
        }
        // The first of several routes to a destination has the lowest metric.
        found.main.dedup_by_key(|route| route.to);
        found.addresses = self.routes.dump(&route::list_addresses(), route::read_address)?;
        Ok(found)
    }

    fn nat(&mut self) -> Result<Nat, NetlinkError> {
        let table = match self.netfilter.ask(&nft::find_table()) {
            Err(error) if error.is(Errno::NOENT) => return Ok(Nat::Absent),
            table => table?,
        };
        let dormant = table.iter().any(nft::is_dormant);
        let mut signed: Vec<Signature> = Vec::new();
        for rule in self.netfilter.dump(&nft::list_rules(), nft::read_rule)? {
            match rule {
                Whose::Ours(signature) => signed.push(signature),
                Whose::Others => return Ok(Nat::Foreign),
            }
        }
        let signature = signed.first().cloned();
        let same = signature.as_ref().is_some_and(|first| signed.iter().all(|other| other.is(first)));
        let count = signature.as_ref().map(nft::rule_count);
        Ok(Nat::Ours { whole: same && !dormant && count == Some(signed.len()), signature })
    }

    fn bypass(&mut self) -> Result<Option<&'static str>, NetlinkError> {
        for name in BYPASSING {
            if !self.link(&route::find_link(name))?.is_empty() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// A device, or nothing if there is none.
    fn link(&mut self, request: &Message) -> Result<Vec<Answer>, NetlinkError> {
        match self.routes.ask(request) {
            Err(error) if error.is(Errno::NODEV) => Ok(Vec::new()),
            answers => answers,
        }
    }

    /// A network outside of these that pods use: that of a bridge, or one address behind a pair of devices.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn outside(&mut self, main: &[MainRoute], pods: &[Network]) -> Result<Option<Network>, NetlinkError> {
        for MainRoute { to, link } in main.iter().filter(|_| !pods.is_empty()) {
            let Some(link) = link.filter(|_| !pods.iter().any(|pods| pods.covers(*to))) else { continue };
            let found = self.link(&route::find_link_by_number(link))?;
            if found.iter().any(|link| route::leads_to_pods(link, *to)) {
                return Ok(Some(*to));
            }
        }
        Ok(None)
    }

    /// Takes one step. It succeeds if its result is there already.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn take(&mut self, step: &Step) -> Result<(), NetlinkError> {
        match step {
            Step::SetNat(layout) => {
                let replace = !matches!(self.nat()?, Nat::Absent);
                self.netfilter.change(&nft::make(layout, replace))
            }
            Step::DropNat => gone(self.netfilter.change(&nft::remove())),
            Step::AddRoute(route) => self.change(route::add_route(*route)),
            Step::DropRoute(route) => gone(self.change(route::delete_route(*route))),
            Step::AddRule(rule) => self.change(route::add_rule(*rule)),
            Step::DropRule(rule) => gone(self.change(route::delete_rule(*rule))),
            Step::EndConnections(mark, anchor) => self.end_connections(*mark, *anchor),
        }
    }

    /// Ends connections until none is left. A list may miss one that was made meanwhile.
    fn end_connections(&mut self, mark: u32, anchor: Ipv4Addr) -> Result<(), NetlinkError> {
        for _ in 0..END_TRIES {
            let list = conntrack::list(mark);
            let ends = self.netfilter.dump(&list, |answer| conntrack::end(answer, mark, anchor))?;
            if ends.is_empty() {
                return Ok(());
            }
            for some in ends.chunks(ENDS_AT_A_TIME) {
                gone(self.netfilter.change(some))?;
            }
        }
        Ok(())
    }

    fn change(&mut self, message: Message) -> Result<(), NetlinkError> {
        match self.routes.change(&[message]) {
            Err(error) if error.is(Errno::EXIST) => Ok(()),
            result => result,
        }
    }
}

/// A missing object needs no removal.
fn gone(result: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match result {
        Err(error) if [Errno::NOENT, Errno::SRCH].into_iter().any(|errno| error.is(errno)) => Ok(()),
        result => result,
    }
}

/// The most notifications that are read before other tasks have their turn.
const MOST: usize = 256;

/// The sockets on which the kernel reports changes. They do not say what changed, so the receiver looks.
#[derive(Debug)]
pub struct Notices {
    routes: UnixDatagram,
    tables: UnixDatagram,
}

impl Notices {
    /// Starts to listen. Works only inside a runtime.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn listen() -> Result<Self, NetlinkError> {
        let listen = |protocol: Option<Protocol>, groups| {
            let fd = open(protocol, groups, SocketFlags::NONBLOCK)?;
            // The socket is only read and waited for, which is the same in every address family.
            UnixDatagram::from_std(AnyDatagram::from(fd)).map_err(|error| NetlinkError::of(&error))
        };
        Ok(Self {
            routes: listen(None, route::GROUPS)?,
            tables: listen(Some(netlink::NETFILTER), nft::GROUPS)?,
        })
    }

    /// Waits until something changes.
    pub async fn heard(&self) {
        tokio::select! {
            () = drain(&self.routes) => {}
            () = drain(&self.tables) => {}
        }
    }
}

/// Waits for a notification, and discards all that have arrived. A notification lost for lack of room is a change
/// too.
async fn drain(socket: &UnixDatagram) {
    if socket.readable().await.is_err() {
        return std::future::pending().await;
    }
    // Notifications are cut to this length, since their content does not matter.
    let mut word = [0_u8; 64];
    for _ in 0..MOST {
        if socket.try_recv(&mut word).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            return;
        }
    }
}

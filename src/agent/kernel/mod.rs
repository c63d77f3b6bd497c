//! The kernel's present state, and changes of it.
//!
//! Invariants: nothing without our mark is ever changed. The mark is the protocol number of routes and rules, and
//! the comment of rules of the NAT table. One change is one message, or one transaction of nftables.

mod conntrack;
mod message;
mod nft;
mod notices;
mod route;
mod socket;

pub use notices::Notices;
pub use socket::NetlinkError;

use crate::agent::layout::{Found, Nat, Signature, Step};
use message::Message;
use rustix::io::Errno;
use rustix::net::netlink;
use socket::Socket;

/// Devices of datapaths that may bypass netfilter: Cilium's, and Calico's with eBPF.
const BYPASSING: [&str; 2] = ["cilium_host", "bpfin.cali"];

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
        let mut found = Found { nat: self.nat()?, bypass: self.bypass()?, ..Found::default() };
        for route in self.routes.dump(&route::list_routes())?.iter().filter_map(route::read_route) {
            match route {
                Whose::Ours(route) => found.routes.push(route),
                Whose::Others => found.foreign_routes += 1,
            }
        }
        for rule in self.routes.dump(&route::list_rules())?.iter().filter_map(route::read_rule) {
            match rule {
                Whose::Ours(rule) => found.rules.push(rule),
                Whose::Others => found.foreign_rules += 1,
            }
        }
        let addresses = self.routes.dump(&route::list_addresses())?;
        found.addresses = addresses.iter().filter_map(route::read_address).collect();
        Ok(found)
    }

    fn nat(&mut self) -> Result<Nat, NetlinkError> {
        let table = match self.netfilter.ask(&nft::find_table()) {
            Err(error) if error.is(Errno::NOENT) => return Ok(Nat::Absent),
            table => table?,
        };
        let dormant = table.iter().any(nft::is_dormant);
        let rules = self.netfilter.dump(&nft::list_rules())?;
        let mut signed: Vec<Signature> = Vec::new();
        for rule in rules.iter().filter_map(nft::read_rule) {
            match rule {
                Whose::Ours(signature) => signed.push(signature),
                Whose::Others => return Ok(Nat::Foreign),
            }
        }
        let signature = signed.first().cloned();
        let same = signature.as_ref().is_some_and(|first| signed.iter().all(|other| other.is(first)));
        let count = signature.as_ref().map(|signature| nft::rule_count(signature.pod_networks));
        Ok(Nat::Ours { whole: same && !dormant && count == Some(signed.len()), signature })
    }

    fn bypass(&mut self) -> Result<Option<&'static str>, NetlinkError> {
        for name in BYPASSING {
            match self.routes.ask(&route::find_link(name)) {
                Ok(_) => return Ok(Some(name)),
                Err(error) if error.is(Errno::NODEV) => {}
                Err(error) => return Err(error),
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
            Step::EndConnections(mark) => gone(self.netfilter.change(&[conntrack::end(*mark)])),
        }
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

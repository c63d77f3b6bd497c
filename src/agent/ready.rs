//! Whether the agent can do its work on this node, and if not, why.

use super::layout::{Exit, Found, Layout, Nat, Way};
use super::metadata::Anchor;
use crate::config::{AgentConfig, WhenAbsent};
use crate::network::Network;
use std::net::Ipv4Addr;

flipop_core::described! {
    /// Why the agent is not ready.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum NotReady {
        /// The agent has not read the kernel's state yet.
        Starting = "Starting",
        /// The kernel refuses a request of the agent. The agent needs the capability `NET_ADMIN`, and a kernel with
        /// nftables and connection tracking.
        Netlink = "Netlink",
        /// The metadata service has not named the anchor address and its gateway yet.
        AnchorUnknown = "AnchorUnknown",
        /// No interface has the anchor address that the metadata service names, so answers would not arrive.
        /// DigitalOcean sets none up on custom images, such as those of Talos, or on droplets that are older than
        /// reserved IPs. The agent cannot work there.
        NoAnchor = "NoAnchor",
        /// Neither `--pod-cidr` nor `spec.podCIDRs` of the node names the networks of its pods.
        PodsUnknown = "PodsUnknown",
        /// Pods of the node have addresses outside of `spec.podCIDRs`, as with Calico, and with Cilium in its mode
        /// `cluster-pool`. Name their networks with `--pod-cidr`. An agent that was ready before stays ready, and says
        /// so with the metric `flipop_agent_pods_outside`.
        PodsOutside = "PodsOutside",
        /// There is a device of a datapath that may bypass netfilter: `cilium_host`, or `bpfin.cali` of Calico. See
        /// `--cni-uses-netfilter`.
        Datapath = "Datapath",
        /// The nftables table `inet flipop` or the routing table 7141 has entries of another program. The agent leaves
        /// them alone.
        Foreign = "Foreign",
    }
    /// The reason.
    fn as_str -> &'static str;
}

/// The facts about the node. A known fact stays known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The anchor address and its gateway.
    pub anchor: Option<Anchor>,
    /// The networks of the node's pods.
    pub pods: Vec<Network>,
    /// The IPv6 networks of the node's pods. `None`: the node has not been seen yet.
    pub pods6: Option<Vec<Network>>,
}

impl Known {
    /// Takes over the facts from the comments of a whole NAT table in the kernel, and from the routes.
    pub fn recall(&mut self, found: &Found) {
        if let Nat::Ours { signature: Some(signature), whole: true } = &found.nat
            && (signature.block || found.intact().is_some())
        {
            if let Some((address, gateway)) = signature.anchor() {
                self.anchor.get_or_insert(Anchor { address, gateway });
            }
            if self.pods.is_empty() {
                self.pods = signature.pods();
            }
        }
        let open = found.routes.iter().filter(|route| route.to.is_ipv6() && route.way == Way::Throw);
        self.pods6.get_or_insert_with(|| open.map(|route| route.to).collect());
    }

    /// The settings that an address needs, if they are possible. Without an address: those that block.
    ///
    /// # Errors
    /// Why they are impossible.
    pub fn layout(
        &self,
        address: Option<Ipv4Addr>,
        found: &Found,
        config: &AgentConfig,
    ) -> Result<Layout, NotReady> {
        let block = config.when_absent == WhenAbsent::Block;
        if found.bypass.is_some() && !config.cni_uses_netfilter {
            return Err(NotReady::Datapath);
        }
        if found.nat == Nat::Foreign || found.foreign_routes > 0 || block && found.foreign_routes6 > 0 {
            return Err(NotReady::Foreign);
        }
        let exit = address.map(|address| self.exit(address, found)).transpose()?;
        if self.pods.is_empty() {
            return Err(NotReady::PodsUnknown);
        }
        let begins = exit.is_some() && found.intact().is_none();
        if begins && found.outside.is_some() && config.pods.is_empty() {
            return Err(NotReady::PodsOutside);
        }
        let pods6 = self.pods6.iter().flatten();
        let (subnets, others) = found.subnets(&self.pods);
        Ok(Layout {
            exit,
            pods: self.pods.clone(),
            except: [config.except.as_slice(), &others].concat(),
            subnets,
            block,
            except6: (block && found.ipv6).then(|| pods6.chain(&config.except6).copied().collect()),
            mark: config.mark,
        })
    }

    fn exit(&self, address: Ipv4Addr, found: &Found) -> Result<Exit, NotReady> {
        let anchor = self.anchor.ok_or(NotReady::AnchorUnknown)?;
        let interface = found.interface_of(anchor.address).ok_or(NotReady::NoAnchor)?;
        Ok(Exit { address, anchor: anchor.address, gateway: anchor.gateway, interface })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Invocation;

    fn config(arguments: &[&str]) -> AgentConfig {
        let words = ["flipop", "agent", "--node-name=n"].into_iter().chain(arguments.iter().copied());
        match Invocation::from_parts(words, &|_| None).unwrap() {
            Invocation::Agent(config) => *config,
            Invocation::Run(_) | Invocation::Command(_) => panic!("not the agent"),
        }
    }

    #[test]
    fn each_lack_has_its_own_reason() {
        let address = Some(Ipv4Addr::new(203, 0, 113, 10));
        let anchor = Anchor { address: Ipv4Addr::new(10, 10, 0, 5), gateway: Ipv4Addr::new(10, 10, 0, 1) };
        let pods = vec![Network::parse("10.244.1.0/24").unwrap()];
        let known = Known { anchor: Some(anchor), pods, pods6: None };
        let found = Found { addresses: vec![(anchor.address, 2)], ..Found::default() };
        let plain = config(&[]);
        let layout = known.layout(address, &found, &plain).unwrap();
        assert_eq!((layout.exit.unwrap().interface, layout.mark), (2, plain.mark));
        let why = |known: &Known, found: &Found| known.layout(address, found, &plain).err();
        assert_eq!(why(&Known { anchor: None, ..known.clone() }, &found), Some(NotReady::AnchorUnknown));
        assert_eq!(why(&known, &Found::default()), Some(NotReady::NoAnchor));
        assert_eq!(why(&Known { pods: Vec::new(), ..known.clone() }, &found), Some(NotReady::PodsUnknown));
        let outside = Found { outside: Network::parse("10.0.1.5/32"), ..found.clone() };
        assert_eq!(why(&known, &outside), Some(NotReady::PodsOutside));
        let layout = known.layout(address, &found, &plain).unwrap();
        let nat = Nat::Ours { signature: Some(layout.signature()), whole: true };
        let standing = Found { nat, routes: layout.routes(), rules: layout.rules(), ..outside.clone() };
        assert_eq!(why(&known, &standing), None, "a restart interrupts nothing");
        let named = config(&["--pod-cidr=10.244.1.0/24", "--when-absent=Block"]);
        assert!(known.layout(address, &outside, &named).is_ok(), "the flag wins");
        assert!(
            known.layout(None, &outside, &config(&["--when-absent=Block"])).is_ok(),
            "it blocks what it knows"
        );
        assert_eq!(why(&known, &Found { nat: Nat::Foreign, ..found.clone() }), Some(NotReady::Foreign));
        assert_eq!(why(&known, &Found { foreign_routes: 1, ..found.clone() }), Some(NotReady::Foreign));
        let foreign6 = Found { foreign_routes6: 1, ..found.clone() };
        assert_eq!(why(&known, &foreign6), None, "the agent uses that table only where it blocks");
        let blocks = config(&["--when-absent=Block"]);
        assert_eq!(known.layout(None, &foreign6, &blocks), Err(NotReady::Foreign));
        let bypassed = Found { bypass: Some("bpfin.cali"), ..found.clone() };
        assert_eq!(why(&known, &bypassed), Some(NotReady::Datapath));
        assert!(known.layout(address, &bypassed, &config(&["--cni-uses-netfilter"])).is_ok());
    }

    #[test]
    fn another_anchor_another_mark_and_another_exception_make_other_settings() {
        let address = Some(Ipv4Addr::new(203, 0, 113, 10));
        let at = |last: u8| Anchor {
            address: Ipv4Addr::new(10, 10, 0, last),
            gateway: Ipv4Addr::new(10, 10, 0, 1),
        };
        let pods = vec![Network::parse("10.244.1.0/24").unwrap()];
        let found = Found { addresses: vec![(at(5).address, 2), (at(6).address, 3)], ..Found::default() };
        let layout = |anchor: Anchor, arguments: &[&str]| {
            let known = Known { anchor: Some(anchor), pods: pods.clone(), pods6: None };
            known.layout(address, &found, &config(arguments)).unwrap()
        };
        let before = layout(at(5), &[]);
        let moved = layout(at(6), &[]);
        let exit = moved.exit.unwrap();
        assert_eq!((exit.anchor, exit.interface), (at(6).address, 3));
        for arguments in [["--mark=0x800"], ["--except=198.51.100.0/24"]] {
            assert_ne!(layout(at(5), &arguments), before, "{arguments:?}");
        }
    }

    #[test]
    fn what_blocks_needs_no_anchor_and_is_recalled_without_the_api_server() {
        let network = |text: &str| Network::parse(text).unwrap();
        let blocks = config(&["--when-absent=Block", "--except6=2001:db8:2::/48"]);
        let known = Known {
            pods: vec![network("10.244.1.0/24")],
            pods6: Some(vec![network("2001:db8:1::/64")]),
            anchor: None,
        };
        let found = Found { ipv6: true, ..Found::default() };
        let layout = known.layout(None, &found, &blocks).unwrap();
        assert_eq!((layout.exit, layout.block), (None, true));
        let open = ["2001:db8:1::/64", "2001:db8:2::/48"].map(network);
        assert_eq!(layout.except6.as_deref(), Some(open.as_slice()));
        let without = known.layout(None, &Found::default(), &blocks).unwrap();
        assert_eq!(without.except6, None, "a kernel without IPv6 takes none of it");
        let nat = Nat::Ours { signature: Some(layout.signature()), whole: true };
        let standing = Found { nat, routes: layout.routes(), rules: layout.rules(), ..found };
        let mut next = Known::default();
        next.recall(&standing);
        assert_eq!((next.anchor, &next.pods), (None, &known.pods));
        assert_eq!(next.pods6.as_deref(), Some(open.as_slice()));
    }
}

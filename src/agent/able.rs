//! Whether the agent can do its work on this node, and if not, why.

use super::layout::{Found, Layout, Nat};
use super::metadata::Anchor;
use crate::config::AgentConfig;
use crate::network::Network;
use std::net::Ipv4Addr;

flipop_core::described! {
    /// Why the agent is not able to do its work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum NotAble {
        /// The kernel refuses what the agent asks of it. It needs the capability `NET_ADMIN`, and a kernel with nftables and
        /// connection tracking.
        Netlink = "Netlink",
        /// The metadata service has not named the anchor address and its gateway yet.
        AnchorUnknown = "AnchorUnknown",
        /// No interface has the anchor address, so that answers would not arrive. Droplets that were made before reserved
        /// IPs existed have none.
        AnchorMissing = "AnchorMissing",
        /// Neither `--pod-cidr` nor `spec.podCIDRs` of the node names the networks of its pods.
        PodsUnknown = "PodsUnknown",
        /// There is a device of a datapath that may bypass netfilter: `cilium_host`, or `bpfin.cali` of Calico. See
        /// `--cni-uses-netfilter`.
        Datapath = "Datapath",
        /// Somebody else's rules are in the nftables table `inet flipop`, or somebody else's routes in the table 7141. They
        /// are left.
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
}

impl Known {
    /// Takes over the facts from the comments of a whole NAT table in the kernel.
    pub fn recall(&mut self, found: &Found) {
        if let Nat::Ours { signature: Some(signature), .. } = &found.nat
            && found.intact().is_some()
        {
            let (address, gateway) = signature.anchor();
            self.anchor.get_or_insert(Anchor { address, gateway });
            if self.pods.is_empty() {
                self.pods = signature.pods();
            }
        }
    }

    /// The settings that an address needs, if they are possible.
    ///
    /// # Errors
    /// Why they are impossible.
    pub fn layout(&self, address: Ipv4Addr, found: &Found, config: &AgentConfig) -> Result<Layout, NotAble> {
        if found.bypass.is_some() && !config.cni_uses_netfilter {
            return Err(NotAble::Datapath);
        }
        if found.nat == Nat::Foreign || found.foreign_routes > 0 {
            return Err(NotAble::Foreign);
        }
        let anchor = self.anchor.ok_or(NotAble::AnchorUnknown)?;
        let interface = found.interface_of(anchor.address).ok_or(NotAble::AnchorMissing)?;
        if self.pods.is_empty() {
            return Err(NotAble::PodsUnknown);
        }
        Ok(Layout {
            address,
            anchor: anchor.address,
            gateway: anchor.gateway,
            interface,
            pods: self.pods.clone(),
            except: config.except.clone(),
            mark: config.mark,
        })
    }
}

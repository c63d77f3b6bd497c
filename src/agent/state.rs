//! The agent's knowledge, and its next step: read the kernel's state, decide, change it.
//!
//! Invariants: until the agent is ready for the first time, it uses no address and removes what an earlier process
//! left. After that, only the kernel can make it unready. With `--when-absent=Block` it blocks as soon as it knows the
//! networks of pods. It reads the kernel's state before each change, so a step that finds everything in order changes
//! nothing.

use super::decision::{Annotation, Decision, Reserved};
use super::kernel::{Kernel, NetlinkError};
use super::layout::{Found, Step, steps, withdrawal};
use super::metadata::Anchor;
use super::ready::{Known, NotReady};
use super::report::Report;
use crate::config::{AgentConfig, Egress, WhenAbsent};
use crate::kube::objects::own_node::OwnNodeFacts;
use crate::network::Network;
use flipop_core::model::Moment;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Notifications report the changes of others. This interval covers lost notifications.
const LOOK_MS: u64 = 30_000;

/// The wait after a failed change.
const RETRY_MS: u64 = 1_000;

/// The state of the agent.
pub struct State {
    config: AgentConfig,
    known: Known,
    decision: Decision,
    /// Whether the settings of a former process were taken in.
    recalled: bool,
    /// The sockets. `None` before the first turn, and after a failed one.
    kernel: Option<Kernel>,
    was_ready: bool,
    /// Whether connections were ended that a former process may have left open when it was killed.
    swept: bool,
    report: Arc<Report>,
    /// The last log message, so that each is logged once.
    reported: String,
    planned: Vec<Step>,
}

impl State {
    /// A state without any facts.
    pub fn new(config: AgentConfig, report: Arc<Report>, now: Moment) -> Self {
        let known = Known { pods: config.pods.clone(), ..Known::default() };
        Self {
            config,
            known,
            decision: Decision::new(None, now),
            recalled: false,
            kernel: None,
            was_ready: false,
            swept: false,
            report,
            reported: String::new(),
            planned: Vec::new(),
        }
    }

    /// Takes in the node. `None`: the node is gone. Returns whether anything has changed.
    pub fn node(&mut self, node: Option<OwnNodeFacts>) -> bool {
        let node = node.unwrap_or_default();
        let annotation = node.annotation.as_deref().and_then(|text| text.trim().parse().ok());
        let networks = node.pod_cidrs.iter().filter_map(|text| Network::parse(text));
        let (pods6, pods): (Vec<Network>, Vec<Network>) = networks.partition(|network| network.is_ipv6());
        let annotation = annotation.map_or(Annotation::Absent, Annotation::Names);
        let mut changed = self.decision.annotated(annotation);
        if self.config.pods.is_empty() && !pods.is_empty() && pods != self.known.pods {
            self.known.pods = pods;
            changed = true;
        }
        if !node.pod_cidrs.is_empty() && self.known.pods6.as_ref() != Some(&pods6) {
            self.known.pods6 = Some(pods6);
            changed = true;
        }
        changed
    }

    /// The address that the node's annotation names.
    pub fn annotated(&self) -> Option<Ipv4Addr> {
        self.decision.annotation().address()
    }

    /// Takes in a read of the metadata service. `None`: the read failed. Returns whether anything has changed.
    pub fn reserved(&mut self, reserved: Option<Reserved>, now: Moment) -> bool {
        self.report.read(reserved.is_some());
        self.decision.read(reserved, now)
    }

    /// Takes in the anchor. Returns whether it has changed.
    pub fn anchor(&mut self, anchor: Anchor) -> bool {
        self.known.anchor.replace(anchor) != Some(anchor)
    }

    /// Looks, decides and sets. Returns the latest moment of the next turn.
    pub fn turn(&mut self, now: Moment) -> Moment {
        match self.try_turn(now) {
            Ok(wake) => wake.map_or(now.plus_millis(LOOK_MS), |wake| wake.min(now.plus_millis(LOOK_MS))),
            Err(error) => {
                // The next turn uses a new socket, since this one may hold the rest of an answer.
                self.kernel = None;
                self.report.write_failed();
                self.tell(NotReady::Netlink, &error.to_string());
                now.plus_millis(RETRY_MS)
            }
        }
    }

    fn try_turn(&mut self, now: Moment) -> Result<Option<Moment>, NetlinkError> {
        let mut kernel = match self.kernel.take() {
            Some(kernel) => kernel,
            None => Kernel::open()?,
        };
        let mut found = kernel.look()?;
        if !std::mem::replace(&mut self.recalled, true) {
            self.known.recall(&found);
            self.decision.stands(found.intact());
        }
        let (address, wake) = self.decision.decide(now);
        let outside = kernel.outside(&found.main, &self.known.pods)?;
        let is_new = self.report.outside(outside.is_some());
        if let Some(network) = outside.filter(|_| is_new) {
            tracing::warn!(%network, "pods outside of the known networks do not leave through the address");
        }
        found.outside = outside.filter(|_| !self.was_ready);
        let result = self.set(&mut kernel, &found, address);
        self.kernel = Some(kernel);
        result.map(|()| wake)
    }

    /// Makes the settings for an address, or without one.
    fn set(
        &mut self,
        kernel: &mut Kernel,
        found: &Found,
        address: Option<Ipv4Addr>,
    ) -> Result<(), NetlinkError> {
        if found.foreign_rules > 0 {
            self.report.foreign_rules();
        }
        let wanted = address.filter(|_| self.config.egress == Egress::Pods);
        let with_address = Some(wanted.unwrap_or(Ipv4Addr::UNSPECIFIED));
        let layout = self.known.layout(with_address, found, &self.config);
        self.was_ready |= layout.is_ok();
        let (mark, anchor) = (self.config.mark, self.known.anchor.map(|anchor| anchor.address));
        let mut todo = match (&layout, wanted) {
            (Ok(layout), Some(_)) => steps(found, Some(layout), mark, anchor),
            // The settings outlive such a failure. Only annotation and metadata end them.
            (Err(_), Some(_)) if self.was_ready => Vec::new(),
            (Ok(_) | Err(_), _) if self.blocks() => match self.known.layout(None, found, &self.config) {
                Ok(blocked) => steps(found, Some(&blocked), mark, anchor),
                // Rules that block already go on to block.
                Err(_) => withdrawal(found, mark, anchor),
            },
            (Ok(_) | Err(_), _) => steps(found, None, mark, anchor),
        };
        if let Some(anchor) = anchor.filter(|_| !self.swept)
            && found.intact().is_none()
            && !todo.iter().any(|step| matches!(step, Step::EndConnections(..)))
        {
            // A former process may have died after it removed the table and before it ended the connections.
            todo.insert(0, Step::EndConnections(mark, anchor));
        }
        self.apply(kernel, todo)?;
        self.swept |= anchor.is_some();
        let active = wanted.filter(|_| layout.is_ok());
        match (self.config.egress, layout) {
            (Egress::None, _) | (Egress::Pods, Ok(_)) => self.tell_ready(active),
            (Egress::Pods, Err(why)) if self.was_ready && wanted.is_none() && why != NotReady::Foreign => {
                self.tell_ready(None);
            }
            (Egress::Pods, Err(why)) => self.tell(why, why.meaning().trim_start()),
        }
        Ok(())
    }

    /// Whether nothing leaves without the address.
    fn blocks(&self) -> bool {
        self.config.egress == Egress::Pods && self.config.when_absent == WhenAbsent::Block
    }

    fn apply(&mut self, kernel: &mut Kernel, todo: Vec<Step>) -> Result<(), NetlinkError> {
        if self.config.dry_run {
            if todo != self.planned {
                for step in &todo {
                    tracing::info!("dry run: would {step}");
                }
                self.planned = todo;
            }
            return Ok(());
        }
        for step in &todo {
            kernel.take(step)?;
            tracing::info!("{step}");
            self.report.wrote();
        }
        Ok(())
    }

    fn tell_ready(&mut self, active: Option<Ipv4Addr>) {
        let text = match (self.config.egress, active) {
            (Egress::None, _) => "nothing is set (--egress=None)".to_owned(),
            (Egress::Pods, None) if self.blocks() => {
                "ready; the node has no reserved IP, so pods are blocked (--when-absent=Block)".to_owned()
            }
            (Egress::Pods, None) => "ready; the node has no reserved IP".to_owned(),
            (Egress::Pods, Some(address)) => format!("pods leave through {address}"),
        };
        if self.reported != text {
            tracing::info!("{text}");
            self.reported = text;
        }
        self.report.mark_ready(active);
    }

    fn tell(&mut self, why: NotReady, detail: &str) {
        let text = format!("not ready ({}): {detail}", why.as_str());
        if self.reported != text {
            tracing::warn!("{text}");
            self.reported = text;
        }
        self.report.mark_not_ready(why, detail);
    }
}

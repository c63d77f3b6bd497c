//! What the agent knows and has set, and its next turn: look, decide, set.
//!
//! Invariants: before the agent was able for the first time nothing is set, and what is left over of ours is removed; from
//! then on only the kernel makes it unready. The kernel is looked at before anything is changed, so that a turn that finds
//! all as it should be changes nothing.

use super::able::{Known, NotAble};
use super::decision::{Annotation, Decision, Reserved};
use super::kernel::{Kernel, NetlinkError};
use super::layout::{Found, Step, steps};
use super::metadata::Anchor;
use super::report::Report;
use crate::config::{AgentConfig, Egress};
use crate::kube::objects::own_node::OwnNodeFacts;
use crate::network::Network;
use flipop_core::model::moment::Moment;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// What others change is noticed by notifications; this is for those that get lost.
const LOOK_MS: u64 = 30_000;

/// A change that failed is tried again after so long.
const RETRY_MS: u64 = 1_000;

/// The state of the agent.
pub struct State {
    config: AgentConfig,
    known: Known,
    decision: Option<Decision>,
    /// What came before the kernel could be looked at.
    kernel: Option<Kernel>,
    was_able: bool,
    report: Arc<Report>,
    /// What was logged last, so that it is logged once.
    told: String,
    planned: Vec<Step>,
    annotation: Annotation,
    reserved: Option<Reserved>,
}

impl State {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(config: AgentConfig, report: Arc<Report>) -> Self {
        let known = Known { anchor: None, pods: config.pods.clone() };
        Self {
            config,
            known,
            decision: None,
            kernel: None,
            was_able: false,
            report,
            told: String::new(),
            planned: Vec::new(),
            annotation: Annotation::Unseen,
            reserved: None,
        }
    }

    /// The node as it is now; nothing: it is gone. True where that changes something.
    pub fn node(&mut self, node: Option<OwnNodeFacts>) -> bool {
        let node = node.unwrap_or_default();
        let annotation = node.annotation.as_deref().and_then(|text| text.trim().parse().ok());
        let pods: Vec<Network> = node.pod_cidrs.iter().filter_map(|text| Network::parse(text)).collect();
        let annotation = annotation.map_or(Annotation::Absent, Annotation::Names);
        let mut changed = std::mem::replace(&mut self.annotation, annotation) != annotation;
        if self.config.pods.is_empty() && !pods.is_empty() && pods != self.known.pods {
            self.known.pods = pods;
            changed = true;
        }
        if let Some(decision) = &mut self.decision {
            decision.annotated(annotation);
        }
        changed
    }

    /// The address that the node's annotation names.
    #[must_use]
    pub fn annotated(&self) -> Option<Ipv4Addr> {
        self.annotation.address()
    }

    /// The metadata service was read; nothing: that failed. True where that changes something.
    pub fn reserved(&mut self, reserved: Option<Reserved>, now: Moment) -> bool {
        self.report.read(reserved.is_some());
        if let Some(decision) = &mut self.decision {
            decision.read(reserved, now);
        }
        std::mem::replace(&mut self.reserved, reserved) != reserved
    }

    /// The metadata service named the anchor. True where that changes something.
    pub fn anchor(&mut self, anchor: Anchor) -> bool {
        self.known.anchor.replace(anchor) != Some(anchor)
    }

    /// Looks, decides and sets. Returns when the next turn is due at the latest.
    pub fn turn(&mut self, now: Moment) -> Moment {
        match self.try_turn(now) {
            Ok(wake) => wake.map_or(now.plus_millis(LOOK_MS), |wake| wake.min(now.plus_millis(LOOK_MS))),
            Err(error) => {
                // Another socket next time: this one may hold what is left of an answer.
                self.kernel = None;
                self.report.write_failed();
                self.tell(NotAble::Netlink, &error.to_string());
                now.plus_millis(RETRY_MS)
            }
        }
    }

    fn try_turn(&mut self, now: Moment) -> Result<Option<Moment>, NetlinkError> {
        let mut kernel = match self.kernel.take() {
            Some(kernel) => kernel,
            None => Kernel::open()?,
        };
        let found = kernel.look()?;
        let first = self.decision.is_none();
        let decision = self.decision.get_or_insert_with(|| {
            self.known.recall(&found);
            let mut decision = Decision::new(found.intact(), now);
            decision.annotated(self.annotation);
            decision.read(self.reserved, now);
            decision
        });
        let (address, wake) = decision.decide(now);
        let result = self.set(&mut kernel, &found, address, first);
        self.kernel = Some(kernel);
        result.map(|()| wake)
    }

    /// Sets what has to stand for an address.
    fn set(
        &mut self,
        kernel: &mut Kernel,
        found: &Found,
        address: Option<Ipv4Addr>,
        first: bool,
    ) -> Result<(), NetlinkError> {
        if found.foreign_rules > 0 {
            self.report.foreign_rules();
        }
        let wanted = address.filter(|_| self.config.egress == Egress::Pods);
        let layout = self.known.layout(wanted.unwrap_or(Ipv4Addr::UNSPECIFIED), found, &self.config);
        self.was_able |= layout.is_ok();
        let mut todo = match (&layout, wanted) {
            (Ok(layout), Some(_)) => steps(found, Some(layout), self.config.mark),
            // The settings outlive such a failure: only the inputs end them.
            (Err(_), Some(_)) if self.was_able => Vec::new(),
            (Ok(_) | Err(_), _) => steps(found, None, self.config.mark),
        };
        if first
            && found.intact().is_none()
            && !todo.iter().any(|step| matches!(step, Step::EndConnections(_)))
        {
            // Somebody before us may have died after the table went and before its connections did.
            todo.insert(0, Step::EndConnections(self.config.mark));
        }
        self.apply(kernel, todo)?;
        let active = wanted.filter(|_| layout.is_ok());
        match (self.config.egress, layout) {
            (Egress::Off, _) | (Egress::Pods, Ok(_)) => self.tell_able(active),
            (Egress::Pods, Err(why)) if self.was_able && wanted.is_none() && why != NotAble::Foreign => {
                self.tell_able(None);
            }
            (Egress::Pods, Err(why)) => self.tell(why, why.meaning().trim_start()),
        }
        Ok(())
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

    fn tell_able(&mut self, active: Option<Ipv4Addr>) {
        let text = match (self.config.egress, active) {
            (Egress::Off, _) => "nothing is set (--egress=Off)".to_owned(),
            (Egress::Pods, None) => "able; the node has no reserved IP".to_owned(),
            (Egress::Pods, Some(address)) => format!("pods leave through {address}"),
        };
        if self.told != text {
            tracing::info!("{text}");
            self.told = text;
        }
        self.report.able(active);
    }

    fn tell(&mut self, why: NotAble, detail: &str) {
        let text = format!("not able ({}): {detail}", why.as_str());
        if self.told != text {
            tracing::warn!("{text}");
            self.told = text;
        }
        self.report.not_able(why, detail);
    }
}

//! Faults of watches, frame by frame.

use super::network::Network;
use super::plan::Then;
use flipop_apiserver::{ApiServer, Call, FrameFacts, Interceptor, OnFrame};
use std::time::Duration;

/// Decides on the frames of one replica's watches.
pub(super) struct Frames {
    pub(super) network: Network,
    pub(super) api: ApiServer,
}

impl Interceptor for Frames {
    fn frame(&self, call: &Call, frame: &FrameFacts<'_>) -> OnFrame {
        let shows = matches!(frame.event, "ADDED" | "MODIFIED" | "DELETED");
        if !shows || call.resource == "leases" {
            return OnFrame::Deliver;
        }
        match self.network.frame() {
            Some(Then::Stall) => OnFrame::Stall,
            Some(Then::Tear) => OnFrame::Tear,
            Some(Then::End) => OnFrame::Close,
            Some(Then::Forget) => {
                self.api.compact();
                OnFrame::Tear
            }
            Some(Then::Expire) => OnFrame::Expire,
            Some(Then::Twice) => OnFrame::Duplicate,
            Some(Then::Late { ms }) => OnFrame::Delay(Duration::from_millis(*ms)),
            Some(Then::Hide { for_ms }) => OnFrame::ExpireAfter(Duration::from_millis(*for_ms)),
            None
            | Some(
                Then::CrashBefore { .. }
                | Then::CrashAfterEffect { .. }
                | Then::CrashAfterReply { .. }
                | Then::Meet(_)
                | Then::Older { .. },
            ) => OnFrame::Deliver,
        }
    }
}

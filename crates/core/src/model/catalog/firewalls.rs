//! The conditions about the firewalls of a pool.

use crate::model::fault::FaultKind;

sections! {
    FirewallReady: "`FirewallReady` is present once the pool has `spec.firewall`, until its firewalls are removed. It \
                    does not affect `Ready`: an address waits at most 10 s for its firewall, and only while \
                    `FirewallReady` is True." {
        /// Reasons of `FirewallReady`.
        enum FirewallReady {
            Applied => True,
                "The ports are open on every node that the pool may use and that another firewall governs.",
                "None. See also [`FirewallWouldIsolate`](#firewallwouldisolate).";
            Applying => True,
                "Ports are being opened on some nodes.",
                "Wait.";
            Leaving => True,
                "`spec.firewall` was removed. FLIPOP takes the nodes out of the pool's firewalls and deletes the \
                 firewalls.",
                "Wait.";
            InvalidSpec => False,
                "`spec.firewall` has no valid port, or no valid source. Open ports stay open, and FLIPOP opens no \
                 others.",
                "Correct the fields that [`SpecValid`](#specvalid) names.";
            ScopeMissing => False,
                "The token lacks a scope, so FLIPOP cannot tell which other firewalls govern a node. It changes no firewall.",
                "Give the token the scopes that the message names: see [Tokens and scopes](../operations/tokens.md).";
            CoverageUnknown => False,
                "A list of firewalls contradicts what FLIPOP knows: it leaves a firewall of the pool out, shows one \
                 without its members, or shows several with the same name. FLIPOP changes no firewall.",
                "Wait a minute. If several firewalls have the same name, delete those that you do not need.";
            DeniedByOther => False,
                "A firewall that is not the pool's has a rule that denies traffic to a port of the pool, on a node that the \
                 pool may use. A denial in one firewall of a droplet outweighs the permissions in all others. FLIPOP \
                 keeps the pool's own firewalls as wanted all the same, and may still be opening ports.",
                "Remove that rule from the firewall that the message names, or the port from `spec.firewall`.";
            InProgress | Transient | Throttled | NotFound | NodeInUse | Invalid | Quota | Unauthorized | Permanent =>
                False,
                "The firewalls cannot be read or changed.",
                "See [Kinds of failure](#kinds-of-failure). For `Unauthorized` see \
                 [Tokens and scopes](../operations/tokens.md).";
        }
    }

    FirewallWouldIsolate: "`FirewallWouldIsolate` is present, with status True, while nodes that the pool may use have \
                           no firewall other than those of pools. See [Open ports](../recipes/ports.md)." {
        /// Reasons of `FirewallWouldIsolate`.
        enum FirewallWouldIsolate {
            NoOtherFirewall => True,
                "No firewall that you made governs the nodes that the message names. FLIPOP does not put them into a \
                 firewall of the pool, or took them out: that firewall alone would close every port but those of pools. \
                 Without any firewall all their ports are open.",
                "Put the droplets into a firewall that permits what they need, such as SSH and the traffic of the cluster. \
                 FLIPOP notices within 50 s.";
        }
    }
}

impl From<FaultKind> for FirewallReady {
    fn from(kind: FaultKind) -> Self {
        match kind {
            FaultKind::InProgress => Self::InProgress,
            FaultKind::Transient => Self::Transient,
            FaultKind::Throttled => Self::Throttled,
            FaultKind::NotFound => Self::NotFound,
            FaultKind::NodeInUse => Self::NodeInUse,
            FaultKind::Invalid => Self::Invalid,
            FaultKind::Quota => Self::Quota,
            FaultKind::Unauthorized => Self::Unauthorized,
            FaultKind::Permanent => Self::Permanent,
        }
    }
}

//! The conditions about the firewalls of a pool.

sections! {
    FirewallReady: "Present once the pool has `spec.firewall`, until its firewalls are removed. It does not affect \
                    `Ready`." {
        /// Reasons of `FirewallReady`.
        enum FirewallReady {
            Applied => True,
                "The ports are open on every node that the pool may use and that another firewall covers.",
                "None. See also [`FirewallWouldIsolate`](#firewallwouldisolate).";
            Applying => True,
                "Ports are being opened on some nodes.",
                "Wait.";
            Leaving => True,
                "`spec.firewall` was removed. FLIPOP removes the pool's firewalls.",
                "Wait.";
            InvalidSpec => False,
                "`spec.firewall` has no valid port or source. Open ports stay open, and FLIPOP opens no others.",
                "Correct the fields that [`SpecValid`](#specvalid) names.";
            ScopeMissing => False,
                "The token lacks a scope, so FLIPOP cannot tell which other firewalls cover a node. It changes no \
                 firewall.",
                "Give the token the scopes that the message names: see [Tokens](../operations/tokens.md).";
            CoverageUnknown => False,
                "A list of firewalls contradicts what FLIPOP knows: it leaves a firewall of the pool out, shows one \
                 without its members, or shows several with the same name. FLIPOP changes no firewall.",
                "Wait a minute. If several firewalls have the same name, delete those that you do not need.";
            DeniedByOther => False,
                "Another firewall denies traffic to a port of the pool on a node that the pool may use, which \
                 outweighs every permission. FLIPOP still keeps the pool's own firewalls up to date.",
                "Remove that rule from the firewall that the message names, or the port from `spec.firewall`.";
            InProgress | Transient | Throttled | NotFound | NodeInUse | Invalid | Quota | Unauthorized | Permanent =>
                False,
                "The firewalls cannot be read or changed.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    FirewallWouldIsolate: "Present while nodes that the pool may use have no firewall other than those of pools. \
                           See [Open ports](../recipes/ports.md)." {
        /// Reasons of `FirewallWouldIsolate`.
        enum FirewallWouldIsolate {
            NoOtherFirewall => True,
                "No firewall of yours covers the nodes that the message names, so all their ports are open. FLIPOP \
                 keeps them out of the pool's firewalls, which alone would close every port but those of pools.",
                "Put the droplets into a firewall that permits what they need, such as SSH and the traffic of the \
                 cluster.";
        }
    }
}

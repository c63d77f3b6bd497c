//! The conditions that are the same on both kinds of objects.

sections! {
    Suspect: "Present while a node that serves fails and still matches by `spec.grace`, from 2 s after the failure \
              on. The message names each node, its failure, when it began, and when the node stops matching at the \
              earliest. See [What you see](../concepts/grace.md#what-you-see)." {
        /// Reasons of `Suspect`.
        enum Suspect {
            PodNotReady => True,
                "No matching pod on the first node of the message is Running, Ready and not being deleted.",
                "None, if the pod only restarts. Otherwise repair the pod.";
            NodeFailing => True,
                "The first node of the message is not Ready, stopped reporting, answers no node check, or has a \
                 taint by which Kubernetes reports a failure.",
                "None, if the node only reboots. To end its grace period now, set a taint that the object does not \
                 tolerate.";
        }
    }

    ChecksUnavailable: "Present while FLIPOP cannot check nodes, so `nodeCheck` has no effect: see [Node \
                        checks](../concepts/node-checks.md)." {
        /// Reasons of `ChecksUnavailable`.
        enum ChecksUnavailable {
            Forbidden => True,
                "FLIPOP may not read the Leases in the namespace `kube-node-lease`.",
                "Run `kubectl apply -f k8s/nodecheck`.";
            NodeNameMissing => True,
                "The environment variable `NODE_NAME` is not set, so FLIPOP does not know on which node it runs.",
                "Apply `k8s/deployment.yaml`, which sets it.";
        }
    }

    ChecksDoubted: "Present while FLIPOP ignores failed checks. The message counts the nodes." {
        /// Reasons of `ChecksDoubted`.
        enum ChecksDoubted {
            LeasesRenewed => True,
                "Checks have failed for 30 s although the nodes renew their Leases: a firewall or FLIPOP's own \
                 network drops the packets. It ends when 10 checks in a row have passed.",
                "Allow FLIPOP's pods to reach the nodes on the port that the message names. Until then, only \
                 Kubernetes reports a failure of such a node.";
            LeasesStandStill => True,
                "Checks fail and the nodes do not renew their Leases, but neither do most other nodes, or there is \
                 no other Lease. The API server may be at fault, so no node counts as failed.",
                "Check the API server and the other nodes. Delete Leases of nodes that no longer exist.";
            AddressRefused => True,
                "The first `InternalIP` of a node is a loopback, link-local, multicast, broadcast or unspecified \
                 address. FLIPOP checks only the other nodes.",
                "Correct the address that the kubelet reports (`--node-ip`).";
        }
    }

    Paused: "Present while the object has the annotation `flipop.digitalocean.com/paused`. The message quotes its \
             first 200 characters." {
        /// Reasons of `Paused`.
        enum Paused {
            Annotation => True,
                "FLIPOP starts no new operations for the object. Even an empty text or `false` pauses it.",
                "Resume the object: see [Pause FLIPOP](../recipes/pause.md#resume).";
        }
    }

    WatchFailing: "Present while FLIPOP cannot read the nodes or pods that the object asks for." {
        /// Reasons of `WatchFailing`.
        enum WatchFailing {
            Unreadable => True,
                "Nodes or pods cannot be read. The message says why.",
                "If the service account may not `list` or `watch` something, apply `k8s/cluster-role.yaml`. \
                 Otherwise see [FlipopWatchFailing](../operations/runbooks.md#flipopwatchfailing).";
        }
    }

    EventsDenied: "Present while FLIPOP may not write Events." {
        /// Reasons of `EventsDenied`.
        enum EventsDenied {
            Forbidden => True,
                "FLIPOP may not write Events in at least one namespace. Everything else works.",
                "Apply `k8s/cluster-role.yaml`.";
        }
    }
}

//! The conditions that are the same on both kinds of objects.

sections! {
    Suspect: "`Suspect` is present, with status True, while a node that serves fails and still matches by `spec.grace`. It \
              appears once the failure has lasted 2 s. After it was removed, it does not appear again for the same node \
              within 60 s. The message names each node, its failure, when the failure began, and the earliest time at which \
              the node stops matching, by the API server's clock. See [Grace periods](../concepts/grace.md)." {
        /// Reasons of `Suspect`.
        enum Suspect {
            PodNotReady => True,
                "No matching pod on the first node of the message is Running, Ready and not being deleted.",
                "None, if the pod only restarts. Otherwise repair the pod: at the time that the message names, the node \
                 stops matching.";
            NodeFailing => True,
                "The first node of the message is not Ready, stopped reporting, or has a taint by which Kubernetes reports \
                 a failure, or its machine answers no node check.",
                "None, if the node only reboots. To end its grace period now, set a taint that the object does not tolerate, for \
                 example by `kubectl cordon`.";
        }
    }

    ChecksUnavailable: "`ChecksUnavailable` is present, with status True, while `nodeCheck` has no effect because FLIPOP \
                        cannot check nodes. Everything else works. See [Node checks](../concepts/node-checks.md)." {
        /// Reasons of `ChecksUnavailable`.
        enum ChecksUnavailable {
            Forbidden => True,
                "FLIPOP may not read the Leases in the namespace `kube-node-lease`.",
                "Apply the Role: `kubectl apply -f k8s/nodecheck`.";
            NodeNameMissing => True,
                "The environment variable `NODE_NAME` is not set, so FLIPOP does not know on which node it runs.",
                "Apply the Deployment in `k8s/deployment.yaml`, which sets it.";
        }
    }

    ChecksDoubted: "`ChecksDoubted` is present, with status True, while FLIPOP does not believe failed checks. The message \
                    counts the nodes." {
        /// Reasons of `ChecksDoubted`.
        enum ChecksDoubted {
            LeasesRenewed => True,
                "Checks have failed for 30 s, and the Leases of their nodes are renewed: a firewall or FLIPOP's own network \
                 drops the packets. It is over when 10 checks in a row have passed.",
                "Allow the pods of FLIPOP to reach the nodes on the port that the message names: see [Node \
                 checks](../concepts/node-checks.md). Until then such a node is replaced as if it were not checked.";
            LeasesStandStill => True,
                "Checks fail and the Leases of their nodes are not renewed, but more than half of the other Leases are not \
                 renewed either, or there is no other Lease. The API server may be what stands still, so no node counts as failed.",
                "Look at the API server and at the other nodes. A Lease of a node that no longer exists does not count, \
                 unless it was seen to change: delete it.";
            AddressRefused => True,
                "The first `InternalIP` of a node is a loopback, link-local, multicast, broadcast or unspecified address. \
                 FLIPOP does not check such a node, and checks the others.",
                "Correct the address that the kubelet reports (`--node-ip`).";
        }
    }

    Paused: "`Paused` is present, with status True, while the object has the annotation \
             `flipop.digitalocean.com/paused`. The message has its text, cut to 200 characters." {
        /// Reasons of `Paused`.
        enum Paused {
            Annotation => True,
                "The annotation is on the object, and FLIPOP starts no new operations for it. Even the text `false` or an empty \
                 text pauses.",
                "Remove the annotation when the reason for it is over: see \
                 [Pause FLIPOP during an incident](../recipes/pause.md).";
        }
    }

    WatchFailing: "`WatchFailing` is present, with status True, while FLIPOP cannot read the nodes or pods that the object \
                   asks for." {
        /// Reasons of `WatchFailing`.
        enum WatchFailing {
            Unreadable => True,
                "Nodes or pods cannot be read. The message says why.",
                "If the message says that the service account may not `list` or `watch` something, restore the rule in \
                 `k8s/cluster-role.yaml`. If the API server refuses the credentials, see \
                 [Troubleshooting](../operations/troubleshooting.md).";
        }
    }

    EventsDenied: "`EventsDenied` is present, with status True, while FLIPOP cannot write Events for lack of rights." {
        /// Reasons of `EventsDenied`.
        enum EventsDenied {
            Forbidden => True,
                "FLIPOP may not write Events, at least in one namespace. Everything else works.",
                "Apply `k8s/cluster-role.yaml`. See [If there are no Events](events.md#if-there-are-no-events).";
        }
    }
}

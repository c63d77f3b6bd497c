//! What the conditions say that are alike on both kinds of objects.

sections! {
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

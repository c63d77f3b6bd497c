//! The conditions and reasons that only a `NodeDNSRecordSet` has.

sections! {
    Ready: "" {
        /// FLIPOP does not know which addresses to publish.
        enum Unread {
            NodesUnread => Unknown,
                "The nodes or pods cannot be read, and have not been read since the spec last changed.",
                "See [`WatchFailing`](#watchfailing) and [`/readyz`](endpoints.md).";
        }
        /// No node decides what to publish.
        enum Unmatched {
            NoMatchingNode => False,
                "No node matches `spec.match` of the `NodeDNSRecordSet`. The message counts the nodes by the reason that \
                 keeps them from matching, and says whether the last records stay, wait for their deletion after 10 \
                 minutes, or are gone. `status.state` is `active`, because the records are as the spec wants them.",
                "If you did not expect this, see \
                 [No node matches](../operations/troubleshooting.md#no-node-matches).";
        }
    }

    SpecValid: "`SpecValid` is present together with `Ready`, unless `Ready` is Unknown. The message lists every mistake." {
        /// Reasons of `SpecValid` of a `NodeDNSRecordSet`.
        enum SpecValid {
            Valid => True,
                "The spec has no mistake.",
                "None.";
            RecordSetIgnored => False,
                "A field of the spec has a mistake. The records stay as they are.",
                "Correct the field.";
            GraceIgnored => False,
                "A field of `grace` is negative or above 3,600. No field of `grace` has an effect.",
                "Set each field to a number from 0 to 3,600.";
            NodeCheckIgnored => False,
                "A field of `nodeCheck` is out of its range. No node is checked for the object.",
                "Set the field that the message names to a number in its range, or remove it for its default.";
        }
    }

    AddressMissing: "`AddressMissing` is present, with status True, while matching nodes are left out because they have \
                     no address to publish." {
        /// Reasons of `AddressMissing`.
        enum AddressMissing {
            NodeWithoutAddress => True,
                "Matching nodes have no IPv4 address of the kind that `addressType` names. The message names these \
                 nodes.",
                "If `addressType` is the annotation `flipop.digitalocean.com/ipv4-reserved-ip`, this is normal for nodes \
                 that wait for an address. Otherwise set the addresses in the status of the node (the cloud controller \
                 manager does so), or change `addressType`.";
        }
    }
}

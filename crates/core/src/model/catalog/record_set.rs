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
                "No node matches `spec.match`. The message counts the nodes by the reason why they do not match, \
                 and says whether the last records stay, will be deleted after 10 min, or are gone. `status.state` \
                 is `active`, because the records are as the spec wants them.",
                "If you did not expect this, see \
                 [No node matches](../operations/troubleshooting.md#no-node-matches).";
        }
    }

    SpecValid: "Present together with `Ready`, unless `Ready` is Unknown." {
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
                "A field of `nodeCheck` is out of its range. FLIPOP checks no node for the object.",
                "Correct the field that the message names, or remove it.";
        }
    }

    AddressMissing: "Present while matching nodes have no address to publish." {
        /// Reasons of `AddressMissing`.
        enum AddressMissing {
            NodeWithoutAddress => True,
                "The nodes in the message match, but have no IPv4 address of the kind that `addressType` names.",
                "If `addressType` is the annotation, this is normal for nodes that wait for an address. Otherwise \
                 let the cloud controller manager set the addresses of the node, or change `addressType`.";
        }
    }
}

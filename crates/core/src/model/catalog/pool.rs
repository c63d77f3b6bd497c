//! The conditions that only a `FloatingIPPool` has: about its addresses, its spec and its account.

use crate::model::fault::FaultKind;

sections! {
    Ready: "`Ready` is always present. It covers the addresses of the pool only. \
            [`RecordSetReady`](#ready-and-recordsetready) covers the DNS records." {
        /// Reasons of `Ready` of a pool.
        enum Ready {
            Assigned => True,
                "As many addresses as wanted are on matching nodes. With fewer matching nodes than addresses, every \
                 matching node has one.",
                "None.";
            Assigning => False,
                "Matching nodes lack an address that the pool has or will have.",
                "Wait. If the condition lasts, see the other conditions and `status.nodeErrors`.";
            NoMatchingNode => False,
                "No node matches `spec.match`. The message counts the nodes by the reason that keeps them from matching, \
                 the most frequent reason first.",
                "Fix what the message names. See \
                 [No node matches](../operations/troubleshooting.md#no-node-matches).";
            NodesClaimed => False,
                "Other pools claim every matching node that lacks an address. The message names these pools.",
                "Narrow `spec.match` of one of the pools, or add nodes.";
            AddressNotFound => False,
                "The addresses that are on no matching node are not in the account.",
                "Correct `spec.ips`. The token may belong to another account.";
            AddressClaimed => False,
                "The addresses that are on no matching node belong to an older pool.",
                "Remove them from one of the two pools.";
            Paused => False,
                "A matching node lacks an address, or addresses are still to be created, and the pool is paused. The \
                 message has the text of the annotation.",
                "See [`Paused`](#paused).";
            MissingAddresses => False,
                "Every address of the pool is in use, and `spec.desiredIPs` asks for more.",
                "Wait until the addresses are created, or see [`CreationFailed`](#creationfailed), \
                 [`CreationUncertain`](#creationuncertain) and [`SpecValid`](#specvalid).";
            NoAddresses => False,
                "No entry of `spec.ips` can be used, and `spec.desiredIPs` asks for none.",
                "List addresses of the account in `spec.ips`, or set `spec.desiredIPs` and `spec.region`.";
            BelowMinimum => False,
                "Every address that can be assigned is assigned, and fewer addresses are active than `spec.minActive` \
                 asks for.",
                "Bring back matching nodes, or lower `spec.minActive`. A minimum above the number of addresses can never \
                 be reached.";
            InvalidSpec => False,
                "The pool is frozen because its spec is invalid: FLIPOP starts nothing new, and existing assignments are kept.",
                "Correct the spec. [`SpecValid`](#specvalid) names the field and the remedy.";
            ProviderUnread => Unknown,
                "FLIPOP has not read the account yet, or has not read it since the token was changed, was refused or lost \
                 the scope `droplet:read`.",
                "See [`ProviderReady`](#providerready). If the pool does not have that condition, wait.";
            NodesUnread => Unknown,
                "The nodes or pods have not been listed yet.",
                "See [`WatchFailing`](#watchfailing) and [`/readyz`](endpoints.md). If both are fine, wait.";
        }
    }

    SpecValid: "`SpecValid` is always present. The message lists every mistake. With several mistakes the reason is the \
                first of this table that applies. FLIPOP notices later that a `recordName` does not fit a Cloudflare \
                zone that is given by its id: `status.error` and [`RecordSetReady`](#ready-and-recordsetready) then \
                report it." {
        /// Reasons of `SpecValid` of a pool.
        enum SpecValid {
            Valid => True,
                "The spec has no mistake.",
                "None.";
            TooLarge => False,
                "The pool is frozen, because a field is [over its bound](floatingippool.md#bounds). FLIPOP claims the \
                 first 1,000 valid addresses of `ips` and those that its status names. Existing assignments are kept.",
                "Shorten the field that the message names.";
            PoolFrozen => False,
                "The pool is frozen. The provider is unknown or has no token, a selector does not parse, `podNamespace` \
                 is not the name of a namespace, or both `ips` and `desiredIPs` are missing. Existing assignments are \
                 kept.",
                "Correct the field.";
            CreationImpossible => False,
                "`region` is missing, or `desiredIPs` is above 1,000. FLIPOP creates no address for the pool. Existing \
                 addresses work.",
                "Correct the field.";
            EntryIgnored => False,
                "An entry of `ips` is repeated or is not an IPv4 address, or an entry of `releasedIPs` is not an IPv4 \
                 address. The other entries work.",
                "Correct or remove the entry.";
            RecordSetIgnored => False,
                "`dnsRecordSet` has a mistake. The DNS records stay as they are.",
                "Correct the field.";
            MinActiveIgnored => False,
                "`minActive` is negative or above 1,000. It has no effect.",
                "Set a number from 1 to 1,000, or 0 for no minimum.";
            FirewallIgnored => False,
                "A field of `firewall` has a mistake. FLIPOP ignores only the bad entry. If no valid port or no valid \
                 source is left, the ports stay as they are.",
                "Correct the field that the message names.";
            GraceIgnored => False,
                "A field of `grace` is negative or above 3,600. No field of `grace` has an effect.",
                "Set each field to a number from 0 to 3,600.";
            PolicyIgnored => False,
                "The value of `reclaimPolicy` is unknown. It counts as `Retain`.",
                "Write `Retain` or `Delete`.";
            LabelsIgnored => False,
                "`nodeLabels` is enabled, and `match.nodeLabel` names one of the labels that it sets, so that the pool \
                 would depend on itself. The pool sets no labels.",
                "Select the nodes by another label.";
            NodeCheckIgnored => False,
                "A field of `nodeCheck` is out of its range. No node is checked for the object.",
                "Set the field that the message names to a number in its range, or remove it for its default.";
        }
    }

    ProviderReady: "`ProviderReady` is present, with status False, while the account cannot be read, or while the \
                    provider refuses an assignment or a creation of this pool for lack of rights." {
        /// Reasons of `ProviderReady`.
        enum ProviderReady {
            ScopeMissing => False,
                "The token lacks the scope `droplet:read`. Without it every address looks unassigned, so FLIPOP assigns \
                 nothing.",
                "Add the scope: see [Tokens and scopes](../operations/tokens.md). FLIPOP retries once a minute.";
            Unauthorized => False,
                "The provider refuses the token, or the token may not read or change addresses. The message names the \
                 environment variable or the scopes.",
                "Set a valid token, or add the scopes: see [Tokens and scopes](../operations/tokens.md). FLIPOP retries \
                 once a minute, and at once when a token file changes.";
            InProgress | Transient | Throttled | NotFound | NodeInUse | Invalid | Quota | Permanent => False,
                "The addresses of the account cannot be read.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    AddressesIdle: "`AddressesIdle` is present, with status True, while an address has been idle for 5 s: a used one \
                    that is on no matching node, or a created one beyond `desiredIPs`. An address in state \
                    `in-progress` never counts. The message says where each address is, and why. It is rewritten at \
                    most once a minute unless the addresses change." {
        /// Reasons of `AddressesIdle`.
        enum AddressesIdle {
            NotServing => True,
                "Used addresses are idle: they are on a node that does not match, unassigned, or not in the account. \
                 DigitalOcean [charges](https://docs.digitalocean.com/products/networking/reserved-ips/how-to/modify/) \
                 for an unassigned address.",
                "Bring back matching nodes, add nodes, or [release the address](../recipes/give-up-an-address.md).";
            Surplus => True,
                "Only created addresses beyond `desiredIPs` are idle.",
                "Raise `desiredIPs`, or [release the addresses](../recipes/give-up-an-address.md).";
        }
    }

    Conflict: "`Conflict` is present, with status True, while an older pool names an address of this pool. The older pool \
               keeps the address: see [Which node gets which address](../concepts/assignment.md)." {
        /// Reasons of `Conflict` of a pool.
        enum Conflict {
            AddressClaimed => True,
                "An older pool names the same address. The message names both.",
                "Remove the address from one of the two pools.";
        }
    }

    NodesBlocked: "`NodesBlocked` is present, with status True, while `status.nodeErrors` is not empty and the account \
                   can be read. Every node in that list matches and cannot get an address. The reason is that of the \
                   first node; the message says what blocks each." {
        /// Reasons of `NodesBlocked`.
        enum NodesBlocked {
            AssignmentFailed => True,
                "The last assignment to the node failed. FLIPOP tries again.",
                "Read the provider's error in the message.";
            MachineClaimed => True,
                "An address of another pool is on the droplet, and that pool does not use it there: the node does not \
                 match that pool, or the address is surplus (state `disabled`).",
                "Take that address off the droplet, or out of that pool.";
            ForeignAddress => True,
                "An address that no pool names is on the droplet. FLIPOP does not touch it.",
                "Add the address to `spec.ips`, or unassign it.";
            OtherRegion => True,
                "The free addresses are in a different region from the node.",
                "Add addresses of the node's region.";
            NotAMachine => True,
                "The node's `spec.providerID` is not of the form `digitalocean://<droplet id>`.",
                "Narrow `spec.match` to nodes that are droplets.";
            SharedMachine => True,
                "An older node has the same `spec.providerID`. Both match and are Ready, and the younger one is more than \
                 60 s old. Only the older one counts.",
                "Delete the Node whose machine it is not. If you do not know that Node, find out who registered it.";
        }
    }

    CreationUncertain: "`CreationUncertain` is present, with status True, while the account has addresses that may be the \
                        pool's. The message names all of them. See \
                        [Listed and created addresses](../concepts/creation.md#if-an-answer-is-lost)." {
        /// Reasons of `CreationUncertain`.
        enum CreationUncertain {
            SeveralNewAddresses => True,
                "A creation was interrupted, and one of the named addresses may be its result. The pool creates no more \
                 addresses.",
                "Put the address that belongs to the pool into `spec.ips`. Alternatively, delete or assign the others \
                 until at most one is left: the pool then adopts it.";
            UnknownAddressesOnNodes => True,
                "The addresses in the message are on the pool's nodes, and no pool names them. They may have been \
                 created for this pool before its status was lost. For each, the pool creates one address fewer.",
                "Put the addresses into `spec.ips`. Alternatively, unassign them: the pool then creates new ones.";
        }
    }

    CreationFailed: "`CreationFailed` is present, with status True, while the last creation of an address has failed. \
                     FLIPOP tries again." {
        /// Reasons of `CreationFailed`.
        enum CreationFailed {
            LimitReached => True,
                "The account has as many addresses as `--max-addresses` allows, whoever made them. FLIPOP creates none, and \
                 releases none for that reason.",
                "Release addresses that nobody needs, or raise the flag.";
            StatusFull => True,
                "What FLIPOP has to remember of the pool takes 1 MiB of its status.",
                "Remove entries of `spec.ips` that are no longer needed, or make a second pool.";
            Quota => True,
                "The account has reached its limit of reserved IPs.",
                "Ask DigitalOcean for more, or lower `desiredIPs`.";
            InProgress | Transient | Throttled | NotFound | NodeInUse | Invalid | Unauthorized | Permanent => True,
                "The provider refused the creation, or its answer was lost.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    Stalled: "`Stalled` is present, with status True, while an action at the provider does not end." {
        /// Reasons of `Stalled`.
        enum Stalled {
            ActionPending => True,
                "DigitalOcean has had an action pending for more than 5 minutes.",
                "Look at the droplet and its actions at DigitalOcean. FLIPOP assigns the address again only after the \
                 action has unlocked it.";
        }
    }

    AnnotationsDenied: "`AnnotationsDenied` is present, with status True, while FLIPOP cannot write the node annotation \
                        for lack of rights." {
        /// Reasons of `AnnotationsDenied`.
        enum AnnotationsDenied {
            Forbidden => True,
                "FLIPOP may not patch nodes. It moves addresses nevertheless.",
                "Apply `k8s/cluster-role.yaml` and `k8s/policy-node-annotation.yaml`.";
        }
    }

    LabelsDenied: "`LabelsDenied` is present, with status True, while FLIPOP cannot write the labels of `nodeLabels` for \
                   lack of rights." {
        /// Reasons of `LabelsDenied`.
        enum LabelsDenied {
            Forbidden => True,
                "FLIPOP may not label nodes. It moves addresses and writes the annotation nevertheless.",
                "Apply `k8s/policy-node-annotation.yaml` of this version, or change the admission policy that the message \
                 quotes.";
        }
    }

    WriteDenied: "`WriteDenied` is present, with status True, while created addresses cannot be written into `spec.ips`. \
                  If FLIPOP may not write the status itself, only its log can say so." {
        /// Reasons of `WriteDenied`.
        enum WriteDenied {
            Refused => True,
                "FLIPOP may not write created addresses into `spec.ips`. It uses and remembers them nevertheless.",
                "Grant the verb that the message names, or change the admission policy that it quotes.";
        }
    }

    CRDsOutdated: "`CRDsOutdated` is present, with status True, while the installed CRDs drop fields of the status. The \
                   CRDs of the Go operator drop the conditions too, so that only `status.error` reports it." {
        /// Reasons of `CRDsOutdated`.
        enum CRDsOutdated {
            StatusFieldsPruned => True,
                "The CRDs drop fields in which FLIPOP remembers what it creates. It creates no address. If one was being \
                 created meanwhile, it is written into `spec.ips` at once.",
                "Apply `crds/`. No restart is needed: FLIPOP checks again after 1 min, 5 min, then every 10 min.";
        }
    }
}

/// A kind of failure as the reason of a condition.
macro_rules! from_fault {
    ($($name:ident)+) => {$(
        impl From<FaultKind> for $name {
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
    )+};
}

from_fault! { ProviderReady CreationFailed }

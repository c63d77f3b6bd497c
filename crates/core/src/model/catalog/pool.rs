//! The conditions that only a `FloatingIPPool` has: about its addresses, its spec and its account.

use super::firewalls::FirewallReady;
use crate::model::fault::FaultKind;

sections! {
    Ready: "Always present. `Ready` covers the addresses of the pool, and \
            [`RecordSetReady`](#ready-and-recordsetready) its DNS records." {
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
                "No node matches `spec.match`. The message counts the nodes by the reason why they do not match.",
                "Correct what the message names: see [No node \
                 matches](../operations/troubleshooting.md#no-node-matches).";
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
                "A matching node lacks an address, or addresses are still to be created, and the pool is paused. \
                 The message quotes the annotation.",
                "See [`Paused`](#paused).";
            MissingAddresses => False,
                "Every address of the pool is in use, and `spec.desiredIPs` asks for more.",
                "Wait until the addresses are created, or see [`CreationFailed`](#creationfailed), \
                 [`CreationUncertain`](#creationuncertain) and [`SpecValid`](#specvalid).";
            NoAddresses => False,
                "No entry of `spec.ips` can be used, and `spec.desiredIPs` asks for none.",
                "List addresses of the account in `spec.ips`, or set `spec.desiredIPs` and `spec.region`.";
            BelowMinimum => False,
                "FLIPOP has assigned all that it can, and fewer addresses are active than `spec.minActive` asks for.",
                "Bring back matching nodes, or lower `spec.minActive`.";
            InvalidSpec => False,
                "The spec is invalid, so the pool is frozen: existing assignments are kept, and nothing new starts.",
                "Correct the field that [`SpecValid`](#specvalid) names.";
            ProviderUnread => Unknown,
                "FLIPOP has not read the account since it started, or since the token was changed, refused or lost \
                 the scope `droplet:read`.",
                "See [`ProviderReady`](#providerready). If it is absent, wait.";
            NodesUnread => Unknown,
                "The nodes or pods have not been listed yet.",
                "See [`WatchFailing`](#watchfailing) and [`/readyz`](endpoints.md). If both are fine, wait.";
        }
    }

    SpecValid: "Always present. With several mistakes the reason is the first of this table that applies. If a \
                `recordName` does not fit a Cloudflare zone that is given by its id, only `status.error` and \
                [`RecordSetReady`](#ready-and-recordsetready) report it." {
        /// Reasons of `SpecValid` of a pool.
        enum SpecValid {
            Valid => True,
                "The spec has no mistake.",
                "None.";
            TooLarge => False,
                "A field is [over its bound](floatingippool.md#bounds), so the pool is frozen. It claims the first \
                 1,000 valid addresses of `ips` and those that its status names.",
                "Shorten the field that the message names.";
            PoolFrozen => False,
                "The pool is frozen: the provider is unknown or has no token, a selector does not parse, \
                 `podNamespace` is not the name of a namespace, or both `ips` and `desiredIPs` are missing.",
                "Correct the field.";
            CreationImpossible => False,
                "`region` is missing, or `desiredIPs` is above 1,000. FLIPOP creates no address; existing ones work.",
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
                "`match.nodeLabel` names a label that `nodeLabels` sets, so the pool would depend on itself. It \
                 sets no labels.",
                "Select the nodes by another label.";
            NodeCheckIgnored => False,
                "A field of `nodeCheck` is out of its range. FLIPOP checks no node for the object.",
                "Correct the field that the message names, or remove it.";
        }
    }

    ProviderReady: "Present while the account cannot be read, or while the token lacks the right to assign or \
                    create an address of this pool." {
        /// Reasons of `ProviderReady`.
        enum ProviderReady {
            ScopeMissing => False,
                "The token lacks the scope `droplet:read`. Every address then looks unassigned, so FLIPOP assigns \
                 none.",
                "Add the scope: see [Tokens](../operations/tokens.md). FLIPOP retries once a minute.";
            Unauthorized => False,
                "The provider refuses the token, or the token may not read or change addresses. The message names the \
                 environment variable or the scopes.",
                "Set a valid token, or add the scopes: see [Tokens](../operations/tokens.md).";
            InProgress | Transient | Throttled | NotFound | NodeInUse | Invalid | Quota | Permanent => False,
                "The addresses of the account cannot be read.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    AddressesIdle: "Present while an address has been idle for 5 s: a used one that is on no matching node, or a \
                    created one beyond `desiredIPs`. The message says where each address is, and why. It changes \
                    at most once a minute unless the addresses change." {
        /// Reasons of `AddressesIdle`.
        enum AddressesIdle {
            NotServing => True,
                "Used addresses are on a node that does not match, unassigned, or not in the account. An \
                 unassigned address [costs money](../concepts/creation.md).",
                "Bring back matching nodes, add nodes, or [release the address](../recipes/give-up-an-address.md).";
            Surplus => True,
                "Only created addresses beyond `desiredIPs` are idle.",
                "Raise `desiredIPs`, or [release the addresses](../recipes/give-up-an-address.md).";
        }
    }

    Conflict: "Present while an older pool names an address of this pool. [The older pool keeps \
               it](../concepts/assignment.md)." {
        /// Reasons of `Conflict` of a pool.
        enum Conflict {
            AddressClaimed => True,
                "The message names the address and the older pool.",
                "Remove the address from one of the two pools.";
        }
    }

    NodesBlocked: "Present while a matching node cannot get an address. `status.nodeErrors` lists these nodes, and \
                   the message says what blocks each. The reason is that of the first node." {
        /// Reasons of `NodesBlocked`.
        enum NodesBlocked {
            AssignmentFailed => True,
                "The last assignment to the node failed. FLIPOP retries it.",
                "The message quotes the provider's error: see [Kinds of failure](#kinds-of-failure).";
            MachineClaimed => True,
                "The droplet has an address of another pool, which does not use it there: the node does not match \
                 that pool, or the address is `disabled`.",
                "Take that address off the droplet, or out of that pool.";
            ForeignAddress => True,
                "The droplet has an address that no pool names. FLIPOP does not touch it.",
                "Add the address to `spec.ips`, or unassign it.";
            OtherRegion => True,
                "The free addresses are in another region than the node.",
                "Add addresses of the node's region.";
            NotAMachine => True,
                "The node's `spec.providerID` is not of the form `digitalocean://<droplet id>`.",
                "Narrow `spec.match` to nodes that are droplets.";
            SharedMachine => True,
                "An older node has the same `spec.providerID`. Both match and are Ready. Only the older one counts.",
                "Delete the Node that does not belong to the machine. If you do not know it, find out who \
                 registered it.";
        }
    }

    CreationUncertain: "Present while the account has addresses that may belong to the pool: see [If an answer is \
                        lost](../concepts/creation.md#if-an-answer-is-lost)." {
        /// Reasons of `CreationUncertain`.
        enum CreationUncertain {
            SeveralNewAddresses => True,
                "A creation was interrupted, and one of the named addresses may be its result. The pool creates no \
                 more.",
                "Put the pool's address into `spec.ips`. Or delete or assign the others until at most one is left: \
                 the pool adopts it.";
            UnknownAddressesOnNodes => True,
                "The named addresses are on the pool's nodes, and may have been created for it before its status \
                 was lost. For each, the pool creates one address fewer.",
                "Put the addresses into `spec.ips`. Or unassign them: the pool then creates new ones.";
        }
    }

    CreationFailed: "Present while the last creation of an address has failed. FLIPOP retries it." {
        /// Reasons of `CreationFailed`.
        enum CreationFailed {
            LimitReached => True,
                "The account has as many addresses as `--max-addresses` allows, whoever created them.",
                "Release addresses that nobody needs, or raise the flag.";
            StatusFull => True,
                "The status of the pool has reached 1 MiB.",
                "Remove entries of `spec.ips` that you do not need, or make a second pool.";
            Quota => True,
                "The account has reached its limit of reserved IPs.",
                "Ask DigitalOcean for more, or lower `desiredIPs`.";
            InProgress | Transient | Throttled | NotFound | NodeInUse | Invalid | Unauthorized | Permanent => True,
                "The provider refused the creation, or its answer was lost.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    Stalled: "Present while an action at the provider does not end." {
        /// Reasons of `Stalled`.
        enum Stalled {
            ActionPending => True,
                "DigitalOcean has had an action pending for more than 5 min.",
                "See the droplet and its actions at DigitalOcean. FLIPOP assigns the address again once the action \
                 has unlocked it.";
        }
    }

    AnnotationsDenied: "Present while FLIPOP may not write the node annotation." {
        /// Reasons of `AnnotationsDenied`.
        enum AnnotationsDenied {
            Forbidden => True,
                "FLIPOP may not patch nodes. Addresses still move.",
                "Apply `k8s/cluster-role.yaml` and `k8s/policy-node-annotation.yaml`.";
        }
    }

    LabelsDenied: "Present while FLIPOP may not write the labels of `nodeLabels`." {
        /// Reasons of `LabelsDenied`.
        enum LabelsDenied {
            Forbidden => True,
                "FLIPOP may not label nodes. Addresses still move, and the annotation is written.",
                "Apply `k8s/policy-node-annotation.yaml` of this version, or change the admission policy that the message \
                 quotes.";
        }
    }

    WriteDenied: "Present while created addresses cannot be written into `spec.ips`. If FLIPOP may not write the \
                  status either, only its log says so." {
        /// Reasons of `WriteDenied`.
        enum WriteDenied {
            Refused => True,
                "FLIPOP may not write `spec.ips`. It still uses and remembers the addresses.",
                "Grant the verb that the message names, or change the admission policy that it quotes.";
        }
    }

    CRDsOutdated: "Present while the installed CRDs drop fields of the status. With the CRDs of the Go operator, \
                   only `status.error` reports it." {
        /// Reasons of `CRDsOutdated`.
        enum CRDsOutdated {
            StatusFieldsPruned => True,
                "The CRDs drop fields in which FLIPOP records creations, so it creates no address.",
                "Apply `crds/`. FLIPOP checks again within 10 min; no restart is needed.";
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

from_fault! { ProviderReady CreationFailed FirewallReady }

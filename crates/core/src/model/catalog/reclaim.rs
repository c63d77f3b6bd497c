//! The conditions of a `FloatingIPPool` about addresses that it releases.

sections! {
    Reclaiming: "Present while FLIPOP deletes addresses that it created for the pool, or waits until it may: see \
                 [Release an address](../recipes/give-up-an-address.md)." {
        /// Reasons of `Reclaiming`.
        enum Reclaiming {
            InProgress => True,
                "`reclaimPolicy` is `Delete`. The message says how far each address is.",
                "Wait. If the condition lasts, see [`ReclaimBlocked`](#reclaimblocked).";
        }
    }

    ReclaimBlocked: "Present while FLIPOP has been unable to delete an address for 5 s. The address exists and is \
                     billed. The message has the command that keeps it for good." {
        /// Reasons of `ReclaimBlocked`.
        enum ReclaimBlocked {
            RecordHeld => True,
                "A record still holds the address, because an object publishes it. The message names both.",
                "Change the object, or end its pause.";
            RecordsUnread => True,
                "Records that have held the address cannot be read, so FLIPOP cannot tell whether they still do.",
                "Correct what the message names, such as a missing token or zone.";
            AnnotationStays => True,
                "FLIPOP may not remove the annotation of the node.",
                "See [`AnnotationsDenied`](#annotationsdenied).";
            OnMachine => True,
                "The address is on a droplet that is no longer a node of this cluster.",
                "Unassign the address there.";
            Locked => True,
                "Somebody else started an action on the address, which is pending.",
                "See the actions of the address at DigitalOcean.";
            ObjectsUnread => True,
                "FLIPOP cannot list the objects of both kinds, or cannot read one that may name the address.",
                "Correct the object that the message names, or grant what it asks for.";
            FinalizerDenied => True,
                "FLIPOP may not write the finalizer of the pool. It creates nothing for the pool, and created \
                 addresses stay if you delete the pool.",
                "Grant the verb that the message names, or change the admission policy that it quotes.";
            StatusNotWritten => True,
                "FLIPOP cannot write the status, and deletes only addresses that the status marks.",
                "The log says why the write fails.";
            Unauthorized => True,
                "The token may not delete or unassign addresses.",
                "Give it the scope `reserved_ip:delete`: see [Tokens](../operations/tokens.md). FLIPOP retries \
                 once a minute.";
            Throttled => True,
                "The provider throttles the token.",
                "Wait.";
            NoToken => True,
                "There is no token for the account in which the address was created.",
                "Set the token again.";
            Refused => True,
                "A call to the provider fails.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    ReclaimKept: "Present while `releasedIPs` names an address that FLIPOP did not delete because it is in use, \
                  and never will." {
        /// Reasons of `ReclaimKept`.
        enum ReclaimKept {
            InUse => True,
                "Another object names the address, or it is on a droplet where this pool did not put it.",
                "Remove it from `releasedIPs`. Delete it in the account if nobody needs it.";
        }
    }

    ReclaimAtRisk: "Present while a pool with `reclaimPolicy: Delete` is in FLIPOP's own namespace. If you delete \
                    that namespace, FLIPOP is gone before it can remove the finalizer of the pool." {
        /// Reasons of `ReclaimAtRisk`.
        enum ReclaimAtRisk {
            OwnNamespace => True,
                "The pool is in the namespace in which FLIPOP runs.",
                "Move the pool to another namespace, or set `reclaimPolicy: Retain` before you [delete the \
                 namespace](../operations/install.md#uninstall).";
        }
    }
}

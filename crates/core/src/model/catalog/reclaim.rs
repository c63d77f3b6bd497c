//! The conditions of a `FloatingIPPool` about addresses that it gives back.

sections! {
    Reclaiming: "`Reclaiming` is present, with status True, while FLIPOP deletes addresses that it created for the pool, or \
                 waits until it may. The message says how far each one is. See \
                 [Release an address](../recipes/give-up-an-address.md)." {
        /// Reasons of `Reclaiming`.
        enum Reclaiming {
            InProgress => True,
                "`reclaimPolicy` is `Delete`, and FLIPOP is deleting addresses or waiting until it may.",
                "Wait. If the condition lasts, see [`ReclaimBlocked`](#reclaimblocked).";
        }
    }

    ReclaimBlocked: "`ReclaimBlocked` is present, with status True, while something has kept FLIPOP for 5 s from deleting an \
                     address. The address exists and is billed. The message has the command that keeps it for good." {
        /// Reasons of `ReclaimBlocked`.
        enum ReclaimBlocked {
            RecordHeld => True,
                "A record still holds the address, and an object wants it there. The message names both.",
                "Change the object, or end its pause.";
            RecordsUnread => True,
                "Records that have held the address cannot be read, so FLIPOP cannot tell whether they still do.",
                "Correct what the message names, such as a token or a zone that is gone.";
            AnnotationStays => True,
                "FLIPOP may not remove the annotation of the node.",
                "See [`AnnotationsDenied`](#annotationsdenied).";
            OnMachine => True,
                "The address is on a droplet that is no longer a node of this cluster.",
                "Unassign the address there.";
            Locked => True,
                "An action that somebody else began on the address is pending.",
                "Look at the actions of the address at DigitalOcean.";
            ObjectsUnread => True,
                "FLIPOP cannot list the objects of both kinds, or cannot read one that may name the address.",
                "Correct the object that the message names, or grant what it asks for.";
            FinalizerDenied => True,
                "FLIPOP may not write the finalizer of the pool. It creates nothing for the pool, and the addresses that \
                 it created stay if you delete the pool.",
                "Grant the verb that the message names, or change the admission policy that it quotes.";
            StatusNotWritten => True,
                "The status cannot be written. FLIPOP deletes nothing that the status does not mark.",
                "See the log, and correct what keeps the status from being written.";
            Unauthorized => True,
                "The token may not delete or unassign addresses.",
                "Give it the scope `reserved_ip:delete`: see [Tokens and scopes](../operations/tokens.md). FLIPOP tries \
                 again once a minute.";
            Throttled => True,
                "The provider throttles the token.",
                "Wait.";
            NoToken => True,
                "There is no token for the account in which the address was created.",
                "Give FLIPOP the token again.";
            Refused => True,
                "The provider refuses a call, or it fails.",
                "See [Kinds of failure](#kinds-of-failure).";
        }
    }

    ReclaimKept: "`ReclaimKept` is present, with status True, while `releasedIPs` names an address that FLIPOP did not \
                  delete, because it is in use. From then on FLIPOP never deletes it." {
        /// Reasons of `ReclaimKept`.
        enum ReclaimKept {
            InUse => True,
                "Another object names the address, or it is on a droplet where this pool did not put it.",
                "Remove it from `releasedIPs`. Delete it in the account if nobody needs it.";
        }
    }

    ReclaimAtRisk: "`ReclaimAtRisk` is present, with status True, while a pool with `reclaimPolicy: Delete` is in \
                    FLIPOP's own namespace. Deleting that namespace stops FLIPOP, and only FLIPOP removes the \
                    finalizer of the pool." {
        /// Reasons of `ReclaimAtRisk`.
        enum ReclaimAtRisk {
            OwnNamespace => True,
                "The pool is in the namespace in which FLIPOP runs.",
                "Move the pool to another namespace. Before you delete the namespace, set `reclaimPolicy: Retain`: see \
                 [Uninstall](../operations/install.md#uninstall).";
        }
    }
}

//! Notices of changes in the kernel. They do not say what changed, so the receiver looks.

use super::socket::{NetlinkError, open};
use super::{nft, route};
use rustix::net::{Protocol, SocketFlags, netlink};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram as AnyDatagram;
use tokio::net::UnixDatagram;

/// The most notifications that are read before other tasks have their turn.
const MOST: usize = 256;

/// The sockets on which the kernel reports changes.
#[derive(Debug)]
pub struct Notices {
    routes: UnixDatagram,
    tables: UnixDatagram,
}

impl Notices {
    /// Starts to listen. Works only inside a runtime.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn listen() -> Result<Self, NetlinkError> {
        let listen = |protocol: Option<Protocol>, groups| {
            let fd = open(protocol, groups, SocketFlags::NONBLOCK)?;
            // The socket is only read and waited for, which is the same in every address family.
            UnixDatagram::from_std(AnyDatagram::from(fd)).map_err(|error| NetlinkError::of(&error))
        };
        Ok(Self {
            routes: listen(None, route::GROUPS)?,
            tables: listen(Some(netlink::NETFILTER), nft::GROUPS)?,
        })
    }

    /// Waits until something changes.
    pub async fn heard(&self) {
        tokio::select! {
            () = drain(&self.routes) => {}
            () = drain(&self.tables) => {}
        }
    }
}

/// Waits for a notification, and discards all that have arrived. A notification lost for lack of room is a change
/// too.
async fn drain(socket: &UnixDatagram) {
    if socket.readable().await.is_err() {
        return std::future::pending().await;
    }
    // Notifications are cut to this length, since their content does not matter.
    let mut word = [0_u8; 64];
    for _ in 0..MOST {
        if socket.try_recv(&mut word).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            return;
        }
    }
}

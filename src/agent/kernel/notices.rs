//! Notices of changes in the kernel. They do not say what changed, so the receiver looks.

use super::socket::{NetlinkError, open};
use super::{nft, route};
use rustix::net::{Protocol, SocketFlags, netlink};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram as AnyDatagram;
use tokio::net::UnixDatagram;

/// Notifications that are read at a time before others have their turn.
const MOST: usize = 256;

/// The sockets on which the kernel tells of changes.
#[derive(Debug)]
pub struct Notices {
    routes: UnixDatagram,
    tables: UnixDatagram,
}

impl Notices {
    /// Listens from now on. Only inside a runtime.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn listen() -> Result<Self, NetlinkError> {
        let listen = |protocol: Option<Protocol>, groups| {
            let fd = open(protocol, groups, SocketFlags::NONBLOCK)?;
            // Nothing but waiting and reading is asked of it, which is the same in every family of sockets.
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

/// Waits for a notification, and reads away what is there. One that was lost for want of room is a change too.
async fn drain(socket: &UnixDatagram) {
    if socket.readable().await.is_err() {
        return std::future::pending().await;
    }
    // A notification is cut to this, since nobody looks at it.
    let mut word = [0_u8; 64];
    for _ in 0..MOST {
        if socket.try_recv(&mut word).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            return;
        }
    }
}

//! How many connections the endpoints have at a time, and which of them makes room for another.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Most connections at a time. Probes and scrapes need a handful; the others are slow or hostile. Well below the usual
/// limit of 1,024 open files.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// Most connections of one address at a time. A browser opens six.
pub(super) const MAX_OF_PEER: usize = 8;

/// The answer to a connection too many.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 53\r\n\r\n\
    too many connections at once, from one address or all";

/// The open connections, oldest first.
#[derive(Default)]
pub(super) struct Connections(VecDeque<Open>);

pub(super) struct Open {
    peer: IpAddr,
    end: CancellationToken,
    /// Its request has arrived.
    asked: Arc<AtomicBool>,
}

impl Connections {
    /// Adds a connection, unless there are too many of its address, or of all, and none of them makes room.
    pub(super) fn admit(&mut self, peer: IpAddr, parent: &CancellationToken) -> Option<Admitted> {
        let peer = peer.to_canonical();
        self.0.retain(|open| !open.end.is_cancelled());
        let of_peer = self.0.iter().filter(|open| open.peer == peer).count();
        if of_peer >= MAX_OF_PEER && !self.make_room(|open| open.peer == peer)
            || self.0.len() >= MAX_CONNECTIONS && !self.make_room(|_| true)
        {
            return None;
        }
        let (end, asked) = (parent.child_token(), Arc::default());
        self.0.push_back(Open { peer, end: end.clone(), asked: Arc::clone(&asked) });
        Some(Admitted { end, asked })
    }

    /// Closes the oldest of these connections that has sent no request.
    pub(super) fn make_room(&mut self, of: impl Fn(&Open) -> bool) -> bool {
        let idle = |open: &Open| of(open) && !open.asked.load(Ordering::Relaxed);
        let oldest = self.0.iter().position(idle).and_then(|place| self.0.remove(place));
        oldest.map(|oldest| oldest.end.cancel()).is_some()
    }
}

/// An open connection. Marks it as closed when dropped.
pub(super) struct Admitted {
    pub(super) end: CancellationToken,
    pub(super) asked: Arc<AtomicBool>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Refuses a connection. What its client has sent is read, because closing before that would destroy the answer.
pub(super) async fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(REFUSAL).await?;
    stream.shutdown().await?;
    let mut sent = [0; 1_024];
    while stream.read(&mut sent).await? > 0 {}
    Ok(())
}

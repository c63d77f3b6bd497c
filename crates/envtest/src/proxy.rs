//! A TCP proxy on loopback that can cut or silence what it forwards: a failing network.
//!
//! It does not look into the data, so TLS passes through. Silence keeps the bytes: they arrive when it ends, as after a
//! partition heals. Invariant: dropping the proxy closes every connection.

use crate::{Failure, Outcome};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The size of a read. It is small, so that each part of a long answer is delayed.
const CHUNK: usize = 16 << 10;

/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// No fault.
    Good,
    /// Nothing arrives, and neither side is told.
    Silent,
    /// Every connection is reset, including new ones.
    Cut,
}

/// A proxy in front of one address.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    accepted: Arc<AtomicU64>,
    // Dropping it ends every task, and with them every connection.
    _tasks: JoinSet<()>,
}

impl FaultProxy {
    /// Starts a proxy on a free port, without a fault.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(target: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let network = watch::Sender::new(Network::Good);
        let accepted = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, network.subscribe(), target, Arc::clone(&accepted)));
        Ok(Self { address, network, accepted, _tasks: tasks })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the network, also for open connections.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }

    /// How many connections were made so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Fails until a client has connected.
    ///
    /// # Errors
    /// If no client has connected.
    pub fn is_used(&self) -> Outcome {
        if self.accepted() == 0 { Err(Failure::new("nobody connected to the proxy")) } else { Ok(()) }
    }
}

async fn accept(
    listener: TcpListener,
    network: watch::Receiver<Network>,
    target: SocketAddr,
    accepted: Arc<AtomicU64>,
) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        accepted.fetch_add(1, Ordering::Relaxed);
        connections.spawn(connect(client, target, network.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection until either side ends it or it is cut.
async fn connect(client: TcpStream, target: SocketAddr, mut network: watch::Receiver<Network>) {
    // With lingering off, closing sends a reset instead of a regular end.
    let _ = client.set_zero_linger();
    let _ = client.set_nodelay(true);
    if *network.borrow() == Network::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    let _ = server.set_nodelay(true);
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let requests = relay(from_client, to_server, network.clone());
    let answers = relay(from_server, to_client, network.clone());
    tokio::select! {
        biased;
        _ = network.wait_for(|network| *network == Network::Cut) => {}
        // If one side ends regularly, the other direction stays open until it ends too.
        _ = futures::future::try_join(requests, answers) => {}
    }
}

async fn relay(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = from.read(&mut buffer).await?;
        let heard = network.wait_for(|network| *network != Network::Silent).await;
        if !heard.is_ok_and(|network| *network == Network::Good) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return to.shutdown().await;
        };
        to.write_all(bytes).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that echoes each line.
    async fn echo() -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ended = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        (address, tasks)
    }

    async fn say(stream: &mut TcpStream, word: &[u8; 4]) -> io::Result<[u8; 4]> {
        stream.write_all(word).await?;
        hear(stream).await
    }

    async fn hear(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
        let mut heard = [0; 4];
        stream.read_exact(&mut heard).await.map(|_| heard)
    }

    const A_WHILE: Duration = Duration::from_millis(150);

    #[tokio::test]
    async fn what_was_sent_into_silence_arrives_when_it_ends_and_a_cut_is_an_end() {
        let (target, _server) = echo().await;
        let proxy = FaultProxy::start(target).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(&say(&mut stream, b"good").await.unwrap(), b"good");
        proxy.set(Network::Silent);
        let silence = tokio::time::timeout(A_WHILE, say(&mut stream, b"late")).await;
        assert!(silence.is_err(), "{silence:?}");
        proxy.set(Network::Good);
        assert_eq!(&hear(&mut stream).await.unwrap(), b"late");
        proxy.set(Network::Cut);
        let reset = hear(&mut stream).await.unwrap_err();
        // The half of the connection that ends first decides which of the two is seen.
        let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof];
        assert!(kinds.contains(&reset.kind()), "{reset:?}");
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(say(&mut refused, b"lost").await.is_err());
        proxy.set(Network::Good);
        let mut again = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(&say(&mut again, b"good").await.unwrap(), b"good");
        assert_eq!(proxy.accepted(), 3);
    }

    #[tokio::test]
    async fn dropping_the_proxy_closes_all() {
        let (target, _server) = echo().await;
        let proxy = FaultProxy::start(target).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(&say(&mut stream, b"one.").await.unwrap(), b"one.");
        drop(proxy);
        assert!(hear(&mut stream).await.is_err());
    }
}

//! The metadata service of the droplet, on one kept connection.
//!
//! Owns the small part of HTTP that it needs: GET, a status, a length or chunks. Everything is bounded. No proxy is
//! used, since the address belongs to this machine alone. Other modules decide what an answer means for egress.

use super::decision::Reserved;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The address of the service on every droplet.
pub const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// Longest wait for a connection and an answer. Reads follow each other every second.
const TIMEOUT: Duration = Duration::from_millis(900);

/// Longest line, longest body and most lines of an answer. The answer is only an address.
const MAX_LINE: u64 = 1_024;
const MAX_BODY: u64 = 256;
const MAX_LINES: usize = 64;

/// The anchor address with its gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// The address from which the provider translates.
    pub address: Ipv4Addr,
    /// Its gateway.
    pub gateway: Ipv4Addr,
}

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to read the metadata service: {0}")]
pub struct MetadataError(String);

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn failed(what: impl ToString) -> MetadataError {
    MetadataError(what.to_string())
}

/// The client and its connection.
#[derive(Debug)]
pub struct Metadata {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Metadata {
    /// A client without a connection.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// Reads the state of the reserved IP.
    ///
    /// # Errors
    /// [`MetadataError`].
    pub async fn reserved(&mut self) -> Result<Reserved, MetadataError> {
        match self.get("reserved_ip/ipv4/active").await?.as_str() {
            "false" => Ok(Reserved::Inactive),
            "true" => self.get_address("reserved_ip/ipv4/ip_address").await.map(Reserved::Active),
            other => Err(failed(format!("reserved_ip/ipv4/active is {other:?}, not true or false"))),
        }
    }

    /// Reads the anchor address of the public interface.
    ///
    /// # Errors
    /// [`MetadataError`].
    pub async fn anchor(&mut self) -> Result<Anchor, MetadataError> {
        let address = self.get_address("interfaces/public/0/anchor_ipv4/address").await?;
        let gateway = self.get_address("interfaces/public/0/anchor_ipv4/gateway").await?;
        Ok(Anchor { address, gateway })
    }

    async fn get_address(&mut self, path: &str) -> Result<Ipv4Addr, MetadataError> {
        let text = self.get(path).await?;
        text.parse().map_err(|_| failed(format!("{path} is {text:?}, not an IPv4 address")))
    }

    async fn get(&mut self, path: &str) -> Result<String, MetadataError> {
        let kept = self.connection.is_some();
        let first = self.try_get(path).await;
        match first {
            // The server may have closed an idle connection.
            Err(_) if kept => self.try_get(path).await,
            result => result,
        }
    }

    async fn try_get(&mut self, path: &str) -> Result<String, MetadataError> {
        let connection = self.connection.take();
        let read = tokio::time::timeout(TIMEOUT, exchange(connection, self.address, path)).await;
        let (body, connection) =
            read.map_err(|_| failed(format!("no answer in {} ms", TIMEOUT.as_millis())))??;
        self.connection = connection;
        Ok(body)
    }
}

async fn exchange(
    connection: Option<BufReader<TcpStream>>,
    address: SocketAddr,
    path: &str,
) -> Result<(String, Option<BufReader<TcpStream>>), MetadataError> {
    let mut connection = match connection {
        Some(connection) => connection,
        None => BufReader::with_capacity(2_048, TcpStream::connect(address).await.map_err(failed)?),
    };
    let host = address.ip();
    let request = format!("GET /metadata/v1/{path} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n");
    connection.get_mut().write_all(request.as_bytes()).await.map_err(failed)?;
    let status = line(&mut connection).await?;
    let code = status.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut chunked, mut close) = (None, false, status.starts_with("HTTP/1.0"));
    for _ in 0..MAX_LINES {
        let header = line(&mut connection).await?.to_ascii_lowercase();
        if header.is_empty() {
            let body = body(&mut connection, length, chunked).await?;
            if code != "200" {
                return Err(failed(format!("{path} answered with status {code:?}")));
            }
            // Without a length the body ends with the connection.
            let kept = !close && (length.is_some() || chunked);
            return Ok((body, kept.then_some(connection)));
        }
        match header.split_once(':').map(|(name, value)| (name, value.trim())) {
            Some(("content-length", value)) => length = Some(value.parse::<u64>().map_err(failed)?),
            Some(("transfer-encoding", value)) => chunked = value == "chunked",
            Some(("connection", "close")) => close = true,
            Some(_) | None => {}
        }
    }
    Err(failed("the answer has too many headers"))
}

async fn line(connection: &mut BufReader<TcpStream>) -> Result<String, MetadataError> {
    let mut line = Vec::new();
    connection.take(MAX_LINE).read_until(b'\n', &mut line).await.map_err(failed)?;
    if line.pop() != Some(b'\n') {
        return Err(failed("the answer was cut short, or a line is too long"));
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

async fn body(
    connection: &mut BufReader<TcpStream>,
    length: Option<u64>,
    chunked: bool,
) -> Result<String, MetadataError> {
    let mut body = Vec::new();
    if chunked {
        while let size = line(connection).await?
            && size != "0"
        {
            let size = u64::from_str_radix(size.split(';').next().unwrap_or_default(), 16).map_err(failed)?;
            read(connection, size, &mut body).await?;
            line(connection).await?;
        }
        line(connection).await?;
    } else if let Some(length) = length {
        read(connection, length, &mut body).await?;
    } else {
        connection.take(MAX_BODY + 1).read_to_end(&mut body).await.map_err(failed)?;
    }
    if u64::try_from(body.len()).is_ok_and(|length| length <= MAX_BODY) {
        Ok(String::from_utf8_lossy(&body).trim().to_owned())
    } else {
        Err(failed("the body is too long"))
    }
}

/// Reads exactly this many more bytes.
async fn read(
    connection: &mut BufReader<TcpStream>,
    count: u64,
    body: &mut Vec<u8>,
) -> Result<(), MetadataError> {
    let before = u64::try_from(body.len()).map_err(failed)?;
    if before.saturating_add(count) > MAX_BODY {
        return Err(failed("the body is too long"));
    }
    let got = connection.take(count).read_to_end(body).await.map_err(failed)?;
    (u64::try_from(got) == Ok(count)).then_some(()).ok_or_else(|| failed("the answer was cut short"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A service that gives each connection these answers, one after another, and counts the connections.
    async fn service(answers: Vec<Vec<&'static str>>) -> (Metadata, tokio::task::JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metadata = Metadata::new(listener.local_addr().unwrap());
        let serve = async move {
            let mut count = 0;
            for connection in answers {
                let (stream, _) = listener.accept().await.unwrap();
                count += 1;
                let mut stream = BufReader::new(stream);
                for answer in connection {
                    while line(&mut stream).await.is_ok_and(|line| !line.is_empty()) {}
                    stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
                }
            }
            count
        };
        #[expect(clippy::disallowed_methods, reason = "a test")]
        let served = tokio::spawn(serve);
        (metadata, served)
    }

    const TRUE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue";
    const IP: &str = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n203.0.113.10\n";
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfalse\r\n0\r\n\r\n";

    #[tokio::test]
    async fn one_connection_serves_all_reads() {
        let (mut metadata, served) = service(vec![vec![TRUE, IP, CHUNKS, IP, IP]]).await;
        assert_eq!(metadata.reserved().await, Ok(Reserved::Active(Ipv4Addr::new(203, 0, 113, 10))));
        assert_eq!(metadata.reserved().await, Ok(Reserved::Inactive));
        let anchor = metadata.anchor().await.unwrap();
        assert_eq!(anchor.address, anchor.gateway);
        assert_eq!(served.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_is_opened_again_at_once() {
        let closes = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nfalse";
        let (mut metadata, served) = service(vec![vec![CHUNKS], vec![closes], vec![CHUNKS]]).await;
        for _ in 0..3 {
            assert_eq!(metadata.reserved().await, Ok(Reserved::Inactive));
        }
        assert_eq!(served.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn an_answer_that_makes_no_sense_is_a_failed_read_and_the_next_one_is_good() {
        for bad in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ntrue",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmaybe",
            "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfals",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
            "nonsense",
        ] {
            let (mut metadata, _served) = service(vec![vec![bad], vec![CHUNKS]]).await;
            assert!(metadata.reserved().await.is_err(), "{bad}");
            assert_eq!(metadata.reserved().await, Ok(Reserved::Inactive), "{bad}");
        }
    }
}

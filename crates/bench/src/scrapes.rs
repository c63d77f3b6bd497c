//! Many clients that read the metrics: what it costs a probe, and what it costs a failover.
//!
//! On a small machine the load itself slows everything down. So failovers are compared with those beside an idle server
//! that answers the same load with a text of the same length.

use crate::failover;
use crate::report::Report;
use crate::stats::{Ms, Samples, ms};
use crate::world::Stage;
use flipop_envtest::Outcome;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// Clients, each with an address of its own, and the scrapes of each in a second.
const CLIENTS: u8 = 250;
const EACH: u32 = 8;

/// The pause between two probes.
const PROBED: Duration = Duration::from_millis(20);

/// The most that 99 of 100 probes may take.
const PROBE: Duration = Duration::from_millis(50);

/// The most that a failover may take, as a multiple of one beside an idle server.
const RATIO: f64 = 1.5;

/// The time after which a client gives up.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The time until all clients are at work.
const WARM_UP: Duration = Duration::from_secs(2);

/// Failovers in a round, and the rounds with each of the two servers.
const SAMPLES: usize = 16;
const SAMPLES_QUICK: usize = 3;
const ROUNDS: usize = 2;

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    let count = if quick { SAMPLES_QUICK } else { SAMPLES };
    let (world, mut operator, mut places) = failover::ground(stage).await?;
    let ours = operator.metrics_address()?;
    let (_, metrics) = operator.get("/metrics").await?;
    let (idle, _serving) = serve(metrics.len()).await?;
    let (mut beside_idle, mut beside_ours) = (Samples::default(), Samples::default());
    let (mut probes, mut told) = (Samples::default(), String::new());
    for _ in 0..ROUNDS {
        for (server, failovers) in [(idle, &mut beside_idle), (ours, &mut beside_ours)] {
            let clients = Clients::start(server);
            sleep(WARM_UP).await;
            failovers.extend(failover::samples(&world, &mut places, count).await?);
            let (found, counts) = clients.end().await;
            if server == ours {
                probes.extend(found);
                told = counts;
            }
        }
    }
    report.note(format_args!("scrapes of {} bytes: {told}", metrics.len()));
    let (half, most) = (probes.percentile(50), probes.percentile(99));
    report.row(
        format_args!("/healthz under {} scrapes a second: p50 and p99", u32::from(CLIENTS) * EACH),
        format_args!("p99 ≤ {}", Ms(PROBE)),
        format_args!("{} and {} of {} probes", Ms(half), Ms(most), probes.len()),
        most <= PROBE,
    );
    let (under, without) = (beside_ours.median(), beside_idle.median());
    let ratio = under.as_secs_f64() / without.as_secs_f64();
    report.row(
        "failover under these scrapes, against one beside an idle server under the same load",
        format_args!("× ≤ {RATIO}"),
        format_args!("× {ratio:.2}; {beside_ours} against {beside_idle} (median / max)"),
        ratio <= RATIO,
    );
    report.value("ms, p99 of /healthz under scrapes", ms(most));
    report.value("ms, failover under scrapes", ms(under));
    operator.terminate().await?;
    world.end().await;
    Ok(())
}

/// The answers to the clients.
#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU32,
    refused: AtomicU32,
    failed: AtomicU32,
    probes: Mutex<Samples>,
}

/// Running clients. Dropping them stops them.
struct Clients {
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
    since: Instant,
}

impl Clients {
    /// Scrapes a server from many addresses, and probes it from another one.
    fn start(server: SocketAddr) -> Self {
        let (mut tasks, counts) = (JoinSet::new(), Arc::new(Counts::default()));
        for client in 1..=CLIENTS {
            tasks.spawn(scrape(client, server, Arc::clone(&counts)));
        }
        tasks.spawn(probe(server, Arc::clone(&counts)));
        Self { tasks, counts, since: Instant::now() }
    }

    /// Stops them. Returns the times of the probes, and what became of the scrapes.
    async fn end(mut self) -> (Samples, String) {
        let seconds = self.since.elapsed().as_secs_f64();
        self.tasks.shutdown().await;
        let rate = |count: &AtomicU32| f64::from(count.load(Ordering::Relaxed)) / seconds;
        let Counts { answered, refused, failed, probes } = &*self.counts;
        let (answered, refused, failed) = (rate(answered), rate(refused), rate(failed));
        let probes = probes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (probes, format!("{answered:.0} answered, {refused:.0} refused and {failed:.0} failed in a second"))
    }
}

async fn scrape(client: u8, server: SocketAddr, counts: Arc<Counts>) {
    let pause = Duration::from_secs(1) / EACH;
    sleep(pause * u32::from(client) / u32::from(CLIENTS)).await;
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let got = timeout(TIMEOUT, get(Ipv4Addr::new(127, 0, 1, client), server, "/metrics")).await;
        let count = match got {
            Ok(Ok(200)) => &counts.answered,
            Ok(Ok(_)) => &counts.refused,
            Ok(Err(_)) | Err(_) => &counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A probe that gets no good answer counts as long as a client waits.
async fn probe(server: SocketAddr, counts: Arc<Counts>) {
    loop {
        sleep(PROBED).await;
        let began = Instant::now();
        let got = timeout(TIMEOUT, get(Ipv4Addr::new(127, 0, 2, 1), server, "/healthz")).await;
        let took = if matches!(got, Ok(Ok(200))) { began.elapsed() } else { TIMEOUT };
        counts.probes.lock().unwrap_or_else(PoisonError::into_inner).push(took);
    }
}

/// The status of a GET on a connection of its own, from this address.
async fn get(from: Ipv4Addr, server: SocketAddr, path: &str) -> io::Result<u16> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let mut stream = socket.connect(server).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let digits = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A server that answers every request with a text of this length, until it is dropped.
async fn serve(length: usize) -> Outcome<(SocketAddr, JoinSet<()>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let answer: Arc<[u8]> = Arc::from(format!("{head}{}", "x".repeat(length)).into_bytes());
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(reply(stream, Arc::clone(&answer)));
            while connections.try_join_next().is_some() {}
        }
    });
    Ok((address, serving))
}

/// A client's error does not matter.
async fn reply(mut stream: TcpStream, answer: Arc<[u8]>) -> io::Result<()> {
    let _length = stream.read(&mut [0; 1_024]).await?;
    stream.write_all(&answer).await?;
    stream.shutdown().await
}

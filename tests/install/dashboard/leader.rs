//! A leader that has one of everything and whose counters grow, scraped by a real Prometheus.

use crate::prometheus::Prometheus;
use crate::queries::everything;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

pub(super) fn answers_every_query() {
    let leader = TcpListener::bind("127.0.0.1:0").unwrap();
    let scraped = leader.local_addr().unwrap();
    thread::spawn(move || serve(&leader));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let prometheus = Prometheus::start(scraped).unwrap();
    runtime.block_on(prometheus.scrapes()).unwrap();
    // There is only one replica.
    runtime.block_on(prometheus.answers_the_dashboard("FlipopNoStandby", &[])).unwrap();
}

/// Answers each request with a scrape. In the n-th, counters are n times as high.
fn serve(listener: &TcpListener) {
    for (number, stream) in (1_u32..).zip(listener.incoming()) {
        let _ = answer(stream.unwrap(), number);
    }
}

fn answer(mut stream: TcpStream, number: u32) -> std::io::Result<()> {
    // One read is enough for a scraper's request on loopback. Its content does not matter.
    let _ = stream.read(&mut [0; 4096])?;
    let body = grown(number);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn grown(number: u32) -> String {
    let (mut text, mut counts) = (String::new(), false);
    for line in everything::scrape().lines() {
        if line.starts_with("# TYPE ") {
            counts = line.ends_with(" counter") || line.ends_with(" histogram");
        }
        match line.rsplit_once(' ').filter(|_| counts && !line.starts_with('#')) {
            Some((series, value)) => {
                let value = value.parse::<f64>().unwrap() * f64::from(number);
                writeln!(text, "{series} {value}").unwrap();
            }
            None => writeln!(text, "{line}").unwrap(),
        }
    }
    text
}

//! A real Prometheus that scrapes a leader that has one of everything, and whose counters grow.

use super::panels::panels;
use crate::queries::everything;
use crate::tools::run;
use flipop_envtest::Failure;
use flipop_envtest::wait::eventually;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Prometheus starts in a second and needs a few scrapes, one each second.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Ends Prometheus with the test.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn answers_every_query() {
    let folder = tempfile::tempdir().unwrap();
    let leader = TcpListener::bind("127.0.0.1:0").unwrap();
    let scraped = leader.local_addr().unwrap();
    thread::spawn(move || serve(&leader));
    let config = folder.path().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
         rule_files: [{}]\n\
         scrape_configs:\n- job_name: flipop\n  honor_labels: true\n  \
         static_configs:\n  - targets: ['{scraped}']\n    labels: {{pod: flipop-0}}\n",
        crate::tools::root().join("monitoring/alerts.yaml").display()
    );
    std::fs::write(&config, text).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let _prometheus = Prometheus(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut open: BTreeSet<String> =
        panels().iter().flat_map(|panel| panel.queries).map(|(query, _)| asked(query)).collect();
    assert!(open.len() > 20, "{open:?}");
    // It evaluates the alerts, too: there is one replica.
    open.insert("ALERTS{alertname=\"FlipopNoStandby\"}".to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answered = eventually("every query returns data", TIMEOUT, || {
        open.retain(|query| !has_data(&url, query));
        let left = format!("none for {open:#?}");
        let done = open.is_empty();
        async move { if done { Ok(()) } else { Err(Failure::new(left)) } }
    });
    runtime.block_on(answered).unwrap_or_else(|failure| panic!("{failure}"));
}

/// A query with Grafana's variables filled in.
fn asked(query: &str) -> String {
    query.replace("$__rate_interval", "1m").replace("$namespace", ".*")
}

/// True if a query returns a number.
fn has_data(url: &str, query: &str) -> bool {
    let ran = run("promtool", &["query", "instant", "--format=json", url, query], "");
    let Ok(series) = serde_json::from_str::<Vec<Value>>(&ran.stdout) else { return false };
    let value = |series: &Value| series["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
    !series.is_empty() && series.iter().all(|series| value(series).is_some_and(f64::is_finite))
}

/// Answers each request with a scrape. In the n-th, counters are n times as high.
fn serve(listener: &TcpListener) {
    for (number, stream) in (1_u32..).zip(listener.incoming()) {
        let _ = answer(stream.unwrap(), number);
    }
}

fn answer(mut stream: TcpStream, number: u32) -> std::io::Result<()> {
    // One read is enough for the request of a scraper on loopback; what it says does not matter.
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

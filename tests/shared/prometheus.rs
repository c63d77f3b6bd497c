//! A real Prometheus that scrapes one address per second, and the dashboard queries that it has to answer.

use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome, ports};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// It starts in a second and needs a few scrapes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The running program. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Prometheus {
    process: Child,
    url: String,
    _folder: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Prometheus {
    /// Starts it with the repository's alerts.
    pub(crate) fn start(scraped: SocketAddr) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("flipop-prometheus-").tempdir()?;
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n- job_name: flipop\n  honor_labels: true\n  \
             static_configs:\n  - targets: ['{scraped}']\n    labels: {{pod: flipop-0}}\n",
            root().join("monitoring/alerts.yaml").display()
        );
        fs::write(&config, text)?;
        let port = ports::free_port()?;
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { process, url: format!("http://127.0.0.1:{port}"), _folder: folder })
    }

    /// Whether a query returns a number. (A quantile without observations is none.)
    fn has_data(&self, query: &str) -> bool {
        self.values(query).into_iter().any(f64::is_finite)
    }

    fn values(&self, query: &str) -> Vec<f64> {
        let mut command = Command::new("promtool");
        let ran = command.args(["query", "instant", "--format=json", &self.url, query]).output();
        let series = ran.ok().and_then(|ran| serde_json::from_slice::<Vec<Value>>(&ran.stdout).ok());
        let value = |series: &Value| series.pointer("/value/1")?.as_str()?.parse::<f64>().ok();
        series.iter().flatten().filter_map(value).collect()
    }

    /// Waits for a scrape, so that it sees later changes of counters.
    pub(crate) async fn scrapes(&self) -> Outcome {
        eventually("a replica is scraped", TIMEOUT, || {
            let scraped = self.has_data("flipop_leader");
            async move { if scraped { Ok(()) } else { Err(Failure::new("none is")) } }
        })
        .await
    }

    /// Waits until every dashboard query has returned data, and this alert is pending or firing. Of metrics that
    /// `quiet` names nothing was observed: a series without a number is enough.
    pub(crate) async fn answers_the_dashboard(&self, alert: &str, quiet: &[&str]) -> Outcome {
        let mut open = queries()?;
        open.insert(format!("ALERTS{{alertname=\"{alert}\"}}"));
        eventually("every query returns data", TIMEOUT, || {
            open.retain(|query| {
                let observed = !quiet.iter().any(|metric| query.contains(metric));
                !self.values(query).into_iter().any(|value| !observed || value.is_finite())
            });
            let left = format!("none for {open:#?}");
            let done = open.is_empty();
            async move { if done { Ok(()) } else { Err(Failure::new(left)) } }
        })
        .await
    }
}

/// The dashboard's queries, with Grafana's variables filled in.
fn queries() -> Outcome<BTreeSet<String>> {
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(root().join("monitoring/dashboard.json"))?)?;
    let panels = dashboard.get("panels").and_then(Value::as_array).into_iter().flatten();
    let targets = panels.filter_map(|panel| panel.get("targets")?.as_array()).flatten();
    let queries = targets.filter_map(|target| target.get("expr")?.as_str());
    let queries: BTreeSet<String> =
        queries.map(|query| query.replace("$__rate_interval", "1m").replace("$namespace", ".*")).collect();
    if queries.len() > 20 { Ok(queries) } else { Err(Failure::new(format!("only {queries:?}"))) }
}

//! The operator's binary as a child process: started, observed and stopped from outside, as in a cluster.

use crate::process::{FullPipe, Process};
use crate::scrape::Scrape;
use crate::{Failure, Outcome, ports, wait};
use rustix::process::Signal;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The time until it answers on its metrics port, with a wide margin.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// A slower request to its metrics port is a failure, because a scrape waits for nothing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The time until it has ended after a signal, with a wide margin.
const END_TIMEOUT: Duration = Duration::from_secs(15);

/// The token that the simulated DigitalOcean knows.
pub const TOKEN: &str = "envtest-digitalocean-token";

/// The token that the simulated Cloudflare knows.
pub const CLOUDFLARE_TOKEN: &str = "envtest-cloudflare-token";

static COUNT: AtomicUsize = AtomicUsize::new(1);

/// How to start an operator. Its environment is empty at first.
#[derive(Debug, Clone)]
pub struct Launch {
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    metrics_port: Option<u16>,
}

impl Launch {
    /// This binary, without flags or environment.
    pub fn bare(binary: &Path) -> Self {
        Self { binary: binary.to_owned(), arguments: Vec::new(), environment: Vec::new(), metrics_port: None }
    }

    /// As in a cluster: a kubeconfig, a DigitalOcean with its token, metrics on a free port, and detailed logs.
    ///
    /// # Errors
    /// If no port is free.
    pub fn new(binary: &Path, kubeconfig: &Path, digitalocean: &str) -> Outcome<Self> {
        let launch = Self::bare(binary)
            .flag("--debug")
            .flag("--kubeconfig")
            .flag(&kubeconfig.display().to_string())
            .env("DIGITALOCEAN_ACCESS_TOKEN", TOKEN)
            .env("DIGITALOCEAN_API_URL", digitalocean);
        launch.metrics()
    }

    /// Adds a Cloudflare with its token.
    pub fn cloudflare(self, url: &str) -> Self {
        self.env("CLOUDFLARE_TOKEN", CLOUDFLARE_TOKEN).env("CLOUDFLARE_API_URL", url)
    }

    /// Adds metrics on a free loopback port.
    ///
    /// # Errors
    /// If no port is free.
    pub fn metrics(mut self) -> Outcome<Self> {
        let port = ports::free_port()?;
        self.metrics_port = Some(port);
        Ok(self.flag(&format!("--metrics-bind-addr=127.0.0.1:{port}")))
    }

    /// Adds an argument.
    pub fn flag(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.retain(|(other, _)| other != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it, with its log in `folder`, and waits for nothing.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(&self, folder: &Path) -> Outcome<Operator> {
        let home = home(folder)?;
        let process = Process::start("the operator", &mut self.command(&home), &home.join("log"))?;
        self.operator(process)
    }

    /// Starts it with its log going to a pipe that nobody reads.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start_into(&self, folder: &Path, pipe: &FullPipe) -> Outcome<Operator> {
        self.operator(Process::start_into("the operator", &mut self.command(&home(folder)?), pipe)?)
    }

    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(&self.arguments)
            .env_clear()
            .env("HOME", home)
            .env("RUST_BACKTRACE", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(home);
        command
    }

    fn operator(&self, process: Process) -> Outcome<Operator> {
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).no_proxy().build()?;
        Ok(Operator { process, metrics_port: self.metrics_port, http })
    }
}

/// A folder for one operator.
fn home(folder: &Path) -> Outcome<PathBuf> {
    let home = folder.join(format!("operator-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir_all(&home)?;
    Ok(home)
}

/// A running operator. Dropping it kills it.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    metrics_port: Option<u16>,
    http: reqwest::Client,
}

impl Operator {
    /// Waits until it answers `/healthz`.
    ///
    /// # Errors
    /// If it does not, or ends.
    pub async fn healthy(&mut self) -> Outcome {
        let end = wait::deadline(START_TIMEOUT);
        loop {
            if let Some(status) = self.process.ended()? {
                return Err(Failure::new(format!("the operator ended: {status}\n{}", self.log_tail())));
            }
            match self.get("/healthz").await {
                Ok((200, _)) => return Ok(()),
                other if wait::passed(end) => {
                    return Err(Failure::new(format!("not healthy: {other:?}\n{}", self.log_tail())));
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// The address of its metrics.
    ///
    /// # Errors
    /// If it was started without metrics.
    pub fn metrics_address(&self) -> Outcome<SocketAddr> {
        let port = self.metrics_port.ok_or_else(|| Failure::new("started without a metrics port"))?;
        Ok((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Status and body of a GET on its metrics port.
    ///
    /// # Errors
    /// If it does not answer within 2 s.
    pub async fn get(&self, path: &str) -> Outcome<(u16, String)> {
        let answer = self.http.get(format!("http://{}{path}", self.metrics_address()?)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Its metrics.
    ///
    /// # Errors
    /// If it does not answer with 200 within 2 s.
    pub async fn scrape(&self) -> Outcome<Scrape> {
        match self.get("/metrics").await? {
            (200, text) => Ok(Scrape::parse(&text)),
            (status, text) => Err(Failure::new(format!("/metrics answered {status}: {text}"))),
        }
    }

    /// Whether it is running.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn runs(&mut self) -> Outcome<bool> {
        Ok(self.process.ended()?.is_none())
    }

    /// Kills it (SIGKILL). When this returns, nothing of it runs.
    pub fn kill_9(&mut self) {
        self.process.kill();
    }

    /// Asks it to stop (SIGTERM) and waits for its end.
    ///
    /// # Errors
    /// If it has already ended, or does not end.
    pub async fn terminate(&mut self) -> Outcome<ExitStatus> {
        self.process.signal(Signal::TERM)?;
        self.wait_end(END_TIMEOUT).await
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&mut self, signal: Signal) -> Outcome {
        self.process.signal(signal)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it is still running after `timeout`.
    pub async fn wait_end(&mut self, timeout: Duration) -> Outcome<ExitStatus> {
        self.process.wait_end(timeout).await
    }

    /// Its complete log.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

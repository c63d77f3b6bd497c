//! `kubectl`, as users run it.

use crate::{Failure, Outcome};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Longer than any apply takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// `kubectl` with one identity at one server.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Whether it exited with 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error: errors, and the server's warnings.
    pub stderr: String,
}

impl Ran {
    /// The server's warnings.
    pub fn warnings(&self) -> Vec<&str> {
        self.stderr.lines().filter_map(|line| line.strip_prefix("Warning: ")).collect()
    }
}

impl Kubectl {
    pub(crate) fn new(program: PathBuf, kubeconfig: PathBuf, cache: PathBuf) -> Self {
        Self { program, kubeconfig, cache }
    }

    /// The same program with another identity.
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), ..self.clone() }
    }

    /// The program: a path, or a name on `PATH`.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The kubeconfig file.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs it and returns its output, even if it fails.
    ///
    /// # Errors
    /// If it cannot be started or does not end.
    pub async fn attempt(&self, arguments: &[&str], input: Option<&str>) -> Outcome<Ran> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache)
            .kill_on_drop(true)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(text.as_bytes()).await?;
        }
        let output = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await??;
        Ok(Ran {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it and expects success.
    ///
    /// # Errors
    /// If it fails, with its output.
    pub async fn run(&self, arguments: &[&str]) -> Outcome<Ran> {
        succeeded(arguments, self.attempt(arguments, None).await?)
    }

    /// Runs `kubectl apply -f -` in a namespace and expects success.
    ///
    /// # Errors
    /// If it fails, with its output.
    pub async fn apply(&self, namespace: &str, yaml: &str) -> Outcome<Ran> {
        let arguments = ["apply", "-n", namespace, "-f", "-"];
        let ran = self.attempt(&arguments, Some(yaml)).await?;
        succeeded(&arguments, ran).map_err(|failure| Failure::new(format!("{failure}\napplied was:\n{yaml}")))
    }
}

fn succeeded(arguments: &[&str], ran: Ran) -> Outcome<Ran> {
    if ran.success {
        return Ok(ran);
    }
    Err(Failure::new(format!("kubectl {} failed:\n{}{}", arguments.join(" "), ran.stdout, ran.stderr)))
}

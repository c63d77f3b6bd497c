//! A child process that ends with its owner. Its output goes to a file.

use crate::{Failure, Outcome, wait};
use rustix::io::ioctl_fionbio;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How many log lines a failure shows: enough for the cause, but not so many that they hide the failure.
pub const TAIL_LINES: usize = 60;

/// How often to check whether a process has ended.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A running child process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` and appends its output to the file `log`.
    ///
    /// # Errors
    /// If the log cannot be opened or the program cannot be started.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Outcome<Self> {
        let out = File::options().create(true).append(true).open(log)?;
        let err = out.try_clone()?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(|error| {
            Failure::new(format!("failed to start {name} ({}): {error}", command.get_program().display()))
        })?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Starts `command` with its output going to a pipe that nobody reads.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start_into(name: &str, command: &mut Command, pipe: &FullPipe) -> Outcome<Self> {
        let (out, err) = (pipe.writer.try_clone()?, pipe.writer.try_clone()?);
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()?;
        Ok(Self { name: name.to_owned(), child, log: PathBuf::new() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn signal(&mut self, signal: Signal) -> Outcome {
        // After a wait the child's number may belong to another process, which must not get the signal.
        if let Some(status) = self.child.try_wait()? {
            return Err(Failure::new(format!("{} has already ended: {status}", self.name)));
        }
        let pid = i32::try_from(self.child.id())?;
        let pid = Pid::from_raw(pid).ok_or_else(|| Failure::new("process id 0"))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Its exit status, or `None` while it runs.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it is still running after `timeout`.
    pub async fn wait_end(&mut self, timeout: Duration) -> Outcome<ExitStatus> {
        let deadline = wait::deadline(timeout);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if wait::passed(deadline) {
                return Err(Failure::new(format!("{} still runs after {timeout:?}", self.name)));
            }
            tokio::time::sleep(EXIT_POLL).await;
        }
    }

    /// Kills it and waits for its end. When this returns, nothing of it is left.
    pub fn kill(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its complete output.
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines of its output.
    pub fn log_tail(&self) -> String {
        tail(&self.log(), TAIL_LINES)
    }

    /// Resident memory in KiB.
    ///
    /// # Errors
    /// If the kernel does not say because it has ended.
    pub fn resident_kib(&self) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| Failure::new(format!("no VmRSS of {}", self.name)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A pipe without room for another byte, so every writer blocks.
#[derive(Debug)]
pub struct FullPipe {
    // Dropping it would turn every write into an error.
    _reader: PipeReader,
    writer: PipeWriter,
}

impl FullPipe {
    /// Creates a full pipe.
    ///
    /// # Errors
    /// If the pipe cannot be created.
    pub fn new() -> Outcome<Self> {
        let (reader, writer) = std::io::pipe()?;
        let pipe = Self { _reader: reader, writer };
        while !pipe.is_full()? {}
        Ok(pipe)
    }

    /// Whether it is full. If it was not, it now holds one more byte.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn is_full(&self) -> Outcome<bool> {
        // Meanwhile other users of this descriptor write without blocking, too.
        ioctl_fionbio(&self.writer, true)?;
        let written = (&self.writer).write(b".");
        ioctl_fionbio(&self.writer, false)?;
        match written {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// The last `lines` lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

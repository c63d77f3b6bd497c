//! A child process that does not outlive its owner, with its output in a file.

use crate::{Failure, Outcome, wait};
use rustix::io::ioctl_fionbio;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How much of a log a failure shows, in lines: enough for the cause, not so much that it hides the failure.
pub const TAIL_LINES: usize = 60;

/// How often the end of a process is looked for.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A running child process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it prints is appended to the file `log`.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be started.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Outcome<Self> {
        let out = File::options().create(true).append(true).open(log)?;
        let err = out.try_clone()?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(|error| {
            Failure::new(format!("failed to start {name} ({}): {error}", command.get_program().display()))
        })?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Starts `command` with a pipe for what it prints, which nobody reads.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_into(name: &str, command: &mut Command, pipe: &FullPipe) -> Outcome<Self> {
        let (out, err) = (pipe.writer.try_clone()?, pipe.writer.try_clone()?);
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()?;
        Ok(Self { name: name.to_owned(), child, log: PathBuf::new() })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn signal(&mut self, signal: Signal) -> Outcome {
        // A child that was waited for no longer owns its number: never signal a stranger.
        if let Some(status) = self.child.try_wait()? {
            return Err(Failure::new(format!("{} has already ended: {status}", self.name)));
        }
        let pid = i32::try_from(self.child.id())?;
        let pid = Pid::from_raw(pid).ok_or_else(|| Failure::new("process id 0"))?;
        Ok(kill_process(pid, signal)?)
    }

    /// How it ended, or None while it runs.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it still runs after `timeout`.
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

    /// Kills it and waits for its end: nothing of it is left when this returns.
    pub fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Everything that it printed.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines that it printed.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&self.log(), TAIL_LINES)
    }

    /// Resident memory in KiB.
    ///
    /// # Errors
    /// When the kernel does not say, because it has ended.
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

/// A pipe without room for another byte: whoever writes into it stands still.
#[derive(Debug)]
pub struct FullPipe {
    // Its drop would turn every write into an error.
    _reader: PipeReader,
    writer: PipeWriter,
}

impl FullPipe {
    /// A pipe that is full.
    ///
    /// # Errors
    /// When there is none to be had.
    pub fn new() -> Outcome<Self> {
        let (reader, writer) = std::io::pipe()?;
        let pipe = Self { _reader: reader, writer };
        while !pipe.is_full()? {}
        Ok(pipe)
    }

    /// Whether it has no room; a byte more is in it if it had.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn is_full(&self) -> Outcome<bool> {
        // Whoever has the other end of this description writes without blocking meanwhile, too.
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
#[must_use]
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

//! Processes with a time limit, and their output.

use crate::{Doing, Outcome};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The time between two looks at a process.
const LOOK: Duration = Duration::from_millis(50);

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if it did not end in time and was killed with all its children.
    pub(crate) status: Option<ExitStatus>,
    /// Its output on both streams.
    pub(crate) output: String,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The end of the output.
    pub(crate) fn tail(&self) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(40)).copied().collect::<Vec<_>>().join("\n")
    }
}

/// Runs a command to its end. The file `log` holds its output.
pub(crate) fn to_end(mut command: Command, timeout: Duration, log: &Path) -> Outcome<Ended> {
    let what = format!("run {}", command.get_program().to_string_lossy());
    let folder = log.parent().unwrap_or(log);
    std::fs::create_dir_all(folder).doing(format!("create {}", folder.display()))?;
    let file = File::create(log).doing(format!("write {}", log.display()))?;
    command.stdin(std::process::Stdio::null()).stdout(file.try_clone().doing(&what)?).stderr(file);
    let mut child = command.process_group(0).spawn().doing(&what)?;
    let status = wait(&mut child, timeout).doing(&what)?;
    let output = String::from_utf8_lossy(&std::fs::read(log).doing(&what)?).into_owned();
    Ok(Ended { status, output })
}

#[expect(
    clippy::disallowed_methods,
    reason = "real time: what is run may hang, and nothing else is done meanwhile"
)]
fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    while started.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK);
    }
    let group = rustix::process::Pid::from_child(child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?;
    child.wait()?;
    Ok(None)
}

/// The output of a command that only prints something.
pub(crate) fn told(command: &mut Command) -> Outcome<String> {
    let what = format!("run {}", command.get_program().to_string_lossy());
    let output = command.output().doing(what)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! A buildah container, without a container engine: a root folder and a process in it.

use crate::{HOST, MOUNT};
use flipop_envtest::process::{Process, Signal};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// It ends within 10 s of SIGTERM; buildah takes a moment more.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Its configuration, as stored in the image.
pub(crate) async fn configuration(image: &str) -> Outcome<Value> {
    let inspected: Value = serde_json::from_str(&buildah(&["inspect", "--type", "image", image]).await?)?;
    Ok(inspected["OCIv1"]["config"].clone())
}

async fn buildah(arguments: &[&str]) -> Outcome<String> {
    let output = tokio::process::Command::new("buildah").args(arguments).output().await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::new(format!("buildah {} failed: {why}", arguments.join(" "))))
}

/// A running operator in a container. Dropping it stops and removes it.
pub(crate) struct Container {
    name: String,
    root: PathBuf,
    buildah: Mutex<Process>,
}

impl Container {
    /// Runs the image's CMD.
    pub(crate) async fn start(
        image: &str,
        mount: &Path,
        environment: &[String],
        more: &[&str],
    ) -> Outcome<Self> {
        let name =
            buildah(&["from", "--pull-never", "--add-host", &format!("{HOST}:127.0.0.1"), image]).await?;
        let root = PathBuf::from(buildah(&["mount", &name]).await?);
        let mut command = Command::new("buildah");
        command.args([
            "run",
            "--isolation",
            "chroot",
            "--volume",
            &format!("{}:{MOUNT}:ro", mount.display()),
        ]);
        for variable in environment.iter().map(String::as_str).chain(more.iter().copied()) {
            command.args(["--env", variable]);
        }
        command.args([&name, "--", "/app/flipop", "--metrics-bind-addr="]);
        let log = mount.join(format!("{name}.log"));
        let process = Process::start("buildah", &mut command, &log)?;
        Ok(Self { name, root, buildah: Mutex::new(process) })
    }

    /// Its root folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Every file of the image, relative to the root. Files that a runtime mounts (resolv.conf and the like) do not
    /// count.
    pub(crate) fn files(&self) -> Outcome<Vec<String>> {
        let mut files = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let relative = entry.path().strip_prefix(&self.root)?.display().to_string();
                let mounted = ["dev", "proc", "sys", "run", "etc/hosts", "etc/resolv.conf"]
                    .contains(&relative.as_str());
                if mounted {
                    continue;
                }
                if entry.file_type()?.is_dir() { folders.push(entry.path()) } else { files.push(relative) }
            }
        }
        Ok(files)
    }

    /// The operator's output.
    pub(crate) fn log(&self) -> String {
        self.buildah.lock().unwrap_or_else(PoisonError::into_inner).log()
    }

    /// The operator's own process, which buildah started in the container's root.
    fn operator(&self) -> Outcome<Pid> {
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(id) =
                entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
            else {
                continue;
            };
            let root = fs::read_link(entry.path().join("root")).unwrap_or_default();
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if arguments.starts_with(b"/app/flipop\0") && root != Path::new("/") {
                return Ok(id);
            }
        }
        Err(Failure::new(format!("no operator runs in {}", self.root.display())))
    }

    /// The user that the operator runs as.
    pub(crate) fn user(&self) -> Outcome<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.operator()?.as_raw_nonzero()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user = line.and_then(|ids| ids.split_whitespace().next()).and_then(|id| id.parse().ok());
        user.ok_or_else(|| Failure::new("no Uid in /proc"))
    }

    /// Asks the operator to stop, and expects it to end without an error.
    pub(crate) async fn terminate(&self) -> Outcome {
        kill_process(self.operator()?, Signal::TERM)?;
        eventually("it ended", END_TIMEOUT, || async {
            let mut process = self.buildah.lock().unwrap_or_else(PoisonError::into_inner);
            match process.ended()? {
                Some(status) if status.success() => Ok(()),
                other => Err(Failure::new(format!("{other:?}\n{}", process.log_tail()))),
            }
        })
        .await
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Ok(operator) = self.operator() {
            // It may already have ended by itself.
            let _ = kill_process(operator, Signal::KILL);
        }
        // A left-over container only costs disk space.
        let _ = Command::new("buildah").args(["rm", &self.name]).output();
    }
}

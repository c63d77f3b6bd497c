//! Memory, processor time and open files of a process, as the kernel reports them.

use flipop_envtest::{Failure, Outcome};
use std::fmt::{self, Display};
use std::fs;
use std::time::Duration;

/// All in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Resident memory, including the binary's pages. `kubectl top` and limits are close to it.
    pub(crate) resident: u64,
    /// The peak of resident memory.
    peak: u64,
    /// Heap and stacks only.
    anonymous: u64,
    /// Resident memory, with shared pages counted in proportion.
    proportional: u64,
}

impl Memory {
    /// The memory of a running process.
    pub(crate) fn of(id: u32) -> Outcome<Self> {
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
        Ok(Self {
            resident: field(&status, "VmRSS:")?,
            peak: field(&status, "VmHWM:")?,
            anonymous: field(&status, "RssAnon:")?,
            proportional: field(&rollup, "Pss:")?,
        })
    }
}

/// The processor time of all threads of a process. They do not end before it.
pub(crate) fn processor_time(id: u32) -> Outcome<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let times = fs::read_to_string(thread?.path().join("schedstat"))?;
        let first = times.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
        nanos += first.ok_or_else(|| Failure::new("no time in schedstat"))?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// The number of files, sockets and pipes that a process has open.
pub(crate) fn open_files(id: u32) -> Outcome<u64> {
    Ok(u64::try_from(fs::read_dir(format!("/proc/{id}/fd"))?.count())?)
}

fn field(text: &str, name: &str) -> Outcome<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).ok_or_else(|| Failure::new(format!("no {name}")))
}

impl Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resident, peak, anonymous, proportional } = *self;
        write!(
            f,
            "{} MiB (anonymous {}, proportional {}, peak {})",
            mib(resident),
            mib(anonymous),
            mib(proportional),
            mib(peak)
        )
    }
}

/// KiB as MiB with one decimal.
fn mib(kib: u64) -> String {
    let tenths = (kib * 10).div_ceil(1_024);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_this_very_process_are_read() {
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.resident > 0 && memory.resident <= memory.peak && memory.anonymous < memory.resident);
        assert_eq!(mib(15 * 1_024 + 1), "15.1");
        assert!(open_files(std::process::id()).unwrap() > 2);
        assert!(processor_time(std::process::id()).unwrap() > Duration::ZERO);
    }
}

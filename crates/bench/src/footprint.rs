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
    /// The most resident memory, since the start of the process or the last call of [`Self::forget_peak`].
    pub(crate) peak: u64,
    /// Heap and stacks only.
    pub(crate) anonymous: u64,
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

    /// Lets the peak begin anew. The operator's folder in `/proc` belongs to root, so this needs root.
    pub(crate) fn forget_peak(id: u32) -> Outcome {
        Ok(fs::write(format!("/proc/{id}/clear_refs"), "5")?)
    }
}

/// The processor time of a process.
pub(crate) fn processor_time(id: u32) -> Outcome<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let ticks = ticks(&stat, OWN).ok_or_else(|| Failure::new("no times in /proc/<id>/stat"))?;
    Ok(TICK.saturating_mul(ticks))
}

/// The processor time of a process during a window.
pub(crate) async fn spent(id: u32, window: Duration) -> Outcome<Duration> {
    let before = processor_time(id)?;
    tokio::time::sleep(window).await;
    Ok(processor_time(id)?.saturating_sub(before))
}

/// The kernel counts processor time in hundredths of a second.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The fields `utime` and `stime` of `stat`, counted from behind the name in brackets.
const OWN: [usize; 2] = [11, 12];

/// The fields `cutime` and `cstime`: the same of children that have ended.
pub(crate) const OF_CHILDREN: [usize; 2] = [13, 14];

/// The sum of two fields.
pub(crate) fn ticks(stat: &str, [one, two]: [usize; 2]) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some(ticks(one)?.saturating_add(ticks(two)?))
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
pub(crate) fn mib(kib: u64) -> String {
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
    }

    #[test]
    fn times_are_found_behind_any_name() {
        let fields: Vec<String> = (3..=20).map(|field| field.to_string()).collect();
        let stat = format!("1 (a) b) S {}", fields.join(" "));
        // "S" is field 3 of the file, so that the number 13 stands in field 14.
        assert_eq!(ticks(&stat, OWN), Some(13 + 14));
        assert_eq!(ticks(&stat, OF_CHILDREN), Some(15 + 16));
        assert_eq!(ticks("1 (a", OWN), None);
        assert!(processor_time(std::process::id()).is_ok());
    }
}

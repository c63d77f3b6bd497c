//! The registration of metrics, and the usual `process_*` metrics, read from `/proc` at each scrape.
//!
//! The prometheus crate's own collector needs an extra library for these few numbers. A number that cannot be read is
//! left out.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Counter, Gauge, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, Result,
};
use std::fs;

/// Registers a metric, and passes it on.
pub(crate) fn register<M: Collector + Clone + 'static>(registry: &Registry, metric: Result<M>) -> Result<M> {
    let metric = metric?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Registers counters that differ in these labels.
pub(crate) fn counters(
    registry: &Registry,
    name: &str,
    labels: &[&str],
    help: &str,
) -> Result<IntCounterVec> {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels))
}

/// Registers gauges that differ in these labels.
pub(crate) fn gauges(registry: &Registry, name: &str, labels: &[&str], help: &str) -> Result<IntGaugeVec> {
    register(registry, IntGaugeVec::new(Opts::new(name, help), labels))
}

/// Registers histograms that differ in these labels.
pub(crate) fn histograms(
    registry: &Registry,
    name: &str,
    labels: &[&str],
    buckets: &[f64],
    help: &str,
) -> Result<HistogramVec> {
    register(registry, HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels))
}

/// Collects the process's numbers.
#[derive(Debug)]
pub struct ProcessMetrics {
    cpu: Opts,
    /// Only describes what is collected.
    described_cpu: Counter,
    gauges: Vec<(Reading, Gauge)>,
    started_at: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Reading {
    ResidentBytes,
    VirtualBytes,
    MaxVirtualBytes,
    OpenFds,
    MaxFds,
    Threads,
    StartTime,
}

const GAUGES: [(Reading, &str, &str); 7] = [
    (Reading::ResidentBytes, "process_resident_memory_bytes", "Resident memory, in bytes."),
    (Reading::VirtualBytes, "process_virtual_memory_bytes", "Virtual memory, in bytes."),
    (
        Reading::MaxVirtualBytes,
        "process_virtual_memory_max_bytes",
        "Limit of the virtual memory, in bytes. It is the limit of the process (ulimit -v), not that of the container. \
         18446744073709551615 means unlimited.",
    ),
    (Reading::OpenFds, "process_open_fds", "Number of open file descriptors."),
    (Reading::MaxFds, "process_max_fds", "Limit of open file descriptors."),
    (Reading::Threads, "process_threads", "Number of threads."),
    (
        Reading::StartTime,
        "process_start_time_seconds",
        "Start of the process, in seconds since 1970-01-01 UTC.",
    ),
];

/// Kernel ticks per second in `/proc`. The ABI of Linux fixes it on every architecture that we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// The largest 64-bit number, rounded to what a metric can hold.
const UNLIMITED: f64 = 18_446_744_073_709_551_615.0;

impl ProcessMetrics {
    /// A collector to register.
    ///
    /// # Errors
    /// Only if a metric's name were invalid.
    pub fn new() -> Result<Self> {
        let cpu = Opts::new(
            "process_cpu_seconds_total",
            "CPU time that the process has used, user and system, in seconds.",
        );
        let gauges = GAUGES.iter().map(|(reading, name, help)| {
            Gauge::with_opts(Opts::new(*name, *help)).map(|gauge| (*reading, gauge))
        });
        Ok(Self {
            described_cpu: Counter::with_opts(cpu.clone())?,
            cpu,
            gauges: gauges.collect::<Result<_>>()?,
            started_at: Stat::read().zip(booted_at()).map(|(stat, boot)| boot + stat.started_after_seconds),
        })
    }

    /// A new counter for each scrape, because a counter cannot be set. A shared one would count the same seconds twice.
    fn cpu(&self, seconds: f64) -> Vec<MetricFamily> {
        let Ok(cpu) = Counter::with_opts(self.cpu.clone()) else { return Vec::new() };
        cpu.inc_by(seconds);
        cpu.collect()
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges.iter().flat_map(|(_, gauge)| gauge.desc());
        self.described_cpu.desc().into_iter().chain(gauges).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let stat = Stat::read();
        let mut families = Vec::new();
        if let Some(stat) = &stat {
            families.extend(self.cpu(stat.cpu_seconds));
        }
        for (reading, gauge) in &self.gauges {
            let value = match reading {
                Reading::ResidentBytes => memory("VmRSS:"),
                Reading::VirtualBytes => memory("VmSize:"),
                Reading::OpenFds => open_fds(),
                Reading::MaxVirtualBytes => limit("Max address space"),
                Reading::MaxFds => limit("Max open files"),
                Reading::Threads => stat.as_ref().map(|stat| stat.threads),
                Reading::StartTime => self.started_at,
            };
            if let Some(value) = value {
                gauge.set(value);
                families.extend(gauge.collect());
            }
        }
        families
    }
}

/// The fields in use of `/proc/self/stat`.
#[derive(Debug)]
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    started_after_seconds: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// Field numbers as in proc(5). The name before the last bracket may contain anything.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
            threads: field(20)?,
            started_after_seconds: field(22)? / TICKS_PER_SECOND,
        })
    }
}

/// A kB line of `/proc/self/status`, in bytes.
fn memory(key: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024.0)
}

fn open_fds() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    // Excludes the descriptor that the count itself uses.
    u32::try_from(count.saturating_sub(1)).ok().map(f64::from)
}

fn limit(name: &str) -> Option<f64> {
    limit_in(&fs::read_to_string("/proc/self/limits").ok()?, name)
}

/// The soft limit of this name. An unlimited value is reported as Go processes report it.
fn limit_in(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    }
}

fn booted_at() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_this_process_are_plausible() {
        let metrics = ProcessMetrics::new().unwrap();
        let families = metrics.collect();
        let value = |name: &str| {
            let family = families.iter().find(|family| family.name() == name).expect(name);
            let metric = &family.get_metric()[0];
            if name.ends_with("_total") {
                metric.get_counter().get_value()
            } else {
                metric.get_gauge().get_value()
            }
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_virtual_memory_max_bytes") >= value("process_virtual_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") <= value("process_max_fds"));
        assert!(value("process_threads") >= 1.0);
        assert!(value("process_start_time_seconds") > 1.5e9);
        assert!(value("process_cpu_seconds_total") >= 0.0);
    }

    #[test]
    fn a_limit_that_is_not_set_is_the_largest_number() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
            Max open files            1024                 4096                 files\n\
            Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit_in(limits, "Max open files"), Some(1_024.0));
        assert_eq!(limit_in(limits, "Max address space"), Some(2.0_f64.powi(64)));
        assert_eq!(limit_in(limits, "Max processes"), None);
    }

    #[test]
    fn scrapes_at_the_same_time_do_not_add_up() {
        let metrics = ProcessMetrics::new().unwrap();
        let counted = || metrics.cpu(3.0)[0].get_metric()[0].get_counter().get_value();
        let all_there = std::sync::Barrier::new(4);
        let scrape = || {
            all_there.wait();
            (0..50_000).filter(|_| (counted() - 3.0).abs() > 1e-9).count()
        };
        let wrong: usize = std::thread::scope(|scope| {
            let scrapes: Vec<_> = (0..4).map(|_| scope.spawn(scrape)).collect();
            scrapes.into_iter().map(|scrape| scrape.join().unwrap()).sum()
        });
        assert_eq!(wrong, 0);
    }

    #[test]
    fn a_process_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 95 0 0 0 150 50 0 0 20 0 4 0 9000 1 1";
        let stat = Stat::parse(stat).unwrap();
        assert!((stat.cpu_seconds - 2.0).abs() < 1e-9 && (stat.threads - 4.0).abs() < 1e-9);
        assert!((stat.started_after_seconds - 90.0).abs() < 1e-9);
    }
}

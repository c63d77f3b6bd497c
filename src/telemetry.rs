//! Logs to stderr, like the Go operator: JSON, unless stderr is a terminal.
//!
//! Lines go through a bounded queue to a separate thread. If the reader of stderr stalls, the queue fills up, further
//! lines are counted and dropped, and the work continues. The count is logged once lines flow again. Every panic is
//! logged with its place and its spans (which name the object), and ends the process.
//!
//! This module does not decide what is logged, except that libraries stay quiet: kube logs whole answers and every
//! refused connection. Our own code logs what matters of these. Headers are never logged.

use crate::clock::Clock;
use crate::exit::Exit;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Most lines that wait for a slow reader.
const MAX_LINES: usize = 2_048;

/// Most bytes that wait: a part of the operator's promised memory limit.
const MAX_BYTES: usize = 1 << 20;

/// Longest line. Longer ones are cut.
const MAX_LINE_BYTES: usize = 16 << 10;

/// How long the end of the process waits for the last lines. A full queue takes a few milliseconds to write.
const FLUSH: Duration = Duration::from_millis(250);

/// While the queue is full, the wait starts with up to this many pauses.
const FLUSH_TRIES: u32 = 30;
const FLUSH_PAUSE: Duration = Duration::from_millis(5);

/// Longest that [`Logs::flush`] takes.
pub const LONGEST_FLUSH: Duration = FLUSH.saturating_add(FLUSH_PAUSE.saturating_mul(FLUSH_TRIES));

/// Failed to set up logging.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The writer's thread could not be started.
    #[error("failed to start the thread that writes logs: {0}")]
    Thread(#[from] std::io::Error),
    /// A subscriber is already set.
    #[error("failed to set up logs: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Starts logging for the whole process, and makes every panic fatal.
///
/// # Errors
/// [`TelemetryError`].
pub fn start(debug: bool, clock: Clock) -> Result<Logs, TelemetryError> {
    let terminal = std::io::stderr().is_terminal();
    let logs = Logs::to(std::io::stderr(), clock, terminal)?;
    let layer = fmt::layer().with_writer(logs.clone()).with_ansi(terminal);
    let layer = if terminal {
        layer.boxed()
    } else {
        layer.json().flatten_event(true).with_current_span(false).with_span_list(true).boxed()
    };
    tracing_subscriber::registry().with(layer.with_filter(levels(debug))).try_init()?;
    end_on_panic(logs.clone());
    Ok(logs)
}

/// The log level of each target.
fn levels(debug: bool) -> Targets {
    let own = if debug { LevelFilter::DEBUG } else { LevelFilter::INFO };
    // With --debug: one line with the path for each request to the API server.
    let requests = if debug { LevelFilter::DEBUG } else { LevelFilter::OFF };
    let silent = ["kube_client", "kube_runtime", "hyper", "hyper_util", "reqwest", "rustls", "tower"];
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("flipop", own)
        .with_target("flipop_core", own)
        .with_target("kube_client::client::builder", requests)
        .with_targets(silent.map(|target| (target, LevelFilter::OFF)))
}

fn end_on_panic(logs: Logs) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let words = panic.payload_as_str().unwrap_or("a panic without a message");
        let thread = std::thread::current();
        // Make room first: a full queue must not drop this line.
        logs.flush();
        tracing::error!(
            place,
            thread = thread.name().unwrap_or_default(),
            "panic, the process ends: {words}"
        );
        logs.flush();
        std::process::exit(Exit::Panic.code().into());
    }));
}

enum Item {
    Line(Vec<u8>),
    /// Answer once everything before it is written.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Counters {
    waiting_bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// The queue of lines. Clones share it.
#[derive(Debug, Clone)]
pub struct Logs {
    queue: SyncSender<Item>,
    counters: Arc<Counters>,
}

impl Logs {
    /// A queue that a separate thread empties into `sink`.
    fn to(sink: impl Write + Send + 'static, clock: Clock, terminal: bool) -> Result<Self, std::io::Error> {
        let (queue, items) = sync_channel(MAX_LINES);
        let counters = Arc::new(Counters::default());
        let scribe = Scribe { sink, clock, terminal, counters: Arc::clone(&counters), reported: 0 };
        std::thread::Builder::new().name("logs".to_owned()).spawn(move || scribe.run(&items))?;
        Ok(Self { queue, counters })
    }

    /// Number of lines lost because of a stalled reader.
    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }

    /// Waits briefly until all lines are written. The last step before the process exits.
    pub fn flush(&self) {
        let (sender, done) = sync_channel(1);
        let mut item = Item::Flush(sender);
        for _ in 0..FLUSH_TRIES {
            match self.queue.try_send(item) {
                Ok(()) => {
                    // If the reader is stalled, go on without it.
                    let _late = done.recv_timeout(FLUSH);
                    return;
                }
                Err(TrySendError::Full(back)) => item = back,
                Err(TrySendError::Disconnected(_)) => return,
            }
            std::thread::park_timeout(FLUSH_PAUSE);
        }
    }

    fn push(&self, line: Vec<u8>) {
        let bytes = line.len();
        let waiting = self.counters.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let full = waiting.saturating_add(bytes) > MAX_BYTES;
        let refused = full
            || match self.queue.try_send(Item::Line(line)) {
                Ok(()) => false,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => true,
            };
        if refused {
            self.counters.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Collects one event. The line is queued once it is complete.
pub struct Line<'a> {
    logs: &'a Logs,
    bytes: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { logs: self, bytes: Vec::new() }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = MAX_LINE_BYTES.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        if self.bytes.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
        }
        self.logs.push(std::mem::take(&mut self.bytes));
    }
}

/// The thread that writes the lines.
struct Scribe<W> {
    sink: W,
    clock: Clock,
    terminal: bool,
    counters: Arc<Counters>,
    /// How many lost lines were reported.
    reported: u64,
}

impl<W: Write> Scribe<W> {
    fn run(mut self, items: &Receiver<Item>) {
        // Errors of the sink cannot be reported: nobody reads any more.
        while let Ok(item) = items.recv() {
            match item {
                Item::Line(line) => {
                    let _unread = self.sink.write_all(&line);
                    self.counters.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
                    self.tell_of_losses();
                }
                Item::Flush(done) => {
                    let _unread = self.sink.flush();
                    let _unheard = done.send(());
                }
            }
        }
    }

    fn tell_of_losses(&mut self) {
        let dropped = self.counters.dropped.load(Ordering::Relaxed);
        let lost = dropped.saturating_sub(self.reported);
        if lost == 0 {
            return;
        }
        self.reported = dropped;
        let timestamp = self.clock.timestamp();
        let text = "log lines were lost because standard error was not read in time";
        let line = if self.terminal {
            format!("{timestamp} WARN flipop::telemetry: {text} lost={lost}\n")
        } else {
            let line =
                json!({"timestamp": timestamp.to_string(), "level": "WARN", "message": text, "lost": lost});
            format!("{line}\n")
        };
        let _unread = self.sink.write_all(line.as_bytes());
    }
}

/// A healthy server has answered by then.
const FIRST_MS: u64 = 2_000;

/// Longest time between two lines: rare enough for a log of a day.
const LONGEST_MS: u64 = 300_000;

/// Calls `say` after two seconds and then ever less often, with `server` and what is missing, until nothing is missing.
pub(crate) async fn tell_missing(
    clock: Clock,
    server: String,
    missing: impl Fn() -> Vec<String>,
    say: impl Fn(&str),
) {
    let mut pause_ms = FIRST_MS;
    loop {
        clock.sleep_until(clock.now().plus_millis(pause_ms)).await;
        let missing = missing();
        let Some(first) = missing.first() else { return };
        let more = match missing.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        say(&format!("still waiting for {server}: {first}{more}"));
        pause_ms = pause_ms.saturating_mul(2).min(LONGEST_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};
    use tokio::time::Instant;
    use tracing::Level;

    /// A sink that writes nothing until it is opened.
    #[derive(Clone, Default)]
    struct Pipe(Arc<(Mutex<State>, Condvar)>);

    /// Whether the pipe is open, and what was written.
    type State = (bool, Vec<u8>);

    impl Pipe {
        fn open(&self) {
            self.0.0.lock().unwrap().0 = true;
            self.0.1.notify_all();
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.0.lock().unwrap().1.clone()).unwrap()
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut state = self.0.1.wait_while(self.0.0.lock().unwrap(), |state| !state.0).unwrap();
            state.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log(logs: &Logs, text: &str) {
        logs.make_writer().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_blocked_reader_loses_lines_and_stops_nobody() {
        let pipe = Pipe::default();
        let logs = Logs::to(pipe.clone(), Clock::system(), false).unwrap();
        for number in 0..10_000 {
            log(&logs, &format!("line {number}\n"));
        }
        let lost = logs.dropped();
        assert!((10_000 - 2_100..10_000).contains(&usize::try_from(lost).unwrap()), "{lost}");
        pipe.open();
        logs.flush();
        let text = pipe.text();
        assert!(text.starts_with("line 0\n"), "{text}");
        assert!(text.contains(&format!("\"lost\":{lost}")), "{text}");
        log(&logs, "after\n");
        logs.flush();
        assert!(pipe.text().ends_with("after\n"));
    }

    #[test]
    fn waiting_lines_are_bounded_in_bytes_and_each_in_length() {
        let pipe = Pipe::default();
        let logs = Logs::to(pipe.clone(), Clock::system(), false).unwrap();
        for _ in 0..200 {
            log(&logs, &"x".repeat(1 << 20));
        }
        assert!(logs.counters.waiting_bytes.load(Ordering::Relaxed) <= MAX_BYTES);
        assert!(logs.dropped() > 100);
        pipe.open();
        logs.flush();
        assert!(pipe.text().lines().all(|line| line.len() <= MAX_LINE_BYTES));
    }

    #[test]
    fn libraries_are_quiet_and_debug_shows_requests_but_no_bodies() {
        let shows = |debug, target: &str, level| levels(debug).would_enable(target, &level);
        assert!(shows(false, "flipop::leader", Level::INFO) && !shows(false, "flipop::leader", Level::DEBUG));
        assert!(shows(true, "flipop::leader", Level::DEBUG) && !shows(true, "flipop::leader", Level::TRACE));
        assert!(!shows(false, "kube_client::client::builder", Level::ERROR));
        assert!(shows(true, "kube_client::client::builder", Level::DEBUG));
        assert!(!shows(true, "kube_client::client", Level::WARN));
        assert!(!shows(true, "hyper_util::client", Level::DEBUG));
    }

    /// Set for the child process of the test below.
    const CHILD: &str = "FLIPOP_TEST_PANICS";

    fn panic_in_a_task() {
        let logs = start(false, Clock::system()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(async {
                let _span = tracing::info_span!("reconcile", pool = "flipop/web").entered();
                panic!("no way out");
            });
            tokio::time::sleep(Duration::from_secs(30)).await;
        });
        drop(logs);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself as a child")]
    fn a_panic_in_any_task_is_logged_with_its_object_and_ends_the_process() {
        if std::env::var(CHILD).is_ok() {
            return panic_in_a_task();
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "telemetry::tests::a_panic_in_any_task_is_logged_with_its_object_and_ends_the_process";
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(Exit::Panic.code())), "{text}");
        let line = text.lines().find(|line| line.contains("no way out")).expect("a line");
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["spans"][0]["pool"], "flipop/web");
        assert!(line["place"].as_str().unwrap().contains("telemetry.rs"), "{line}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_named_ever_less_often_until_it_does() {
        let (clock, started) = (Clock::simulated(jiff::Timestamp::UNIX_EPOCH), Instant::now());
        let said = Mutex::new(Vec::new());
        let missing = || {
            let silent = started.elapsed().as_secs() < 1_500;
            let all = ["the lease", "nodes", "pools"].map(str::to_owned);
            if silent { all.to_vec() } else { Vec::new() }
        };
        let say = |line: &str| said.lock().unwrap().push((started.elapsed().as_secs(), line.to_owned()));
        tell_missing(clock, "https://api:6443".to_owned(), missing, say).await;
        let said = said.into_inner().unwrap();
        let times: Vec<u64> = said.iter().map(|(at_s, _)| *at_s).collect();
        assert_eq!(times, [2, 6, 14, 30, 62, 126, 254, 510, 810, 1_110, 1_410]);
        let line = "still waiting for https://api:6443: the lease (and 2 more)";
        assert!(said.iter().all(|(_, said)| said == line), "{said:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_is_not_named() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        tell_missing(clock, String::new(), Vec::new, |line| panic!("{line}")).await;
    }
}

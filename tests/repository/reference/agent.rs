//! Flags, readiness and metrics of `flipop agent`.

use super::command_line::flag;
use super::page::{Page, cell, code, codes};
use flipop::agent::ready::NotReady;
use flipop::agent::report::Report;
use flipop::config::command_line;
use std::collections::BTreeMap;

pub(crate) fn render() -> String {
    let mut page = Page::new(
        "The agent of a node",
        "For administrators who run `flipop agent`: its flags, when it is ready, and its metrics.",
    );
    page.paragraph(
        "[Send outbound traffic from the reserved IP](../recipes/egress.md) says what the agent is for and how to install it. Its exit \
         codes are those of [FLIPOP](command-line.md#exit-codes). SIGTERM ends it and leaves its settings in the kernel.",
    );
    let mut command = command_line();
    command.build();
    let agent = command.find_subcommand("agent").unwrap();
    page.heading(2, "Flags");
    let flags = agent.get_arguments().filter(|flag| flag.get_long() != Some("help"));
    page.table(["flag", "default", "meaning"], flags.map(flag));
    page.heading(2, "When it is ready");
    page.paragraph(
        "`/readyz` answers with status 200 while the agent is ready. Otherwise it answers with status 503 and with \
         one of these reasons, which the log and the metric `flipop_agent_ready` give too. An agent that was never \
         ready uses no address, and with `--when-absent=Block` it blocks as soon as it knows the networks of pods. \
         One that was ready keeps its settings and sets nothing new. Only the kernel makes a ready agent unready: \
         an unavailable API server or metadata service does not.",
    );
    page.table(
        ["reason", "meaning"],
        NotReady::ALL.iter().map(|why| [code(why.as_str()), cell(why.meaning().trim())]),
    );
    page.paragraph(
        "`/healthz` answers with status 503 when the agent has not read the kernel's state for 2 min.",
    );
    page.heading(2, "Metrics");
    page.paragraph(
        "`/metrics` has these, and the [metrics of the process](metrics.md#metrics-of-the-process). Series of \
         `flipop_agent_active` and `flipop_agent_ready` change with the state.",
    );
    page.table(
        ["name", "type", "labels", "meaning"],
        metrics()
            .into_iter()
            .map(|(name, (kind, labels, help))| [code(&name), kind, codes(labels), cell(&help)]),
    );
    page.end()
}

/// The metrics, by name: type, labels and meaning.
fn metrics() -> BTreeMap<String, (String, Vec<String>, String)> {
    let report = Report::new("").unwrap();
    report.show_all();
    let text = String::from_utf8(report.metrics().unwrap()).unwrap();
    let mut metrics = BTreeMap::new();
    let mut help = "";
    let mut kind = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').unwrap().1;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            kind = rest.split_once(' ').unwrap().1;
        } else if !line.starts_with("process_") {
            let series = line.rsplit_once(' ').unwrap().0;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let labels =
                labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
            metrics.insert(name.to_owned(), (kind.to_owned(), labels.collect(), help.to_owned()));
        }
    }
    metrics
}

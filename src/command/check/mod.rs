//! `flipop check`: whether an installation is complete, with one line for each thing that could be wrong.
//!
//! It only reads. It creates nothing but access reviews, which are questions to the API server.

mod account;
mod agents;
mod cluster;
mod installation;
mod nodes;
mod objects;
mod rights;
mod uninstall;

use super::copy::Objects;
use super::output::{Output, Tone, shown};
use super::session::Session;
use super::{CommandError, leader, session};
use crate::config::Order;
use crate::config::cli_args::CheckArgs;
use crate::exit::Exit;
use crate::kube::trouble::Trouble;
use serde::Serialize;

/// One line of the output.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// Its state.
    tone: Tone,
    /// The finding.
    what: String,
    /// The remedy. Empty if none is needed.
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

impl Finding {
    fn good(what: impl Into<String>) -> Self {
        Self { tone: Tone::Good, what: what.into(), remedy: String::new() }
    }

    fn doubtful(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { tone: Tone::Doubtful, what: what.into(), remedy: remedy.into() }
    }

    /// Something that cannot be read for lack of this right, or because of other trouble.
    fn unknown(
        what: impl Into<String>,
        trouble: impl Into<Trouble>,
        right: &str,
        namespace: Option<&str>,
    ) -> Self {
        Self::doubtful(what, leader::missing_right(&trouble.into(), right, namespace))
    }

    fn bad(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { tone: Tone::Bad, what: what.into(), remedy: remedy.into() }
    }
}

/// Runs the command.
pub(super) async fn run(
    session: &Session,
    order: &Order,
    arguments: &CheckArgs,
    output: Output,
) -> Result<Exit, CommandError> {
    // One installation serves all namespaces.
    let objects = Objects::read(session, None).await?;
    if arguments.uninstall {
        let left = uninstall::list(session, &objects).await?;
        output.show(&left, || uninstall::text(&left, output))?;
        return Ok(Exit::Success);
    }
    let variables = session::variables(order, arguments.env_file.as_deref())?;
    let account = rights::account(session).await;
    let mut findings = vec![Finding::good(format!("the API server {} answers", session.server))];
    findings.extend(cluster::crds(session).await);
    let checks = nodes::checks_of(&objects);
    findings.extend(rights::check(session, &account, !checks.is_empty()).await);
    findings.extend(cluster::policies(session, &account).await);
    let view = leader::ask(session).await.debug;
    findings.extend(cluster::unlimited(view.as_ref()));
    findings.extend(installation::check(session, &account).await);
    findings.extend(objects::check(&objects));
    findings.extend(nodes::check(session, &objects).await);
    findings.extend(agents::check(session, &variables).await);
    findings.extend(nodes::checked(&account, &checks, view.as_ref()));
    findings.extend(account::check(session, &variables, &objects).await?);
    output.show(&findings, || text(&findings, output))?;
    let worst = findings.iter().map(|finding| finding.tone).max();
    Ok(if worst == Some(Tone::Bad) { Exit::Failure } else { Exit::Success })
}

fn text(findings: &[Finding], output: Output) -> String {
    let line = |finding: &Finding| {
        let remedy =
            if finding.remedy.is_empty() { String::new() } else { format!(": {}", shown(&finding.remedy)) };
        let mark = output.mark(finding.tone);
        let gap = if output.coloured || finding.tone == Tone::Good { " " } else { "  " };
        format!("{mark}{gap}{}{remedy}\n", shown(&finding.what))
    };
    findings.iter().map(line).collect()
}

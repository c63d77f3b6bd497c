//! The commands for users: they show a cluster, rehearse changes, and set annotations.
//!
//! Owns what each command reads and prints, and how it ends. The decisions of FLIPOP, such as matching and plans,
//! come from `flipop-core`. Does not own the forms of the arguments (`crate::config::words`).
//!
//! Invariants: only `move`, `pause` and `resume` write, and they write only annotations of our own objects. No
//! command reads a Secret. No control character from the cluster reaches a terminal.

mod check;
mod copy;
mod dashboard;
mod leader;
mod matched;
mod output;
mod plan;
mod session;
mod status;
mod steer;

use crate::config::Order;
use crate::config::cli_args::{PauseArgs, ResumeArgs, Word};
use crate::exit::Exit;
use crate::kube::client::ClientError;
use crate::kube::kubeconfig::ClusterError;
use crate::kube::trouble::Trouble;
use crate::{api, version};
use clap_complete::{Shell, generate};
use output::Output;
use session::Session;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no API server to talk to.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The client for it could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The runtime could not be made, or the output could not be written.
    #[error("failed to run the command: {0}")]
    System(#[from] std::io::Error),
    /// The cluster did not answer as needed.
    #[error("failed to read {what}: {trouble}")]
    Read {
        /// The thing that was to be read.
        what: String,
        /// Why it failed.
        trouble: Trouble,
    },
    /// The output could not be made.
    #[error("failed to write the output: {0}")]
    Format(String),
    /// An argument makes no sense here.
    #[error("{0}")]
    Usage(String),
    /// An object that an argument names does not exist.
    #[error("{0}")]
    Missing(String),
}

impl CommandError {
    fn read(what: impl Into<String>, trouble: Trouble) -> Self {
        Self::Read { what: what.into(), trouble }
    }

    /// The exit code for this error. `check` has a code of its own for a cluster that it cannot read.
    fn exit(&self, word: &Word) -> Exit {
        match self {
            Self::Usage(_) => Exit::UnknownCommand,
            Self::Cluster(_) | Self::Client(_) | Self::Read { .. } if matches!(word, Word::Check(_)) => {
                Exit::Unreadable
            }
            Self::Cluster(_)
            | Self::Client(_)
            | Self::System(_)
            | Self::Read { .. }
            | Self::Format(_)
            | Self::Missing(_) => Exit::Failure,
        }
    }
}

/// Runs a command to its end.
#[must_use = "the process ends with it"]
pub fn run(order: &Order) -> Exit {
    let output = Output::of(order);
    let ended = match &order.word {
        Word::Completion(args) => complete(args.shell, order.program),
        Word::Crd => crds(),
        Word::Version => {
            output::print(&format!("flipop {} (commit {})\n", version::VERSION, version::COMMIT))
        }
        Word::Status(args) => on_cluster(order, async |session| status::run(session, args, output).await),
        Word::Plan(args) => on_cluster(order, async |session| plan::run(session, order, args, output).await),
        Word::Check(args) => {
            on_cluster(order, async |session| check::run(session, order, args, output).await)
        }
        Word::Move(args) => {
            on_cluster(order, async |session| steer::move_address(session, args, output).await)
        }
        Word::Pause(PauseArgs { which, waiting, reason, .. }) => on_cluster(order, async |session| {
            steer::pause(session, which, Some(reason), waiting.wait, output).await
        }),
        Word::Resume(ResumeArgs { which, waiting, .. }) => {
            on_cluster(order, async |session| steer::pause(session, which, None, waiting.wait, output).await)
        }
        Word::Dashboard(args) => {
            on_cluster(order, async |session| dashboard::run(session, args, output).await)
        }
    };
    ended.unwrap_or_else(|error| {
        output::complain(&error.to_string());
        error.exit(&order.word)
    })
}

fn on_cluster(
    order: &Order,
    work: impl AsyncFnOnce(&Session) -> Result<Exit, CommandError>,
) -> Result<Exit, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async { work(&Session::new(order)?).await });
    // An unfinished call must not keep the process alive.
    runtime.shutdown_background();
    ended
}

fn crds() -> Result<Exit, CommandError> {
    let yaml = api::crd::all_yaml().map_err(|error| CommandError::Format(error.to_string()))?;
    output::print(&yaml)
}

fn complete(shell: crate::config::cli_args::Shell, program: &str) -> Result<Exit, CommandError> {
    use crate::config::cli_args::Shell as Asked;
    let shell = match shell {
        Asked::Bash => Shell::Bash,
        Asked::Zsh => Shell::Zsh,
        Asked::Fish => Shell::Fish,
    };
    // A shell completes by the name of a file. kubectl completes its plugins through a file of another name.
    let (mut command, name) = if program == "flipop" {
        (crate::config::command_line(), "flipop")
    } else {
        (crate::config::plugin_command_line(), crate::config::PLUGIN)
    };
    let mut script = Vec::new();
    if (shell, name) == (Shell::Bash, crate::config::PLUGIN) {
        // clap_complete 4.6 writes a script that never finds the words of a command whose name has a hyphen.
        generate(shell, &mut command, "kubectl_flipop", &mut script);
        script.extend_from_slice(b"complete -F _kubectl_flipop -o bashdefault -o default kubectl-flipop\n");
    } else {
        generate(shell, &mut command, name, &mut script);
    }
    output::print(&String::from_utf8_lossy(&script))
}

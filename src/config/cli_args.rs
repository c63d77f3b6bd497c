//! The commands of the command line, with their flags.
//!
//! Owns their names, help texts and forms. Does not own what they do (`crate::command`), nor the operator's own flags.
//! A flattened field has no doc comment, because that would replace the text of the command.

use crate::version::VERSION;
use clap::{Arg, ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The end of a command's help: an example, and the exit codes.
macro_rules! ending {
    ($example:literal) => {
        ending!($example, "0  done\n  1  failed, refused, not found, or not met in time")
    };
    ($example:literal, $codes:literal) => {
        concat!(
            "Example:\n  flipop ",
            $example,
            "\n\nExit codes:\n  ",
            $codes,
            "\n  64 a flag or an argument is missing or wrong"
        )
    };
}

/// Shows assignments and their reasons, plans changes, and controls FLIPOP.
#[derive(Debug, Parser)]
#[command(name = "kubectl flipop", bin_name = "kubectl flipop", version = VERSION)]
pub(super) struct Plugin {
    /// The command
    #[command(subcommand)]
    pub(super) word: Word,
}

/// A command, which replaces the work of the operator.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Word {
    /// Show which node has which address and why, the queue of nodes, and the DNS records
    #[command(after_help = ending!("status -n default fipool/web"))]
    Status(StatusArgs),
    /// Show what FLIPOP would change, without changing anything; objects need not be installed yet
    #[command(after_help = ending!(
        "plan -f pool.yaml",
        "0  nothing to do\n  1  the cluster or a provider cannot be read\n  3  there are changes\n  4  an object is invalid\n  \
         5  the plan did not settle"
    ))]
    Plan(PlanArgs),
    /// Check the installation: CRDs, rights, policies, Lease, tokens, zones, nodes
    #[command(after_help = ending!(
        "check --env-file tokens.env",
        "0  no line has a failure\n  1  a line has a failure\n  2  the cluster cannot be read"
    ))]
    Check(CheckArgs),
    /// Move an address of a pool to a node
    #[command(after_help = ending!("move web 203.0.113.10 edge-3"))]
    Move(MoveArgs),
    /// Pause objects: FLIPOP starts no new operations for them
    #[command(after_help = ending!("pause fipool/web --reason 'incident 7'"))]
    Pause(PauseArgs),
    /// Resume paused objects
    #[command(after_help = ending!("resume --all -A"))]
    Resume(ResumeArgs),
    /// Forward a local port to the leader and print the address of its web page
    #[command(after_help = ending!("dashboard --port 8099"))]
    Dashboard(DashboardArgs),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = ending!("completion bash"))]
    Completion(CompletionArgs),
    /// Print the custom resource definitions as YAML
    #[command(after_help = ending!("crd > crds.yaml"))]
    Crd,
    /// Print version and commit
    #[command(after_help = ending!("version"))]
    Version,
}

/// Which cluster to use, and how to print.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Common {
    /// Path of a kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "PATH", value_parser = path)]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current-context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Namespace of the objects [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Objects of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Namespace in which the operator runs
    #[arg(long, value_name = "NAME", default_value = "flipop")]
    pub operator_namespace: String,

    /// Format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    pub output: Format,

    /// Print without colors and symbols
    #[arg(long)]
    pub no_color: bool,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Tables for people
    #[default]
    Table,
    /// Tables with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Flags of `status`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Objects as NAME, fipool/NAME or nodedns/NAME [default: all of the namespace]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Print again every two seconds until interrupted
    #[arg(short, long)]
    pub watch: bool,
}

/// Flags of `plan`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub(crate) common: Common,

    /// File or directory of objects that replace or join the installed ones; - is standard input
    #[arg(short, long = "filename", value_name = "FILE", value_parser = path)]
    pub files: Vec<PathBuf>,

    /// Read addresses, records and firewalls from the providers
    ///
    /// Without this flag, the plan uses the status of each object. The tokens come from the same variables as the
    /// operator's. Nothing is written to the providers.
    #[arg(long)]
    pub with_provider: bool,

    /// File with the tokens as lines NAME=VALUE, in place of the environment
    #[arg(long, value_name = "FILE", value_parser = path, requires = "with_provider")]
    pub env_file: Option<PathBuf>,

    /// Plan again every two seconds until interrupted
    #[arg(short, long)]
    pub watch: bool,
}

/// Flags of `check`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub(crate) common: Common,

    /// File with the tokens as lines NAME=VALUE, in place of the environment
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub env_file: Option<PathBuf>,

    /// List what an uninstall would leave behind
    #[arg(long)]
    pub uninstall: bool,
}

/// Whether to wait for the outcome.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(mut_args(as_in_go))]
pub struct Waiting {
    /// Wait up to 60 s for the outcome; --wait=false returns at once
    ///
    /// BOOL is as for the operator's flag --debug.
    #[arg(long, value_name = "BOOL", default_value = "true")]
    pub wait: bool,
}

/// Flags of `move`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(flatten)]
    pub(crate) waiting: Waiting,

    /// The pool as NAME or fipool/NAME
    pub pool: String,

    /// Address to move
    #[arg(value_name = "IP")]
    pub ip: std::net::Ipv4Addr,

    /// Name of the node that is to get the address
    pub node: String,
}

/// Flags of `pause`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(flatten)]
    pub(crate) waiting: Waiting,

    #[command(flatten)]
    pub(crate) which: Which,

    /// The reason, for other users
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// Flags of `resume`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(flatten)]
    pub(crate) waiting: Waiting,

    #[command(flatten)]
    pub(crate) which: Which,
}

/// Which objects.
#[derive(Debug, Clone, PartialEq, Args)]
#[group(id = "which", required = true, multiple = false)]
pub struct Which {
    /// Objects as NAME, fipool/NAME or nodedns/NAME
    #[arg(value_name = "NAME")]
    pub objects: Vec<String>,

    /// Every object of both kinds in the namespace, or with -A in the cluster; resume takes the paused ones
    #[arg(long)]
    pub all: bool,
}

/// Flags of `dashboard`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DashboardArgs {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Local port; 0 lets the system choose
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

/// Flags of `completion`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: Shell,
}

/// A shell with completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

impl Word {
    /// The flags about cluster and output, of a command that talks to a cluster.
    pub fn common(&self) -> Option<&Common> {
        match self {
            Self::Status(StatusArgs { common, .. })
            | Self::Plan(PlanArgs { common, .. })
            | Self::Check(CheckArgs { common, .. })
            | Self::Move(MoveArgs { common, .. })
            | Self::Pause(PauseArgs { common, .. })
            | Self::Resume(ResumeArgs { common, .. })
            | Self::Dashboard(DashboardArgs { common, .. }) => Some(common),
            Self::Completion(_) | Self::Crd | Self::Version => None,
        }
    }
}

/// An empty path is parsed like any other, so that `--kubeconfig=` can unset.
#[expect(clippy::unnecessary_wraps, reason = "the signature that clap asks for")]
pub(super) fn path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

/// Reads a BOOL as Go does. The flag alone means true.
pub(super) fn as_in_go(arg: Arg) -> Arg {
    if arg.get_value_names().is_none_or(|names| names != ["BOOL"]) {
        return arg;
    }
    let arg = arg.action(ArgAction::Set).value_parser(go_bool).hide_default_value(true);
    arg.num_args(0..=1).require_equals(true).default_missing_value("true")
}

/// Accepts the words of Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::Plugin;
    use clap::CommandFactory as _;

    #[test]
    fn the_help_of_each_command_has_an_example_and_the_exit_codes() {
        for mut command in Plugin::command().get_subcommands().cloned() {
            let (name, help) = (command.get_name().to_owned(), command.render_help().to_string());
            assert!(help.contains(&format!("Example:\n  flipop {name}")), "{help}");
            assert!(help.contains("Exit codes:\n  0  ") && help.contains("\n  64 a flag"), "{help}");
        }
    }
}

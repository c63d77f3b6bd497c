//! The command line, parsed as Go's pflag parses it: the last of repeated flags wins, a bare `--debug` is true.

use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;

/// Keeps reserved IPs and DNS A records on healthy, matching nodes.
#[derive(Debug, Parser)]
#[command(name = "flipop", version, args_override_self = true)]
pub(super) struct Flags {
    /// Path of a kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "PATH", allow_hyphen_values = true, value_parser = path)]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Address of metrics and health endpoints; empty turns them off
    #[arg(long, value_name = "ADDR", default_value = ":8080", allow_hyphen_values = true)]
    pub(super) metrics_bind_addr: String,

    /// Log at debug level
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", hide_default_value = true,
        action = clap::ArgAction::Set, value_parser = go_bool
    )]
    pub(super) debug: bool,

    /// Keep the records when no node matches any more, where a record set has no whenEmpty
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", hide_default_value = true,
        action = clap::ArgAction::Set, value_parser = go_bool
    )]
    pub(super) keep_last_record: bool,

    /// Words that belong to no flag. The Go operator ignores them, and manifests that work are to go on working.
    #[arg(hide = true)]
    pub(super) ignored: Vec<OsString>,

    /// What to do instead of running the operator
    #[command(subcommand)]
    pub(super) command: Option<Subcommand>,
}

/// What to do instead of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Subcommand)]
pub(super) enum Subcommand {
    /// Print the custom resource definitions as YAML
    Crd,
}

/// An empty path is parsed like any other, so that `--kubeconfig=` can unset.
#[expect(clippy::unnecessary_wraps, reason = "the signature that clap asks for")]
fn path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

/// The words of Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

//! The command line, parsed as Go's pflag parses it: the last of repeated flags wins, and a bare `--debug` means true.

use super::ConfigError;
use super::agent::AgentConfig;
use super::cli_args::{Plugin, Word, as_in_go, path};
use crate::version::VERSION;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser};
use flipop_core::records::name::Zones;
use std::ffi::OsString;
use std::iter::once;
use std::path::{Path, PathBuf};

/// The task that the arguments ask for.
#[derive(Debug)]
pub(super) enum Asked {
    /// Run the operator. The number counts the words that belong to no flag.
    Operator(Flags, usize),
    /// Run this command.
    Command(Word),
    /// Run the agent of a node.
    Agent(Box<AgentConfig>),
}

/// The command that runs until it is stopped.
const AGENT: &str = "agent";

/// The name by which kubectl calls its plugin.
pub(crate) const PLUGIN: &str = "kubectl-flipop";

/// Parses the arguments. The first one is the program's name.
///
/// Only the next argument can be a command. With `in_pod`, an unknown word there is ignored, as by the Go operator, so
/// that existing manifests keep working. Elsewhere the unknown word is a typing error, and the user gets the help.
/// Under the name of the plugin the operator never runs.
pub(super) fn parse(arguments: &[OsString], in_pod: bool) -> Result<Asked, ConfigError> {
    let first = arguments.get(1).map(|word| word.to_string_lossy());
    if is_plugin(arguments) {
        return plugin(arguments, first.as_deref());
    }
    match first.as_deref() {
        Some(word) if is_command::<CommandLine>(word) => match CommandLine::try_parse_from(arguments) {
            Ok(CommandLine { command: Some(Called::Word(word)), .. }) => Ok(Asked::Command(word)),
            Ok(CommandLine { command: Some(Called::Agent(flags)), .. }) => Ok(Asked::Agent(flags)),
            Ok(CommandLine { command: None, flags }) => Ok(Asked::Operator(flags, 0)),
            // The agent runs in a container, as the operator does.
            Err(error) if word == AGENT => Err(error.into()),
            Err(error) => Err(of_command(error)),
        },
        Some(word) if !word.starts_with('-') && !in_pod => Err(unknown::<CommandLine>(Some(word))),
        Some(_) | None => match Operator::try_parse_from(arguments) {
            Ok(Operator { flags, ignored }) => Ok(Asked::Operator(flags, ignored.len())),
            Err(error) if error.kind() == ErrorKind::DisplayHelp => Err(help(arguments).into()),
            Err(error) => Err(error.into()),
        },
    }
}

pub(super) fn is_plugin(arguments: &[OsString]) -> bool {
    let name = arguments.first().and_then(|name| Path::new(name).file_name());
    name.is_some_and(|name| name == PLUGIN)
}

fn is_command<P: CommandFactory>(word: &str) -> bool {
    P::command().find_subcommand(word).is_some() || word == "help"
}

fn plugin(arguments: &[OsString], first: Option<&str>) -> Result<Asked, ConfigError> {
    if first.is_none_or(|word| !word.starts_with('-') && !is_command::<Plugin>(word)) {
        return Err(unknown::<Plugin>(first));
    }
    let Plugin { word } = Plugin::try_parse_from(arguments).map_err(of_command)?;
    Ok(Asked::Command(word))
}

/// The word is not repeated: it may be a token whose flag is missing.
fn unknown<P: Parser>(word: Option<&str>) -> ConfigError {
    let refused = word.and_then(|word| P::try_parse_from([PLUGIN, word]).err());
    let suggested = refused.as_ref().and_then(|refused| refused.get(ContextKind::SuggestedSubcommand));
    let nearest = match suggested {
        Some(ContextValue::Strings(names)) => names.last(),
        Some(_) | None => None,
    };
    let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
    ConfigError::UnknownCommand { hint, help: P::command().render_help().to_string() }
}

/// Asking for help is not an error.
fn of_command(error: clap::Error) -> ConfigError {
    if error.use_stderr() { ConfigError::CommandUsage(error) } else { ConfigError::Usage(error) }
}

/// The whole command line.
pub fn command_line() -> clap::Command {
    CommandLine::command()
}

/// The whole command line under the name of kubectl's plugin.
pub fn plugin_command_line() -> clap::Command {
    Plugin::command()
}

/// The help that lists the commands too. A `clap::Error` made by hand would begin with "error:".
fn help(arguments: &[OsString]) -> clap::Error {
    let long = arguments.iter().any(|argument| argument == "--help");
    match CommandLine::try_parse_from(["flipop", if long { "--help" } else { "-h" }]) {
        Err(help) => help,
        Ok(_) => CommandLine::command().error(ErrorKind::DisplayHelp, command_line().render_help()),
    }
}

/// Keeps reserved IPs and DNS A records on healthy, matching nodes.
///
/// Without a command it runs the operator. Only the first argument can be a command.
#[derive(Debug, Parser)]
#[command(name = "flipop", version = VERSION, args_override_self = true)]
struct CommandLine {
    #[command(flatten)]
    flags: Flags,
    /// A command, which replaces the work of the operator
    #[command(subcommand)]
    command: Option<Called>,
}

/// The operator's own arguments.
#[derive(Debug, Parser)]
#[command(name = "flipop", version = VERSION, args_override_self = true)]
struct Operator {
    #[command(flatten)]
    flags: Flags,
    /// Words that belong to no flag. The Go operator ignores them, so existing manifests may contain some.
    #[arg(hide = true)]
    ignored: Vec<OsString>,
}

/// The flags of the operator.
#[derive(Debug, Args)]
#[command(mut_args(as_in_go))]
pub(super) struct Flags {
    /// Path of a kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "PATH", allow_hyphen_values = true, value_parser = path)]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Address of metrics and health endpoints; empty turns them off
    ///
    /// Write host:port, :port (every IPv4 and IPv6 address of the machine) or [ipv6]:port. If you turn the endpoints
    /// off, remove both probes from the Deployment, or the kubelet restarts the pods.
    #[arg(long, value_name = "ADDR", default_value = ":8080", allow_hyphen_values = true)]
    pub(super) metrics_bind_addr: String,

    /// Log at debug level
    ///
    /// BOOL is 1, t, T, true, True or TRUE, or 0, f, F, false, False or FALSE. The flag alone means true.
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub(super) debug: bool,

    /// Keep the last records of a NodeDNSRecordSet without whenEmpty when no node matches
    ///
    /// The default of whenEmpty is then Keep instead of Delete. The log says so when the operator starts. BOOL is as
    /// for --debug.
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub(super) keep_last_record: bool,

    /// Write records only in these zones, and in zones below them [default: in all]
    ///
    /// Names of zones, or ids of zones at Cloudflare, separated by commas. In any other zone records stay as they are.
    #[arg(long, value_name = "ZONES", default_value = "", hide_default_value = true)]
    pub(super) zones: String,

    /// Create no address in an account that has this many [default: no limit]
    ///
    /// Every address of the account counts, whoever created it.
    #[arg(long, value_name = "NUMBER", default_value = "", hide_default_value = true)]
    pub(super) max_addresses: String,

    /// Serve the web page, and /debug behind it, to requests from this machine
    ///
    /// With --page=false both answer with 404. BOOL is as for --debug.
    #[arg(long, value_name = "BOOL", default_value = "true")]
    pub(super) page: bool,
}

/// A command, which replaces the work of the operator.
#[derive(Debug, Clone, clap::Subcommand)]
enum Called {
    #[command(flatten)]
    Word(Word),

    /// Send the outbound traffic of this node's pods from its reserved IP
    ///
    /// It runs on each node, as root in the host's network, and follows the node's annotation and the metadata service
    /// of the droplet.
    #[command(args_override_self = true)]
    Agent(Box<AgentConfig>),
}

/// The largest value of `--max-addresses`. No account has as many.
const MAX_ADDRESSES: usize = 100_000;

/// The flags that change what the operator decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionFlags {
    /// `--keep-last-record`.
    pub keep_last_record: bool,
    /// `--zones`.
    pub zones: Zones,
    /// `--max-addresses`.
    pub max_addresses: Option<usize>,
}

impl DecisionFlags {
    pub(super) fn new(flags: &Flags) -> Result<Self, ConfigError> {
        let zones = Zones::parse(&flags.zones);
        Ok(Self {
            keep_last_record: flags.keep_last_record,
            zones: zones.map_err(|error| ConfigError::invalid("--zones", error.to_string()))?,
            max_addresses: max_addresses(&flags.max_addresses)?,
        })
    }

    /// The flags of an operator that a container runs with these words. `None`: the words are not understood.
    pub fn of_container<'a>(words: impl IntoIterator<Item = &'a String>) -> Option<Self> {
        let flags = words.into_iter().skip_while(|word| !word.starts_with('-')).map(OsString::from);
        let words: Vec<OsString> = once("flipop".into()).chain(flags).collect();
        match parse(&words, true).ok()? {
            Asked::Operator(flags, _) => Self::new(&flags).ok(),
            Asked::Agent(_) | Asked::Command(_) => None,
        }
    }
}

fn max_addresses(text: &str) -> Result<Option<usize>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number| (1..=MAX_ADDRESSES).contains(number));
    let problem = || format!("{text:?} is not a number from 1 to {MAX_ADDRESSES}");
    number.map(Some).ok_or_else(|| ConfigError::invalid("--max-addresses", problem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_answered_with_the_nearest_one() {
        for (word, hint) in
            [("statsu", "; did you mean status?"), ("pasue", "; did you mean pause?"), ("s3cret", "")]
        {
            for program in ["flipop", "/usr/local/bin/kubectl-flipop"] {
                let answer = parse(&[program.into(), word.into()], false);
                let is =
                    matches!(&answer, Err(ConfigError::UnknownCommand { hint: found, .. }) if found == hint);
                assert!(is, "{program} {word}: {answer:?}");
            }
        }
    }

    #[test]
    fn the_flags_of_a_container_are_those_of_the_operator_in_it() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            DecisionFlags::of_container(&words)
        };
        assert_eq!(of(&["/app/flipop"]), Some(DecisionFlags::default()));
        let zones = Zones::parse("example.com,0da42c8d").unwrap();
        let all = DecisionFlags { keep_last_record: true, zones, max_addresses: Some(7) };
        let words = ["--zones", "Example.com,0da42c8d", "--max-addresses=7", "--keep-last-record", "--debug"];
        assert_eq!(of(&words).as_ref(), Some(&all), "the entry point of the image names the program");
        assert_eq!(of(&[&["/app/flipop"], &words[..]].concat()), Some(all));
        for unclear in ["--no-such-flag", "--zones=$(ZONES)", "--max-addresses=many"] {
            assert_eq!(of(&["/app/flipop", unclear]), None, "{unclear}");
        }
    }
}

//! Flags and environment. Only this module reads them.
//!
//! It owns their names, defaults and validation, and hands over typed values. Other modules open the kubeconfig, token
//! files and addresses that the values name. An empty variable counts as unset. Invariant: an error names the variable
//! or flag to correct, and never shows a secret.

mod agent;
pub mod cli_args;
mod flags;
mod provider;
mod variables;

pub use agent::{AgentConfig, Egress, WhenAbsent};
pub(crate) use flags::PLUGIN;
pub use flags::{DecisionFlags, command_line, plugin_command_line};
pub use provider::ProviderVariables;
pub use variables::{DescribedVariable, Variable, described_variables};

use crate::kube::kubeconfig::{ClusterSettings, SERVICE_ACCOUNT_DIR};
use crate::provider::{PROVIDERS, ProviderConfigs};
use crate::proxy::ProxySettings;
use cli_args::Word;
use flags::Asked;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The task of the process.
#[derive(Debug)]
pub enum Invocation {
    /// Run the operator.
    Run(Box<Config>),
    /// Run the agent of a node.
    Agent(Box<AgentConfig>),
    /// Run this command.
    Command(Box<Order>),
}

/// One command, with the settings that it may use.
#[derive(Debug)]
pub struct Order {
    /// The command.
    pub word: Word,
    /// How to find the API server.
    pub cluster: ClusterSettings,
    /// How to use the providers. Only the commands that ask providers read this.
    pub providers: ProviderVariables,
    /// `NO_COLOR` is set.
    pub no_color: bool,
    /// The name by which the process was called.
    pub program: &'static str,
}

/// Where to serve metrics and health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindAddress {
    /// Host name or address. Empty means all addresses, IPv4 and IPv6.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// All settings from outside the cluster.
#[derive(Debug, Clone)]
pub struct Config {
    /// `--debug`.
    pub debug: bool,
    /// The flags that change decisions.
    pub decisions: DecisionFlags,
    /// `--page`.
    pub page: bool,
    /// How many arguments belong to no flag. The words themselves are not kept: one may be a token whose flag is
    /// missing.
    pub ignored_arguments: usize,
    /// `--metrics-bind-addr`. `None` if it is empty: serve nothing.
    pub metrics: Option<BindAddress>,
    /// How to find the API server and our namespace.
    pub cluster: ClusterSettings,
    /// How to use each provider that may be used.
    pub providers: ProviderConfigs,
    /// Name of this host: in a pod, the pod's name.
    pub hostname: String,
    /// Name of the node that the process runs on, if known.
    pub node: Option<String>,
}

/// A mistake in the flags or the environment.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The flags are wrong. Also help and version, which clap treats as errors: print it and exit with its code.
    #[error("{0}")]
    Usage(#[from] clap::Error),
    /// The flags of a command are wrong.
    #[error("{0}")]
    CommandUsage(clap::Error),
    /// The first argument is not a command. The error does not repeat the word: it may be a token whose flag is
    /// missing.
    #[error("missing or unknown command{hint}\n\n{help}")]
    UnknownCommand {
        /// The command that is written almost like it, as the end of the sentence.
        hint: String,
        /// The help to print.
        help: String,
    },
    /// No provider has a token.
    #[error(
        "failed to find a provider token: set {} (or their _FILE variants: {})",
        provider::token_variables(),
        provider::token_file_variables()
    )]
    NoProvider,
    /// One variable or flag.
    #[error("failed to use {name}: {problem}")]
    Invalid {
        /// The variable or flag.
        name: &'static str,
        /// The mistake, without secrets.
        problem: String,
    },
    /// One variable that a command needs. Told like any other, but a command ends with an exit code of its own.
    #[error("{0}")]
    CommandVariable(Box<ConfigError>),
}

impl ConfigError {
    fn invalid(name: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { name, problem: problem.into() }
    }
}

/// The environment, by variable.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Invocation {
    /// Reads the process's own arguments and environment.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn from_process() -> Result<Self, ConfigError> {
        #[expect(clippy::disallowed_methods, reason = "this is the environment's home")]
        let env = |name: &str| std::env::var(name).ok();
        Self::from_parts(std::env::args_os(), &env)
    }

    /// Reads given arguments (the first is the program's name) and a given environment.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn from_parts<I, A>(arguments: I, env: Environment<'_>) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        Self::read(&arguments, env, Path::new(SERVICE_ACCOUNT_DIR))
    }

    fn read(
        arguments: &[OsString],
        env: Environment<'_>,
        service_account: &Path,
    ) -> Result<Self, ConfigError> {
        let no_color = Variable::NoColor.read(env).is_some();
        let providers = ProviderVariables::of(env);
        let proxies = variables::proxies(env);
        let mut cluster = cluster(env, service_account);
        let (flags, ignored_arguments) = match flags::parse(arguments, cluster.has_service_account())? {
            Asked::Command(word) => {
                let common = word.common().cloned();
                if common.is_some() {
                    cluster.proxy = proxies.map_err(|error| ConfigError::CommandVariable(Box::new(error)))?;
                }
                cluster.kubeconfig = common.as_ref().and_then(|common| common.kubeconfig.clone());
                cluster.context = common.and_then(|common| common.context);
                let plugin = flags::is_plugin(arguments);
                let program = if plugin { "kubectl flipop" } else { "flipop" };
                return Ok(Self::Command(Box::new(Order { word, cluster, providers, no_color, program })));
            }
            Asked::Agent(mut config) => {
                cluster.proxy = proxies?;
                config.complete(cluster)?;
                return Ok(Self::Agent(config));
            }
            Asked::Operator(flags, ignored) => (flags, ignored),
        };
        cluster.proxy = proxies?;
        let decisions = DecisionFlags::new(&flags)?;
        cluster.kubeconfig = flags.kubeconfig.filter(|path| !path.as_os_str().is_empty());
        let providers = providers.read()?;
        if providers.is_empty() {
            return Err(ConfigError::NoProvider);
        }
        Ok(Self::Run(Box::new(Config {
            debug: flags.debug,
            decisions,
            page: flags.page,
            ignored_arguments,
            metrics: bind_address(&flags.metrics_bind_addr)?,
            cluster,
            providers,
            node: Variable::NodeName.read(env),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        })))
    }
}

impl Config {
    /// The providers that may be used, by their names in specs.
    pub fn provider_names(&self) -> Vec<&'static str> {
        let known = PROVIDERS.iter().map(|provider| provider.descriptor.name);
        known.filter(|name| self.providers.contains_key(name)).collect()
    }

    /// The identity of this process in the Lease: `<hostname>_<uuid>`. Each call returns a new one.
    pub fn new_identity(&self) -> String {
        format!("{}_{}", self.hostname, uuid::Uuid::new_v4())
    }
}

/// Splits `host:port` as Go's `net.Listen` does.
fn bind_address(text: &str) -> Result<Option<BindAddress>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = || {
        let problem = format!("{text:?} is not an address; write host:port, :port or [ipv6]:port");
        ConfigError::invalid("--metrics-bind-addr", problem)
    };
    let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
    let port = port.parse().map_err(|_| invalid())?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if bare.is_none() && host.contains(':') {
        return Err(invalid());
    }
    Ok(Some(BindAddress { host: bare.unwrap_or(host).to_owned(), port }))
}

fn cluster(env: Environment<'_>, service_account: &Path) -> ClusterSettings {
    let paths = Variable::Kubeconfig.read(env);
    let paths = paths.iter().flat_map(std::env::split_paths);
    ClusterSettings {
        kubeconfig: None,
        context: None,
        kubeconfig_list: paths.filter(|path| !path.as_os_str().is_empty()).collect(),
        home: Variable::Home.read(env).map(PathBuf::from),
        pod_namespace: Variable::PodNamespace.read(env),
        service: Variable::KubernetesServiceHost.read(env).zip(Variable::KubernetesServicePort.read(env)),
        service_account_dir: service_account.to_owned(),
        proxy: ProxySettings::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str], env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let arguments = std::iter::once(&"/app/flipop").chain(arguments);
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        match Invocation::from_parts(arguments, &env)? {
            Invocation::Run(config) => Ok(*config),
            Invocation::Agent(_) | Invocation::Command(_) => panic!("not the operator"),
        }
    }

    const TOKEN: (&str, &str) = ("DIGITALOCEAN_ACCESS_TOKEN", "t0ken");

    fn with(arguments: &[&str]) -> Config {
        run(arguments, &[TOKEN]).expect("valid")
    }

    #[test]
    fn flags_mean_what_they_mean_to_pflag() {
        let config = with(&[]);
        assert!(!config.debug && config.decisions == DecisionFlags::default());
        assert_eq!(config.metrics, Some(BindAddress { host: String::new(), port: 8080 }));
        assert_eq!(config.cluster.kubeconfig, None);
        for on in ["--debug", "--debug=true", "--debug=1", "--debug=t", "--debug=T", "--debug=TRUE"] {
            assert!(with(&[on]).debug, "{on}");
        }
        for off in ["--debug=false", "--debug=0", "--debug=f", "--debug=F", "--debug=FALSE", "--debug=False"]
        {
            assert!(!with(&[off]).debug, "{off}");
        }
        assert!(!with(&["--debug", "--debug=false"]).debug, "the last one wins");
        assert!(with(&["--keep-last-record"]).decisions.keep_last_record);
        assert!(!with(&["--keep-last-record=false"]).decisions.keep_last_record);
        for (flag, refused) in [("--zones", "--zones=a b"), ("--max-addresses", "--max-addresses=many")] {
            let error = run(&[refused], &[TOKEN]).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
        assert!(with(&[]).page && with(&["--page"]).page && !with(&["--page=false"]).page);
        assert_eq!(with(&["--kubeconfig", "/a"]).cluster.kubeconfig, Some("/a".into()));
        assert_eq!(with(&["--kubeconfig=/a=b"]).cluster.kubeconfig, Some("/a=b".into()));
        assert_eq!(with(&["--kubeconfig="]).cluster.kubeconfig, None);
        for refused in [&["-debug"][..], &["--debug=yes"], &["--unknown"], &["--metrics-bind-addr"]] {
            let error = run(refused, &[TOKEN]).expect_err("refused");
            assert!(matches!(error, ConfigError::Usage(_)), "{refused:?}");
        }
    }

    /// As in a pod, whose service account is in this folder.
    fn in_pod(arguments: &[&str], service_account: &Path) -> Result<Invocation, ConfigError> {
        let variables = [TOKEN, ("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
        let env =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let arguments: Vec<OsString> =
            std::iter::once(&"/app/flipop").chain(arguments).map(OsString::from).collect();
        Invocation::read(&arguments, &env, service_account)
    }

    #[test]
    fn in_a_pod_arguments_that_belong_to_no_flag_are_counted_and_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "t").unwrap();
        let config = |arguments: &[&str]| match in_pod(arguments, folder.path()) {
            Ok(Invocation::Run(config)) => *config,
            other => panic!("{arguments:?}: {other:?}"),
        };
        let stray =
            config(&["run", "--debug", "false", "", "--kubeconfig", "/a", "--", "--keep-last-record"]);
        assert_eq!(stray.ignored_arguments, 4);
        assert!(stray.debug && !stray.decisions.keep_last_record);
        assert_eq!(stray.cluster.kubeconfig, Some("/a".into()));
        assert_eq!(config(&["run", "crd"]).ignored_arguments, 2);
        assert_eq!(config(&[""]).ignored_arguments, 1);
        assert_eq!(config(&["--debug"]).ignored_arguments, 0);
        assert!(matches!(in_pod(&["a", "--unknown"], folder.path()), Err(ConfigError::Usage(_))));
    }

    #[test]
    fn outside_a_pod_an_unknown_first_word_is_answered_with_the_help_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        for arguments in [&["s3cret"][..], &["s3cret", "--debug"], &[""], &["s3cret", "crd"]] {
            for answer in [
                run(arguments, &[TOKEN]).expect_err("refused"),
                // The variables of a pod alone, as with a shell in one.
                in_pod(arguments, folder.path()).expect_err("refused"),
            ] {
                assert!(matches!(answer, ConfigError::UnknownCommand { .. }), "{arguments:?}: {answer:?}");
                let text = answer.to_string();
                assert!(!text.contains("s3cret") && text.contains("version     Print version"), "{text}");
            }
        }
    }

    #[test]
    fn only_the_first_argument_can_be_a_command_and_a_known_one_works_everywhere() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "t").unwrap();
        let is = |asked: Result<Invocation, ConfigError>, word: &Word| match asked {
            Ok(Invocation::Command(order)) => order.word == *word,
            _ => false,
        };
        assert!(is(in_pod(&["crd"], folder.path()), &Word::Crd));
        assert!(is(in_pod(&["version"], folder.path()), &Word::Version));
        let alone = |words: &[&str]| Invocation::from_parts(words, &|_| None);
        assert!(is(alone(&["flipop", "crd"]), &Word::Crd));
        assert!(is(alone(&["flipop", "version"]), &Word::Version));
        assert_eq!(with(&["--debug", "crd"]).ignored_arguments, 1);
        assert_eq!(with(&["--kubeconfig", "/a", "version"]).ignored_arguments, 1);
        for refused in [&["flipop", "crd", "--no-such-flag"][..], &["flipop", "version", "word"]] {
            assert!(matches!(alone(refused), Err(ConfigError::CommandUsage(_))), "{refused:?}");
        }
    }

    #[test]
    fn under_the_name_of_the_plugin_it_is_never_the_operator() {
        let plugin = |words: &[&str]| {
            let words = std::iter::once(&"/usr/local/bin/kubectl-flipop").chain(words);
            Invocation::from_parts(words, &|name| (name == TOKEN.0).then(|| TOKEN.1.to_owned()))
        };
        for unknown in [&[][..], &["s3cret"], &["operator", "--debug"]] {
            let Err(error @ ConfigError::UnknownCommand { .. }) = plugin(unknown) else {
                panic!("{unknown:?}")
            };
            let text = error.to_string();
            assert!(!text.contains("s3cret") && text.contains("Usage: kubectl flipop"), "{text}");
        }
        for refused in [&["--debug"][..], &["status", "--no-such-flag"], &["--metrics-bind-addr", ""]] {
            assert!(matches!(plugin(refused), Err(ConfigError::CommandUsage(_))), "{refused:?}");
        }
        let Ok(Invocation::Command(order)) = plugin(&["status", "web", "-A", "--context", "c"]) else {
            panic!("no command")
        };
        assert!(matches!(order.word, Word::Status(_)) && order.cluster.context.as_deref() == Some("c"));
        assert!(order.providers.read().unwrap().contains_key("digitalocean"));
    }

    #[test]
    fn the_help_names_the_commands_however_it_is_asked_for() {
        for words in [&["flipop", "--help"][..], &["flipop", "help"], &["flipop", "--debug", "-h"]] {
            let Err(ConfigError::Usage(help)) = Invocation::from_parts(words, &|_| None) else {
                panic!("{words:?}")
            };
            let text = help.to_string();
            assert!(text.contains("  crd         Print") && text.contains("--keep-last-record"), "{text}");
            assert!(text.starts_with("Keeps reserved IPs"), "{words:?}: {text}");
            assert_eq!(help.exit_code(), 0, "{words:?}");
        }
    }

    #[test]
    fn an_address_is_host_and_port_and_empty_means_off() {
        let address = |text: &str| run(&["--metrics-bind-addr", text], &[TOKEN]).map(|config| config.metrics);
        let some = |host: &str, port| Some(BindAddress { host: host.to_owned(), port });
        assert_eq!(address("").unwrap(), None);
        assert_eq!(address("127.0.0.1:0").unwrap(), some("127.0.0.1", 0));
        assert_eq!(address("[::1]:9090").unwrap(), some("::1", 9090));
        assert_eq!(address("localhost:1").unwrap(), some("localhost", 1));
        for bad in ["8080", ":x", "::1:80", ":70000", "a:"] {
            let error = address(bad).expect_err(bad).to_string();
            assert!(error.contains("--metrics-bind-addr"), "{error}");
        }
    }

    #[test]
    fn without_a_token_the_error_names_both_variables() {
        for env in [&[][..], &[("DIGITALOCEAN_ACCESS_TOKEN", ""), ("CLOUDFLARE_TOKEN", "")]] {
            let error = run(&[], env).expect_err("no provider").to_string();
            assert_eq!(
                error,
                "failed to find a provider token: set DIGITALOCEAN_ACCESS_TOKEN or CLOUDFLARE_TOKEN (or their _FILE \
                 variants: DIGITALOCEAN_ACCESS_TOKEN_FILE, CLOUDFLARE_TOKEN_FILE)"
            );
        }
    }

    #[test]
    fn the_environment_describes_the_cluster_and_empty_variables_do_not_count() {
        let config = run(
            &[],
            &[
                TOKEN,
                ("KUBECONFIG", "/a::/b"),
                ("POD_NAMESPACE", ""),
                ("HOME", "/home/x"),
                ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
                ("KUBERNETES_SERVICE_PORT", "443"),
                ("HTTPS_PROXY", ""),
                ("https_proxy", "http://p:1"),
            ],
        );
        let cluster = config.unwrap().cluster;
        assert_eq!(cluster.kubeconfig_list, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(cluster.pod_namespace, None);
        assert_eq!(cluster.home, Some("/home/x".into()));
        assert_eq!(cluster.service, Some(("10.0.0.1".to_owned(), "443".to_owned())));
        assert_eq!(cluster.proxy.https.unwrap().to_string(), "http://p:1 (https_proxy)");
    }

    #[test]
    fn identities_begin_with_the_host_and_never_repeat() {
        let config = with(&[]);
        let (one, other) = (config.new_identity(), config.new_identity());
        assert!(one.starts_with(&format!("{}_", config.hostname)) && !config.hostname.is_empty());
        assert_ne!(one, other);
    }
}

//! The commands that can be typed while the sandbox serves.

use super::access::VERBS;
use flipop_cloud::Provider;
use std::net::Ipv4Addr;

/// A typed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Lists the commands.
    Help,
    /// Shows nodes, addresses and records.
    Show,
    /// A node's kubelet falls silent.
    Kill(String),
    /// The machine under a node dies.
    Crash(String),
    /// A node is cordoned, and its pods are evicted.
    Drain(String),
    /// A node is healthy again.
    Heal(String),
    /// One more node like this one.
    Add(String),
    /// Sets how many reserved IPs the account may have.
    Quota(usize),
    /// Whether a provider accepts the operator's token; `None` for both providers.
    Token(bool, Option<Provider>),
    /// Both providers answer 429 for this many seconds; `None` ends it.
    Throttle(Option<u64>),
    /// Whether DNS calls are answered.
    Dns(bool),
    /// Whether any call of a provider is answered.
    Providers(bool),
    /// Denies the operator a right: verb and resource.
    Deny(String, String),
    /// Allows everything again.
    Allow,
    /// Puts an address on a node by hand, or on none.
    Move(Ipv4Addr, Option<String>),
    /// Pauses the objects of this name, with a reason.
    Pause(String, String),
    /// Resumes them.
    Resume(String),
    /// Sets the annotation that asks for a move on the address's pool.
    Ask(Ipv4Addr, String),
    /// Somebody else takes the lease.
    Lease,
    /// Ends the sandbox.
    Quit,
}

/// Each command with its arguments and its effect.
pub(super) const HELP: [(&str, &str); 20] = [
    ("help", "this list"),
    ("show", "nodes, pods, addresses and records as they are"),
    ("kill NODE", "its kubelet falls silent, and Kubernetes marks it NotReady"),
    ("crash NODE", "its machine dies: no check is answered, and Kubernetes marks it NotReady 40 s later"),
    ("drain NODE", "cordons it and evicts its pods, which return on other nodes"),
    ("heal NODE", "ready and schedulable again, with a pod of each set"),
    ("add NODE", "one more node like this one; its set starts a pod there"),
    ("quota N", "the account may have N reserved IPs"),
    (
        "token bad|good [digitalocean|cloudflare]",
        "the provider refuses the operator's token, or accepts it again",
    ),
    ("throttle SECONDS|off", "both providers answer 429 for this long"),
    ("dns down|up", "both providers answer 503 to calls about DNS"),
    ("providers down|up", "both providers answer 503 to every call"),
    ("deny VERB RESOURCE", "the API server does not let the operator do this, as in `deny patch nodes`"),
    ("allow", "the operator may do everything again"),
    ("move IP NODE|nowhere", "moves an address by hand, as in the provider's control panel"),
    (
        "pause NAME [REASON]",
        "the operator starts no new operations for the pool or the record set of this name",
    ),
    ("resume NAME", "the operator acts for it again"),
    ("ask IP NODE", "asks the operator to move an address, with the annotation on its pool"),
    ("lease", "another process takes the lease and never renews it"),
    ("quit", "ends the sandbox, as Ctrl-C does"),
];

impl Command {
    /// Parses a line; `None` if it is empty.
    ///
    /// # Errors
    /// The mistake, and the correct form.
    pub(super) fn parse(line: &str) -> Result<Option<Self>, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((name, arguments)) = words.split_first() else { return Ok(None) };
        let name = name.to_ascii_lowercase();
        match Self::of(&name, arguments) {
            Some(command) => Ok(Some(command)),
            None => Err(usage(&name)),
        }
    }

    fn of(name: &str, arguments: &[&str]) -> Option<Self> {
        let text = |word: &&str| (*word).to_owned();
        Some(match (name, arguments) {
            ("help" | "?", []) => Self::Help,
            ("show", []) => Self::Show,
            ("kill", [node]) => Self::Kill(text(node)),
            ("crash", [node]) => Self::Crash(text(node)),
            ("drain", [node]) => Self::Drain(text(node)),
            ("heal", [node]) => Self::Heal(text(node)),
            ("add", [node]) => Self::Add(text(node)),
            ("quota", [number]) => Self::Quota(number.parse().ok()?),
            ("token", [state, rest @ ..]) => {
                let provider = match rest {
                    [] => None,
                    ["digitalocean"] => Some(Provider::DigitalOcean),
                    ["cloudflare"] => Some(Provider::Cloudflare),
                    _ => return None,
                };
                Self::Token(either(state, "good", "bad")?, provider)
            }
            ("throttle", ["off"]) => Self::Throttle(None),
            ("throttle", [seconds]) => Self::Throttle(Some(seconds.parse().ok().filter(|s| *s > 0)?)),
            ("dns", [state]) => Self::Dns(either(state, "up", "down")?),
            ("providers", [state]) => Self::Providers(either(state, "up", "down")?),
            ("deny", [verb, resource]) if VERBS.contains(verb) => Self::Deny(text(verb), text(resource)),
            ("allow", []) => Self::Allow,
            ("move", [ip, "nowhere"]) => Self::Move(ip.parse().ok()?, None),
            ("move", [ip, node]) => Self::Move(ip.parse().ok()?, Some(text(node))),
            ("pause", [name, reason @ ..]) => Self::Pause(text(name), reason.join(" ")),
            ("resume", [name]) => Self::Resume(text(name)),
            ("ask", [ip, node]) => Self::Ask(ip.parse().ok()?, text(node)),
            ("lease", []) => Self::Lease,
            ("quit" | "exit", []) => Self::Quit,
            _ => return None,
        })
    }
}

fn either(word: &str, yes: &str, no: &str) -> Option<bool> {
    match word {
        word if word == yes => Some(true),
        word if word == no => Some(false),
        _ => None,
    }
}

fn usage(name: &str) -> String {
    let known = HELP.iter().find(|(form, _)| form.split(' ').next() == Some(name));
    match known {
        Some((form @ "deny VERB RESOURCE", what)) => {
            format!("write: {form} ({what}); the verbs are {}", VERBS.join(", "))
        }
        Some((form, what)) => format!("write: {form} ({what})"),
        None => format!("there is no command {name:?}; `help` lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_help_is_understood_and_each_slip_says_how_it_is_written() {
        for (form, _) in HELP {
            let line = form
                .replace("IP NODE|nowhere", "192.0.2.1 n")
                .replace("IP NODE", "192.0.2.1 n")
                .replace("VERB RESOURCE", "patch nodes")
                .replace("SECONDS|off", "30")
                .replace("bad|good [digitalocean|cloudflare]", "bad cloudflare")
                .replace("down|up", "down")
                .replace("NODE", "n")
                .replace("NAME [REASON]", "p")
                .replace("NAME", "p")
                .replace('N', "3");
            assert!(matches!(Command::parse(&line), Ok(Some(_))), "{line}");
            if form.ends_with("[REASON]") {
                continue;
            }
            let slip = Command::parse(&format!("{line} x y")).unwrap_err();
            assert!(slip.contains(form), "{slip}");
        }
        assert_eq!(Command::parse("  "), Ok(None));
        assert!(Command::parse("kil n").unwrap_err().contains("`help`"));
        assert!(Command::parse("deny touch nodes").unwrap_err().contains("get, list, watch"));
        assert_eq!(
            Command::parse("move 192.0.2.1 nowhere"),
            Ok(Some(Command::Move("192.0.2.1".parse().unwrap(), None)))
        );
        let reason = "incident 7".to_owned();
        assert_eq!(Command::parse("pause p incident 7"), Ok(Some(Command::Pause("p".to_owned(), reason))));
        assert!(Command::parse("pause").unwrap_err().contains("pause NAME"));
        assert_eq!(Command::parse("token good"), Ok(Some(Command::Token(true, None))));
    }
}

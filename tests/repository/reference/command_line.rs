//! Flags, commands, environment variables and exit codes.

use super::page::{Page, cell, code, codes};
use super::sources;
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction};
use flipop::config::{DescribedVariable, command_line, described_variables};
use flipop::exit::Exit;
use std::path::Path;

pub(crate) fn render() -> String {
    let mut page = Page::new(
        "Command line and environment",
        "For administrators who change how FLIPOP is started: its flags, commands, environment variables and \
         exit codes.",
    );
    let mut command = command_line();
    command.build();
    page.heading(2, "Flags");
    page.table(["flag", "default", "meaning"], command.get_arguments().map(flag));
    page.paragraph(
        "If a flag is repeated, the last one counts. An unknown flag ends the process with exit code 2. Logs go to \
         standard error, as JSON unless that is a terminal.",
    );
    page.paragraph(
        "Without a [command](commands.md), the program runs as the operator. Only the first argument can be a command. In a pod \
         with a service account, words that belong to no flag are ignored, as by the Go operator. The log says \
         at the start how many there are, and does not repeat them. Outside a pod, an unknown first word ends \
         the process with the help and exit code 64.",
    );
    page.heading(2, "Environment variables");
    page.paragraph(
        "An empty variable counts as unset. At least one provider token must be set; otherwise the process ends with \
         exit code 2. Objects cannot use a provider without a token, and those that name it say which variable is \
         missing. [Tokens and scopes](../operations/tokens.md) explains how to rotate a token.",
    );
    page.table(["variable", "default", "meaning"], described_variables().into_iter().map(row));
    page.heading(2, "How the API server is found");
    page.paragraph("FLIPOP looks in the same places as `kubectl`, in this order:");
    page.list([
        "the file that `--kubeconfig` names",
        "the files in `KUBECONFIG`",
        "`~/.kube/config`",
        "the service account of the pod",
    ]);
    page.paragraph(
        "FLIPOP uses the first of these namespaces that is set: that of the context in the kubeconfig, \
         `POD_NAMESPACE`, that of the service account, `default`. The Lease is in this namespace.",
    );
    page.paragraph("These rules apply to a kubeconfig:");
    page.list([
        "An empty string counts as a missing field.",
        "A `proxy-url` begins with `http`, `https`, `socks5` or `socks5h`. A SOCKS5 proxy is used without a user name.",
        "The token of an `exec` plugin is renewed a minute before its expiry. A token that is revoked earlier is used \
         until then, and a token without an expiry until the process restarts.",
    ]);
    page.heading(2, "Exit codes");
    page.table(
        ["code", "meaning"],
        Exit::ALL.iter().map(|exit| [exit.code().to_string(), cell(exit.meaning())]),
    );
    page.end()
}

/// The help's first paragraph has no full stop, so this adds one.
pub(crate) fn sentence(help: &str) -> String {
    match help.split_once("\n\n") {
        Some((first, rest)) => format!("{}. {rest}", first.trim_end_matches('.')),
        None => format!("{}.", help.trim_end_matches('.')),
    }
}

pub(crate) fn flag(flag: &Arg) -> [String; 3] {
    let long = flag.get_long().unwrap();
    let short = flag.get_short().map(|short| format!("-{short}"));
    let takes_value = matches!(flag.get_action(), ArgAction::Set | ArgAction::Append);
    let mut forms: Vec<String> = short.into_iter().collect();
    if takes_value {
        let value = flag.get_value_names().unwrap()[0].as_str();
        if flag.get_num_args().unwrap().min_values() == 0 {
            forms.extend([format!("--{long}"), format!("--{long}={value}")]);
        } else {
            forms.push(format!("--{long} {value}"));
        }
    } else {
        forms.push(format!("--{long}"));
    }
    let help = flag.get_long_help().or(flag.get_help()).unwrap().to_string();
    let (help, told) = match help.split_once(" [default: ") {
        Some((before, rest)) => {
            let (default, after) = rest.split_once(']').unwrap();
            (format!("{before}{after}"), cell(default))
        }
        None => (help, codes(flag.get_default_values().iter().map(|value| value.to_string_lossy()))),
    };
    let meaning = format!("{}{}", cell(&sentence(&help)), values(flag));
    [codes(forms), if takes_value { told } else { String::new() }, meaning]
}

/// A sentence with the values of a flag or an argument, if only these are possible. It begins with a space.
pub(crate) fn values(of: &Arg) -> String {
    let values = of.get_possible_values();
    let told: Vec<String> = values.iter().filter(|value| !value.is_hide_set()).map(value).collect();
    if told.is_empty() { String::new() } else { format!(" Values: {}.", told.join(", ")) }
}

/// A value, and what it means unless its name says that.
fn value(value: &PossibleValue) -> String {
    let name = code(value.get_name());
    let help = value.get_help().map(ToString::to_string).unwrap_or_default();
    let mut letters = help.chars();
    match letters.next().filter(|_| !help.eq_ignore_ascii_case(value.get_name())) {
        Some(first) => {
            let meaning = format!("{}{}", first.to_lowercase(), letters.as_str());
            format!("{name} ({})", cell(&meaning))
        }
        None => name,
    }
}

fn row(variable: DescribedVariable) -> [String; 3] {
    let DescribedVariable { names, default, meaning } = variable;
    let default = default.map(|text| if text.contains(' ') { cell(text) } else { code(text) });
    [codes(names), default.unwrap_or_else(|| "none".to_owned()), cell(&meaning)]
}

#[test]
fn the_values_of_a_flag_are_named_with_what_they_mean() {
    let explained = PossibleValue::new("wide").help("A table");
    let hidden = PossibleValue::new("old").help("As before").hide(true);
    let values_of = |those: [PossibleValue; 2]| values(&Arg::new("format").value_parser(those));
    assert_eq!(values_of([explained, hidden]), " Values: `wide` (a table).");
    let plain = [PossibleValue::new("json").help("JSON"), PossibleValue::new("yaml")];
    assert_eq!(values_of(plain), " Values: `json`, `yaml`.");
    assert_eq!(values(&Arg::new("name")), "");
}

/// Whether a word has the form of a variable name.
fn is_name(word: &str) -> bool {
    let letters = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_uppercase());
    word.contains('_') && word.split('_').all(letters)
}

#[test]
fn the_environment_is_read_in_one_place_and_every_variable_that_the_source_names_is_in_the_list() {
    let reads = ["env::var(", "env::var_os(", "env::vars(", "env::vars_os("];
    for source in sources::sources() {
        let read = reads.iter().any(|read| source.text.contains(read));
        assert_eq!(read, source.path == Path::new("src/config/mod.rs"), "{}", source.path.display());
    }
    let variables: Vec<String> =
        described_variables().into_iter().flat_map(|variable| variable.names).collect();
    for (path, literal) in sources::all_literals() {
        // Text between braces is a constant of the source and does not count.
        let literal: String = literal.split('{').map(|part| part.split('}').next_back().unwrap()).collect();
        let words = literal.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for word in words.filter(|word| is_name(word)) {
            let listed = variables.iter().any(|variable| variable == word);
            // These are read at build time.
            let known = ["FLIPOP_COMMIT", "CARGO_PKG_VERSION"].contains(&word);
            assert!(listed || known, "{}: {word} is no Variable", path.display());
        }
    }
}

#[test]
fn every_way_in_which_the_process_ends_has_its_exit_code_in_the_list() {
    for source in sources::sources() {
        let ends = source.text.lines().filter(|line| {
            (line.contains("process::exit(") && !line.contains("Exit::")) || line.contains("ExitCode::")
        });
        let own = source.path == Path::new("src/exit.rs");
        let ends: Vec<&str> = ends.filter(|line| !own && !line.contains("use std::process")).collect();
        assert!(ends.is_empty(), "{}: {ends:?}", source.path.display());
    }
}

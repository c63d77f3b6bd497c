//! Each command with its arguments and flags.

use super::command_line::{flag, sentence, values};
use super::page::{Page, cell, code};
use clap::{Arg, Command};
use flipop::config::command_line;

/// Flags that every command has which talks to a cluster.
fn common(command: &Command) -> Vec<Arg> {
    let status = command.find_subcommand("status").unwrap();
    let pause = command.find_subcommand("pause").unwrap();
    let shared = |flag: &&Arg| pause.get_arguments().any(|other| other.get_id() == flag.get_id());
    status.get_arguments().filter(shared).filter(|flag| flag.get_id() != "help").cloned().collect()
}

pub(crate) fn render() -> String {
    let mut page =
        Page::new("Commands", "For users of the `flipop` CLI: each command with its arguments and flags.");
    let mut command = command_line();
    command.build();
    page.paragraph(
        "Write `flipop COMMAND`, or `kubectl flipop COMMAND` if the program is on the `PATH` under the name \
         `kubectl-flipop`. [Use the commands](../operations/commands.md) shows what they print and which rights they need.",
    );
    let common = common(&command);
    page.heading(2, "Flags of every command");
    page.paragraph("Commands that talk to a cluster have these flags:");
    page.table(["flag", "default", "meaning"], common.iter().map(flag));
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        page.heading(2, command.get_name());
        page.paragraph(&sentence(&command.get_about().unwrap().to_string()));
        if command.get_name() == "agent" {
            page.paragraph("[The agent of a node](agent.md) has its flags.");
            continue;
        }
        let arguments: Vec<&Arg> = command.get_positionals().collect();
        if !arguments.is_empty() {
            page.table(
                ["argument", "meaning"],
                arguments.iter().map(|argument| {
                    let name = argument
                        .get_value_names()
                        .map_or(argument.get_id().as_str(), |names| names[0].as_str());
                    let help = sentence(&argument.get_help().unwrap().to_string());
                    [code(&name.to_uppercase()), format!("{}{}", cell(&help), values(argument))]
                }),
            );
        }
        let own = |flag: &&Arg| {
            !flag.is_positional()
                && flag.get_id() != "help"
                && !common.iter().any(|common| common.get_id() == flag.get_id())
        };
        let flags: Vec<&Arg> = command.get_arguments().filter(own).collect();
        if !flags.is_empty() {
            page.table(["flag", "default", "meaning"], flags.into_iter().map(flag));
        }
    }
    page.end()
}

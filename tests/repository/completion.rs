//! Tries the scripts of `flipop completion` in the shells themselves.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]
#![expect(clippy::disallowed_methods, reason = "CI says in its environment that no test may be skipped")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const FLIPOP: &str = env!("CARGO_BIN_EXE_flipop");

/// Prints bash's completions of these words.
const TAB: &str = r#"source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
asked=$(complete -p "$1"); asked=${asked#*-F }
"${asked%% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}""#;

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a shell is installed. In CI each one must be.
fn has(shell: &str) -> bool {
    let found = Command::new(shell).args(["-c", "true"]).output().is_ok_and(|output| output.status.success());
    assert!(found || std::env::var_os("CI").is_none(), "CI is set, but there is no {shell}");
    found
}

/// The script for a shell, in a file.
fn script(folder: &Path, program: &str, shell: &str) -> String {
    let file = folder.join(format!("script.{shell}"));
    fs::write(&file, output(program, &["completion", shell])).unwrap();
    file.display().to_string()
}

#[test]
fn bash_completes_commands_flags_and_values_under_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-flipop");
    symlink(FLIPOP, &plugin).unwrap();
    for (program, name) in [(FLIPOP, "flipop"), (plugin.to_str().unwrap(), "kubectl-flipop")] {
        let script = script(folder.path(), program, "bash");
        for (words, expected) in [
            (&["st"][..], "status\n"),
            (&["check", "--un"], "--uninstall\n"),
            (&["status", "-o", ""], "table\nwide\njson\nyaml\n"),
        ] {
            let shell = ["--norc", "--noprofile", "-eu", "-c", TAB, "bash", script.as_str(), name];
            assert_eq!(output("bash", &[&shell[..], words].concat()), expected, "{name} {words:?}");
        }
    }
}

#[test]
fn fish_completes_commands() {
    if !has("fish") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path(), FLIPOP, "fish");
    let told = output("fish", &["--no-config", "-c", &format!("source {script}; complete -C 'flipop st'")]);
    assert!(told.starts_with("status\t"), "{told}");
}

#[test]
fn zsh_takes_its_script() {
    if !has("zsh") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path(), FLIPOP, "zsh");
    let dump = folder.path().join("dump").display().to_string();
    let code =
        format!("autoload -Uz compinit; compinit -u -d {dump}; source {script}; print $_comps[flipop]");
    assert_eq!(output("zsh", &["-f", "-c", &code]), "_flipop\n");
}

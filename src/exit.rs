//! The exit codes of the process. Only this module names them.

use std::process::ExitCode;

flipop_core::described! {
    /// How the process ends.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Exit {
        /// Success. The operator ended on SIGTERM or SIGINT, within 10 s of the signal; a second signal ends it at
        /// once. A command did what it was asked: for `flipop plan`, there is nothing to change.
        Success = 0,
        /// Failure, for example when the API server cannot be found, when the endpoints cannot listen on their address
        /// or when another replica has taken the lease. The last line on standard error says why. A command that
        /// cannot read the cluster, a request that is refused or not met in time, and a failed check of
        /// `flipop check` end with this code too.
        Failure = 1,
        /// A flag or an environment variable is wrong or missing. The message on standard error names it.
        Usage = 2,
        /// `flipop check` cannot read the cluster.
        Unreadable = 2,
        /// `flipop plan` found changes to make.
        Changes = 3,
        /// `flipop plan` found an object that is invalid, whatever else there is to change.
        Invalid = 4,
        /// `flipop plan` did not settle within its simulated time.
        Unsettled = 5,
        /// An object in a file of `flipop plan` changes nothing, because other objects own everything that it asks for,
        /// whatever else there is to change.
        Claimed = 6,
        /// Outside a pod: the first argument is not a command, and the help is printed. Or a flag or an argument of a
        /// command is wrong or missing. 64 is `EX_USAGE` of sysexits.
        UnknownCommand = 64,
        /// Internal error (panic). The log names the place in the source code. 101 is what Rust programs use.
        Panic = 101,
    }
    /// The exit code.
    fn code -> u8;
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Ends the process on a panic in any thread, with its exit code. Logging replaces this hook by its own.
pub fn end_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(Exit::Panic.code().into());
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHILD: &str = "FLIPOP_TEST_EXIT_PANIC";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself as a child")]
    fn a_panic_in_any_thread_is_told_and_ends_the_process() {
        if std::env::var(CHILD).is_ok() {
            end_on_panic();
            let ended = std::thread::spawn(|| panic!("no way out")).join();
            return assert!(ended.is_ok(), "the process goes on");
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "exit::tests::a_panic_in_any_thread_is_told_and_ends_the_process";
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(Exit::Panic.code())), "{text}");
        assert!(text.contains("no way out") && !text.contains("goes on"), "{text}");
    }
}

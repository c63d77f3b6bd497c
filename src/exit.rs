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

//! The only place that names the build.
//!
//! The commit comes from the build's variable `FLIPOP_COMMIT`, which Dockerfile passes on. It is not read from git: an
//! image is built without `.git`, and every commit would rebuild everything.

/// The version of the release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of the build, or `unknown` if the build was not told.
pub const COMMIT: &str = or_unknown(option_env!("FLIPOP_COMMIT"));

const fn or_unknown(commit: Option<&'static str>) -> &'static str {
    match commit {
        Some(commit) if !commit.is_empty() => commit,
        Some(_) | None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_was_told_no_commit_says_that_it_is_unknown() {
        assert_eq!(or_unknown(Some("4ff80e9")), "4ff80e9");
        // A build argument that was left out is an empty variable.
        assert_eq!(or_unknown(Some("")), "unknown");
        assert_eq!(or_unknown(None), "unknown");
    }
}

//! Flag values, parsed as Go parses them.

use std::path::PathBuf;

/// An empty path is parsed like any other, so that `--kubeconfig=` can unset.
#[expect(clippy::unnecessary_wraps, reason = "the signature that clap asks for")]
pub(super) fn path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

/// Accepts the words of Go's `strconv.ParseBool`.
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

//! Prints the folder with the servers for `KUBEBUILDER_ASSETS`, and builds them first if they are missing.

use flipop_envtest::assets::{Found, find};
use flipop_envtest::{Failure, Outcome};
use std::io::Write as _;

fn main() -> Outcome {
    let Found::Assets(assets) = find()? else {
        return Err(Failure::new("needs KUBEBUILDER_ASSETS, or Go 1.21 or later"));
    };
    let folder = assets.etcd.parent().unwrap_or(&assets.etcd);
    Ok(writeln!(std::io::stdout(), "{}", folder.display())?)
}

//! The CRDs are what the types say, wherever a copy stands.
#![expect(clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "a test may stop at once")]

use flipop::api::crd;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn generated_crds_are_up_to_date() {
    let files = crd::files().expect("the CRDs can be written as YAML");
    for file in files {
        for path in
            [root().join("crds").join(&file.name), root().join("k8s").join(format!("crd-{}", file.name))]
        {
            same_or_update(&path, &file.yaml);
        }
    }
}

fn same_or_update(path: &PathBuf, wanted: &str) {
    if std::env::var("UPDATE_CRDS").is_ok() {
        std::fs::write(path, wanted).expect("the file can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found != wanted {
        panic!("{} is out of date: run UPDATE_CRDS=1 cargo test --test crds", path.display());
    }
}

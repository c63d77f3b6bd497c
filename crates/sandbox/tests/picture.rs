//! The picture of README is what the operator does: drawn again from a run, and compared.

use flipop_sandbox::picture;
use std::fs;
use std::path::Path;

/// README stays quick to load.
const MAX_BYTES: usize = 20_000;

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "asks whether to write instead of compare; no part of the operator"
)]
fn the_picture_in_docs_is_the_run_of_the_operator() {
    let drawn = picture::failover().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/failover.svg");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == drawn,
        "docs/failover.svg is not what the operator does now: run `just picture` \
         (UPDATE_DOCS=1 cargo test -p flipop-sandbox --test picture) and look at the result"
    );
}

#[test]
fn the_picture_is_small_loads_nothing_and_can_be_read_aloud() {
    let drawn = picture::failover().unwrap();
    assert!(drawn.len() <= MAX_BYTES, "{} bytes", drawn.len());
    for forbidden in ["<script", "href", "url(", "@import", "<image", "foreignObject"] {
        assert!(!drawn.contains(forbidden), "{forbidden}");
    }
    for part in [r#"role="img""#, "<title id=", "<desc id=", "prefers-color-scheme:dark"] {
        assert!(drawn.contains(part), "{part}");
    }
}

//! Bodies from real use, and some that are not.

use std::fs;
use std::path::Path;

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// A decoder's samples, sorted by name.
pub(crate) fn samples(decoder: &str) -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shell/fuzz/corpus").join(decoder);
    let mut samples: Vec<Sample> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| Sample {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            bytes: fs::read(&path).unwrap(),
        })
        .collect();
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!samples.is_empty(), "{decoder} has no samples");
    samples
}

/// Passes every sample to `check`, which says whether it was accepted.
pub(crate) fn replay(decoder: &str, check: impl Fn(&[u8]) -> bool) {
    for Sample { name, bytes } in samples(decoder) {
        let accepted = check(&bytes);
        if name.starts_with("good") {
            assert!(accepted, "{decoder}/{name} is refused");
        }
        if name.starts_with("bad") {
            assert!(!accepted, "{decoder}/{name} is accepted");
        }
    }
}

//! Plans that failed once. Each was drawn and shrunk, and then the operator was repaired. Some plans do what no random
//! plan does.

use crate::support::{play, with_all};
use flipop_simulation::Plan;
use std::fs;
use std::path::Path;

#[test]
fn no_plan_that_is_kept_fails() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/plans");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let outcomes =
        with_all(&files, |file| play(&Plan::from_yaml(&fs::read_to_string(file).unwrap()).unwrap()));
    for (file, outcome) in files.iter().zip(outcomes) {
        assert_eq!(outcome.violations, [], "{}", file.display());
    }
}

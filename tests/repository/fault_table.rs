//! The tests that tests/faults.md names exist in the given place, and every row has one.
#![expect(clippy::panic, reason = "a test may stop at once")]

use std::fs;
use std::path::{Path, PathBuf};

/// How many rows must have a test on the real API server.
const ON_A_REAL_API_SERVER: usize = 22;

fn read(relative: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows: the number, and the named tests.
fn rows() -> Vec<(usize, Vec<String>)> {
    let table = read(Path::new("tests/faults.md"));
    let rows = table.lines().filter_map(|line| {
        let number = line.strip_prefix("| ")?.split(' ').next()?.parse().ok()?;
        let spans = line.split('`').skip(1).step_by(2).filter(|span| span.contains("::"));
        Some((number, spans.map(str::to_owned).collect()))
    });
    rows.collect()
}

/// The file of a test in the table.
fn file(module: &str) -> PathBuf {
    let (suite, rest) = module.split_once('/').unwrap_or_else(|| panic!("no place of {module}"));
    let folder = match suite {
        "core" => "crates/core/tests/fleet",
        "long" => "crates/simulation/tests",
        "simulation" => "crates/simulation/tests/simulation",
        "provider_http" | "leadership" | "fuzz" => return format!("tests/shell/{module}.rs").into(),
        "apiserver" | "egress" | "repository" => return format!("tests/{module}.rs").into(),
        "src" => "src",
        other => panic!("{other} is no place of tests"),
    };
    Path::new(folder).join(format!("{rest}.rs"))
}

#[test]
fn every_test_that_the_table_names_exists_and_is_run() {
    for (row, tests) in rows() {
        for test in tests {
            let (module, name) = test.split_once("::").unwrap();
            let source = read(&file(module));
            assert!(source.contains(&format!("fn {name}(")), "row {row}: there is no {test}");
            if module.starts_with("apiserver/") {
                let listed = source.lines().any(|line| {
                    let words = line.split_once(": ").map_or(line, |(_, after)| after);
                    words.trim().trim_end_matches("]);").trim_end_matches([',', ']']) == name
                });
                assert!(listed, "row {row}: {test} is in no list of cases");
            }
        }
    }
}

#[test]
fn every_row_has_a_test() {
    let rows = rows();
    let numbers: Vec<usize> = rows.iter().map(|(row, _)| *row).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len()), "no number is left out: {numbers:?}");
    let untested: Vec<_> = rows.iter().filter(|(_, tests)| tests.is_empty()).map(|(row, _)| *row).collect();
    assert_eq!(untested, Vec::<usize>::new());
    let real = rows.iter().filter(|(_, tests)| tests.iter().any(|test| test.starts_with("apiserver/")));
    assert!(real.count() >= ON_A_REAL_API_SERVER);
}

//! Code blocks say whether they are run or applied, and show what the repository has.

use super::pages::{Fate, Page, pages, root};
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;

/// Documents whose pools and record sets come from `examples/`.
const OF_EXAMPLES: [&str; 2] = ["README.md", "docs/getting-started.md"];

/// The beginning of one of our objects, after its comment.
const OURS: &str = "apiVersion: flipop.digitalocean.com/";

/// The files of `examples/`.
fn examples() -> BTreeMap<String, String> {
    let entries = fs::read_dir(root().join("examples")).unwrap_or_else(|error| panic!("examples: {error}"));
    let paths = entries.flatten().map(|entry| entry.path());
    paths.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap_or_default())).collect()
}

/// Whether an address may appear in an example: reserved for documentation, or private.
fn is_nobodys(address: Ipv4Addr) -> bool {
    address.is_documentation()
        || address.is_private()
        || address.is_link_local()
        || address.is_loopback()
        || address.is_unspecified()
}

/// Addresses in a text.
fn addresses(text: &str) -> impl Iterator<Item = Ipv4Addr> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != '.').filter_map(|word| word.parse().ok())
}

#[test]
fn every_block_says_what_becomes_of_it() {
    let (mut counts, mut all) = (BTreeMap::from([("run", 0), ("applied", 0), ("marked", 0)]), Vec::new());
    for page in pages() {
        for block in page.blocks() {
            let fate = match block.fate {
                Fate::Run => "run",
                Fate::Apply | Fate::ApplyForGood => "applied",
                Fate::NotRun | Fate::NotApplied => "marked",
                Fate::Shown => "shown",
                Fate::Unknown => {
                    all.push(format!("{}:{}", page.path, block.line));
                    continue;
                }
            };
            *counts.entry(fate).or_default() += 1;
        }
    }
    println!("blocks of the documents: {counts:?}");
    assert!(
        all.is_empty(),
        "a block of code is fenced, as sh, yaml, `yaml apply`, text, rust, toml, `sh not run: REASON` or `yaml not \
         applied: REASON` (three words or more):\n{}",
        all.join("\n")
    );
}

#[test]
fn readme_and_getting_started_show_the_examples_word_for_word_and_each_is_shown() {
    let (examples, pages) = (examples(), pages());
    let blocks = |page: &Page| page.blocks().into_iter().map(|block| block.text).collect::<Vec<_>>();
    for page in pages.iter().filter(|page| OF_EXAMPLES.contains(&page.path.as_str())) {
        for block in page.blocks().iter().filter(|block| block.text.contains(OURS)) {
            let shown = examples.values().any(|example| *example == block.text);
            assert!(shown, "{}:{}: examples/ has no such file", page.path, block.line);
        }
    }
    let shown: Vec<String> = pages.iter().flat_map(blocks).collect();
    for (path, example) in examples {
        assert!(shown.contains(&example), "no document shows {path} word for word");
    }
}

#[test]
fn objects_speak_of_addresses_and_zones_that_are_nobodys() {
    for page in pages() {
        let objects = |fate| matches!(fate, Fate::Apply | Fate::ApplyForGood | Fate::NotApplied);
        for block in page.blocks().iter().filter(|block| objects(block.fate)) {
            let strangers: Vec<_> = addresses(&block.text).filter(|address| !is_nobodys(*address)).collect();
            assert!(strangers.is_empty(), "{}:{}: {strangers:?}", page.path, block.line);
            for line in block.text.lines() {
                let zone = line.trim_start_matches(['-', ' ']).strip_prefix("zone: ");
                let zone = zone.map(|zone| zone.split_whitespace().next().unwrap_or_default());
                let ours = zone.is_none_or(|zone| ["example.com", "example.net"].contains(&zone));
                assert!(ours, "{}:{}: {line}", page.path, block.line);
            }
        }
    }
}

#[test]
fn an_info_string_is_exact() {
    for (info, fate) in [
        ("sh", Fate::Run),
        ("yaml", Fate::Apply),
        ("yaml apply", Fate::ApplyForGood),
        ("sh not run: it needs a registry", Fate::NotRun),
        ("yaml not applied: it needs CRDs", Fate::NotApplied),
        ("text", Fate::Shown),
        ("toml", Fate::Shown),
        ("", Fate::Unknown),
        ("bash", Fate::Unknown),
        ("sh ", Fate::Run),
        ("sh apply", Fate::Unknown),
        ("sh not run", Fate::Unknown),
        ("sh not run: too short", Fate::Unknown),
        ("sh not applied: it needs a registry", Fate::Unknown),
        ("yaml not run: it needs a registry", Fate::Unknown),
        ("text not run: it needs a registry", Fate::Unknown),
    ] {
        assert_eq!(Fate::of(info), fate, "{info:?}");
    }
}

#[test]
fn a_block_has_the_line_of_its_code_and_all_of_its_text() {
    let text = "# A\n\n1. Run\n\n   ```sh\n   a\n\n   b\n   ```\n\n    indented\n".to_owned();
    let blocks = Page { path: String::new(), text: text.clone() }.blocks();
    let found: Vec<_> = blocks.iter().map(|block| (block.line, block.text.as_str(), block.fate)).collect();
    assert_eq!(found[0], (6, "a\n\nb\n", Fate::Run));
    let indented = Page { path: String::new(), text: "# A\n\n    curl\n".to_owned() }.blocks();
    assert_eq!((indented[0].line, indented[0].fate), (3, Fate::Unknown));
}

//! Links lead somewhere, in the repository and in mdBook's output.

use super::outline::{Link, Outline};
use super::pages::{Page, pages, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The hosts that documents may link to: official pages of their subjects.
const SOURCES: [&str; 22] = [
    "api.cloudflare.com",
    "api.digitalocean.com",
    "buildah.io",
    "developers.cloudflare.com",
    "docs.cilium.io",
    "docs.digitalocean.com",
    "github.com",
    "just.systems",
    "keepachangelog.com",
    "krew.sigs.k8s.io",
    "kube-vip.io",
    "kubernetes.io",
    "metallb.io",
    "metallb.universe.tf",
    "mutants.rs",
    "pkg.go.dev",
    "rust-lang.github.io",
    "rustup.rs",
    "semver.org",
    "status.digitalocean.com",
    "www.cloudflarestatus.com",
    "www.rfc-editor.org",
];

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A path without `.` and `..`, if it stays in the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop().then_some(())?;
            }
            Component::Normal(name) => normal.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

/// The target of a page's link: the file, from the root of the repository, and the anchor.
fn target<'a>(page: &Page, to: &'a str) -> Option<(String, Option<&'a str>)> {
    let (file, anchor) = to.split_once('#').map_or((to, None), |(file, anchor)| (file, Some(anchor)));
    if file.is_empty() {
        return Some((page.path.clone(), anchor));
    }
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    Some((normal(&folder.join(file))?.display().to_string(), anchor))
}

/// The mistake in a link inside the repository.
fn wrong(page: &Page, to: &str, anchors: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let Some((file, anchor)) = target(page, to) else {
        return Some("leads out of the repository".to_owned());
    };
    if !root().join(&file).exists() {
        return Some(format!("there is no {file}"));
    }
    let of_the_book = |path: &str| path.starts_with("docs/") && path != SUMMARY;
    if of_the_book(&page.path) && !of_the_book(&file) {
        return Some(format!("{file} is not in the book: name it `{file}` instead"));
    }
    let anchor = anchor?;
    let known = anchors.get(&file).is_some_and(|anchors| anchors.contains(anchor));
    (!known).then(|| format!("{file} has no heading with the anchor {anchor}"))
}

/// The mistake in an external link.
fn wrong_out(to: &str) -> Option<String> {
    let Some(rest) = to.strip_prefix("https://") else { return Some("is no https".to_owned()) };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    (!SOURCES.contains(&host))
        .then(|| format!("leads to {host:?}, which is none of SOURCES in tests/repository/book/links.rs"))
}

fn is_out(to: &str) -> bool {
    to.contains("://") || to.starts_with("mailto:")
}

fn told(page: &Page, link: &Link, wrong: &str) -> String {
    format!("{}:{}: {}: {wrong}", page.path, link.line, link.to)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let pages = pages();
    let anchors = pages.iter().map(|page| (page.path.clone(), Outline::of(page).anchors)).collect();
    let mut all = Vec::new();
    for page in &pages {
        let outline = Outline::of(page);
        for link in outline.links.iter().filter(|link| !is_out(&link.to)) {
            all.extend(wrong(page, &link.to, &anchors).map(|wrong| told(page, link, &wrong)));
        }
        all.extend(outline.loose.iter().map(|link| told(page, link, "is defined or used, and not both")));
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn every_link_out_is_https_and_leads_to_a_public_host() {
    let mut all = Vec::new();
    for page in pages() {
        for link in Outline::of(&page).links.iter().filter(|link| is_out(&link.to)) {
            all.extend(wrong_out(&link.to).map(|wrong| told(&page, link, &wrong)));
        }
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.path == SUMMARY).unwrap_or_else(|| panic!("no {SUMMARY}"));
    let mut entries: Vec<String> = Vec::new();
    for link in Outline::of(summary).links {
        entries.extend(target(summary, &link.to).map(|(file, _)| file));
    }
    entries.sort();
    let of_the_book = pages.iter().map(|page| &page.path).filter(|path| path.starts_with("docs/"));
    let expected: Vec<&String> = of_the_book.filter(|path| *path != SUMMARY).collect();
    let missing: Vec<&&String> = expected.iter().filter(|path| !entries.contains(path)).collect();
    assert!(missing.is_empty(), "{SUMMARY} lacks {missing:?}");
    assert_eq!(
        entries.iter().collect::<Vec<_>>(),
        expected,
        "{SUMMARY} names a page twice, or one that is none"
    );
}

#[test]
fn a_link_is_followed_from_the_folder_of_its_page() {
    let page = |path: &str| Page { path: path.to_owned(), text: String::new() };
    let below = page("docs/concepts/health.md");
    let anchors = BTreeMap::from([("docs/verification.md".to_owned(), BTreeSet::from(["a".to_owned()]))]);
    let wrong = |to: &str| wrong(&below, to, &anchors);
    assert_eq!(wrong("../verification.md#a"), None);
    assert_eq!(
        wrong("../verification.md#b").unwrap(),
        "docs/verification.md has no heading with the anchor b"
    );
    assert_eq!(wrong("../gone.md").unwrap(), "there is no docs/gone.md");
    assert_eq!(wrong("../../../README.md").unwrap(), "leads out of the repository");
    assert_eq!(wrong("/docs/verification.md").unwrap(), "leads out of the repository");
    assert!(wrong("../../README.md").unwrap().ends_with("name it `README.md` instead"));
    assert!(wrong("../SUMMARY.md").unwrap().ends_with("name it `docs/SUMMARY.md` instead"));
    assert_eq!(target(&below, "#b"), Some(("docs/concepts/health.md".to_owned(), Some("b"))));
    assert_eq!(super::links::wrong(&page("README.md"), "docs/verification.md#a", &anchors), None);
}

#[test]
fn a_link_out_needs_https_and_a_known_host() {
    for good in ["https://kubernetes.io/docs/", "https://docs.digitalocean.com", "https://github.com/x#y"] {
        assert_eq!(wrong_out(good), None, "{good}");
    }
    let bad = [
        "http://kubernetes.io/",
        "mailto:a@b.example",
        "https://",
        "https:///x",
        "https://localhost/",
        "https://user@github.com/",
        "https://github.com:8080/",
        "https://github.com.example/",
    ];
    for bad in bad {
        assert!(wrong_out(bad).is_some(), "{bad}");
    }
}

//! docs/reference/endpoints.md is written by hand. This compares its paths with the served ones.

use super::sources;
use std::collections::BTreeSet;

#[test]
fn the_page_has_a_heading_for_each_path_and_for_no_other() {
    let files = ["src/admin.rs", "src/admin/page.rs"];
    let sources = sources::sources();
    let sources = sources.iter().filter(|source| files.iter().any(|file| source.path.ends_with(file)));
    let routes = sources.flat_map(|source| source.text.split(".route(").skip(1));
    let served: BTreeSet<String> = routes.map(|rest| sources::literals(rest)[0].clone()).collect();
    let page = super::read("docs/reference/endpoints.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
    assert_eq!(headings.map(str::to_owned).collect::<BTreeSet<_>>(), served);
    assert!(served.len() >= 4, "{served:?}");
}

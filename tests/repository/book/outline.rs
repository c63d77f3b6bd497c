//! The links of a document, and the link targets in it. Anchors follow GitHub's rules; mdBook uses the same.

use super::pages::{OPTIONS, Page, line_of};
use pulldown_cmark::{BrokenLink, Event, LinkType, Parser, Tag, TagEnd};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A link, or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) to: String,
}

/// A document's structure besides its text.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) links: Vec<Link>,
    /// The anchors of headings and of `<a id="…">`.
    pub(crate) anchors: BTreeSet<String>,
    /// The text of second-level headings.
    pub(crate) sections: Vec<String>,
    /// Undefined link references, and unused definitions.
    pub(crate) loose: Vec<Link>,
}

impl Outline {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest of Markdown has neither links nor anchors")]
    pub(crate) fn of(page: &Page) -> Self {
        let text = page.text.as_str();
        let (mut outline, undefined) = (Self::default(), RefCell::new(Vec::new()));
        let missing = |link: BrokenLink<'_>| {
            // `[x]` alone may be plain text.
            if matches!(link.link_type, LinkType::Reference | LinkType::Collapsed) {
                let line = line_of(text, link.span.start);
                undefined.borrow_mut().push(Link { line, to: link.reference.to_string() });
            }
            None
        };
        let parser = Parser::new_with_broken_link_callback(text, OPTIONS, Some(missing));
        let defined: Vec<(String, usize)> = parser
            .reference_definitions()
            .iter()
            .map(|(name, at)| (name.to_owned(), at.span.start))
            .collect();
        let mut used = BTreeSet::new();
        let (mut heading, mut in_link, mut in_code) = (None::<String>, false, false);
        for (event, range) in parser.into_offset_iter() {
            let line = line_of(text, range.start);
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(level)) => {
                    let said = heading.take().unwrap_or_default();
                    outline.add_heading(&said);
                    if level == pulldown_cmark::HeadingLevel::H2 {
                        outline.sections.push(said);
                    }
                }
                Event::Start(Tag::Link { dest_url, id, .. } | Tag::Image { dest_url, id, .. }) => {
                    used.insert(id.to_lowercase());
                    in_link = true;
                    outline.links.push(Link { line, to: dest_url.into_string() });
                }
                Event::End(TagEnd::Link | TagEnd::Image) => in_link = false,
                Event::Start(Tag::CodeBlock(_)) => in_code = true,
                Event::End(TagEnd::CodeBlock) => in_code = false,
                Event::Html(html) | Event::InlineHtml(html) => outline.add_html(line, &html),
                Event::Text(said) => {
                    if !in_link && !in_code {
                        outline.add_bare_links(line, &said);
                    }
                    heading.as_mut().into_iter().for_each(|heading| heading.push_str(&said));
                }
                Event::Code(said) => {
                    heading.as_mut().into_iter().for_each(|heading| heading.push_str(&said));
                }
                _ => {}
            }
        }
        let unused = defined.into_iter().filter(|(name, _)| !used.contains(&name.to_lowercase()));
        outline.loose = undefined.into_inner();
        outline.loose.extend(unused.map(|(to, at)| Link { line: line_of(text, at), to }));
        outline
    }

    fn add_heading(&mut self, said: &str) {
        let slug = slug(said);
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let name = std::iter::once(slug.clone()).chain(numbered).find(|name| !self.anchors.contains(name));
        self.anchors.extend(name);
    }

    fn add_html(&mut self, line: usize, html: &str) {
        if html.starts_with("<a ") {
            self.anchors.extend(attribute(html, "id"));
        }
        let led = ["href", "src"].into_iter().filter_map(|name| attribute(html, name));
        self.links.extend(led.map(|to| Link { line, to }));
    }

    fn add_bare_links(&mut self, line: usize, said: &str) {
        let bare =
            said.split_whitespace().filter(|word| word.contains("http://") || word.contains("https://"));
        self.links.extend(bare.map(|to| Link { line, to: to.to_owned() }));
    }
}

/// The first value of an attribute in HTML.
fn attribute(html: &str, name: &str) -> Option<String> {
    let (_, rest) = html.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

/// GitHub's anchor for a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> Outline {
        Outline::of(&Page { path: "docs/page.md".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn headings_have_the_anchors_that_github_makes() {
        for (heading, anchor) in [
            ("FlipopNoLeader", "flipopnoleader"),
            ("Ready and `X_y-Z`", "ready-and-x_y-z"),
            ("`spec.ips`: a, b & c (d)", "specips-a-b--c-d"),
            ("[Linked](a.md) → *there*", "linked--there"),
        ] {
            let found = outline(&format!("# {heading}\n")).anchors;
            assert_eq!(found, BTreeSet::from([anchor.to_owned()]), "{heading}");
        }
        let twice = outline("# Top\n\n## Ready\n\n## Ready\n\n<a id=\"old\"></a>\n\n## Ready\n");
        let names = ["old", "ready", "ready-1", "ready-2", "top"];
        assert_eq!(twice.anchors.into_iter().collect::<Vec<_>>(), names);
        assert_eq!(twice.sections, ["Ready", "Ready", "Ready"]);
    }

    #[test]
    fn links_of_every_form_are_found_with_their_lines() {
        let text = "[a](a.md) ![b](b.svg)\n[c][name] and <https://d.example>\nhttps://e.example x\n\n\
                    <img src=\"f.svg\">\n\n[name]: c.md\n\n```sh\ncurl https://no.example\n```\n";
        let links: Vec<(usize, String)> =
            outline(text).links.into_iter().map(|Link { line, to }| (line, to)).collect();
        let expected = [
            (1, "a.md"),
            (1, "b.svg"),
            (2, "c.md"),
            (2, "https://d.example"),
            (3, "https://e.example"),
            (5, "f.svg"),
        ];
        assert_eq!(links, expected.map(|(line, to)| (line, to.to_owned())));
    }

    #[test]
    fn a_reference_without_a_definition_and_a_definition_without_a_reference_are_loose() {
        let loose = outline("a [b][c] [d][] [e] [F][g]\n\n[g]: g.md\n[h]: h.md\n").loose;
        let loose: Vec<(usize, &str)> = loose.iter().map(|link| (link.line, link.to.as_str())).collect();
        assert_eq!(loose, [(1, "c"), (1, "d"), (4, "h")]);
    }
}

//! Texts of the picture: times, rows that fit, and escaping.
//!
//! Invariant: a text is broken and shortened between words only.

/// A time in tenths of a second, for people.
pub(super) fn seconds(tenths: i64) -> String {
    let sign = if tenths < 0 { "−" } else { "" };
    format!("{sign}{}.{} s", tenths.abs() / 10, tenths.abs() % 10)
}

/// The text in at most `most` rows of at most `columns` characters. A mark replaces the rest.
pub(super) fn rows(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let fits = |row: &&mut String| row.chars().count() + 1 + word.chars().count() <= columns;
        if let Some(row) = rows.last_mut().filter(fits) {
            row.push(' ');
            row.push_str(word);
        } else {
            rows.push(word.to_owned());
        }
    }
    if rows.len() > most {
        rows.truncate(most);
        if let Some(last) = rows.last_mut() {
            while last.chars().count() + 2 > columns
                && let Some((start, _)) = last.rsplit_once(' ')
            {
                *last = start.to_owned();
            }
            last.push_str(" …");
        }
    }
    rows
}

/// Escapes the text for XML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_decimal_and_a_true_minus() {
        assert_eq!([0, 9, 11, -5, 120].map(seconds), ["0.0 s", "0.9 s", "1.1 s", "−0.5 s", "12.0 s"]);
    }

    #[test]
    fn a_text_is_broken_and_shortened_between_words() {
        let text = "assigned 203.0.113.10 to node edge-3 (droplet 300000013)";
        assert_eq!(rows(text, 60, 1), [text]);
        assert_eq!(rows(text, 36, 2), ["assigned 203.0.113.10 to node edge-3", "(droplet 300000013)"]);
        assert_eq!(rows(text, 38, 1), ["assigned 203.0.113.10 to node edge-3 …"]);
        assert_eq!(rows(text, 37, 1), ["assigned 203.0.113.10 to node …"]);
        assert_eq!(rows("unbreakable", 4, 1), ["unbreakable"]);
    }

    #[test]
    fn what_xml_would_take_for_markup_is_escaped() {
        assert_eq!(escaped("a < b & c > d"), "a &lt; b &amp; c &gt; d");
    }
}

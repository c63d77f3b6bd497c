//! A parser for the Prometheus text format.

use std::collections::BTreeMap;

/// The series of one scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrape {
    series: Vec<Series>,
    types: BTreeMap<String, String>,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The metric's name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Scrape {
    /// Parses the text format. Malformed lines are ignored.
    pub fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                if let Some((name, kind)) = rest.split_once(' ') {
                    scrape.types.insert(name.to_owned(), kind.to_owned());
                }
            } else if !line.starts_with('#') {
                scrape.series.extend(parse_series(line));
            }
        }
        scrape
    }

    /// `gauge`, `counter` or `histogram`.
    pub fn kind(&self, name: &str) -> Option<&str> {
        self.types.get(name).map(String::as_str)
    }

    /// The series of a metric with all these labels.
    pub fn series(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&Series> {
        let has = |series: &Series, (key, value): &(&str, &str)| {
            series.labels.get(*key).is_some_and(|v| v == value)
        };
        self.series
            .iter()
            .filter(|series| series.name == name && labels.iter().all(|label| has(series, label)))
            .collect()
    }

    /// The sum over the series of a metric with all these labels; `None` if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let found = self.series(name, labels);
        if found.is_empty() { None } else { Some(found.iter().map(|series| series.value).sum()) }
    }
}

fn parse_series(line: &str) -> Option<Series> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Series { name: name.to_owned(), labels, value })
}

/// Parses `a="b",c="d"}` and returns the rest. Values may contain escaped quotes, backslashes and newlines.
fn parse_labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => value.push(match characters.next()? {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        labels.insert(key.to_owned(), value);
        rest = characters.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_types_and_escapes_are_read() {
        let scrape = Scrape::parse(
            "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\",y=\"a \\\"b\\\\\"} 2\na_total{x=\"2\"} 3.5\nup 1\n",
        );
        assert_eq!(scrape.kind("a_total"), Some("counter"));
        assert_eq!(scrape.sum("a_total", &[]), Some(5.5));
        assert_eq!(scrape.sum("a_total", &[("x", "1"), ("y", "a \"b\\")]), Some(2.0));
        assert_eq!(scrape.sum("a_total", &[("x", "3")]), None);
        assert_eq!(scrape.sum("up", &[]), Some(1.0));
    }
}

//! What the picture is made of: texts, bars, paths, each with a class of `style.css`, placed in time.
//!
//! It holds no script and loads nothing; its colours follow the reader's light or dark theme, on a card of its own.

use super::tale::{Said, Span};
use super::words::{escaped, rows, seconds};
use std::fmt::{Arguments, Write as _};

/// Classes for both themes.
const STYLE: &str = include_str!("style.css");

/// The first and the last tenth of a second that is shown.
pub(super) const SHOWN: (i64, i64) = (-5, 24);
/// Where the first of them is.
pub(super) const PLOT: i64 = 170;
/// How wide a tenth of a second is.
const TENTH: i64 = 23;
/// Height of a bar.
pub(super) const BAR: i64 = 24;
/// Between the rows of a text.
pub(super) const ROW: i64 = 18;
/// Between the beginning of a bar and its text.
const INDENT: i64 = 12;
/// What a character of an Event takes on average, in tenths of a pixel; a wide font takes no more.
const CHAR: i64 = 71;

/// The x of a time.
pub(super) fn x(at: i64) -> i64 {
    let (first, last) = SHOWN;
    PLOT + (at.clamp(first, last) - first) * TENTH
}

/// What is drawn so far.
pub(super) struct Canvas(String);

impl Canvas {
    /// A card of this size. `title` and `description` are for those who do not see it.
    pub(super) fn new((width, height): (i64, i64), title: &str, description: &str) -> Self {
        let mut canvas = Self(String::new());
        canvas.add(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title about">"#
        ));
        canvas.add(format_args!(r#"<title id="title">{}</title>"#, escaped(title)));
        canvas.add(format_args!(r#"<desc id="about">{}</desc>"#, escaped(description)));
        canvas.add(format_args!("<style>\n{STYLE}</style>"));
        canvas.add(format_args!(
            r#"<rect class="card" x="0.5" y="0.5" width="{}" height="{}" rx="10"/>"#,
            width - 1,
            height - 1
        ));
        canvas
    }

    /// The file.
    pub(super) fn finish(mut self) -> String {
        self.add(format_args!("</svg>"));
        self.0
    }

    fn add(&mut self, element: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _infallible = writeln!(self.0, "{element}");
    }

    /// A text that begins here.
    pub(super) fn text(&mut self, class: &str, (x, y): (i64, i64), text: &str) {
        let text = escaped(text);
        self.add(format_args!(r#"<text class="{class}" x="{x}" y="{y}">{text}</text>"#));
    }

    /// A text around this x.
    pub(super) fn centred(&mut self, class: &str, (x, y): (i64, i64), text: &str) {
        let text = escaped(text);
        self.add(format_args!(r#"<text class="{class}" x="{x}" y="{y}" text-anchor="middle">{text}</text>"#));
    }

    /// A line.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        self.add(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }

    /// Something that is so from one time to another.
    pub(super) fn bar(&mut self, class: &str, (from, to): (i64, i64), (y, height): (i64, i64)) {
        let (left, width) = (x(from), x(to) - x(from));
        self.add(format_args!(
            r#"<rect class="{class}" x="{left}" y="{y}" width="{width}" height="{height}" rx="4"/>"#
        ));
    }

    /// An address for as long as it stands somewhere.
    pub(super) fn address(&mut self, class: &str, span: &Span, y: i64) {
        let to = span.to.unwrap_or(SHOWN.1);
        if x(to) > x(span.from) {
            self.bar(class, (span.from, to), (y, BAR));
            self.text("pill", (x(span.from) + INDENT, y + 17), &span.what);
        }
    }

    /// An Event: why and when, then its words, in so many rows of so many pixels.
    pub(super) fn event(&mut self, said: &Said, (x, y): (i64, i64), (width, most): (i64, usize)) {
        let (reason, time) = (escaped(&said.reason), seconds(said.at));
        self.add(format_args!(
            r#"<text class="event" x="{x}" y="{y}">{reason}<tspan class="muted" dx="8">{time}</tspan></text>"#
        ));
        let columns = usize::try_from(width * 10 / CHAR).unwrap_or_default();
        for (number, row) in (1..).zip(rows(&said.text, columns, most)) {
            self.text("quote", (x, y + number * ROW), &row);
        }
    }
}

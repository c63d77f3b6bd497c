//! The elements of the picture: texts, bars and paths, each with a class of `style.css`, placed by time.
//!
//! The picture contains no script and loads nothing. Its colours follow the reader's light or dark theme, on its own
//! card.

use super::tale::{Said, Span};
use super::words::{escaped, rows, seconds};
use std::fmt::{Arguments, Write as _};

/// The classes for both themes.
const STYLE: &str = include_str!("style.css");

/// The first and the last visible tenth of a second.
pub(super) const SHOWN: (i64, i64) = (-5, 24);
/// The x of the first one.
pub(super) const PLOT: i64 = 170;
/// The width of a tenth of a second.
const TENTH: i64 = 23;
/// The height of a bar.
pub(super) const BAR: i64 = 24;
/// The distance between rows of text.
pub(super) const ROW: i64 = 18;
/// From the beginning of a bar to its text.
const INDENT: i64 = 12;
/// The average width of a character of an Event, in tenths of a pixel. A wide font needs no more.
const CHAR: i64 = 71;

/// The x of a time.
pub(super) fn x(at: i64) -> i64 {
    let (first, last) = SHOWN;
    PLOT + (at.clamp(first, last) - first) * TENTH
}

/// The drawing so far.
pub(super) struct Canvas(String);

impl Canvas {
    /// A card of this size. `title` and `description` are for people who cannot see it.
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

    /// The finished file.
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

    /// A text centred at this x.
    pub(super) fn centred(&mut self, class: &str, (x, y): (i64, i64), text: &str) {
        let text = escaped(text);
        self.add(format_args!(r#"<text class="{class}" x="{x}" y="{y}" text-anchor="middle">{text}</text>"#));
    }

    /// A line.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        self.add(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }

    /// A bar from one time to another.
    pub(super) fn bar(&mut self, class: &str, (from, to): (i64, i64), (y, height): (i64, i64)) {
        let (left, width) = (x(from), x(to) - x(from));
        self.add(format_args!(
            r#"<rect class="{class}" x="{left}" y="{y}" width="{width}" height="{height}" rx="4"/>"#
        ));
    }

    /// The bar of an address while it is in one place.
    pub(super) fn address(&mut self, class: &str, span: &Span, y: i64) {
        let to = span.to.unwrap_or(SHOWN.1);
        if x(to) > x(span.from) {
            self.bar(class, (span.from, to), (y, BAR));
            self.text("pill", (x(span.from) + INDENT, y + 17), &span.what);
        }
    }

    /// An Event: reason and time, then its text in at most `most` rows of `width` pixels.
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

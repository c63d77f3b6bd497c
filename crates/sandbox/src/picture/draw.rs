//! The layout of the picture: time from left to right, a lane for each node and one for the name, and Events beside
//! them.
//!
//! Invariant: the layout follows from the tale alone.

use super::canvas::{BAR, Canvas, PLOT, ROW, SHOWN, x};
use super::tale::{Move, Node, Said, Span, Tale};
use super::words::seconds;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The width of the picture, about that of a README at GitHub.
const WIDTH: i64 = 860;
/// The x of everything at the left edge.
const LEFT: i64 = 24;
/// The y of the first lane.
const TOP: i64 = 108;
/// The height of a lane with bars only.
const LANE: i64 = 44;
/// From the edge of a lane to its content.
const PAD: i64 = 10;
/// The distance between two lanes.
const GAP: i64 = 6;
/// From the beginning of an Event to its text.
const INDENT: i64 = 12;
/// The radius of the corners on the way of an address.
const CORNER: i64 = 8;

/// The lane of a node.
struct Lane<'a> {
    node: &'a Node,
    y: i64,
    height: i64,
    /// Its Events are below its bars, which continue.
    below: bool,
}

/// The middle of a lane's bars.
fn middle(y: i64) -> i64 {
    y + PAD + BAR / 2
}

fn lanes(tale: &Tale) -> Vec<Lane<'_>> {
    let (mut lanes, mut y) = (Vec::new(), TOP);
    for node in &tale.nodes {
        let first = tale.said_of(&node.name).map(|said| said.at).min();
        let goes_on = |at: i64| {
            let mut held = tale.held.iter().filter(|span| span.of == node.name);
            held.any(|span| span.to.is_none_or(|to| to > at))
        };
        let below = first.is_some_and(goes_on);
        let height = if below { LANE + 2 * ROW } else { LANE };
        lanes.push(Lane { node, y, height, below });
        y += height + GAP;
    }
    lanes
}

/// Draws a failover.
pub(super) fn draw(tale: &Tale) -> String {
    let lanes = lanes(tale);
    let name_y = lanes.last().map_or(TOP, |lane| lane.y + lane.height + 2 * GAP);
    let published: Vec<&Span> = tale.records.iter().filter(|span| span.of == tale.name).collect();
    let addresses: BTreeSet<&str> = published.iter().map(|span| span.what.as_str()).collect();
    let rows_y: Vec<(&str, i64)> = addresses.into_iter().zip((name_y + PAD..).step_by(30)).collect();
    let bars_end = rows_y.last().map_or(name_y, |(_, y)| y + BAR);
    let bottom = bars_end + 3 * ROW + PAD + GAP;
    let mut canvas = Canvas::new((WIDTH, bottom + 62), &title(tale), &description(tale));
    head(&mut canvas, tale);
    axis(&mut canvas);
    for lane in &lanes {
        band(&mut canvas, lane);
    }
    canvas.bar("name", SHOWN, (name_y, bottom - name_y));
    canvas.text("lane", (LEFT, middle(name_y) + 5), "DNS");
    canvas.text("fqdn muted", (LEFT, middle(name_y) + 24), &tale.name);
    canvas.path("zero", &format!("M{} {}V{bottom}", x(0), TOP - 6));
    for lane in &lanes {
        node(&mut canvas, tale, lane);
    }
    way(&mut canvas, tale, &lanes);
    for (address, y) in &rows_y {
        for span in published.iter().filter(|span| span.what == *address) {
            canvas.address(colour(tale, span), span, *y);
            if let Some(to) = span.to {
                let text = format!("withdrawn until {}", seconds(tale.published));
                canvas.centred("time", (i64::midpoint(x(to), x(tale.published)), y + 17), &text);
            }
        }
    }
    events(&mut canvas, tale.said_of(&tale.name), bars_end + ROW + 2, SHOWN.1);
    foot(&mut canvas, tale, bottom);
    canvas.finish()
}

/// Highlights the address that the picture is about.
fn colour(tale: &Tale, span: &Span) -> &'static str {
    if span.what == tale.moved.ip { "ip" } else { "other" }
}

fn head(canvas: &mut Canvas, tale: &Tale) {
    let Move { ip, to, done, .. } = &tale.moved;
    let (failed, done, back) = (&tale.failed, seconds(*done), seconds(tale.published));
    canvas.text("head", (LEFT, 44), &format!("A failover in {back}"));
    let lead = format!("{failed} fails. {ip} is on {to} after {done}, and in DNS again after {back}.");
    canvas.text("lead muted", (LEFT, 68), &lead);
}

fn axis(canvas: &mut Canvas) {
    canvas.centred("tick alarm", (x(0), TOP - 12), "0 s");
    for at in (5..=SHOWN.1).step_by(5) {
        canvas.centred("tick muted", (x(at), TOP - 12), &seconds(at));
        canvas.path("mark", &format!("M{} {}v4", x(at), TOP - 6));
    }
}

/// Draws when a node is ready.
fn band(canvas: &mut Canvas, lane: &Lane<'_>) {
    let Lane { node, y, height, .. } = lane;
    canvas.text("lane", (LEFT, middle(*y) + 5), &node.name);
    let ends = node.changes.iter().skip(1).map(|(at, _)| *at).chain([SHOWN.1]);
    for ((from, ready), to) in node.changes.iter().zip(ends) {
        canvas.bar(if *ready { "up" } else { "down" }, (*from, to), (*y, *height));
    }
}

/// Draws the addresses and the Events of a node.
fn node(canvas: &mut Canvas, tale: &Tale, lane: &Lane<'_>) {
    let Lane { node, y, below, .. } = lane;
    let held: Vec<&Span> = tale.held.iter().filter(|span| span.of == node.name).collect();
    for span in &held {
        canvas.address(colour(tale, span), span, y + PAD);
    }
    if held.iter().all(|span| span.from > 0) {
        canvas.text("none muted", (PLOT + INDENT, middle(*y) + 5), "no address");
    }
    let said = tale.said_of(&node.name);
    if *below {
        // They begin with the bar.
        let begins = held.iter().map(|span| span.from).max().unwrap_or_default();
        for said in said {
            let left = x(begins) + INDENT;
            canvas.event(said, (left, y + LANE + PAD), (x(SHOWN.1) - left, 1));
        }
    } else {
        for said in said {
            let left = x(said.at) + 28;
            canvas.event(said, (left, y + ROW), (x(SHOWN.1) - left, 1));
        }
    }
}

/// Draws Events side by side.
fn events<'a>(canvas: &mut Canvas, said: impl Iterator<Item = &'a Said>, y: i64, end: i64) {
    let said: Vec<&Said> = said.collect();
    let ends = said.iter().skip(1).map(|said| said.at).chain([end]);
    for (said, end) in said.iter().zip(ends) {
        let left = x(said.at) + INDENT;
        canvas.event(said, (left, y), (x(end) - left, 2));
    }
}

/// Draws the way of the address from node to node, over the time that it took.
fn way(canvas: &mut Canvas, tale: &Tale, lanes: &[Lane<'_>]) {
    let Move { from, to, began, done, .. } = &tale.moved;
    let find = |name: &str| lanes.iter().find(|lane| lane.node.name == name).map(|lane| middle(lane.y));
    let (Some(from_y), Some(to_y)) = (find(from), find(to)) else { return };
    let (left, arrow) = (x(*began), x(*done) - 2);
    let bend = if to_y > from_y { CORNER } else { -CORNER };
    let down = left + 2 * CORNER;
    for lane in lanes {
        let y = middle(lane.y);
        if y > from_y.min(to_y) && y < from_y.max(to_y) {
            canvas.path("over", &format!("M{down} {}v{}", y - BAR / 2, BAR));
        }
    }
    canvas.path(
        "way",
        &format!(
            "M{left} {from_y}h{CORNER}q{CORNER} 0 {CORNER} {bend}V{}q0 {bend} {CORNER} {bend}H{}",
            to_y - bend,
            arrow - CORNER
        ),
    );
    canvas.path("tip", &format!("M{arrow} {to_y}l-10 -6v12z"));
    let text = format!("moves in {}", seconds(done - began));
    canvas.centred("time", (i64::midpoint(down, arrow), to_y - 8), &text);
}

fn foot(canvas: &mut Canvas, tale: &Tale, bottom: i64) {
    let took = seconds(tale.moved.done - tale.moved.began);
    let failed = &tale.failed;
    let rows = [
        format!(
            "Drawn from a simulated run, in which DigitalOcean takes {took} to move an address. Green means Ready."
        ),
        format!(
            "At 0 s Kubernetes reports that {failed} is not ready. The texts are the operator’s own Events."
        ),
    ];
    let short = format!("A simulated run: DigitalOcean takes {took} to move an address");
    canvas.text("short muted", (LEFT, bottom + 38), &short);
    for (number, row) in (0..).zip(rows) {
        canvas.text("foot muted", (LEFT, bottom + 26 + number * ROW), &row);
    }
}

fn title(tale: &Tale) -> String {
    let Move { ip, from, to, .. } = &tale.moved;
    format!("A failover: {from} fails, {ip} moves to {to}, and {} follows", tale.name)
}

/// A description of everything in the picture.
fn description(tale: &Tale) -> String {
    let Move { ip, from, to, done, .. } = &tale.moved;
    let (done, back, name) = (seconds(*done), seconds(tale.published), &tale.name);
    let mut text = format!(
        "Kubernetes reports that {from} is not ready. {ip} is on {to} {done} later, and in the A records of {name} \
         again {back} after the failure. Events of the operator:"
    );
    for said in &tale.said {
        // Writing to a string cannot fail.
        let _infallible = write!(text, " After {}, {}: {}.", seconds(said.at), said.reason, said.text);
    }
    text
}

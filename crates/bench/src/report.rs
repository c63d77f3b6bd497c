//! The table: goal, measured, verdict.

use crate::stats::{Ms, Samples};
use std::fmt::{self, Display};
use std::time::Duration;

/// The measurements, in order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    notes: Vec<String>,
    values: Vec<(String, f64)>,
}

#[derive(Debug)]
struct Row {
    figure: String,
    goal: String,
    measured: String,
    met: bool,
}

impl Report {
    /// Adds one figure with its goal.
    pub(crate) fn row(
        &mut self,
        figure: impl Display,
        goal: impl Display,
        measured: impl Display,
        met: bool,
    ) {
        let row =
            Row { figure: figure.to_string(), goal: goal.to_string(), measured: measured.to_string(), met };
        crate::say(&format!("  {} | goal {} | {} | {}", row.figure, row.goal, row.measured, verdict(met)));
        self.rows.push(row);
    }

    /// Adds a time that may not be longer than the goal.
    pub(crate) fn within(&mut self, figure: impl Display, goal: Duration, took: Duration) {
        self.row(figure, format_args!("≤ {}", Ms(goal)), Ms(took), took <= goal);
    }

    /// Adds samples of which none may be longer than the goal.
    pub(crate) fn all_within(&mut self, figure: impl Display, goal: Duration, samples: &Samples) {
        self.row(figure, format_args!("≤ {}", Ms(goal)), samples, samples.max() <= goal);
    }

    /// Adds a note that helps to read the table.
    pub(crate) fn note(&mut self, note: impl Display) {
        crate::say(&format!("  {note}"));
        self.notes.push(note.to_string());
    }

    /// Adds the number by which two binaries are compared. Smaller is better.
    pub(crate) fn value(&mut self, figure: impl Display, value: f64) {
        self.values.push((figure.to_string(), value));
    }

    /// All such numbers, in order.
    pub(crate) fn into_values(self) -> Vec<(String, f64)> {
        self.values
    }

    /// True if no goal was missed.
    pub(crate) fn all_met(&self) -> bool {
        self.rows.iter().all(|row| row.met)
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| figure | goal | measured | verdict |")?;
        writeln!(f, "| --- | --- | --- | --- |")?;
        for Row { figure, goal, measured, met } in &self.rows {
            writeln!(f, "| {figure} | {goal} | {measured} | {} |", verdict(*met))?;
        }
        for note in &self.notes {
            write!(f, "\n- {note}")?;
        }
        Ok(())
    }
}

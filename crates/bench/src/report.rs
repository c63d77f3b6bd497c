//! The table: goal, measured, verdict.

use crate::footprint::{Memory, mib};
use crate::stats::{Ms, Samples};
use flipop_envtest::Outcome;
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

    /// Adds samples whose median may not be longer than the goal.
    pub(crate) fn median_within(&mut self, figure: impl Display, goal: Duration, samples: &Samples) {
        self.row(figure, format_args!("median ≤ {}", Ms(goal)), samples, samples.median() <= goal);
    }

    /// Adds the largest count of some samples, which may not exceed the limit.
    pub(crate) fn at_most(&mut self, figure: impl Display, limit: usize, most: usize, samples: usize) {
        let measured = format_args!("{most} (max of {samples})").to_string();
        self.row(figure, format_args!("≤ {limit}"), measured, most <= limit);
    }

    /// Adds resident memory with its limit in KiB, and its number in KiB under a name of its own.
    pub(crate) fn resident(
        &mut self,
        figure: impl Display,
        limit: u64,
        memory: &Memory,
        name: impl Display,
    ) -> Outcome {
        self.row(figure, format_args!("≤ {} MiB", mib(limit)), memory, memory.resident <= limit);
        self.value(format_args!("KiB resident, {name}"), f64::from(u32::try_from(memory.resident)?));
        Ok(())
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

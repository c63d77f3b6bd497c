//! Measures two binaries in turn in one run, so that a machine that slows down slows both.

use crate::world::Stage;
use crate::{Run, figures, say};
use flipop_envtest::Outcome;
use std::fmt::{self, Display};

/// How often each is measured. An even number, so that each goes first equally often.
const ROUNDS: usize = 4;
const ROUNDS_QUICK: usize = 2;

/// The numbers of both, by figure.
#[derive(Debug, Default)]
pub(crate) struct Compared(Vec<(String, [Vec<f64>; 2])>);

/// Measures `ours` and `other` in turn. Each begins in every second round.
pub(crate) async fn measure(run: &Run, [ours, other]: [&Stage; 2]) -> Outcome<Compared> {
    let mut compared = Compared::default();
    for round in 0..if run.quick { ROUNDS_QUICK } else { ROUNDS } {
        let mut turns = [(0, ours), (1, other)];
        turns.rotate_left(round % 2);
        for (side, stage) in turns {
            say(&format!("round {}: {}", round + 1, stage.binary().display()));
            for (figure, value) in figures(run, stage).await?.into_values() {
                compared.note(&figure, side, value);
            }
        }
    }
    Ok(compared)
}

impl Compared {
    fn note(&mut self, figure: &str, side: usize, value: f64) {
        let place = self.0.iter().position(|(name, _)| name == figure).unwrap_or_else(|| {
            self.0.push((figure.to_owned(), [Vec::new(), Vec::new()]));
            self.0.len() - 1
        });
        if let Some(values) = self.0.get_mut(place).and_then(|(_, sides)| sides.get_mut(side)) {
            values.push(value);
        }
    }
}

/// The middle one (the upper of two).
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| figure | binary | against | ratio |")?;
        writeln!(f, "| --- | --- | --- | --- |")?;
        for (figure, [ours, other]) in &self.0 {
            let (ours, other) = (median(ours), median(other));
            let ratio = ours / other;
            let ratio = if ratio.is_finite() { format!("{ratio:.2}") } else { "–".to_owned() };
            writeln!(f, "| {figure} | {ours:.2} | {other:.2} | {ratio} |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_of_medians_and_figures_keep_their_order() {
        let mut compared = Compared::default();
        for (side, value) in [(0, 1.0), (1, 4.0), (1, 2.0), (0, 900.0), (0, 3.0), (1, 6.0)] {
            compared.note("ms", side, value);
            compared.note("KiB", side, 1.0);
        }
        let told = compared.to_string();
        let rows: Vec<&str> = told.lines().skip(2).collect();
        assert_eq!(rows, ["| ms | 3.00 | 4.00 | 0.75 |", "| KiB | 1.00 | 1.00 | 1.00 |"]);
    }
}

//! Samples and their statistics.

use std::fmt::{self, Display};
use std::time::Duration;

/// Durations of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
        self.0.sort();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The middle sample (the upper of two).
    pub(crate) fn median(&self) -> Duration {
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    /// The sample that this many of a hundred do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Adds the samples of another measurement.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort();
    }

    pub(crate) fn max(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}

impl Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", Ms(self.median()), Ms(self.max()))
    }
}

/// A duration as a number, in milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A duration as text, in a suitable unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ms(pub(crate) Duration);

impl Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 1.0 { write!(f, "{:.2} ms", seconds * 1e3) } else { write!(f, "{seconds:.2} s") }
    }
}

/// How much longer `a` is than `b`, as text with a sign.
pub(crate) fn above(a: Duration, b: Duration) -> String {
    if a >= b { format!("+{}", Ms(a.saturating_sub(b))) } else { format!("−{}", Ms(b.saturating_sub(a))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample() {
        let mut samples = Samples::default();
        for ms in 1..=200 {
            samples.push(Duration::from_millis(ms));
        }
        let percentiles = [0, 50, 99, 100].map(|percent| samples.percentile(percent).as_millis());
        assert_eq!((percentiles, Samples::default().percentile(99)), ([1, 100, 198, 200], Duration::ZERO));
    }

    #[test]
    fn the_median_is_the_middle_one_and_not_the_mean() {
        let mut samples = Samples::default();
        for ms in [900, 2, 1] {
            samples.push(Duration::from_millis(ms));
        }
        assert_eq!(samples.median(), Duration::from_millis(2));
        assert_eq!(samples.to_string(), "2.00 ms / 900.00 ms");
        assert_eq!(above(samples.median(), samples.max()), "−898.00 ms");
    }
}

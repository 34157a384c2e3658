//! Collects one measurement per run of a loop and formats their median and range.

/// Measurements of a loop, one per run.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    pub(crate) fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn add_ns(&mut self, ns: u64) {
        self.add(ns as f64 / 1e6);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// `median 3.1 ms (0.4 … 7.9)`
    pub(crate) fn show(&self, unit: &str) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
            return "nothing measured".to_owned();
        };
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[half - 1] + sorted[half]) / 2.0,
            _ => sorted[half],
        };
        let gap = if unit.is_empty() { "" } else { " " };
        format!("median {median:.3}{gap}{unit} ({least:.3} … {most:.3})")
    }
}

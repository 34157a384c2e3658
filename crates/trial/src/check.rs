//! The result of checking one property of a run: the finding, the reason and the events that show it. The checks themselves are
//! in [`sale`](crate::sale) and [`holds`](crate::holds).

use serde::Serialize;

/// A property, the finding about it, and the grounds for that finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The name for programs.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// What the check found.
    pub finding: Finding,
    /// The reason, in a few words.
    pub detail: String,
    /// The numbers of the events that show it.
    pub events: Vec<u64>,
}

impl Checked {
    /// Creates a finding without a reason or events.
    pub(crate) fn of(name: &'static str, title: &'static str, finding: Finding) -> Self {
        Self {
            name,
            title,
            finding,
            detail: String::new(),
            events: Vec::new(),
        }
    }

    /// Adds the reason, in a few words.
    pub(crate) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Adds the events that show the finding.
    pub(crate) fn at(mut self, events: impl IntoIterator<Item = u64>) -> Self {
        self.events = events.into_iter().collect();
        self
    }
}

/// The possible results of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Nothing in this run contradicts the property.
    Held,
    /// This run contradicts the property.
    Violated,
    /// The result depends on something that is not known, such as a lost answer.
    Undecided,
    /// The property does not apply to this kind of trial.
    #[serde(rename = "n/a")]
    NotApplicable,
}

//! What a check found, and what speaks for it. The checks themselves belong to the trials: [`sale`](crate::sale) and [`holds`](crate::holds).

use serde::Serialize;

/// A property, what was found about it, and what speaks for the finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What programs call it.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What was found.
    pub finding: Finding,
    /// In a few words, why.
    pub detail: String,
    /// The events that show it.
    pub events: Vec<u64>,
}

impl Checked {
    /// A finding with nothing said about it yet.
    pub(crate) fn of(name: &'static str, title: &'static str, finding: Finding) -> Self {
        Self {
            name,
            title,
            finding,
            detail: String::new(),
            events: Vec::new(),
        }
    }

    /// With the reason in a few words.
    pub(crate) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// With the events that show it.
    pub(crate) fn at(mut self, events: impl IntoIterator<Item = u64>) -> Self {
        self.events = events.into_iter().collect();
        self
    }
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Nothing in this run contradicts it.
    Held,
    /// This run contradicts it.
    Violated,
    /// It depends on what is not known.
    Undecided,
    /// It says nothing about this kind of trial.
    #[serde(rename = "n/a")]
    NotApplicable,
}

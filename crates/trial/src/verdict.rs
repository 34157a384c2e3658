//! The verdict over a run: what was decided, and the evidence for it.
//!
//! A verdict speaks of this run. `BROKEN` needs events that prove it; `HELD` needs a witness that the danger really
//! arose. Without one, the run shows nothing, and says so.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::check::{Checked, Finding};

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Nothing broke, although it could have.
    Held,
    /// A promise was broken.
    Broken,
    /// Somebody waits for ever.
    Stuck,
    /// Nothing broke, and nothing was tested.
    Inconclusive,
}

impl Outcome {
    /// The exit code of a command that judges one lock.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Broken => 1,
            Self::Inconclusive => 2,
            Self::Stuck => 3,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "HELD",
            Self::Broken => "BROKEN",
            Self::Stuck => "STUCK",
            Self::Inconclusive => "INCONCLUSIVE",
        })
    }
}

/// What an inconclusive run lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// In a word, for programs.
    pub what: &'static str,
    /// What it is and how to get it, for people.
    pub advice: &'static str,
}

/// One of the two axes of a lock trial: what holders believed, and what became of the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// In a word or two, for programs.
    pub code: String,
    /// In a sentence, for people, where there is something to tell.
    pub text: Option<String>,
}

impl Axis {
    /// With nothing to tell.
    pub fn bare(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            text: None,
        }
    }
}

/// A command that can be pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The command.
    pub command: String,
    /// What it shows.
    pub remark: &'static str,
}

/// The decision and its grounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What was decided.
    pub outcome: Outcome,
    /// Why, in a sentence or two.
    pub because: String,
    /// Figures that answer the question of the trial.
    pub measured: Vec<String>,
    /// For `BROKEN` and `STUCK`: the two or three events that prove it.
    pub evidence: Vec<Evidence>,
    /// For `HELD`: what shows that the danger arose.
    pub witness: Vec<String>,
    /// For `INCONCLUSIVE`: what is lacking.
    pub missing: Option<Missing>,
    /// Whether two believed that they held the lock.
    pub belief: Axis,
    /// Whether the resource suffered.
    pub damage: Axis,
    /// What each check found.
    pub checks: Vec<Checked>,
    /// What the figures of this run support.
    pub found: Vec<String>,
    /// What led to it, in a sentence.
    pub why: Option<String>,
    /// For `HELD`: what this run does not show.
    pub limits: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// Up to three commands that lead on.
    pub next: Vec<Next>,
}

impl Verdict {
    /// Whether the check that programs call `name` was violated.
    pub fn violates(&self, name: &str) -> bool {
        let is_violated = |checked: &Checked| checked.finding == Finding::Violated;
        self.checks
            .iter()
            .any(|checked| checked.name == name && is_violated(checked))
    }

    /// A verdict with no more grounds than its sentence.
    pub fn bare(outcome: Outcome, because: impl Into<String>) -> Self {
        Self {
            outcome,
            because: because.into(),
            measured: Vec::new(),
            evidence: Vec::new(),
            witness: Vec::new(),
            missing: None,
            belief: Axis::bare("n/a"),
            damage: Axis::bare("none"),
            checks: Vec::new(),
            found: Vec::new(),
            why: None,
            limits: None,
            notes: Vec::new(),
            next: Vec::new(),
        }
    }
}

/// An event that proves something.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Its number in the history.
    pub event: u64,
    /// How it is referred to.
    pub cited: Cited,
    /// When.
    pub at_ns: u64,
    /// Who was told, or `lab`.
    pub who: String,
    /// What it was, in a word or two.
    pub what: String,
    /// The same as a sentence.
    pub sentence: String,
    /// What it shows.
    pub shows: String,
}

/// How a report refers to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cited {
    /// By its number in the history: `#12`.
    Event,
    /// By its place in the serial log of the shared number: `op 3`.
    Op(u64),
    /// As the first of several operations: `op 1–4`.
    Ops(u64, u64),
}

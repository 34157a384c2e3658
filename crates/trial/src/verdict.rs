//! The types of a verdict on a run: its outcome, the evidence for it, and what each check found. The checks and the judges are in
//! [`sale`](crate::sale), [`holds`](crate::holds) and [`retry`](crate::retry).
//!
//! A verdict applies to this run only. `BROKEN` needs events that prove it; `HELD` needs a witness that the danger really
//! arose. Without a witness the run shows nothing, and the verdict is `INCONCLUSIVE`.

use std::fmt;

use serde::{Deserialize, Serialize};

mod lack;

pub use lack::{Lack, Missing};

/// The possible verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Nothing broke, although it could have.
    Held,
    /// A promise was broken.
    Broken,
    /// For three TTLs nobody could take the lock.
    Stuck,
    /// The run proves nothing: the danger did not arise, or what broke may be caused by the machine.
    Inconclusive,
}

impl Outcome {
    /// Returns the exit code of a command that judges one lock.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Broken => 1,
            Self::Inconclusive => 2,
            Self::Stuck => 3,
        }
    }

    /// Returns whether it is a verdict against the lock.
    pub fn is_conviction(self) -> bool {
        matches!(self, Self::Broken | Self::Stuck)
    }

    /// Every verdict, the worst first.
    pub const WORST_FIRST: [Self; 4] = [Self::Broken, Self::Stuck, Self::Inconclusive, Self::Held];

    /// Returns the worst of several verdicts; `None` if there are none.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().min_by_key(|outcome| outcome.rank())
    }

    /// Returns its index among all verdicts, the worst first.
    pub(crate) fn rank(self) -> usize {
        let found = Self::WORST_FIRST.iter().position(|known| *known == self);
        found.unwrap_or(Self::WORST_FIRST.len())
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

/// One of the two axes of a lock trial: what holders believed ([`Belief`]), and what happened to the resource ([`Damage`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis<Code> {
    /// What was found, for programs.
    pub code: Code,
    /// A sentence for people, if there is something to say.
    pub text: Option<String>,
}

impl<Code> Axis<Code> {
    /// Creates an axis without a sentence.
    pub fn bare(code: Code) -> Self {
        Self { code, text: None }
    }
}

/// Whether two processes believed at the same time that they held the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Belief {
    /// The trial records no holds.
    #[serde(rename = "n/a")]
    NotApplicable,
    /// They did not.
    #[serde(rename = "none")]
    NoOverlap,
    /// They did.
    #[serde(rename = "overlap")]
    Overlap,
}

/// A kind of damage to the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// More was sold than there was.
    Oversold,
    /// An acknowledged update is gone.
    LostUpdate,
    /// The steps of two holds are mixed.
    Interleaved,
}

impl Damage {
    /// Returns its name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oversold => "oversold",
            Self::LostUpdate => "lost_update",
            Self::Interleaved => "interleaved",
        }
    }

    /// Returns the names of all damage: `none`, or `oversold, lost_update`.
    pub fn names(all: &[Self]) -> String {
        if all.is_empty() {
            return "none".into();
        }
        let names: Vec<&str> = all.iter().map(|damage| damage.name()).collect();
        names.join(", ")
    }
}

/// A suggested command to paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The command.
    pub command: String,
    /// What it shows.
    pub remark: &'static str,
}

/// Why promised fences that do not grow are no use.
pub(crate) const WHY_FENCES: &str =
    "The resource knows the latest holder by the highest fence; these do not say who that is.";

/// The verdict and its grounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The verdict itself.
    pub outcome: Outcome,
    /// The reason, in a sentence or two.
    pub because: String,
    /// Figures that answer the question of the trial.
    pub measured: Vec<String>,
    /// For `BROKEN` and `STUCK`: the two or three events that prove it.
    pub evidence: Vec<Evidence>,
    /// For `HELD`: what shows that the danger arose.
    pub witness: Vec<String>,
    /// For `INCONCLUSIVE`: what is missing.
    pub missing: Option<Missing>,
    /// Whether two processes believed that they held the lock.
    pub belief: Axis<Belief>,
    /// Whether the resource was damaged.
    pub damage: Axis<Vec<Damage>>,
    /// What each check found.
    pub checks: Vec<Checked>,
    /// What the figures of this run support.
    pub found: Vec<String>,
    /// The cause, in a sentence.
    pub why: Option<String>,
    /// For `HELD`: what this run does not show.
    pub limits: Option<String>,
    /// Other things worth knowing.
    pub notes: Vec<String>,
    /// Up to three suggested commands.
    pub next: Vec<Next>,
}

impl Verdict {
    /// Returns whether the check that programs call `name` was violated.
    pub fn violates(&self, name: &str) -> bool {
        let is_violated = |checked: &Checked| checked.finding == Finding::Violated;
        self.checks
            .iter()
            .any(|checked| checked.name == name && is_violated(checked))
    }

    /// Creates a verdict without grounds other than its reason.
    pub fn bare(outcome: Outcome, because: impl Into<String>) -> Self {
        Self {
            outcome,
            because: because.into(),
            measured: Vec::new(),
            evidence: Vec::new(),
            witness: Vec::new(),
            missing: None,
            belief: Axis::bare(Belief::NotApplicable),
            damage: Axis::bare(Vec::new()),
            checks: Vec::new(),
            found: Vec::new(),
            why: None,
            limits: None,
            notes: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Creates an inconclusive verdict: its reason, what the run is missing in a word, and how to get it.
    pub(crate) fn inconclusive(
        because: impl Into<String>,
        what: Lack,
        advice: &'static str,
    ) -> Self {
        Self {
            missing: Some(Missing { what, advice }),
            ..Self::bare(Outcome::Inconclusive, because)
        }
    }

    /// Creates an inconclusive verdict: a process did not get ready, so nobody was asked anything.
    pub(crate) fn not_begun(why: &str) -> Self {
        Self::inconclusive(
            format!("Nothing was tried: {why}."),
            Lack::Ready,
            "a program that gets ready every time it is started.",
        )
    }

    /// Creates the verdict on a run during which the machine was suspended: whatever seems to be wrong may come from that.
    pub(crate) fn suspended(for_ms: f64) -> Self {
        Self::inconclusive(
            format!(
                "The machine was suspended for {:.1} s during the run: leases went on, and the lab's clock stood still.",
                for_ms / 1e3
            ),
            Lack::Awake,
            "a machine that is not suspended during the run.",
        )
    }
}

/// An event that proves something.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Its number in the history.
    pub event: u64,
    /// How reports refer to it.
    pub cited: Cited,
    /// Its timestamp.
    pub at_ns: u64,
    /// The process concerned, or `lab`.
    pub who: String,
    /// A description in a word or two.
    pub what: String,
    /// The description as a sentence.
    pub sentence: String,
    /// What it shows.
    pub shows: String,
}

/// How a report refers to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cited {
    /// By its number in the history: `#12`.
    Event,
    /// By its position in the serial log of the register: `op 3`.
    Op(u64),
    /// As the first of several operations: `op 1–4`.
    Ops(u64, u64),
}

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

//! A saved history, judged again: the table of properties, and whether the recorded verdict stands.

use serde_json::{Value, json};

use super::decision::Decision;
use super::grounds::headline;
use super::ink::{Ink, Role};
use super::numbers::plural;
use crate::check::{Checked, Finding};
use crate::facts;
use crate::ground::Place;
use crate::history::{Header, Saved};
use crate::holds::{self, Trial};
use crate::retry::{self, Comparison};
use crate::sale::{self, Sale};
use crate::verdict::{self, Verdict};

/// Below this width a detail stands under its row.
const NARROW: usize = 98;

/// A history and what it says now.
#[derive(Debug, Clone)]
pub struct Rejudged {
    saved: Saved,
    /// What these checks say.
    pub verdict: Verdict,
}

impl Rejudged {
    /// Judges it again, from the file alone.
    pub fn of(saved: Saved) -> Self {
        let history = &saved.history;
        let verdict = match history.header.scenario.as_str() {
            sale::SCENARIO => verdict::judge(&history.header, &facts::Facts::of(&history.events)),
            retry::SCENARIO => retry::verdict(history),
            _ => {
                let facts = holds::facts::Facts::of(&history.events);
                holds::verdict::judge(&history.header, &facts)
            }
        };
        Self { saved, verdict }
    }

    /// Whether it says what was recorded; none where nothing was.
    pub fn stands(&self) -> Option<bool> {
        let recorded = self.saved.seal.as_ref()?.verdict;
        Some(recorded == self.verdict.outcome)
    }

    /// What it is, and what was set.
    pub fn title(&self, file: &str) -> String {
        let header = &self.saved.history.header;
        let state = match self.saved.seal {
            Some(_) => "complete",
            None => "incomplete",
        };
        let recorded = header.recorded.replace('T', " ").replace("+00:00", " UTC");
        let events = plural(self.saved.history.events.len(), "event", "events");
        format!(
            "check   {file}: {events}, {state}, recorded {recorded} by fencepost {}\n  {}   lock {}   {}   store {}   seed {}\n",
            header.version,
            command(header),
            header.strategy,
            plural(header.concurrency, "process", "processes"),
            Place::named(&header.store).title(),
            header.seed
        )
    }

    /// The properties, each with its finding.
    pub fn table(&self, quiet: bool, ink: Ink) -> String {
        let heading = format!("  {:<26}  {:<11}  evidence", "property", "result");
        let mut text = format!("{}\n", ink.paint(Role::Label, heading));
        for row in rows(&self.verdict.checks) {
            let dull = matches!(row.finding, Finding::Held | Finding::NotApplicable);
            if !(quiet && dull) {
                text.push_str(&row.text(ink));
            }
        }
        text
    }

    /// The verdict, and whether the recorded one stands.
    pub fn conclusion(&self, ink: Ink) -> String {
        let because = first_sentence(&self.verdict.because);
        let remark = match (&self.saved.seal, self.stands()) {
            (Some(_), Some(true)) => {
                "Judged again from the file alone: the recorded verdict stands.".to_owned()
            }
            (Some(seal), _) => format!(
                "Recorded {} by {}; these checks say {}.",
                seal.verdict, self.saved.history.header.version, self.verdict.outcome
            ),
            (None, _) => "Judged from the file alone; no verdict was recorded.".to_owned(),
        };
        let mut text = headline(self.verdict.outcome, &format!("{because} {remark}"), ink);
        if let Some(missing) = &self.verdict.missing {
            text.push_str(&ink.sentence("missing", missing.advice));
        }
        text
    }

    /// The line that is cut off, and the last event before it.
    pub fn cut(&self) -> Option<(usize, usize)> {
        let line = self.saved.cut_line?;
        Some((line, self.saved.history.events.len()))
    }

    /// The same as one JSON document.
    pub fn json(&self, file: &str) -> Value {
        let header = &self.saved.history.header;
        let reproduce = Trial::of(header).map(|trial| trial.reproduce());
        let reproduce = reproduce.or_else(|| Some(super::reproduce(&Sale::of(header)?)));
        let compared = || Comparison::of(&self.saved.history).map(|it| it.reproduce());
        let reproduce = reproduce.or_else(compared);
        let verdict = Decision::of(&self.verdict, None, reproduce.unwrap_or_default());
        json!({
            "scenario": header.scenario,
            "strategy": header.strategy,
            "timestamp": header.recorded,
            "schema": "fencepost/check/1",
            "version": header.version,
            "store": header.store,
            "seed": header.seed,
            "file": file,
            "events": self.saved.history.events.len(),
            "complete": self.saved.seal.is_some(),
            "cut_line": self.saved.cut_line,
            "recorded": self.saved.seal.as_ref().map(|seal| seal.verdict),
            "stands": self.stands(),
            "verdict": verdict,
        })
    }
}

/// The words that ran it.
fn command(header: &Header) -> String {
    match holds::Scenario::find(&header.scenario) {
        Some(scenario) => scenario.command().to_owned(),
        None => header.scenario.clone(),
    }
}

fn first_sentence(text: &str) -> &str {
    match text.find(". ") {
        Some(end) => &text[..=end],
        None => text,
    }
}

/// A row of the table; what does not apply for the same reason shares one.
struct Row {
    title: String,
    finding: Finding,
    detail: String,
    events: String,
}

fn rows(checks: &[Checked]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for check in checks {
        let shared = rows.last_mut().filter(|row| {
            let both = row.finding == check.finding && row.detail == check.detail;
            both && check.finding == Finding::NotApplicable
        });
        if let Some(row) = shared {
            row.title.push_str(&format!(", {}", check.title));
            continue;
        }
        let events: Vec<String> = check
            .events
            .iter()
            .map(|event| format!("#{event}"))
            .collect();
        rows.push(Row {
            title: check.title.to_owned(),
            finding: check.finding,
            detail: check.detail.clone(),
            events: events.join(", "),
        });
    }
    rows
}

impl Row {
    fn text(&self, ink: Ink) -> String {
        let (glyph, word, role) = match self.finding {
            Finding::Held => ('✓', "held", Role::Good),
            Finding::Violated => ('✗', "violated", Role::Bad),
            Finding::Undecided => ('?', "undecided", Role::Unsure),
            Finding::NotApplicable => ('–', "n/a", Role::Label),
        };
        let result = ink.paint(role, format_args!("{glyph} {word:<9}"));
        let (detail, events) = match self.finding {
            Finding::Held => ("", ""),
            _ => (self.detail.as_str(), self.events.as_str()),
        };
        let row = format!("  {:<26}  {result}", self.title);
        let text = if ink.columns < NARROW {
            let under = format!("{detail}  {events}");
            match under.trim() {
                "" => row,
                under => format!("{}\n      {under}", row.trim_end()),
            }
        } else {
            format!("{row}  {detail:<43}  {events}")
        };
        format!("{}\n", text.trim_end())
    }
}

//! The terminal report of `check`: a table of properties, and whether the recorded verdict stands.

use super::verdict::headline;
use crate::history::Header;
use crate::holds::Scenario;
use crate::saved::Rejudged;
use crate::store::TrialStore;
use crate::text::ink::{Ink, Role};
use crate::text::numbers::plural;
use crate::verdict::{Checked, Finding};

/// On a narrower screen, details are printed below their rows.
const NARROW: usize = 98;

/// Returns the title with the settings.
pub fn title(rejudged: &Rejudged, file: &str) -> String {
    let header = &rejudged.saved.history.header;
    let state = match rejudged.saved.seal {
        Some(_) => "complete",
        None => "incomplete",
    };
    let recorded = header.recorded.replace('T', " ").replace("+00:00", " UTC");
    let events = plural(rejudged.saved.history.events.len(), "event", "events");
    format!(
        "check   {file}: {events}, {state}, recorded {recorded} by fencepost {}\n  {}   lock {}   {}   store {}   seed {}\n",
        header.version,
        command(header),
        header.strategy,
        plural(header.concurrency, "process", "processes"),
        store(header),
        header.seed
    )
}

/// Returns the table of properties with their findings.
pub fn table(rejudged: &Rejudged, quiet: bool, ink: Ink) -> String {
    let heading = format!("  {:<26}  {:<11}  evidence", "property", "result");
    let mut text = format!("{}\n", ink.paint(Role::Label, heading));
    for row in rows(&rejudged.verdict.checks) {
        let dull = matches!(row.finding, Finding::Held | Finding::NotApplicable);
        if !(quiet && dull) {
            text.push_str(&row.text(ink));
        }
    }
    text
}

/// Returns the verdict, and whether the recorded one stands.
pub fn conclusion(rejudged: &Rejudged, ink: Ink) -> String {
    let because = first_sentence(&rejudged.verdict.because);
    let remark = match (&rejudged.saved.seal, rejudged.stands()) {
        (Some(_), Some(true)) => {
            "Judged again from the file alone: the recorded verdict stands.".to_owned()
        }
        (Some(seal), _) => format!(
            "Recorded {} by {}; these checks say {}.",
            seal.verdict, rejudged.saved.history.header.version, rejudged.verdict.outcome
        ),
        (None, _) => "Judged from the file alone; no verdict was recorded.".to_owned(),
    };
    let mut text = headline(
        rejudged.verdict.outcome,
        &format!("{because} {remark}"),
        ink,
    );
    if let Some(missing) = &rejudged.verdict.missing {
        text.push_str(&ink.sentence("missing", missing.advice));
    }
    text
}

/// Returns the store that a history names, with a gloss if it is one of ours.
fn store(header: &Header) -> String {
    let known = TrialStore::named(&header.store);
    known.map_or_else(|| header.store.clone(), |store| store.title())
}

/// Returns the command that recorded the history.
fn command(header: &Header) -> String {
    match Scenario::find(&header.scenario) {
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

/// A row of the table. Properties that do not apply for the same reason share a row.
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

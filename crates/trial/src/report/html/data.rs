//! The data of a page as one JSON document that the page's script reads.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::events::{Packed, Tables};
use super::page::BeliefOverlap;
use super::{ComparisonTable, Page, PageRun};
use crate::history::fences;
use crate::holds::is_refused_overlap;
use crate::store::TrialStore;
use crate::story::{Beat, beats};
use crate::strategy;
use crate::text::numbers::ShortFences;
use crate::verdict::{Axis, Belief, Checked, Damage, Evidence, Outcome, Verdict};

#[derive(Serialize)]
struct Data<'a> {
    format: &'static str,
    version: &'static str,
    title: &'a str,
    command: &'a str,
    generated: String,
    seed: u64,
    store: String,
    lead: Option<&'a str>,
    verdict: Option<Overall<'a>>,
    rows: Vec<Row<'a>>,
    columns: Vec<Column<'a>>,
    runs: Vec<Run<'a>>,
    retry: Option<&'a ComparisonTable>,
    words: Vec<String>,
    shapes: Vec<Value>,
}

#[derive(Serialize, PartialEq)]
struct Row<'a> {
    name: &'a str,
    about: &'static str,
    group: &'static str,
}

#[derive(Serialize, PartialEq)]
struct Column<'a> {
    name: &'a str,
    about: &'a str,
}

/// The verdict on all runs together.
#[derive(Serialize)]
struct Overall<'a> {
    outcome: Outcome,
    because: &'a str,
    found: &'a [String],
    witness: &'a [String],
    limits: Option<&'a str>,
}

impl<'a> Overall<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        Self {
            outcome: verdict.outcome,
            because: &verdict.because,
            found: &verdict.found,
            witness: &verdict.witness,
            limits: verdict.limits.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct Run<'a> {
    id: &'a str,
    scenario: &'a str,
    about: &'a str,
    strategy: &'a str,
    command: &'a str,
    kind: &'static str,
    /// The same text for two runs of a scenario if they can be compared.
    compared_by: String,
    settings: &'a [(&'static str, String)],
    claims: Vec<(&'static str, String)>,
    claims_exclusion: bool,
    ttl_us: u64,
    keep_alive: bool,
    fencing: bool,
    /// Whether the page ends all leases when a killed server is back: it does, unless a restart delay keeps the server that forgot from
    /// voting.
    forgets: bool,
    fence_cut: usize,
    expected: Option<Outcome>,
    outcome: Outcome,
    exit_code: u8,
    because: &'a str,
    refused_overlap: bool,
    belief: Option<String>,
    damage: String,
    measured: &'a [String],
    found: &'a [String],
    evidence: Vec<Proof<'a>>,
    label: Option<&'a str>,
    witness: &'a [String],
    missing: Option<&'static str>,
    why: Option<&'a str>,
    limits: Option<&'a str>,
    notes: &'a [String],
    checks: Vec<Value>,
    story: Vec<Beat>,
    /// Overlaps of belief: the events with both grants, from when, and until when.
    overlaps: Vec<[u64; 4]>,
    events: Packed,
}

#[derive(Serialize)]
struct Proof<'a> {
    event: u64,
    at_us: u64,
    text: &'a str,
    shows: &'a str,
}

impl Page<'_> {
    /// Returns the data of the page as JSON, on one line and safe inside a script element.
    pub fn data(&self) -> String {
        let mut tables = Tables::default();
        let runs: Vec<Run<'_>> = self
            .runs
            .iter()
            .map(|run| Run::of(run, &mut tables))
            .collect();
        let data = Data {
            format: "fencepost/page/1",
            version: env!("CARGO_PKG_VERSION"),
            title: &self.title,
            command: &self.command,
            generated: self.generated.replace('T', " ").replace("+00:00", " UTC"),
            seed: self.seed,
            store: stores(self),
            lead: lead(self),
            verdict: self.verdict.map(Overall::of),
            rows: rows(self),
            columns: columns(self),
            runs,
            retry: self.retry.as_ref(),
            words: tables.words().to_vec(),
            shapes: tables.shapes(),
        };
        // A script element ends at the first "</script", even inside a string, so the data must not contain a "<".
        let text = serde_json::to_string(&data).unwrap_or_default();
        text.replace('<', "\\u003c")
    }
}

fn stores(page: &Page<'_>) -> String {
    let mut stores: Vec<&str> = page
        .runs
        .iter()
        .map(|run| run.header.store.as_str())
        .collect();
    stores.dedup();
    stores.join(", ")
}

/// Returns the run that is shown first: the first with an unexpected verdict, otherwise the first that is broken, otherwise the first of
/// all.
fn lead<'a>(page: &'a Page<'_>) -> Option<&'a str> {
    let surprise = |run: &&PageRun<'_>| {
        run.expected
            .is_some_and(|expected| expected != run.verdict.outcome)
    };
    let broken = |run: &&PageRun<'_>| run.verdict.outcome == Outcome::Broken;
    let mut runs = page.runs.iter();
    let found = runs
        .clone()
        .find(surprise)
        .or_else(|| runs.clone().find(broken));
    found.or_else(|| runs.next()).map(|run| run.id.as_str())
}

fn rows<'a>(page: &'a Page<'_>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for run in &page.runs {
        let ours = strategy::of_run(run.header);
        let row = Row {
            name: &run.header.strategy,
            about: ours.map_or("", |strategy| strategy.summary),
            group: ours.map_or("", |strategy| strategy.group.heading()),
        };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

fn columns<'a>(page: &'a Page<'_>) -> Vec<Column<'a>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for run in &page.runs {
        if columns.iter().all(|column| column.name != run.scenario) {
            columns.push(Column {
                name: &run.scenario,
                about: &run.about,
            });
        }
    }
    columns
}

impl<'a> Run<'a> {
    fn of(run: &'a PageRun<'_>, tables: &mut Tables) -> Self {
        let Verdict {
            outcome, evidence, ..
        } = run.verdict;
        let verdict = run.verdict;
        let story = beats(run.verdict, run.events);
        let start_ns = super::events::start_ns(run.events);
        let needed: BTreeSet<u64> = evidence
            .iter()
            .map(|evidence| evidence.event)
            .chain(story.iter().map(|beat| beat.event))
            .collect();
        Self {
            id: &run.id,
            scenario: &run.scenario,
            about: &run.about,
            strategy: &run.header.strategy,
            command: &run.command,
            kind: if run.is_sale() { "sale" } else { "holds" },
            compared_by: compared_by(run),
            settings: &run.settings,
            claims: claims(run),
            claims_exclusion: run.claims_exclusion(),
            ttl_us: run.lease_us(),
            keep_alive: run.claims.keep_alive,
            fencing: run.claims.fencing,
            forgets: forgets(&run.header.store),
            fence_cut: fence_cut(run),
            expected: run.expected,
            outcome: *outcome,
            exit_code: outcome.exit_code(),
            because: &verdict.because,
            refused_overlap: is_refused_overlap(run.claims, verdict, run.events),
            belief: belief_text(&verdict.belief),
            damage: damage_text(&verdict.damage),
            measured: &verdict.measured,
            found: &verdict.found,
            evidence: evidence
                .iter()
                .map(|evidence| Proof::of(evidence, start_ns))
                .collect(),
            label: run.label.as_deref(),
            witness: &verdict.witness,
            missing: verdict.missing.as_ref().map(|missing| missing.advice),
            why: verdict.why.as_deref(),
            limits: verdict.limits.as_deref(),
            notes: &verdict.notes,
            checks: checks(verdict),
            overlaps: overlaps(run, start_ns),
            events: tables.pack(run.events, &needed),
            story,
        }
    }
}

impl<'a> Proof<'a> {
    fn of(evidence: &'a Evidence, start_ns: u64) -> Self {
        Self {
            event: evidence.event,
            at_us: evidence.at_ns.saturating_sub(start_ns) / 1000,
            text: &evidence.sentence,
            shows: &evidence.shows,
        }
    }
}

/// Returns the overlaps of belief whose grants are among the events of the page, in µs on its clock.
fn overlaps(run: &PageRun<'_>, start_ns: u64) -> Vec<[u64; 4]> {
    let ends = run.events.first().zip(run.events.last());
    let is_there = |grant| ends.is_some_and(|(from, to)| (from.n..=to.n).contains(&grant));
    let at_us = |at_ns: u64| (at_ns / 1000).saturating_sub(start_ns / 1000);
    let there = run.overlaps.iter();
    let there = there.filter(|overlap| overlap.grants.into_iter().all(is_there));
    let row = |overlap: &BeliefOverlap| {
        let [first, second] = overlap.grants;
        let (from_us, until_us) = (at_us(overlap.from_ns), at_us(overlap.until_ns));
        [first, second, from_us, until_us]
    };
    there.map(row).collect()
}

/// Returns what holders believed, in words; `None` if the trial records no holds.
fn belief_text(belief: &Axis<Belief>) -> Option<String> {
    let code = match belief.code {
        Belief::NotApplicable => return None,
        Belief::NoOverlap => "none",
        Belief::Overlap => "overlap",
    };
    Some(belief.text.clone().unwrap_or_else(|| code.into()))
}

/// Returns the damage in words.
fn damage_text(damage: &Axis<Vec<Damage>>) -> String {
    let text = damage.text.clone();
    text.unwrap_or_else(|| Damage::names(&damage.code).replace('_', " "))
}

/// Returns whether the grants are gone once a killed server of this store is back. With a restart delay, the other servers still keep
/// them, and the one that forgot has no vote.
fn forgets(store: &str) -> bool {
    TrialStore::named(store).is_none_or(|store| store.restart_delay().is_none())
}

/// Returns the length of the prefix that all fences of a run share; zero if the fences are short.
fn fence_cut(run: &PageRun<'_>) -> usize {
    let fences = fences(run.events);
    let cut = |first: &&str| {
        let short = ShortFences::among(&fences).shorten(first);
        short
            .strip_prefix('…')
            .map_or(0, |rest| first.len() - rest.len())
    };
    fences.first().map_or(0, cut)
}

fn compared_by(run: &PageRun<'_>) -> String {
    let pairs = run
        .settings
        .iter()
        .map(|(label, value)| format!("{label} {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

fn checks(verdict: &Verdict) -> Vec<Value> {
    let check = |checked: &Checked| {
        json!({
            "name": checked.name,
            "title": checked.title,
            "finding": checked.finding,
            "detail": checked.detail,
            "events": checked.events,
        })
    };
    verdict.checks.iter().map(check).collect()
}

/// Returns the claims of the strategy for display. A property that is not claimed is shown as such, never as "failed".
fn claims(run: &PageRun<'_>) -> Vec<(&'static str, String)> {
    let yes = |claimed: bool, text: &str| if claimed { text } else { "not claimed" }.to_owned();
    let claims = run.claims;
    let recovery = match (claims.recovery_ms, run.claims_exclusion()) {
        (Some(ms), _) => format!("within {ms} ms after its holder died"),
        (None, true) => "within its TTL after its holder died".to_owned(),
        (None, false) => "not claimed".to_owned(),
    };
    vec![
        (
            "keeps others out",
            yes(run.claims_exclusion(), "while its lease lasts"),
        ),
        (
            "stays alive",
            yes(claims.keep_alive, "renews its lease while its holder lives"),
        ),
        (
            "fences",
            yes(claims.fencing, "a growing number that the resource checks"),
        ),
        ("is fair", yes(claims.fair, "waiters are served in order")),
        ("recovers", recovery),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_delay_keeps_grants_alive() {
        assert!(forgets("redis"));
        assert!(forgets("redlock"));
        assert!(!forgets("redlock?restart_delay=10s"));
        assert!(!forgets("redlock://a,b,c?restart_delay=10s"));
        assert!(forgets("a store of a later version"));
    }
}

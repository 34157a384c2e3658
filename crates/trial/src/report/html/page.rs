//! What a page shows: one trial, one sale, the same sale with several strategies, or a matrix of trials.
//!
//! A page borrows what was recorded and judged. [`Page::render`] turns it into text.

use super::comparison::{Compared, ComparisonTable};
use crate::gauntlet::ladder::{self, Rung};
use crate::gauntlet::{Gauntlet, Label, Row};
use crate::history::{Event, Header, What};
use crate::holds::check::Checks;
use crate::holds::facts::Facts;
use crate::holds::{self, Scenario};
use crate::matrix::Run;
use crate::protocol::{Claims, Promise};
use crate::report::fault;
use crate::sale;
use crate::store::TrialStore;
use crate::story::scenarios;
use crate::strategy;
use crate::text::numbers::count;
use crate::verdict::{Outcome, Verdict};

/// A run with more overlaps than this is not drawn with all of them.
const OVERLAPS_PER_RUN_MAX: usize = 10_000;
/// How many TTLs of a long trial are drawn if nothing in particular is to be shown.
const LONG_TRIAL_TTLS: u64 = 8;

/// The contents of a page.
#[derive(Debug)]
pub struct Page<'a> {
    /// The title, such as `oversell: 10 processes, stock 1`.
    pub title: String,
    /// The command that reproduces it.
    pub command: String,
    /// When it was made, in UTC.
    pub generated: String,
    /// The random seed.
    pub seed: u64,
    /// The verdict on all runs together, if it is more than a count.
    pub verdict: Option<&'a Verdict>,
    /// The runs, in the order of the strategies. A page with several runs has a matrix.
    pub runs: Vec<PageRun<'a>>,
    /// The comparison of ways of waiting, if there is one.
    pub retry: Option<ComparisonTable>,
}

/// One trial on a page.
#[derive(Debug)]
pub struct PageRun<'a> {
    /// The identifier in links, unique on the page: `safe.ttl-edge`.
    pub id: String,
    /// The heading of its column.
    pub scenario: String,
    /// What happens in the scenario, in a few words.
    pub about: String,
    /// The command that runs it again.
    pub command: String,
    /// The verdict that the committed table expects.
    pub expected: Option<Outcome>,
    /// The settings, as label and value. Runs with the same settings can be compared.
    pub settings: Vec<(&'static str, String)>,
    /// What the lock promises.
    pub claims: Claims,
    /// The header of its history.
    pub header: &'a Header,
    /// The verdict.
    pub verdict: &'a Verdict,
    /// Why the lock was convicted, in a gauntlet.
    pub label: Option<String>,
    /// The events of the run.
    pub events: &'a [Event],
    /// Where two processes certainly believed at once that they held a lock.
    pub(super) overlaps: Vec<BeliefOverlap>,
}

/// Two holds of one lock at once, as the checks found them. The page looks for none itself: it does not know when a belief ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct BeliefOverlap {
    /// The events with the two grants.
    pub(super) grants: [u64; 2],
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
}

impl BeliefOverlap {
    /// Returns the first overlaps of a run, as many as a page shows.
    fn all(header: &Header, events: &[Event]) -> Vec<Self> {
        let facts = Facts::of(events);
        let overlaps = Checks::of(header, &facts).overlaps();
        let shown = overlaps.iter().take(OVERLAPS_PER_RUN_MAX);
        let shown = shown.map(|overlap| Self {
            grants: [overlap.first, overlap.second].map(|hold| hold.granted.event),
            from_ns: overlap.from_ns,
            until_ns: overlap.until_ns,
        });
        shown.collect()
    }
}

impl<'a> PageRun<'a> {
    /// Creates a run from its record and its verdict only. The claims are those of the strategy, if it is one of ours.
    pub fn new(header: &'a Header, verdict: &'a Verdict, events: &'a [Event]) -> Self {
        Self {
            id: format!("{}.{}", header.strategy, header.scenario),
            scenario: header.scenario.clone(),
            about: String::new(),
            command: String::new(),
            expected: None,
            settings: Vec::new(),
            claims: strategy::claims_of(header),
            header,
            verdict,
            label: None,
            events,
            overlaps: BeliefOverlap::all(header, events),
        }
    }

    /// Converts a lock trial for a page.
    fn of_trial(judged: &'a holds::Judged) -> Self {
        let scenario = judged.trial.scenario;
        Self {
            command: judged.reproduce(),
            expected: judged.expected(),
            ..Self::in_scenario(scenario, &judged.header, &judged.verdict, &judged.events)
        }
    }

    /// Converts a run in this scenario for a page, from its record and its verdict only.
    pub(super) fn in_scenario(
        scenario: Scenario,
        header: &'a Header,
        verdict: &'a Verdict,
        events: &'a [Event],
    ) -> Self {
        let mut settings = vec![("TTL", in_ms(header.ttl_ms))];
        let work_ms = header.holds.map(|holds| holds.work_ms);
        if let (Scenario::TtlEdge, Some(work_ms)) = (scenario, work_ms) {
            settings.push(("work", in_ms(work_ms)));
        }
        settings.push(("processes", number(header.concurrency as u64)));
        settings.push(("store", header.store.clone()));
        let shown = shown(scenario, header, verdict, events);
        if let (Some(first), Some(last)) = (shown.first(), shown.last())
            && shown.len() < events.len()
        {
            let [first, last, all] = [first.n, last.n, events.len() as u64].map(number);
            settings.push(("shown", format!("#{first} to #{last} of {all} events")));
        }
        Self {
            about: scenarios::fault(scenario, &store(header)).into(),
            settings,
            events: shown,
            // Beliefs depend on the whole history.
            ..Self::new(header, verdict, events)
        }
    }

    /// Converts a sale for a page.
    fn of_sale(judged: &'a sale::Judged) -> Self {
        Self {
            command: judged.reproduce(),
            expected: judged.expected(),
            ..Self::selling(&judged.header, &judged.verdict, &judged.events)
        }
    }

    /// Converts a sale for a page, from its record and its verdict only.
    pub(super) fn selling(header: &'a Header, verdict: &'a Verdict, events: &'a [Event]) -> Self {
        let mut settings = vec![
            ("stock", count(header.stock)),
            ("processes", number(header.concurrency as u64)),
            ("delay", format!("{} µs", number(header.delay_us))),
        ];
        if header.wait_ms > 0 {
            settings.push(("wait", in_ms(header.wait_ms)));
        }
        settings.push(("store", header.store.clone()));
        Self {
            about: fault::of_sale(header.concurrency, header.wait_ms),
            settings,
            ..Self::new(header, verdict, events)
        }
    }

    /// Returns whether the run is a sale, in which no holds are recorded.
    pub(super) fn is_sale(&self) -> bool {
        let has = |wanted: fn(&What) -> bool| self.events.iter().any(|event| wanted(&event.what));
        has(|what| matches!(what, What::Purchase { .. }))
            && !has(|what| matches!(what, What::Acquire { .. }))
    }

    /// Returns how long a lease lasts from its grant; zero if the lease does not begin with the grant.
    pub(super) fn lease_us(&self) -> u64 {
        if self.claims.expires_after_work {
            return 0;
        }
        self.header.ttl_ms.saturating_mul(1000)
    }

    pub(super) fn claims_exclusion(&self) -> bool {
        self.header.promise == Promise::Exclusion
    }
}

impl<'a> Page<'a> {
    /// Returns the page of one lock trial.
    pub fn of_trial(judged: &'a holds::Judged) -> Self {
        let run = PageRun::of_trial(judged);
        Self::of_run(trial_title(&run), run)
    }

    /// Returns the page of one run.
    pub(super) fn of_run(title: String, run: PageRun<'a>) -> Self {
        Self {
            title,
            command: run.command.clone(),
            generated: run.header.recorded.clone(),
            seed: run.header.seed,
            verdict: None,
            runs: vec![run],
            retry: None,
        }
    }

    /// Returns the page of one sale, or of several with the same settings.
    pub fn of_sales(runs: &'a [sale::Judged]) -> Self {
        let first = runs.first();
        let sale = first.map(|judged| &judged.sale);
        let title = sale.map_or_else(String::new, |sale| {
            sale_title(sale.concurrency, sale.stock.into())
        });
        let command = match (runs, sale) {
            ([only], _) => only.reproduce(),
            (_, Some(sale)) => format!(
                "fencepost oversell --all{} --seed {}",
                sale.settings(),
                sale.seed
            ),
            (_, None) => String::new(),
        };
        Self {
            title,
            command,
            generated: first.map_or_else(String::new, |judged| judged.header.recorded.clone()),
            seed: sale.map_or(0, |sale| sale.seed),
            verdict: None,
            runs: runs.iter().map(PageRun::of_sale).collect(),
            retry: None,
        }
    }

    /// Returns a page with the matrix of these runs and the comparison among them.
    pub fn of_matrix(runs: &'a [Run], seed: u64) -> Self {
        let title = "run-all: seven scenarios, every strategy that fits";
        let mut page = Self::of_many(runs.iter(), title.into(), seed);
        page.command = format!("fencepost run-all --seed {seed}");
        let rank = |name: &str| strategy::ALL.iter().position(|known| known.name == name);
        page.runs.sort_by_key(|run| rank(&run.header.strategy));
        if let Some(first) = page.runs.first() {
            let store = TrialStore::named(&first.header.store).unwrap_or_default();
            if store != TrialStore::sqlite() {
                page.command
                    .push_str(&format!(" --store {}", store.typed()));
            }
        }
        page
    }

    /// Returns a page with the worst run of every scenario of a gauntlet, and the verdict on all of them.
    pub fn of_gauntlet(gauntlet: &Gauntlet, rows: &[Row<'a>], verdict: &'a Verdict) -> Self {
        let title = format!(
            "gauntlet: {} in every scenario that applies",
            gauntlet.strategy.name
        );
        let worst = rows.iter().map(|row| row.worst);
        let mut page = Self::of_many(worst, title, gauntlet.seed);
        // A gauntlet has no comparison, so every row is a run of the page.
        for (run, row) in page.runs.iter_mut().zip(rows) {
            run.label = row.label.map(Label::text);
        }
        page.command = gauntlet.command();
        page.verdict = Some(verdict);
        page
    }

    /// Returns a page with the worst run of every lock on the ladder in every scenario, and the verdict on the lock on trial.
    pub fn of_ladder(rungs: &[Rung<'a>], on_trial: &Gauntlet, verdict: &'a Verdict) -> Self {
        let name = on_trial.strategy.name;
        let title = format!("ladder: the same faults, from the simplest lock to {name}");
        let rows = rungs.iter().flat_map(|rung| &rung.rows);
        let mut page = Self::of_many(rows.map(|row| row.worst), title, on_trial.seed);
        page.command = ladder::command(on_trial);
        page.verdict = Some(verdict);
        page
    }

    fn of_many(runs: impl Iterator<Item = &'a Run>, title: String, seed: u64) -> Self {
        let mut page = Self {
            title,
            command: String::new(),
            generated: String::new(),
            seed,
            runs: Vec::new(),
            verdict: None,
            retry: None,
        };
        for run in runs {
            match run {
                Run::Sale(judged) => page.runs.push(PageRun::of_sale(judged)),
                Run::Lock(judged) => page.runs.push(PageRun::of_trial(judged)),
                Run::Retry(judged) => page.retry = Some(ComparisonTable::of(Compared::of(judged))),
            }
        }
        if let Some(first) = page.runs.first() {
            page.generated = first.header.recorded.clone();
        }
        page
    }
}

/// Returns the title of a page with one lock trial.
pub(super) fn trial_title(run: &PageRun<'_>) -> String {
    format!("{}: {}", run.scenario, run.about)
}

/// Returns the title of a page with one sale, or with several that have these settings.
pub(super) fn sale_title(processes: usize, stock: i64) -> String {
    let (processes, stock) = (number(processes as u64), count(stock));
    format!("oversell: {processes} processes, stock {stock}")
}

/// Returns the store of a run, or the default store if it is not one of ours.
fn store(header: &Header) -> TrialStore {
    TrialStore::named(&header.store).unwrap_or_default()
}

fn number(of: u64) -> String {
    count(i64::try_from(of).unwrap_or(i64::MAX))
}

fn in_ms(of: u64) -> String {
    format!("{} ms", number(of))
}

/// Returns the events that a page draws: all of them or, of a long trial, those around its evidence.
fn shown<'a>(
    scenario: Scenario,
    header: &Header,
    verdict: &Verdict,
    events: &'a [Event],
) -> &'a [Event] {
    if !scenario.is_long() {
        return events;
    }
    let ttl_ns = header.ttl_ms.saturating_mul(1_000_000);
    let cited = verdict.evidence.iter().map(|proof| proof.at_ns);
    let (from_ns, until_ns) = match (cited.clone().min(), cited.max()) {
        (Some(first_ns), Some(last_ns)) => (
            first_ns.saturating_sub(ttl_ns.saturating_mul(2)),
            last_ns.saturating_add(ttl_ns),
        ),
        // Nothing happened that would be more interesting than the beginning.
        _ => (0, ttl_ns.saturating_mul(LONG_TRIAL_TTLS)),
    };
    let from = events.partition_point(|event| event.at_ns < from_ns);
    let until = events.partition_point(|event| event.at_ns <= until_ns);
    events.get(from..until).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::sale::{Judged, Sale};

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        for (store, expected) in [
            ("sqlite", "fencepost run-all --seed 7"),
            ("redis", "fencepost run-all --seed 7 --store redis"),
            (
                "redlock?restart_delay=10s",
                "fencepost run-all --seed 7 --store 'redlock?restart_delay=10s'",
            ),
        ] {
            let mut sale = Sale::new(strategy::find("safe").unwrap(), 7);
            sale.store = TrialStore::named(store).unwrap();
            let history = History {
                header: sale.header(),
                events: Vec::new(),
            };
            let runs = [Run::Sale(Judged::of(&sale, history))];
            assert_eq!(Page::of_matrix(&runs, 7).command, expected);
        }
    }
}

//! Pages with many trials in one matrix: of `run-all`, and of `gauntlet`.

use super::comparison::table_of;
use super::{Page, holds, sale};
use crate::gauntlet::ladder::{self, Rung};
use crate::gauntlet::{Gauntlet, Row};
use crate::matrix::Run;
use crate::store::TrialStore;
use crate::strategy;
use crate::verdict::Verdict;

/// Returns a page with the matrix of these runs and the comparison among them.
pub fn page_of_everything(runs: &[Run], seed: u64) -> Page<'_> {
    let title = "run-all: seven scenarios, every strategy that fits";
    let mut page = page_of_many(runs.iter(), title.into(), seed);
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
pub fn page_of_gauntlet<'a>(
    gauntlet: &Gauntlet,
    rows: &[Row<'a>],
    verdict: &'a Verdict,
) -> Page<'a> {
    let title = format!(
        "gauntlet: {} in every scenario that applies",
        gauntlet.strategy.name
    );
    let worst = rows.iter().map(|row| row.worst);
    let mut page = page_of_many(worst, title, gauntlet.seed);
    page.command = gauntlet.command();
    page.verdict = Some(verdict);
    page
}

/// Returns a page with the worst run of every lock on the ladder in every scenario, and the verdict on the lock on trial.
pub fn page_of_ladder<'a>(
    rungs: &[Rung<'a>],
    on_trial: &Gauntlet,
    verdict: &'a Verdict,
) -> Page<'a> {
    let name = on_trial.strategy.name;
    let title = format!("ladder: the same faults, from the simplest lock to {name}");
    let rows = rungs.iter().flat_map(|rung| &rung.rows);
    let mut page = page_of_many(rows.map(|row| row.worst), title, on_trial.seed);
    page.command = ladder::command(on_trial);
    page.verdict = Some(verdict);
    page
}

fn page_of_many<'a>(runs: impl Iterator<Item = &'a Run>, title: String, seed: u64) -> Page<'a> {
    let mut page = Page {
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
            Run::Sale(judged) => page.runs.push(sale::run_of_sale(judged)),
            Run::Hold(judged) => page.runs.push(holds::run_of_trial(judged)),
            Run::Retry(judged) => page.retry = Some(table_of(judged)),
        }
    }
    if let Some(first) = page.runs.first() {
        page.generated = first.header.recorded.clone();
    }
    page
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
            assert_eq!(page_of_everything(&runs, 7).command, expected);
        }
    }
}

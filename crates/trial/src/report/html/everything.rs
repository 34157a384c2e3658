//! The page of `run-all`, with every trial in one matrix.

use super::comparison::table_of;
use super::{Page, holds, sale};
use crate::matrix::Run;
use crate::store::TrialStore;
use crate::strategy;

/// Returns a page with the matrix of these runs and the comparison among them.
pub fn page_of_everything(runs: &[Run], seed: u64) -> Page<'_> {
    let mut page = Page {
        title: "run-all: seven scenarios, every strategy that fits".into(),
        command: format!("fencepost run-all --seed {seed}"),
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
    let rank = |name: &str| strategy::ALL.iter().position(|known| known.name == name);
    page.runs.sort_by_key(|run| rank(&run.header.strategy));
    if let Some(first) = page.runs.first() {
        page.generated = first.header.recorded.clone();
        let store = TrialStore::named(&first.header.store).unwrap_or_default();
        if store != TrialStore::sqlite() {
            page.command
                .push_str(&format!(" --store {}", store.typed()));
        }
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

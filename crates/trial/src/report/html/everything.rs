//! The page of `run-all`, with every trial in one matrix.

use super::comparison::retry_of;
use super::{Page, holds, sale};
use crate::matrix::Run;
use crate::strategy;

/// Returns a page with the matrix of these runs and the comparison among them.
pub fn page_of_everything(runs: &[Run], seed: u64) -> Page<'_> {
    let mut page = Page {
        title: "run-all: every scenario with every strategy".into(),
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
            Run::Hold(tried) => page.runs.push(holds::run_of_trial(tried)),
            Run::Retry(judged, _) => page.retry = Some(retry_of(judged)),
        }
    }
    let rank = |name: &str| strategy::ALL.iter().position(|known| known.name == name);
    page.runs.sort_by_key(|run| rank(&run.header.strategy));
    if let Some(first) = page.runs.first() {
        page.generated = first.header.recorded.clone();
        if first.header.store != "sqlite" {
            page.command
                .push_str(&format!(" --store {}", first.header.store));
        }
    }
    page
}

//! Sales as HTML pages: one sale, or the same sale with several strategies.

use super::{Page, PageRun};
use crate::report::fault;
use crate::sale::Judged;
use crate::text::numbers::count;

/// Converts a sale for a page.
pub fn run_of_sale(judged: &Judged) -> PageRun<'_> {
    let sale = &judged.sale;
    let mut settings = vec![
        ("stock", count(i64::from(sale.stock))),
        ("processes", count(sale.concurrency as i64)),
        ("delay", format!("{} µs", count(sale.delay_us as i64))),
    ];
    if sale.wait_ms > 0 {
        settings.push(("wait", format!("{} ms", count(sale.wait_ms as i64))));
    }
    settings.push(("store", judged.header.store.clone()));
    PageRun {
        about: fault::of_sale(sale),
        command: judged.reproduce(),
        expected: judged.expected(),
        settings,
        ..PageRun::new(&judged.header, &judged.verdict, &judged.events)
    }
}

/// Returns the page of one sale, or of several with the same settings.
pub fn page_of_sales(runs: &[Judged]) -> Page<'_> {
    let first = runs.first();
    let sale = first.map(|judged| &judged.sale);
    let title = sale.map_or_else(String::new, |sale| {
        let (processes, stock) = (count(sale.concurrency as i64), count(sale.stock.into()));
        format!("oversell: {processes} processes, stock {stock}")
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
    Page {
        title,
        command,
        generated: first.map_or_else(String::new, |judged| judged.header.recorded.clone()),
        seed: sale.map_or(0, |sale| sale.seed),
        verdict: None,
        runs: runs.iter().map(run_of_sale).collect(),
        retry: None,
    }
}

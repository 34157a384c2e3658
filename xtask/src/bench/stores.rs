//! `cargo xtask bench --stores`: runs the benchmark of every store, and writes tables and a chart of its figures.

use std::fs;

use anyhow::Result;
use clap::Args;
use fencepost::stores::KINDS;

use super::chart;
use super::figures::Figures;
use super::locks::LockBenchOptions;
use crate::clients;
use crate::filter;
use crate::runner;
use crate::terminal::{headline, say};
use crate::tree;

#[derive(Args)]
pub(crate) struct StoresOptions {
    #[arg(long, group = "lock_benches", help = help())]
    pub(super) stores: bool,
}

/// Redis against Postgres, which is measured like a store.
const VERSUS: &str = "versus";

/// Returns the names of everything that is measured, in the order of the tables. Each runs in its own process, so that a failure does not
/// affect the others. What is measured at each is in the benchmark itself: `crates/fencepost/benches/stores/stage.rs`.
fn names() -> Vec<String> {
    let stores = KINDS.iter().map(|kind| kind.name.replace('_', "-"));
    stores.chain([VERSUS.to_owned()]).collect()
}

fn help() -> String {
    format!(
        "Locks in every store against its own limit and the lock that people use there: a table, target/bench/stores.json, .md and .svg. \
         The names for --filter are {} (Redis against Postgres)",
        names().join(", ")
    )
}

/// Runs the benchmarks. Returns whether all stores could be measured.
pub(super) fn run(filters: &[String], shared: &LockBenchOptions) -> Result<bool> {
    let names = names();
    let chosen = filter::chosen(&names, String::as_str, filters)?;
    let folder = tree::root().join("target/bench");
    fs::create_dir_all(&folder)?;
    let file = |ending: &str| folder.join(format!("stores.{ending}"));
    headline("other people's locks");
    clients::install()?;
    let mut all: Option<Figures> = None;
    let mut failed = Vec::new();
    for store in chosen {
        headline(&format!("locks in every store: {store}"));
        let part = folder.join(format!("stores-{store}.json"));
        let mut command = shared.benchmark("stores")?;
        command.env("FENCEPOST_BENCH_JSON", &part);
        command.env("FENCEPOST_BENCH_STORES", store);
        if !runner::run(&mut command, |_| {})?.success() {
            failed.push(store.as_str());
            continue;
        }
        let part = Figures::read(&part)?;
        match &mut all {
            Some(all) => all.add(part),
            None => all = Some(part),
        }
    }
    if let Some(all) = all {
        fs::write(file("json"), serde_json::to_string_pretty(&all)?)?;
        fs::write(file("md"), all.markdown())?;
        let title = "Locks in every store against its own limit";
        fs::write(file("svg"), chart::draw(&all, title))?;
        say(
            "figures: target/bench/stores.json\ntable:   target/bench/stores.md\nchart:   target/bench/stores.svg",
        );
    }
    if !failed.is_empty() {
        say(format!("not measured: {}", failed.join(", ")));
    }
    Ok(failed.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_chosen_by_name() {
        let names = names();
        assert_eq!(names.len(), KINDS.len() + 1);
        let chosen = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|filter| (*filter).into()).collect();
            let chosen = filter::chosen(&names, String::as_str, &filters);
            chosen.unwrap().into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(
            chosen(&["versus", "postgres-table"]),
            ["postgres-table", "versus"]
        );
        assert_eq!(chosen(&["postgres"]), ["postgres"]);
    }
}

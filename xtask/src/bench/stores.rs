//! `cargo xtask bench --stores`: runs the benchmark of every store, and writes tables and a chart of its figures.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;
use fencepost::stores::KINDS;

use super::chart;
use super::figures::Figures;
use super::redis::{RedisOptions, benchmark};
use crate::clients;
use crate::runner;
use crate::terminal::{headline, say};
use crate::tree;

#[derive(Args)]
pub(crate) struct StoresOptions {
    /// Locks in every store against its own limit and the lock that people use there: a table, target/bench/stores.json, .md and .svg
    #[arg(long, group = "of_stores")]
    pub(super) stores: bool,
    #[arg(long, value_name = "etcd,redis", requires = "stores", help = help_of_only())]
    only: Option<String>,
}

/// Redis against Postgres, which is measured like a store.
const VERSUS: &str = "versus";

/// Returns the names of everything that is measured, in the order of the tables. Each runs in its own process, so that a failure does not
/// affect the others. What is measured at each is in the benchmark itself: `crates/fencepost/benches/stores/stage.rs`.
fn names() -> Vec<String> {
    let stores = KINDS.iter().map(|kind| kind.name.replace('_', "-"));
    stores.chain([VERSUS.to_owned()]).collect()
}

fn help_of_only() -> String {
    format!(
        "Only these stores: {} (Redis against Postgres)",
        names().join(", ")
    )
}

/// Runs the benchmarks. Returns whether all stores could be measured.
pub(super) fn run(options: &StoresOptions, shared: &RedisOptions) -> Result<bool> {
    let chosen = chosen(options.only.as_deref())?;
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
        let mut command = benchmark("stores", shared.real_time)?;
        command.env("FENCEPOST_BENCH_JSON", &part);
        command.env("FENCEPOST_BENCH_STORES", &store);
        if let Some(workloads) = &shared.workloads {
            command.env("FENCEPOST_BENCH", workloads);
        }
        if !runner::run(&mut command, |_| {})?.success() {
            failed.push(store);
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

fn chosen(only: Option<&str>) -> Result<Vec<String>> {
    let names = names();
    let Some(only) = only else {
        return Ok(names);
    };
    let find = |name: &str| {
        let known = names.iter().find(|store| *store == name).cloned();
        known.with_context(|| format!("no such store: {name}; there are {}", names.join(", ")))
    };
    only.split(',').map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_chosen_by_name() {
        assert_eq!(chosen(None).unwrap().len(), KINDS.len() + 1);
        assert_eq!(
            chosen(Some("postgres-table,versus")).unwrap(),
            ["postgres-table", "versus"]
        );
        assert_eq!(chosen(Some("etcd,redis")).unwrap(), ["etcd", "redis"]);
        let error = chosen(Some("etcd,mysql")).unwrap_err().to_string();
        assert!(error.contains("mysql"), "{error}");
    }
}

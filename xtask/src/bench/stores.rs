//! `cargo xtask bench --stores`: runs the benchmark of every store, and writes tables and a chart of its figures.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;

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
    /// Only these stores: sqlite, redis, redlock, postgres, postgres-table, etcd, zookeeper, versus (Redis against Postgres)
    #[arg(long, value_name = "etcd,redis", requires = "stores")]
    only: Option<String>,
}

/// All stores, in the order of the table. Each store runs in its own process, so that a failure does not affect the others.
const STORES: [&str; 8] = [
    "sqlite",
    "redis",
    "redlock",
    "postgres",
    "postgres-table",
    "etcd",
    "zookeeper",
    "versus",
];

/// Runs the benchmarks. Returns whether all stores could be measured.
pub(super) fn run(options: &StoresOptions, shared: &RedisOptions) -> Result<bool> {
    let chosen = chosen(options.only.as_deref())?;
    let folder = tree::root().join("target/bench");
    fs::create_dir_all(&folder)?;
    let file = |ending: &str| folder.join(format!("stores.{ending}"));
    headline("other people's locks");
    clients::install();
    let mut all: Option<Figures> = None;
    let mut failed = Vec::new();
    for store in chosen {
        headline(&format!("locks in every store: {store}"));
        let part = folder.join(format!("stores-{store}.json"));
        let mut command = benchmark("stores", shared.real_time)?;
        command.env("FENCEPOST_BENCH_JSON", &part);
        command.env("FENCEPOST_BENCH_STORES", store);
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

fn chosen(only: Option<&str>) -> Result<Vec<&'static str>> {
    let Some(only) = only else {
        return Ok(STORES.to_vec());
    };
    let find = |name: &str| {
        let known = STORES.iter().find(|store| **store == name);
        let all = STORES.join(", ");
        known
            .copied()
            .with_context(|| format!("no such store: {name}; there are {all}"))
    };
    only.split(',').map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_chosen_by_name() {
        assert_eq!(chosen(None).unwrap().len(), STORES.len());
        assert_eq!(chosen(Some("etcd,redis")).unwrap(), ["etcd", "redis"]);
        let error = chosen(Some("etcd,mysql")).unwrap_err().to_string();
        assert!(error.contains("mysql"), "{error}");
    }
}

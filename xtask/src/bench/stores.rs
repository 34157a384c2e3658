//! `cargo xtask bench --stores`: runs the benchmark of every store, and makes tables and a chart of its figures.

use std::fs;

use anyhow::Result;
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

/// Whether the benchmark ran.
pub(super) fn run(options: &StoresOptions, shared: &RedisOptions) -> Result<bool> {
    let folder = tree::root().join("target/bench");
    fs::create_dir_all(&folder)?;
    let file = |ending: &str| folder.join(format!("stores.{ending}"));
    let mut command = benchmark("stores", shared.real_time)?;
    command.env("FENCEPOST_BENCH_JSON", file("json"));
    if let Some(workloads) = &shared.workloads {
        command.env("FENCEPOST_BENCH", workloads);
    }
    if let Some(only) = &options.only {
        command.env("FENCEPOST_BENCH_STORES", only);
    }
    headline("other people's locks");
    clients::install();
    headline("locks in every store");
    if !runner::run(&mut command, |_| {})?.success() {
        return Ok(false);
    }
    let figures = Figures::read(&file("json"))?;
    fs::write(file("md"), figures.markdown())?;
    let title = "Locks in every store against its own limit";
    fs::write(file("svg"), chart::draw(&figures, title))?;
    say(
        "figures: target/bench/stores.json\ntable:   target/bench/stores.md\nchart:   target/bench/stores.svg",
    );
    Ok(true)
}

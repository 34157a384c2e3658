//! `cargo xtask bench --redis`: runs the benchmark of Redis, and writes a table and a chart of its figures.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::chart;
use super::figures::Figures;
use super::locks::LockBenchOptions;
use crate::clients;
use crate::runner;
use crate::terminal::{headline, say};
use crate::tree;

const PEERS_MANIFEST: &str = "crates/fencepost/benches/peers/Cargo.toml";

#[derive(Args)]
pub(crate) struct RedisOptions {
    /// Locks in Redis against the bare store: a table, target/bench/redis.json, .md and .svg
    #[arg(long, group = "lock_benches")]
    pub(super) redis: bool,
    /// Run the same rounds with rslock, redis-py, node redlock and Postgres advisory locks, if they are installed
    #[arg(long, requires = "redis")]
    peers: bool,
}

/// Runs the benchmark. Returns whether it ran; a missed goal is printed and is not a failure.
pub(super) fn run(options: &RedisOptions, shared: &LockBenchOptions) -> Result<bool> {
    let folder = tree::root().join("target/bench");
    fs::create_dir_all(&folder)?;
    let file = |ending: &str| folder.join(format!("redis.{ending}"));
    let mut command = shared.benchmark("redis")?;
    command.env("FENCEPOST_BENCH_JSON", file("json"));
    if options.peers {
        headline("other people's locks");
        clients::install()?;
        command.env("FENCEPOST_BENCH_PEERS", build_peers()?);
    }
    headline("locks in Redis");
    if !runner::run(&mut command, |_| {})?.success() {
        return Ok(false);
    }
    let figures = Figures::read(&file("json"))?;
    fs::write(file("md"), figures.markdown())?;
    let title = "Locks in Redis against the bare store and against other locks";
    fs::write(file("svg"), chart::draw(&figures, title))?;
    say(format!(
        "figures: target/bench/redis.json\ntable:   target/bench/redis.md\nchart:   target/bench/redis.svg\n{}",
        figures.summary()
    ));
    Ok(true)
}

/// Builds the program with the peers in Rust and returns its path.
fn build_peers() -> Result<PathBuf> {
    let folder = tree::root().join("target/peers");
    let target = folder.to_string_lossy();
    let mut command = runner::cargo([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        PEERS_MANIFEST,
        "--target-dir",
        &target,
    ]);
    let status = runner::run(&mut command, |_| {})?;
    if !status.success() {
        bail!("the peers in Rust cannot be built; without --peers, ours are measured alone");
    }
    let program = folder.join("release/fencepost-bench-peers");
    program
        .canonicalize()
        .with_context(|| program.display().to_string())
}

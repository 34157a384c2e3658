//! `cargo xtask bench --redis`: runs the benchmark of Redis, and writes a table and a chart of its figures.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::chart;
use super::figures::Figures;
use crate::clients;
use crate::runner;
use crate::terminal::{headline, say};
use crate::tree;

const PEERS_MANIFEST: &str = "crates/fencepost/benches/peers/Cargo.toml";
/// Real-time priority with round-robin scheduling, above all processes without real-time priority. Not FIFO: a thread that spins until
/// another one has done its part would never let that one run, and the machine would hang.
const REAL_TIME: [&str; 3] = ["chrt", "--rr", "10"];

#[derive(Args)]
pub(crate) struct RedisOptions {
    /// Locks in Redis against the bare store: a table, target/bench/redis.json, .md and .svg
    #[arg(long, group = "of_stores")]
    pub(super) redis: bool,
    /// Run the same rounds with rslock, redis-py, node redlock and Postgres advisory locks, if they are installed
    #[arg(long, requires = "redis")]
    peers: bool,
    /// Only these workloads: W1 (with W1d), W2, W3, W3p, W4, and with --redis W5, W6
    #[arg(long, value_name = "W1,W2", requires = "of_stores")]
    pub(super) workloads: Option<String>,
    /// Run everything with real-time priority, so that other load on the machine does not change the ratios
    #[arg(long, requires = "of_stores")]
    pub(super) real_time: bool,
}

/// Runs the benchmark. Returns whether it ran; a missed goal is printed and is not a failure.
pub(super) fn run(options: &RedisOptions) -> Result<bool> {
    let folder = tree::root().join("target/bench");
    fs::create_dir_all(&folder)?;
    let file = |ending: &str| folder.join(format!("redis.{ending}"));
    let mut command = benchmark("redis", options.real_time)?;
    command.env("FENCEPOST_BENCH_JSON", file("json"));
    if let Some(workloads) = &options.workloads {
        command.env("FENCEPOST_BENCH", workloads);
    }
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

/// Returns the command that runs a benchmark of the library.
pub(super) fn benchmark(name: &str, real_time: bool) -> Result<Command> {
    let mut arguments = Vec::new();
    let runner = format!("target.'cfg(unix)'.runner={REAL_TIME:?}");
    if real_time {
        may_run_in_real_time()?;
        arguments.extend(["--config", &runner]);
    }
    arguments.extend(["bench", "--package", "fencepost", "--all-features"]);
    arguments.extend(["--bench", name]);
    Ok(runner::cargo(arguments))
}

fn may_run_in_real_time() -> Result<()> {
    let mut command = Command::new(REAL_TIME[0]);
    command.args(&REAL_TIME[1..]).arg("true");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        bail!(
            "real-time priority needs chrt (package util-linux) and the right to use it: run as root, or without --real-time"
        );
    }
    Ok(())
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

//! What the benchmarks of locks share (`--redis` and `--stores`): their options, and the command that runs one of them.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use clap::Args;

use crate::runner;

/// Real-time priority with round-robin scheduling, above all processes without real-time priority. Not FIFO: a thread that spins until
/// another one has done its part would never let that one run, and the machine would hang.
const REAL_TIME: [&str; 3] = ["chrt", "--rr", "10"];

#[derive(Args)]
pub(crate) struct LockBenchOptions {
    /// Only these workloads: W1 (with W1d), W2, W3, W3p, W4, and with --redis W5, W6
    #[arg(long, value_name = "W1,W2", requires = "lock_benches")]
    workloads: Option<String>,
    /// Run everything with real-time priority, so that other load on the machine does not change the ratios
    #[arg(long, requires = "lock_benches")]
    real_time: bool,
}

impl LockBenchOptions {
    /// Returns the command that runs a benchmark of the library with these options.
    pub(super) fn benchmark(&self, name: &str) -> Result<Command> {
        let mut arguments = Vec::new();
        let runner = format!("target.'cfg(unix)'.runner={REAL_TIME:?}");
        if self.real_time {
            may_run_in_real_time()?;
            arguments.extend(["--config", &runner]);
        }
        arguments.extend(["bench", "--package", "fencepost", "--all-features"]);
        arguments.extend(["--bench", name]);
        let mut command = runner::cargo(arguments);
        if let Some(workloads) = &self.workloads {
            command.env("FENCEPOST_BENCH", workloads);
        }
        Ok(command)
    }
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

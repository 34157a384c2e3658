//! Fifty processes that wait for the lock sell exactly the stock, on every store.
//!
//! `FENCEPOST_SOAK=1` makes it twenty runs of each. Without a Redis server its half is skipped, and counted so.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Stdio};

use fencepost_rig::{Redis, RedisError};
use libtest_mimic::{Arguments, Trial};
use serde_json::{Value, json};

const PROCESSES: u64 = 50;
const STOCKS: [u64; 3] = [1, 5, 50];
const STORES: [&str; 2] = ["sqlite", "redis"];
const LOCKS: [&str; 3] = ["safe", "watchdog", "fenced"];

fn main() {
    let has_redis = !matches!(Redis::start(), Err(RedisError::NotInstalled));
    let trial = |store: &'static str, lock: &'static str| {
        Trial::test(format!("exact_sales::{store}::{lock}"), move || {
            sell_on(store, lock);
            Ok(())
        })
        .with_ignored_flag(store == "redis" && !has_redis)
    };
    let mut arguments = Arguments::from_args();
    // A crowd at a time is enough.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let trials = STORES
        .iter()
        .flat_map(|store| LOCKS.map(|lock| trial(store, lock)));
    let trials = trials.collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn runs() -> usize {
    let is_soak = std::env::var_os("FENCEPOST_SOAK").is_some_and(|value| value == "1");
    if is_soak { 20 } else { 2 }
}

fn sell_on(store: &str, lock: &str) {
    let runs = runs();
    for stock in STOCKS {
        (0..runs).for_each(|_| sell_exactly(store, lock, stock));
        println!(
            "{store}, {lock}: {PROCESSES} processes sold exactly {stock} in {runs} of {runs} runs"
        );
    }
}

fn sell_exactly(store: &str, lock: &str, stock: u64) {
    let arguments = format!(
        "oversell --lock={lock} --wait 20000 --stock={stock} --concurrency={PROCESSES} --store {store} --json"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {told}{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let figures = [
        &report["successes"],
        &report["final_stock"],
        &report["total_attempts"],
    ];
    assert_eq!(
        figures,
        [&json!(stock), &json!(0), &json!(PROCESSES)],
        "{text}"
    );
}

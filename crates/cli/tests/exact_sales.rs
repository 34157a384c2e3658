//! Tests that fifty processes that wait for the lock sell exactly the stock, on every store.
//!
//! `FENCEPOST_SOAK=1` runs each test twenty times. If a server is not installed, or Postgres is not built in, its part is
//! skipped and counted as skipped.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Stdio};

use fencepost_rig::{Postgres, Redis};
use libtest_mimic::{Arguments, Trial};
use serde_json::{Value, json};

const PROCESSES: u64 = 50;
const STOCKS: [u64; 3] = [1, 5, 50];
const LOCKS: [&str; 3] = ["safe", "watchdog", "fenced"];
const OF_THE_DATABASE: [&str; 5] = ["row", "table", "advisory", "unique-index", "lease"];

fn main() {
    let has_redis = Redis::is_installed();
    let has_postgres = cfg!(feature = "postgres") && Postgres::is_installed();
    let trial = |store: &'static str, lock: &'static str, is_there: bool| {
        Trial::test(format!("exact_sales::{store}::{lock}"), move || {
            sell_on(store, lock);
            Ok(())
        })
        .with_ignored_flag(!is_there)
    };
    let mut arguments = Arguments::from_args();
    // One crowd at a time is enough.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let mut trials = Vec::new();
    for (store, is_there) in [
        ("sqlite", true),
        ("redis", has_redis),
        ("postgres", has_postgres),
    ] {
        trials.extend(LOCKS.map(|lock| trial(store, lock, is_there)));
    }
    trials.extend(OF_THE_DATABASE.map(|lock| trial("postgres", lock, has_postgres)));
    libtest_mimic::run(&arguments, trials).exit();
}

fn runs() -> usize {
    if fencepost_rig::is_soak() { 20 } else { 2 }
}

fn sell_on(name: &str, lock: &str) {
    let runs = runs();
    // Creating a database takes long, so all runs share one.
    let postgres = (name == "postgres").then(SomePostgres::get);
    let store = postgres.as_ref().map_or(name, |postgres| &postgres.url);
    for stock in STOCKS {
        (0..runs).for_each(|_| sell_exactly(store, lock, stock));
        println!(
            "{name}, {lock}: {PROCESSES} processes sold exactly {stock} in {runs} of {runs} runs"
        );
    }
}

/// The server that all tests share, or a private one.
struct SomePostgres {
    url: String,
    _keeper: Option<Postgres>,
}

impl SomePostgres {
    fn get() -> Self {
        if let Ok(url) = std::env::var("FENCEPOST_SHARED_POSTGRES") {
            return Self { url, _keeper: None };
        }
        let server = Postgres::start_with(&["fsync=off"]).unwrap();
        Self {
            url: server.url(),
            _keeper: Some(server),
        }
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {stderr}{text}");
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

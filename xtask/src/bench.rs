//! `cargo xtask bench`: runs the benchmarks. They print ratios within one run, because absolute times on a shared machine mean little.

mod chart;
mod figures;
mod locks;
mod redis;
mod stores;

use anyhow::Result;
use clap::Args;

use crate::jobs::{self, Job};
use crate::terminal::say;

macro_rules! library_bench {
    ($name:literal, $shows:literal) => {
        Job {
            name: $name,
            arguments: &[
                "bench",
                "--package",
                "fencepost",
                "--all-features",
                "--bench",
                $name,
            ],
            shows: $shows,
            counts_tests: false,
        }
    };
}

#[rustfmt::skip]
const BENCHES: &[Job] = &[
    library_bench!("handover", "hand-over inside a process against tokio's mutex; bytes per waiter; 10,000 waiters"),
    Job {
        name: "orders",
        arguments: &["bench", "--package", "fencepost-checkout", "--features", "postgres", "--bench", "orders"],
        shows: "orders per second under locks, versions and row locks, against a bare conditional UPDATE",
        counts_tests: false,
    },
    library_bench!("sqlite", "acquire and release on SQLite against the bare statements"),
];

#[derive(Args)]
pub(crate) struct Options {
    /// Only the benchmark (with --stores: the store) with this name or, if there is none, those whose name contains it. May be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "redis")]
    filter: Vec<String>,
    /// Print the names and what each shows, and run nothing
    #[arg(long, conflicts_with = "lock_benches")]
    list: bool,
    #[command(flatten)]
    redis: redis::RedisOptions,
    #[command(flatten)]
    stores: stores::StoresOptions,
    #[command(flatten)]
    locks: locks::LockBenchOptions,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    if options.redis.redis {
        return redis::run(&options.redis, &options.locks);
    }
    if options.stores.stores {
        return stores::run(&options.filter, &options.locks);
    }
    let chosen = jobs::chosen(BENCHES, &options.filter)?;
    if options.list {
        jobs::list(&chosen);
        say(
            "and with --redis: locks in Redis against the bare store and, with --peers, against other locks\n\
             and with --stores: locks in every store against its own limit and the lock that people use there",
        );
        return Ok(true);
    }
    jobs::run(&chosen, 1, |_| {})
}

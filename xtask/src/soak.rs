//! `cargo xtask soak`: runs tests for a long time or with large counts.
//!
//! These are ordinary tests that use large counts if `FENCEPOST_SOAK=1` is set, and print their figures. To add one, add an entry to the
//! table below.
//!
//! Every command names the whole workspace, not a package: the features of dependencies are then the same for all, and one build serves
//! all loops.

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::jobs::{self, Job};
use crate::prepare;

/// Tests of one target, run in the release profile: all of them, or those whose name contains `$trial`.
macro_rules! test_loop {
    ($target:literal, $shows:literal) => {
        test_loop!(@job $target, $target, [], $shows)
    };
    ($target:literal, $trial:literal, $shows:literal) => {
        test_loop!(@job $trial, $target, [$trial], $shows)
    };
    ($name:literal = $target:literal, $trial:literal, $shows:literal) => {
        test_loop!(@job $name, $target, [$trial], $shows)
    };
    (@job $name:literal, $target:literal, [$($trial:literal)?], $shows:literal) => {
        Job {
            name: $name,
            arguments: &[
                "test",
                "--release",
                "--workspace",
                "--all-features",
                "--test",
                $target,
                "--",
                $($trial,)?
                "--nocapture",
            ],
            shows: $shows,
            counts_tests: true,
        }
    };
}

#[rustfmt::skip]
const LOOPS: &[Job] = &[
    test_loop!("processes", "exclusion", "8 processes under one SQLite lock lose no update; fences grow in hold order"),
    test_loop!("processes", "kill", "a killed holder costs the rest of its TTL and little more; a killed waiter never a TTL"),
    test_loop!("processes", "pause", "a holder stopped beyond its TTL is refused by the resource when it wakes"),
    test_loop!("redis_line_model", "no reachable state of the Redis line breaks a promise; every broken variant does"),
    test_loop!("redis_attacks" = "redis", "attacks::", "twelve attacks on the Redis line, 20 times each"),
    test_loop!("redis_quiet" = "redis", "quiet::", "a lock taken with plain commands, with something between each two of them, 20 times"),
    test_loop!("redis_line" = "redis", "line::", "200 waiters in 16 processes on Redis go in order; ten killed ones cost no TTL"),
    test_loop!("redis_interop" = "redis", "interop::", "redis-py, node redlock and ours count 1,000 each under one key; no count is lost"),
    test_loop!("redis_storm" = "redis", "storm::", "10 minutes of kills, pauses and cuts for 16 processes: no violation, no growth"),
    test_loop!("postgres_table_attacks" = "postgres_table", "attacks::", "kills, stops, cuts, restarts and cancellations of leases in Postgres, 20 times each"),
    test_loop!("postgres_table_interop" = "postgres_table", "interop::", "ShedLock's statements in psql and ours count 1,000 and more under one row; no count is lost"),
    test_loop!("etcd_faults" = "etcd", "faults::", "faults of one etcd server, 20 times each; nothing is left, no wrong answer"),
    test_loop!("etcd_cluster" = "etcd", "cluster::", "faults of three etcd servers, 20 times each"),
    test_loop!("etcd_kills" = "etcd", "kills::", "holders and waiters on etcd, killed and stopped, 20 times each: the bounds hold"),
    test_loop!("etcd_cancellation" = "etcd", "cancellation::", "futures dropped at 400 moments leave neither key nor lease at etcd"),
    test_loop!("etcd_interop" = "etcd", "interop::", "etcdctl lock and ours count 1,000 each under one name; no count is lost"),
    test_loop!("postgres_attacks" = "postgres", "attacks::", "kills, stops, cuts and crashes around advisory locks in Postgres, 20 times each"),
    test_loop!("postgres_failover" = "postgres", "failover::", "standbys that take over from a primary that died or goes on running, 20 times each: fences rise, and nobody goes on to believe"),
    test_loop!("postgres_sequences" = "postgres", "sequences::", "draws and lifts of the fence together, and programs that draw in another way, 20 times each"),
    test_loop!("postgres_interop" = "postgres", "interop::", "psql and ours count 1,000 each under one advisory lock; no count is lost"),
    test_loop!("zookeeper_attacks" = "zookeeper", "attacks::", "lost answers, cuts, stops, restarts, kills and cancellations on ZooKeeper, 20 times each"),
    test_loop!("zookeeper_ensemble" = "zookeeper", "ensemble::", "three ZooKeeper servers that lose each other, 20 times each: never two holders"),
    test_loop!("zookeeper_interop" = "zookeeper", "interop::", "Curator and kazoo count 1,000 per process, with ours, under one path; no count is lost"),
    test_loop!("pg_fence_model", "no reachable state lets a fence of Postgres fall; every broken variant does; its limits are shown"),
    test_loop!("quorum_fence_model", "no reachable state breaks the fence of Redlock; every broken variant does; its limits are shown"),
    test_loop!("redlock_attacks" = "redlock", "attacks::", "servers lost, slow, stopped, restarted under Redlock, 20 times each"),
    test_loop!("redlock_fences" = "redlock", "fences::", "4,000 grants of Redlock under faults of single servers: fences rise with every one"),
    test_loop!("redlock_interop" = "redlock", "interop::", "node redlock and ours count 1,000 each on three servers; no count is lost"),
    test_loop!("courtroom", "the harness convicts every bad lock and accuses no good one: the rates"),
    test_loop!("exec", "a command under a lock is gone before the next begins, or is refused"),
    test_loop!("openapi_fuzz" = "deploy", "fuzz::", "schemathesis asks the service 400 times per operation: no 5xx, no answer that its description does not have"),
    test_loop!("checkout_chaos" = "serve", "chaos::", "3 minutes of kills, pauses beyond the TTL and a lock store that goes, for two instances and 100 customers: nothing oversold, lost or doubled"),
    test_loop!("storms", "10 minutes of kills, pauses, cuts, server faults and clock jumps around the library's locks, on every store: nobody is accused; wrong locks are convicted"),
    test_loop!("exact_sales", "50 processes sell exactly the stock under the lock, on SQLite, Redis and Postgres"),
];

#[derive(Args)]
pub(crate) struct Options {
    /// Only the loop with this name or, if there is none, those whose name contains it. May be repeated
    #[arg(long, value_name = "NAME")]
    filter: Vec<String>,
    /// How many run side by side. Most of them wait; but next to others, a loop that measures a bound of time may exceed it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: usize,
    /// Print the names and what each shows, and run nothing
    #[arg(long)]
    list: bool,
    /// Install missing system packages through sudo (as root they are installed without asking)
    #[arg(long)]
    install: bool,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let chosen = jobs::chosen(LOOPS, &options.filter)?;
    if options.list {
        jobs::list(&chosen);
        return Ok(true);
    }
    prepare::run(options.install)?;
    jobs::run(&chosen, options.jobs, |command| {
        command.env("FENCEPOST_SOAK", "1");
        prepare::no_skipping(command);
    })
}

//! Tests the current program beside one of an earlier commit, on one store: their locks exclude each other and their fences
//! increase, or one of them is refused with a known message. Where neither is the case, the test shows the limit.
//!
//! `cargo xtask test` builds the earlier program and names it in `FENCEPOST_OLDER`. In a clone without the earlier commit these
//! tests are skipped and counted as skipped.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crowd;
#[path = "../exec/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of exec")]
mod stage;

use libtest_mimic::{Arguments, Trial};

const TESTS: &[(&str, fn())] = &[
    ("sqlite::together", crowd::on_sqlite),
    ("redis::together", crowd::on_redis),
    (
        "redis::without_the_counter",
        crowd::on_redis_without_the_counter,
    ),
    ("redlock::together", crowd::on_redlock),
    ("postgres::together", crowd::on_postgres),
    ("postgres_table::together", crowd::on_a_table),
];

fn main() {
    let is_ignored = std::env::var_os(crowd::OLDER).is_none();
    let trial = |(name, test): &(&'static str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
        .with_ignored_flag(is_ignored)
    };
    let mut arguments = Arguments::from_args();
    // Each test starts servers and a dozen programs.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect()).exit();
}

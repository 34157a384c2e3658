//! Tests of the checkout's storage: the same tests on SQLite and on Postgres.
//!
//! `FENCEPOST_SOAK=1` makes the races ten times as long. If Postgres is not installed, or not built in, its part is skipped and
//! counted as skipped.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod place;
mod races;
mod stage;

use libtest_mimic::{Arguments, Trial};

use stage::Stage;

type Play = fn(&Stage);

const TESTS: &[(&str, Play)] = &[
    ("an_order_is_never_made_in_part", place::never_in_part),
    ("a_product_is_never_replaced", place::never_replaced),
    ("a_stale_fence_never_reads_or_writes", place::stale_fence),
    (
        "a_line_without_its_lock_is_never_ordered",
        place::unguarded_line,
    ),
    ("a_changed_version_is_never_overwritten", place::version),
    ("one_key_never_makes_two_orders", place::one_key),
    ("a_key_is_kept_for_its_time", place::keys_in_time),
    (
        "a_key_of_a_pending_order_is_never_forgotten",
        place::pending_key,
    ),
    ("units_never_come_back_twice", place::back_once),
    ("an_order_is_never_swept_before_its_time", place::in_time),
    ("stock_never_goes_below_zero", races::never_below_zero),
    ("a_confirmed_order_is_never_swept", races::confirm_and_sweep),
    ("crossed_baskets_never_deadlock", races::crossed),
];

fn main() {
    let has_postgres = cfg!(feature = "postgres") && fencepost_rig::Postgres::is_installed();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let mut tests = Vec::new();
    for (name, play) in TESTS {
        tests.push(Trial::test(format!("sqlite::{name}"), move || {
            play(&Stage::sqlite());
            Ok(())
        }));
        let postgres = Trial::test(format!("postgres::{name}"), move || {
            play(&Stage::postgres());
            Ok(())
        });
        tests.push(postgres.with_ignored_flag(!has_postgres));
    }
    libtest_mimic::run(&arguments, tests).exit();
}

//! Tests of what surrounds the service: alerts, dashboard, image, compose file and API description.
//!
//! Without Prometheus or Schemathesis (`cargo xtask prepare` installs both) their tests are skipped and counted as skipped.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod alerts;
mod dashboard;
mod files;
mod fuzz;
#[path = "../serve/http.rs"]
#[allow(dead_code, reason = "shared with the tests of serve")]
mod http;
mod image;
mod prometheus;
mod scraped;
#[path = "../serve/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of serve")]
mod stage;

use libtest_mimic::{Arguments, Trial};

type Tests = &'static [(&'static str, fn())];

const ANYWHERE: Tests = &[
    ("compose::every_flag_is_one", image::every_flag_is_one),
    ("compose::every_path_is_there", image::every_path_is_there),
    (
        "compose::watchers_wait_for_nobody",
        image::watchers_wait_for_nobody,
    ),
    (
        "compose::no_volume_is_without_a_name",
        image::no_volume_is_without_a_name,
    ),
    ("compose::images_are_pinned", image::images_are_pinned),
    (
        "compose::no_secret_has_a_default",
        image::no_secret_has_a_default,
    ),
    (
        "compose::nobody_is_killed_while_it_stops",
        image::nobody_is_killed_while_it_stops,
    ),
    ("compose::redis_keeps_locks", image::redis_keeps_locks),
    ("image::its_healthcheck_tells", image::its_healthcheck_tells),
    (
        "image::runs_as_nobody_special",
        image::runs_as_nobody_special,
    ),
    ("alerts::say_what_to_do", alerts::say_what_to_do),
    ("alerts::names_in_the_documentation", alerts::are_documented),
    ("scraped::every_metric_exists", scraped::every_metric_exists),
    (
        "dashboard::can_be_provisioned",
        dashboard::can_be_provisioned,
    ),
];

const WITH_PROMETHEUS: Tests = &[
    ("alerts::promtool_accepts", alerts::promtool_accepts),
    ("alerts::fire_and_keep_quiet", alerts::fire_and_keep_quiet),
    (
        "alerts::tests_notice_a_wrong_rule",
        alerts::tests_notice_a_wrong_rule,
    ),
    ("scraped::every_query_answers", scraped::every_query_answers),
];

const WITH_SCHEMATHESIS: Tests = &[(
    "fuzz::keeps_to_its_description",
    fuzz::keeps_to_its_description,
)];

fn main() {
    let trials = |tests: Tests, is_there: bool| {
        // Where everything can be installed, a test that cannot run fails by itself.
        let is_ignored = !is_there && std::env::var_os("FENCEPOST_NO_SKIP").is_none();
        tests.iter().map(move |(name, test)| {
            Trial::test(*name, move || {
                test();
                Ok(())
            })
            .with_ignored_flag(is_ignored)
        })
    };
    let mut all: Vec<Trial> = trials(ANYWHERE, true).collect();
    all.extend(trials(WITH_PROMETHEUS, prometheus::is_installed()));
    all.extend(trials(WITH_SCHEMATHESIS, fuzz::is_installed()));
    let mut arguments = Arguments::from_args();
    // Each test starts its own servers, so two at a time are enough.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    libtest_mimic::run(&arguments, all).exit();
}

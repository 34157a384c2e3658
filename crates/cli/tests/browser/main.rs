//! Tests reports and the page of `serve` in a real browser: they draw themselves, log no errors, load nothing else, and can be
//! used with the keyboard.
//!
//! Without Chromium these tests are skipped and counted as skipped; with `FENCEPOST_NO_SKIP` they fail.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod chromium;
#[path = "../../../trial/tests/fixtures/mod.rs"]
mod fixtures;
#[allow(dead_code, reason = "shared with the tests of serve")]
#[path = "../serve/http.rs"]
mod http;
mod live;
mod matrix;
mod pages;
#[allow(dead_code, reason = "shared with the tests of serve")]
#[path = "../serve/stage.rs"]
mod stage;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let tests: &[(&str, fn())] = &[
        (
            "a_report_of_the_program_draws_itself",
            pages::a_report_of_the_program_draws_itself,
        ),
        (
            "what_a_page_should_not_do_is_noticed",
            pages::what_a_page_should_not_do_is_noticed,
        ),
        (
            "ways_of_waiting_count_as_on_the_terminal",
            pages::ways_of_waiting_count_as_on_the_terminal,
        ),
        (
            "every_run_of_a_page_can_be_opened_and_red_means_broken",
            pages::every_run_of_a_page_can_be_opened_and_red_means_broken,
        ),
        (
            "damage_that_convicts_nobody_is_not_called_harmless",
            pages::damage_that_convicts_nobody_is_not_called_harmless,
        ),
        (
            "the_keyboard_reaches_everything",
            pages::the_keyboard_reaches_everything,
        ),
        ("two_runs_share_one_axis", pages::two_runs_share_one_axis),
        (
            "a_fault_lasts_until_its_own_end",
            pages::a_fault_lasts_until_its_own_end,
        ),
        (
            "a_narrow_screen_needs_no_sideways_scrolling",
            pages::a_narrow_screen_needs_no_sideways_scrolling,
        ),
        (
            "the_theme_follows_the_system_until_it_is_chosen",
            pages::the_theme_follows_the_system_until_it_is_chosen,
        ),
        ("hostile_names_stay_text", pages::hostile_names_stay_text),
        (
            "a_long_run_says_what_it_left_out",
            pages::a_long_run_says_what_it_left_out,
        ),
        (
            "live_locks_appear_and_vanish",
            live::live_locks_appear_and_vanish,
        ),
        (
            "units_that_orders_do_not_account_for_are_shown",
            live::units_that_orders_do_not_account_for_are_shown,
        ),
        (
            "what_happens_is_told_and_nothing_piles_up",
            live::what_happens_is_told_and_nothing_piles_up,
        ),
        (
            "a_trial_by_keyboard_grows_and_red_means_broken",
            live::a_trial_by_keyboard_grows_and_red_means_broken,
        ),
        (
            "a_product_named_like_markup_stays_text",
            live::a_product_named_like_markup_stays_text,
        ),
        (
            "the_live_page_fits_a_narrow_screen_in_the_dark",
            live::the_live_page_fits_a_narrow_screen_in_the_dark,
        ),
        (
            "the_page_finds_a_server_that_comes_back",
            live::the_page_finds_a_server_that_comes_back,
        ),
        (
            "a_token_is_asked_for_where_one_is_needed",
            live::a_token_is_asked_for_where_one_is_needed,
        ),
        (
            "an_empty_shop_offers_samples_at_the_press_of_a_button",
            live::an_empty_shop_offers_samples_at_the_press_of_a_button,
        ),
        (
            "samples_need_the_token_where_changes_do",
            live::samples_need_the_token_where_changes_do,
        ),
        (
            "without_the_lab_the_page_says_how_to_get_it",
            live::without_the_lab_the_page_says_how_to_get_it,
        ),
        (
            "descriptions_in_the_matrix_are_never_cut",
            matrix::descriptions_in_the_matrix_are_never_cut,
        ),
        (
            "verdicts_of_a_gauntlet_are_never_cut",
            matrix::verdicts_of_a_gauntlet_are_never_cut,
        ),
    ];
    // Where everything can be installed, a test that cannot run fails by itself.
    let is_ignored =
        chromium::program().is_none() && std::env::var_os("FENCEPOST_NO_SKIP").is_none();
    let trial = |(name, test): &(&'static str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
        .with_ignored_flag(is_ignored)
    };
    let mut arguments = Arguments::from_args();
    // Each test starts its own browser, so two at a time are enough.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect()).exit();
}

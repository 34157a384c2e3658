//! Which requirement on jobs that run once fails on which store, and with which words.

use std::sync::Arc;

use crate::changes::{for_a_part_of_the_ttl, with_one_epoch};
use crate::grants::{Claiming, Granting, GrantsToEverybody};
use crate::records::{CreatesNothing, DroppedReplacementsOverwrite, Finding, of_one_name};
use crate::releases::{KeepsForEver, ReleaseDoesNothing};
use crate::renewals::{RenewalDoesNothing, RenewalsFail};
use crate::table::{Line, fails};
use crate::waiting::DroppedRequestsComeLate;

pub(crate) const BREACHES_OF_RUNS: &[Line] = &[
    (
        || Arc::new(GrantsToEverybody::default()),
        &[fails(
            "one_run_at_a_time",
            "it is skipped, and does not run",
        )],
    ),
    (
        || Arc::new(Granting(with_one_epoch)),
        &[
            fails("runs_have_growing_fences", "after Some(Fence(1.0))"),
            fails(
                "a_run_whose_lock_was_taken_away_is_finished_too_late",
                "next.fence() > late.fence()",
            ),
            fails(
                "a_completion_that_comes_late_is_refused",
                "it runs, and is not skipped|Released|AlreadyLost",
            ),
        ],
    ),
    (
        || Arc::new(ReleaseDoesNothing),
        &[
            fails(
                "a_run_that_was_finished_is_followed_by_another",
                "it runs, and is not skipped",
            ),
            fails("a_dropped_finish_leaves_no_lock", "another run: not within"),
        ],
    ),
    (
        || Arc::new(KeepsForEver),
        &[fails(
            "a_run_ends_when_its_time_is_over",
            "another run: not within",
        )],
    ),
    (
        || Arc::new(RenewalsFail),
        &[fails(
            "a_run_is_renewed_until_then",
            "lost its lock ten times in a row",
        )],
    ),
    (
        || Arc::new(RenewalDoesNothing),
        &[
            fails(
                "others_stay_away_for_the_least_time_after_a_quick_run",
                "only ",
            ),
            fails("others_stay_away_for_the_least_time_after_a_crash", "only "),
        ],
    ),
    (
        || Arc::new(Claiming(for_a_part_of_the_ttl)),
        &[fails(
            "a_run_is_renewed_until_then",
            "granted to another|left: Gone",
        )],
    ),
    (
        || Arc::new(CreatesNothing),
        &[
            fails("a_slot_that_was_completed_is_not_run_again", "AlreadyLost"),
            fails("a_slot_that_failed_is_run_again", "AlreadyLost"),
            fails(
                "a_slot_of_a_crashed_run_is_unknown",
                "it is skipped, and does not run",
            ),
            fails("a_slot_is_completed_once_however_many_try", "AlreadyLost"),
            fails("a_slot_that_was_forgotten_is_refused", "AlreadyLost"),
        ],
    ),
    (
        || Arc::new(Finding(of_one_name)),
        &[fails("jobs_are_apart", "it runs, and is not skipped")],
    ),
    (
        || Arc::new(DroppedRequestsComeLate::default()),
        &[fails(
            "a_dropped_begin_leaves_no_lock",
            "another run: not within|nothing is left: not within",
        )],
    ),
    (
        || Arc::new(DroppedReplacementsOverwrite),
        &[fails(
            "a_dropped_finish_records_the_end_or_leaves_it_open",
            "it runs, and is not skipped|AlreadyLost",
        )],
    ),
];

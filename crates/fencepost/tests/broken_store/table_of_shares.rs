//! Which requirement on semaphores and read-write locks fails on which store, and with which words.

use std::sync::Arc;

use crate::breach::Nothing;
use crate::records::{ChecksFirst, Reading, without_time};
use crate::shares::{
    NothingIsRemoved, OneNameForEverything, Writing, one_permit_more, the_newest_first,
    the_number_of_before, waiters_want_more, with_a_late_end, with_an_early_end,
    with_readers_for_writers, with_the_first_end, without_a_kind_when_nobody_is_there,
    without_labels, without_the_last_epoch, without_turns,
};
use crate::table::{Line, fails};

pub(crate) const BREACHES_OF_SHARES: &[Line] = &[
    // What a store without semaphores must not have.
    (
        || Arc::new(Nothing),
        &[
            fails(
                "a_store_without_records_has_no_semaphores",
                "the store keeps no records",
            ),
            fails(
                "a_store_without_a_time_has_no_semaphores",
                "leases cannot be counted",
            ),
            fails("a_store_without_values_says_so", "there are no values"),
            fails(
                "a_store_without_records_refuses_slots",
                "there are no records",
            ),
        ],
    ),
    (
        || {
            Arc::new(Reading(|mut seen| {
                without_time(&mut seen);
                seen
            }))
        },
        &[fails(
            "the_capabilities_say_whether_there_are_semaphores",
            "semaphores need a time",
        )],
    ),
    (
        || Arc::new(OneNameForEverything),
        &[fails(
            "a_semaphore_and_a_lock_of_one_name_are_apart",
            "the lock of the same name is free",
        )],
    ),
    // How much there is.
    (
        || Arc::new(Writing(one_permit_more)),
        &[fails(
            "permits_are_given_out_until_none_is_left",
            "more than there are",
        )],
    ),
    (
        || Arc::new(Writing(the_number_of_before)),
        &[
            fails(
                "more_permits_let_waiters_in",
                "a waiter is served: not within",
            ),
            fails(
                "fewer_permits_take_nothing_away",
                "more are out than there are",
            ),
            fails(
                "whoever_wants_more_than_there_are_then_is_told",
                "it is told: not within",
            ),
            fails(
                "the_number_in_the_store_counts",
                "everybody sees the new number",
            ),
        ],
    ),
    (
        || Arc::new(Writing(without_a_kind_when_nobody_is_there)),
        &[fails("a_name_is_of_one_kind", "the name of a semaphore")],
    ),
    // Who has it.
    (
        || Arc::new(ChecksFirst),
        &[fails(
            "no_two_holders_have_the_same_slot",
            "has one holder|is_released()",
        )],
    ),
    (
        || Arc::new(Writing(with_readers_for_writers)),
        &[
            fails(
                "readers_are_together_and_a_writer_is_alone",
                "a reader beside a writer",
            ),
            fails(
                "nobody_reads_what_is_half_written",
                "half written|a writer is alone",
            ),
        ],
    ),
    (
        || Arc::new(Writing(without_the_last_epoch)),
        &[
            fails("every_slot_sees_growing_fences", "slot "),
            fails("a_downgrade_leaves_no_gap", "reader.fence() > fence"),
        ],
    ),
    (
        || Arc::new(Writing(without_labels)),
        &[fails("inspect_shows_every_permit", "the holder's label")],
    ),
    // For how long.
    (
        || Arc::new(Writing(with_the_first_end)),
        &[fails(
            "permits_are_kept_alive_beyond_their_ttl",
            "granted to another while kept alive",
        )],
    ),
    (
        || Arc::new(Writing(with_an_early_end)),
        &[fails(
            "a_permit_that_ends_is_lost_and_granted_to_another",
            "belief ends before",
        )],
    ),
    (
        || Arc::new(Writing(with_a_late_end)),
        &[
            fails(
                "permits_of_a_dead_process_are_granted_to_others",
                "both permits end: not within",
            ),
            fails(
                "a_lost_writer_cannot_become_a_reader",
                "a writer is let in: not within",
            ),
        ],
    ),
    (
        || Arc::new(NothingIsRemoved),
        &[
            fails(
                "a_permit_that_is_released_by_force_is_lost",
                "the loss is told: not within",
            ),
            fails("a_shutdown_gives_permits_back", "permits: not within"),
            fails(
                "a_dropped_release_of_permits_still_releases",
                "the permits are free again",
            ),
            fails(
                "a_dropped_wait_for_permits_leaves_nothing",
                "the waiter behind: not within",
            ),
            fails(
                "a_dropped_attempt_at_permits_leaves_nothing",
                "the permits are free again",
            ),
            fails(
                "a_dropped_wait_to_write_leaves_nothing",
                "the reader behind: not within|nobody is left: not within",
            ),
            fails(
                "a_dropped_downgrade_leaves_nothing",
                "nobody is left: not within",
            ),
        ],
    ),
    // Who is next.
    (
        || Arc::new(Writing(the_newest_first)),
        &[
            fails(
                "waiters_for_permits_are_served_in_order",
                "first come, first served|out of order ten times",
            ),
            fails(
                "nobody_overtakes_whoever_wants_more",
                "they stand in line: not within|a waiter is served: not within",
            ),
            fails(
                "readers_do_not_overtake_a_writer",
                "they stand in line: not within|the line is in order",
            ),
            fails(
                "readers_between_writers_come_in_together",
                "all readers: not within",
            ),
            fails(
                "a_downgrade_lets_readers_in_that_wait_in_front",
                "the reader in front: not within",
            ),
        ],
    ),
    (
        || Arc::new(Writing(waiters_want_more)),
        &[fails(
            "many_permits_are_had_although_others_want_few",
            "permits: not within",
        )],
    ),
    (
        || Arc::new(Writing(without_turns)),
        &[fails(
            "waiters_of_a_dead_process_do_not_block_the_line",
            "the dead are passed over: not within",
        )],
    ),
];

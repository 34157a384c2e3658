//! Which requirement fails on which store, and with which words.

use std::sync::Arc;

use crate::breach::Breach;
use crate::changes::{
    asked_an_hour_ago, even_if_free, for_a_part_of_the_ttl, for_a_thousand_ttls, in_lower_case,
    of_the_same_name, the_newest_waiter_first, with_a_short_name, with_one_epoch, without_an_epoch,
    without_held_locks,
};
use crate::grants::{
    AskingAgainExtendsNothing, Claiming, Granting, GrantsToEverybody, NewLeaseWhenAskedAgain,
    StorePerConnection,
};
use crate::releases::{
    ReleaseDoesNothing, ReleaseIgnoresTheOwner, ReleaseLeavesTheWaiter, ReleaseSaysFreed,
};
use crate::renewals::{
    AnswersBackwards, OneRenewalAtATime, RenewalDoesNothing, RenewalIgnoresTheOwner,
    RenewalRevives, RenewalShortens, RenewalsFail,
};
use crate::views::{ListForgetsNothing, ListIgnoresPatterns, Listing, Showing, TriesJoinTheLine};
use crate::waiting::{
    AlwaysReportsBusy, BusyIsAnError, DroppedRequestsComeLate, NeverReportsBusy, NewestFirst,
    NobodyComesBack, PlaceIsLostOnReturn, TheDeadWaitOn, TriesOvertake, WakesNobody,
};

/// A requirement that fails.
pub(crate) struct Violation {
    pub(crate) requirement: &'static str,
    /// What its failure says; alternatives are separated by `|`.
    pub(crate) message: &'static str,
}

pub(crate) type Line = (fn() -> Arc<dyn Breach>, &'static [Violation]);

pub(crate) const fn fails(requirement: &'static str, message: &'static str) -> Violation {
    Violation {
        requirement,
        message,
    }
}

/// Requirements that no store breaks in its answers to requests, each with the reason.
pub(crate) const NOT_BROKEN_BY_A_STORE: &[(&str, &str)] = &[
    (
        "tasks_are_served_in_order",
        "the locker's own line decides the order of its tasks",
    ),
    (
        "a_store_without_values_says_so",
        "the election says so, and not the store",
    ),
    (
        "a_store_without_records_refuses_slots",
        "the job says so, and not the store",
    ),
];

pub(crate) const BREACHES: &[Line] = &[
    // What is granted.
    (
        || Arc::new(Granting(asked_an_hour_ago)),
        &[fails(
            "a_free_lock_is_granted",
            "the grant was asked for after the call",
        )],
    ),
    (
        || Arc::new(Granting(with_one_epoch)),
        &[
            fails("epochs_grow_with_every_grant", "1 after 1"),
            fails("epochs_grow_across_connections", "1 after {1}"),
            fails("epochs_grow_across_an_expiry", "epoch > first.epoch"),
            fails("fences_grow_in_hold_order", "Fence(1.0), "),
        ],
    ),
    (
        || Arc::new(Claiming(for_a_thousand_ttls)),
        &[
            fails("a_lease_ends_after_its_ttl", "the lease ends: not within"),
            fails(
                "list_forgets_what_has_expired",
                "the lease is over: not within",
            ),
            fails("work_stops_when_the_lock_is_lost", "a grant: not within"),
        ],
    ),
    (
        || Arc::new(Claiming(for_a_part_of_the_ttl)),
        &[
            fails("a_lease_does_not_end_before_its_time", "granted to another"),
            fails(
                "without_keep_alive_a_hold_ends_with_its_ttl",
                "belief ends before",
            ),
        ],
    ),
    (
        || Arc::new(Claiming(of_the_same_name)),
        &[fails("names_are_apart", "a free lock is granted")],
    ),
    (
        || Arc::new(Claiming(in_lower_case)),
        &[fails(
            "hostile_names_are_only_names",
            "mixed up with another name",
        )],
    ),
    (
        || Arc::new(Claiming(with_a_short_name)),
        &[fails("the_longest_name_works", ".is_some()")],
    ),
    (
        || Arc::new(GrantsToEverybody::default()),
        &[
            fails("a_held_lock_is_refused", "a held lock is refused"),
            fails("no_update_is_lost_under_load", "no update is lost"),
            fails(
                "names_in_crossed_orders_all_get_through",
                "nobody else is inside",
            ),
        ],
    ),
    (
        || Arc::new(StorePerConnection),
        &[fails(
            "a_held_lock_is_refused_on_another_connection",
            "a held lock is refused",
        )],
    ),
    (
        || Arc::new(NewLeaseWhenAskedAgain),
        &[
            fails("one_owner_never_gets_two_leases", "is not a new grant"),
            fails("asking_again_extends", "is not a new grant"),
        ],
    ),
    (
        || Arc::new(AskingAgainExtendsNothing),
        &[fails("asking_again_extends", "not extended|a holder")],
    ),
    // Releases.
    (
        || Arc::new(ReleaseDoesNothing),
        &[
            fails("a_released_lock_is_free", "a free lock is granted"),
            fails("a_dropped_release_still_releases", "still taken"),
            fails("a_shutdown_gives_everything_back", "a grant: not within"),
            fails(
                "an_unused_guard_gives_the_lock_back_when_dropped",
                "a grant: not within",
            ),
            fails(
                "re_entry_holds_until_the_last_one_is_out",
                "rival.try_acquire",
            ),
        ],
    ),
    (
        || Arc::new(ReleaseSaysFreed),
        &[fails(
            "a_second_release_is_refused",
            "only the holder releases",
        )],
    ),
    (
        || Arc::new(ReleaseIgnoresTheOwner),
        &[
            fails(
                "a_late_release_does_not_touch_the_successor",
                "only the holder releases",
            ),
            fails("another_owner_cannot_release", "only the holder releases"),
            fails(
                "an_expired_owner_cannot_release_the_successor",
                "only the holder releases",
            ),
        ],
    ),
    (
        || Arc::new(ReleaseLeavesTheWaiter),
        &[fails("a_dropped_waiter_can_leave", "waiting.is_empty()")],
    ),
    // Renewals.
    (
        || Arc::new(RenewalsFail),
        &[
            fails(
                "a_guard_is_kept_alive_beyond_its_ttl",
                "lost its lease ten times in a row",
            ),
            fails(
                "a_forced_release_is_noticed",
                "did not report a forced release",
            ),
            fails("a_guard_can_be_extended", "an answer"),
        ],
    ),
    (
        || Arc::new(RenewalDoesNothing),
        &[fails("a_renewal_extends", "not extended|a holder")],
    ),
    (
        || Arc::new(RenewalShortens),
        &[fails("a_renewal_never_shortens", "shortened|a holder")],
    ),
    (
        || Arc::new(RenewalRevives),
        &[
            fails("a_renewal_does_not_revive", "stays over"),
            fails("a_released_lease_cannot_be_renewed", "stays released"),
        ],
    ),
    (
        || Arc::new(RenewalIgnoresTheOwner),
        &[fails(
            "another_owner_cannot_renew",
            "only the holder renews",
        )],
    ),
    (
        || Arc::new(AnswersBackwards),
        &[fails("a_batch_is_answered_in_order", "claim 0")],
    ),
    (
        || Arc::new(OneRenewalAtATime::default()),
        &[fails(
            "two_renewals_of_one_owner_at_the_same_time_both_extend",
            "both renewals extend",
        )],
    ),
    // What the store shows.
    (
        || Arc::new(TriesJoinTheLine::default()),
        &[fails(
            "a_refused_attempt_leaves_nothing_behind",
            "waiting.is_empty()",
        )],
    ),
    (
        || Arc::new(Showing(without_an_epoch)),
        &[fails("inspect_shows_the_holder", "the epoch of the grant")],
    ),
    (
        || Arc::new(Showing(even_if_free)),
        &[fails("inspect_of_a_free_lock_is_none", "has no record")],
    ),
    (
        || Arc::new(Showing(the_newest_waiter_first)),
        &[fails("inspect_shows_who_waits", "in order of arrival")],
    ),
    (
        || Arc::new(Listing(without_held_locks)),
        &[
            fails("list_shows_what_is_held", "listed"),
            fails("list_shows_what_is_wanted", "listed"),
        ],
    ),
    (
        || Arc::new(ListIgnoresPatterns),
        &[fails("list_knows_patterns", "the names that match")],
    ),
    (
        || Arc::new(ListForgetsNothing::default()),
        &[fails("list_forgets_what_is_released", "is not listed")],
    ),
    // Waiting.
    (
        || Arc::new(AlwaysReportsBusy),
        &[fails(
            "a_free_lock_is_granted_without_waiting",
            "nobody was before it",
        )],
    ),
    (
        || Arc::new(NeverReportsBusy),
        &[fails(
            "a_waiter_is_told_that_it_waits",
            "the store is heard: not within",
        )],
    ),
    (
        || Arc::new(BusyIsAnError),
        &[fails("a_timeout_is_not_an_error", "not an error")],
    ),
    (
        || Arc::new(WakesNobody),
        &[
            fails(
                "a_release_wakes_a_waiter",
                "the waiter is granted the lock: not within",
            ),
            fails(
                "a_release_wakes_a_waiter_on_another_connection",
                "the waiter is granted the lock: not within",
            ),
            fails(
                "an_expiry_wakes_a_waiter",
                "the waiter is granted the lock: not within",
            ),
            fails(
                "other_processes_get_their_turn",
                "everybody is served: not within",
            ),
            fails(
                "tasks_hand_on_what_they_waited_for",
                "all turns: not within",
            ),
        ],
    ),
    (
        || Arc::new(NewestFirst::default()),
        &[
            fails(
                "waiters_are_served_in_order",
                "first come, first served|out of order ten times",
            ),
            fails(
                "without_hand_over_the_order_holds_across_lockers",
                "first come, first served",
            ),
        ],
    ),
    (
        || Arc::new(TriesOvertake),
        &[fails(
            "a_try_does_not_overtake_those_who_wait",
            "a try overtook a waiter",
        )],
    ),
    (
        || Arc::new(NobodyComesBack::default()),
        &[fails(
            "a_dropped_waiter_can_come_back",
            "a waiter is granted the lock",
        )],
    ),
    (
        || Arc::new(PlaceIsLostOnReturn::default()),
        &[fails(
            "a_dropped_waiter_that_comes_back_has_its_place",
            "the first is granted the lock: not within|the place was given away",
        )],
    ),
    (
        || Arc::new(TheDeadWaitOn),
        &[
            fails(
                "a_dead_waiter_does_not_block_the_line",
                "the living one is granted the lock: not within",
            ),
            fails(
                "dead_waiters_do_not_block_a_try_for_ever",
                "a try gets past the dead: not within",
            ),
        ],
    ),
    (
        || Arc::new(DroppedRequestsComeLate::default()),
        &[
            fails("a_dropped_try_acquire_leaves_nothing", "still taken"),
            fails("a_dropped_acquire_leaves_nothing", "still taken"),
            fails("a_dropped_acquire_within_leaves_nothing", "still taken"),
            fails(
                "a_dropped_try_acquire_leaves_nothing_when_contended",
                "still taken|the task behind: not within",
            ),
            fails(
                "a_dropped_acquire_leaves_nothing_when_contended",
                "still taken|the task behind: not within",
            ),
            fails(
                "a_dropped_acquire_within_leaves_nothing_when_contended",
                "still taken|the task behind: not within",
            ),
        ],
    ),
];

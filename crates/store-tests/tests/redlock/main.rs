//! Tests of Redlock on three servers under faults of the network, the processes, other clients and the servers.
//!
//! Every test has private servers. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the faults run twenty times, and the other tests run in their long
//! form.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::test_program::{self, NamedTest, Theme, tests};

mod actor;
mod addresses;
mod cancellation;
mod fences;
mod handed_in;
mod healing;
mod interop;
mod kills;
mod layout;
mod losses;
mod majority;
mod minority;
mod silence;
mod support;

const ATTACKS: &[NamedTest] = tests![
    "one_lost" = minority::lost,
    "one_slow" = minority::slow,
    "one_stopped" = minority::stopped,
    "one_restarted_with_its_data" = minority::restarted_with_its_data,
    minority::cut_at_every_message,
    minority::cut_under_a_holder,
    minority::a_late_key_is_given_back,
    minority::a_lost_release_is_sent_again,
    minority::extensions,
    minority::asking_again_keeps_the_epoch,
    minority::a_late_key_is_not_the_lease,
    "majority_lost" = majority::lost,
    "majority_silent" = majority::silent,
    majority::one_restarted_empty_under_a_bare_majority,
    majority::a_server_without_a_memory_does_not_vote,
    majority::a_young_server_does_not_vote_too_early,
    "a_free_lock_cancelled" = cancellation::of_a_free_lock,
    "a_held_lock_cancelled" = cancellation::of_a_lock_that_is_held,
    "a_release_cancelled" = cancellation::of_a_release,
    kills::a_killed_holder,
    kills::a_stopped_holder,
];

const ADDRESSES: &[NamedTest] = tests![
    addresses::that_cannot_be,
    addresses::one_server_with_two_names,
    addresses::a_replica,
    addresses::users_and_passwords,
    addresses::names_that_are_taken,
    addresses::scripts_forgotten,
];

const HEALING: &[NamedTest] = tests![
    healing::outlives_another_loss_empty,
    healing::outlives_another_loss_durable,
    healing::a_taken_key_does_not_vote_at_once,
    healing::not_where_a_larger_count_was_drawn,
    healing::a_counter_that_is_gone_is_lifted,
    healing::a_counter_that_is_gone_passes_the_epoch,
    healing::a_late_taking_is_given_back,
    healing::not_on_a_young_server,
];

const LOSSES: &[NamedTest] = tests![
    losses::a_majority_flushed,
    losses::a_majority_restarted_empty,
    losses::a_loss_is_remembered,
    losses::a_loss_is_told_without_waiting,
    silence::a_dead_connection_does_not_lose_a_lock,
];

const LAYOUT: &[NamedTest] = tests![
    layout::of_the_version_before,
    layout::of_a_later_version,
    layout::many_grants_before_all_is_lost,
    layout::a_seen_epoch_is_passed,
    layout::kept_for_as_long_as_told,
];

const FENCES: &[NamedTest] = tests![fences::rise_under_contention_and_faults];

const INTEROP: &[NamedTest] = tests![interop::counters_are_exact];

fn main() {
    test_program::main::<actor::At>([
        Theme::repeated("attacks", 2, ATTACKS),
        Theme::once("addresses", ADDRESSES),
        Theme::repeated("healing", 2, HEALING),
        Theme::repeated("losses", 2, LOSSES),
        Theme::once("layout", LAYOUT),
        Theme::once("fences", FENCES),
        Theme::once("interop", INTEROP),
        Theme::once("handed_in", handed_in::TESTS),
    ]);
}

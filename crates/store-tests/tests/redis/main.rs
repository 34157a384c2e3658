//! Tests of the Redis store under faults of the network, the processes, other clients and the server.
//!
//! Every test has a private server. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the theme `attacks` runs twenty times, and the other tests run in their
//! long form. Measurements are printed in both cases.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::silence as silent;
use fencepost_store_tests::test_program::{self, NamedTest, Theme, tests};

mod actor;
mod addresses;
mod cancellation;
mod clock;
mod connections;
mod faults;
mod fences;
mod handed_in;
mod interop;
mod kills;
mod line;
mod memory;
mod plain_clients;
mod pushes;
mod quiet;
mod records;
mod remembered;
mod renewals;
mod restarts;
mod rights;
mod runtimes;
mod rw_gate;
mod silence;
mod storm;
mod support;
mod tls;

use support::Server;

/// Twelve attacks; the number groups the variants of one attack. The left side is the name of a test, the right side its function.
const ATTACKS: &[NamedTest] = tests![
    "01_push_delayed_past_its_lease" = pushes::delayed_past_its_lease,
    "02_push_dropped" = pushes::dropped,
    "02_push_doubled" = pushes::doubled,
    "03_cancelled_with_the_grant_in_flight" = cancellation::with_the_grant_in_flight,
    "04_stale_acquire_after_leave" = connections::a_stale_acquire_comes_to_nothing,
    "04_old_connection_killed_first" = connections::the_old_one_is_killed_first,
    "05_push_of_a_cancelled_wait" = pushes::of_a_cancelled_wait,
    "06_release_resent_under_a_successor" = connections::a_release_is_resent,
    "07_waiter_stopped_across_its_grant" = kills::a_waiter_stopped_across_its_grant,
    "08_ten_of_sixteen_killed_at_once" = kills::at_once,
    "08_ten_of_sixteen_killed_one_by_one" = kills::one_by_one,
    "08_ten_of_sixteen_killed_under_a_monitor" = kills::under_a_monitor,
    "08_ten_of_sixteen_killed_one_by_one_under_a_monitor" = kills::one_by_one_under_a_monitor,
    "09_no_rights_on_channels" = rights::no_channels,
    "09_releaser_without_rights_on_channels" = rights::a_releaser_without_channels,
    "09_no_right_to_kill" = rights::no_kill,
    "10_restart_with_waiters_and_a_holder" = restarts::with_waiters_and_a_holder,
    "10_restart_spares_strangers" = restarts::strangers_keep_their_connections,
    "11_plain_client_deletes" = plain_clients::deletes,
    "11_plain_lock_expires" = plain_clients::expires,
    "11_plain_lock_without_expiry" = plain_clients::never_expires,
    "11_plain_client_barges" = plain_clients::barges,
    "12_clock_an_hour_forward" = clock::an_hour_forward,
    "12_clock_an_hour_back" = clock::an_hour_back,
    "12_clock_centuries_forward" = clock::centuries_forward,
];

const NETWORK: &[NamedTest] = tests![
    "a_long_road" = connections::a_long_road_does_not_lose_a_lock,
    "many_leases_at_a_distance" = renewals::many_at_a_distance,
    connections::a_black_hole_while_asking_again,
    "push_before_the_answer" = pushes::before_the_answer,
    silence::a_dead_connection_does_not_lose_a_lock,
    silence::a_dead_connection_does_not_keep_a_waiter_from_its_permit,
    plain_clients::many_are_watched_on_a_long_road,
    restarts::a_loss_is_told_when_the_connection_ends,
];

const KILLS: &[NamedTest] =
    tests!["holder_stopped_beyond_its_ttl" = kills::a_holder_stopped_beyond_its_ttl];

const FENCES: &[NamedTest] = tests![
    fences::forgotten_before_a_release,
    fences::behind_after_a_silent_failover,
    fences::flushed_after_a_busy_second,
    fences::flushed_while_ahead_of_the_time,
    fences::flushed_after_a_push,
    fences::handed_on_by_one_who_knows_less,
    fences::forgotten_while_held_ahead_of_the_time,
    fences::an_older_layout_is_replaced,
    fences::an_older_holder_just_releases,
    fences::an_older_program_was_faster_after_a_loss,
    fences::kept_as_long_as_told,
    fences::a_newer_layout_is_refused,
    rw_gate::a_late_writer_or_reader_is_refused,
    rw_gate::large_fences_are_compared_exactly,
];

const QUIET: &[NamedTest] = tests![
    quiet::is_asked_for_plainly,
    quiet::a_waiter_is_noticed,
    quiet::nobody_in_line_is_overtaken,
    quiet::cut_off_in_between,
    quiet::a_guess_is_not_taken_for_an_epoch,
    quiet::somebody_else_had_the_epoch,
    quiet::the_fence_was_forgotten,
    quiet::the_fence_was_forgotten_and_the_first_is_gone,
    quiet::a_refusal_is_reported,
    quiet::a_refused_second_look_may_have_taken_effect,
    quiet::a_plain_value_is_left_alone,
    quiet::the_holder_asks_again,
    quiet::a_taken_back_attempt_hands_on,
];

const RUNTIMES: &[NamedTest] = tests![
    runtimes::the_next_one_goes_on,
    runtimes::ended_while_connecting,
    runtimes::none_at_all,
];

const FAULTS: &[NamedTest] = tests![
    faults::absent,
    faults::silent,
    "web_server" = faults::a_web_server,
    faults::too_old,
    faults::wrong_password,
    "read_only_replica" = faults::a_read_only_replica,
    memory::out_of_memory,
    memory::handed_on_out_of_memory,
    memory::given_back_out_of_memory,
    faults::loading,
    restarts::scripts_forgotten,
    rights::no_scripts,
    "cluster_node" = faults::a_cluster_node,
    faults::another_type,
    faults::a_name_of_ours,
    faults::busy_with_a_script,
    "stopped_while_acquiring" = silent::while_acquiring::<Server>,
    "stopped_while_holding" = silent::while_holding::<Server>,
    "stopped_while_renewing" = silent::while_renewing::<Server>,
    "stopped_while_releasing" = silent::while_releasing::<Server>,
    "stopped_while_waiting" = silent::while_waiting::<Server>,
];

const ADDRESSES: &[NamedTest] = tests![
    addresses::unix_socket,
    addresses::user_and_password,
    addresses::database_number,
    "tls" = tls::private_authority,
    "tls_with_client_certificate" = tls::client_certificate,
];

const INTEROP: &[NamedTest] = tests![interop::counters_are_exact];

const LINE: &[NamedTest] = tests![
    line::two_commands_a_turn,
    line::in_order,
    line::ten_killed_at_once,
    line::ten_killed_one_by_one,
    line::the_dead_do_not_stay_in_line,
];

const STORM: &[NamedTest] = tests!["sixteen_processes" = storm::storm];

fn main() {
    test_program::main::<actor::At>([
        Theme::repeated("attacks", 1, ATTACKS),
        Theme::once("network", NETWORK),
        Theme::once("kills", KILLS),
        Theme::once("fences", FENCES),
        Theme::repeated("quiet", 1, QUIET),
        Theme::once("runtimes", RUNTIMES),
        Theme::once("faults", FAULTS),
        Theme::once("addresses", ADDRESSES),
        Theme::once("interop", INTEROP),
        Theme::once("line", LINE),
        Theme::once("storm", STORM),
        Theme::once("handed_in", handed_in::TESTS),
        Theme::once("remembered", remembered::TESTS),
        Theme::once("records", records::TESTS),
    ]);
}

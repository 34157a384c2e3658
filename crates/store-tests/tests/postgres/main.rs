//! Tests of advisory locks in Postgres under faults of the network, the processes, other clients and the server.
//!
//! Every test has a private server. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the themes `attacks`, `failover` and `sequences` run twenty times, and
//! the other tests run in their long form. Measurements are printed in both cases.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::test_program::{self, NamedTest, Theme, tests};

mod actor;
mod cancellation;
mod connections;
mod failover;
mod faults;
mod fences;
mod forced;
mod handed_in;
mod interop;
mod kills;
mod kinds;
mod losses;
mod neglected;
mod network;
mod pooler;
mod promotion;
mod refusals;
mod sequences;
mod shown;
mod snapshots;
mod support;
mod tls;

const ATTACKS: &[NamedTest] = tests![
    "holder_killed" = kills::a_holder_is_killed,
    "holder_stopped_beyond_its_ttl" = kills::a_holder_stopped_beyond_its_ttl,
    "waiter_stopped_across_its_grant" = kills::a_waiter_stopped_across_its_grant,
    "waiters_killed" = kills::waiters_are_killed,
    "fence_over_a_crash" = fences::a_crash_does_not_repeat_one,
    "restart_with_waiters_and_a_holder" = faults::restarted,
    "waiter_meets_a_standby" = promotion::a_waiter_meets_a_standby,
    "holder_and_waiter_terminated" = faults::terminated,
    "waiter_terminated_twice" = faults::terminated_twice,
    "waiter_cancelled_by_hand" = faults::cancelled_by_hand,
    losses::one_session_is_stuck,
    "told_at_once_when_terminated" = losses::terminated,
    "told_at_once_when_cut" = losses::cut,
    "told_at_once_when_crashed" = losses::crashed,
    "cut_while_holding_and_waiting" = network::cut,
    "black_hole_while_holding" = network::black_hole,
    "forced_release_meets_another_owner" = forced::the_owner_changes_between_look_and_end,
    "cancelled_anywhere" = cancellation::anywhere,
    "dropped_waiter_tries" = cancellation::a_dropped_waiter_tries,
    "store_dropped_while_waiting" = cancellation::a_dropped_store_leaves_no_waiter,
];

const FAULTS: &[NamedTest] = tests![
    faults::absent,
    refusals::silent,
    "slow_network" = refusals::a_slow_network_is_no_pooler,
    "web_server" = refusals::a_web_server,
    refusals::wrong_password,
    refusals::no_such_database,
    refusals::no_connection_left,
    "standby" = refusals::a_standby,
    refusals::timeouts_of_the_role,
    faults::stopped_while_holding,
    faults::stopped_while_waiting,
];

const CONNECTIONS: &[NamedTest] = tests![
    connections::two_hundred_tasks_need_two,
    connections::crossed_names_are_no_deadlock,
    connections::beyond_the_bound_locks_share,
    shown::locks_without_room,
    shown::locks_of_another_role,
    connections::what_is_not_extended_is_let_go,
    "neglected_beside_tries" = neglected::tries_do_not_keep_it,
    "neglected_beside_looks" = neglected::looks_do_not_keep_it,
    "neglected_beside_other_locks" = neglected::other_locks_do_not_keep_it,
    "neglected_beside_a_failure" = neglected::a_failed_statement_strands_no_lock,
    connections::spare_ones_go,
    connections::another_runtime,
];

const WAITING: &[NamedTest] = tests![
    "index_built_concurrently" = snapshots::an_index_is_built_while_somebody_waits,
    "long_wait_goes_to_the_end_of_the_line" = snapshots::a_long_wait_goes_to_the_end_of_the_line,
    snapshots::waits_end_while_locks_are_granted,
];

const POOLER: &[NamedTest] = tests![
    pooler::transaction_mode_is_refused,
    pooler::session_mode_works,
];

const INTEROP: &[NamedTest] = tests![
    interop::counters_are_exact,
    interop::external_locks_are_seen,
    interop::the_server_computes_the_same_number,
];

const FAILOVER: &[NamedTest] = tests![
    "lagging_standby" = failover::a_lagging_standby_takes_over,
    "deposed_primary" = failover::a_deposed_primary_keeps_nobody_believing,
    "cancelled_confirmation" = failover::a_cancelled_confirmation_is_none,
    "renewal_not_sent_is_none" = failover::a_renewal_that_was_not_sent_is_none,
    failover::renewals_share_a_commit,
];

const SEQUENCES: &[NamedTest] = tests![
    "older_program" = sequences::an_older_program_is_refused,
    "missing_rights" = sequences::who_may_not_create_is_told_what_to_run,
    "transaction_ids" = sequences::transaction_ids_only_where_asked_for,
    "look" = sequences::a_look_needs_none,
    sequences::one_lifts_at_a_time,
    "own_application_name" = kinds::an_own_application_name,
    kinds::looks_make_nothing,
    kinds::looks_beside_an_older_program,
    "refusal_costs_no_neighbour" = kinds::a_refusal_costs_no_neighbour,
    "older_table_of_transactions" = kinds::an_older_table_of_transactions,
    sequences::draws_and_lifts_together,
];

const TLS: &[NamedTest] = tests![tls::private_authority];

fn main() {
    test_program::main::<actor::At>([
        Theme::repeated("attacks", 2, ATTACKS),
        Theme::once("faults", FAULTS),
        Theme::once("connections", CONNECTIONS),
        Theme::once("waiting", WAITING),
        Theme::once("pooler", POOLER),
        Theme::once("interop", INTEROP),
        Theme::repeated("failover", 1, FAILOVER),
        Theme::repeated("sequences", 1, SEQUENCES),
        Theme::once("tls", TLS),
        Theme::once("handed_in", handed_in::TESTS),
    ]);
}

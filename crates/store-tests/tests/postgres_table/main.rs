//! Tests of the lease table in Postgres under faults of the network, the processes, other programs and the server.
//!
//! Every test has a private server. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the theme `attacks` runs twenty times, and the other tests run in their
//! long form. Measurements are printed in both cases.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::silence as silent;
use fencepost_store_tests::test_program::{self, NamedTest, Theme, tests};

mod actor;
mod cancellation;
mod failover;
mod faults;
mod fences;
mod handed_in;
mod interop;
mod kills;
mod line;
mod network;
mod once;
mod records;
mod restarts;
mod rights;
mod schema;
mod silence;
mod support;

use support::Server;

const ATTACKS: &[NamedTest] = tests![
    "killed_holder" = kills::a_killed_holder,
    "killed_waiter" = kills::a_killed_waiter,
    "ten_of_sixteen_killed" = kills::ten_of_sixteen,
    "holder_stopped_beyond_its_ttl" = kills::a_holder_stopped_beyond_its_ttl,
    "waiter_stopped_across_its_turn" = kills::a_waiter_stopped_across_its_turn,
    "cancelled_at_every_await" = cancellation::at_every_await,
    network::cut_off_anywhere,
    "black_hole" = network::a_black_hole,
    "stale_request" = network::a_stale_request,
    restarts::sessions_ended,
    "restarted_while_held" = restarts::while_held_and_wanted,
    "restarted_while_given_back" = restarts::while_given_back,
    "waiter_meets_a_standby" = failover::a_waiter_meets_a_standby,
];

const FAULTS: &[NamedTest] = tests![
    faults::absent,
    "web_server" = faults::a_web_server,
    faults::no_address,
    faults::wrong_password,
    faults::no_such_database,
    "row_locked" = faults::a_row_that_stays_locked,
    "locked_row_is_no_outage" = faults::a_locked_row_is_no_outage,
    faults::statement_timeout,
    faults::became_read_only,
    "standby" = faults::a_standby,
    faults::odd_defaults,
    "stopped_while_acquiring" = silent::while_acquiring::<Server>,
    "stopped_while_holding" = silent::while_holding::<Server>,
    "stopped_while_renewing" = silent::while_renewing::<Server>,
    "stopped_while_releasing" = silent::while_releasing::<Server>,
    "stopped_while_waiting" = silent::while_waiting::<Server>,
    silence::a_dead_connection_does_not_lose_a_lock,
];

const SCHEMA: &[NamedTest] = tests![
    schema::missing,
    schema::made_by_the_address,
    schema::looks_make_no_table,
    schema::made_by_many_at_once,
    schema::made_in_an_open_transaction,
    schema::of_shedlock_itself,
    schema::other_columns,
    schema::somewhere_else,
    rights::no_right_to_make_it,
    rights::exactly_the_rights,
    rights::each_right_missing,
];

const FENCES: &[NamedTest] = tests![
    "row_deleted" = fences::the_row_was_deleted,
    "tables_lost" = fences::the_tables_were_lost,
    fences::put_back_from_a_copy,
    fences::at_its_end,
    fences::of_another_age,
    fences::of_the_same_owner,
];

const LINE: &[NamedTest] = tests![
    "two_hundred_on_one_connection" = line::two_hundred,
    line::a_lost_notice,
    line::forgotten_tickets,
    line::no_belief_beyond_the_row,
];

const INTEROP: &[NamedTest] = tests![
    interop::counters_are_exact,
    interop::each_keeps_the_other_out,
];

fn main() {
    test_program::main::<actor::At>([
        Theme::repeated("attacks", 2, ATTACKS),
        Theme::once("faults", FAULTS),
        Theme::once("schema", SCHEMA),
        Theme::once("fences", FENCES),
        Theme::once("line", LINE),
        Theme::once("interop", INTEROP),
        Theme::once("handed_in", handed_in::TESTS),
        Theme::once("once", once::TESTS),
        Theme::once("records", records::TESTS),
    ]);
}

//! Tests of the lease table in Postgres under faults of the network, the processes, other programs and the server.
//!
//! Every test has a private server. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the theme `nasty` runs twenty times, and the other tests run in their
//! long form. Measurements are printed in both cases.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::trials::{self, Listed, Theme};

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
mod restarts;
mod rights;
mod schema;
mod silence;
mod support;

const NASTY: &[Listed] = &[
    ("killed_holder", kills::a_killed_holder),
    ("killed_waiter", kills::a_killed_waiter),
    ("ten_of_sixteen_killed", kills::ten_of_sixteen),
    (
        "holder_stopped_beyond_its_ttl",
        kills::a_holder_stopped_beyond_its_ttl,
    ),
    (
        "waiter_stopped_across_its_turn",
        kills::a_waiter_stopped_across_its_turn,
    ),
    ("cancelled_at_every_await", cancellation::at_every_await),
    ("cut_off_anywhere", network::cut_off_anywhere),
    ("black_hole", network::a_black_hole),
    ("stale_request", network::a_stale_request),
    ("sessions_ended", restarts::sessions_ended),
    ("restarted_while_held", restarts::while_held_and_wanted),
    ("restarted_while_given_back", restarts::while_given_back),
    ("waiter_meets_a_standby", failover::a_waiter_meets_a_standby),
];

const FAULTS: &[Listed] = &[
    ("absent", faults::absent),
    ("web_server", faults::a_web_server),
    ("no_address", faults::no_address),
    ("wrong_password", faults::wrong_password),
    ("no_such_database", faults::no_such_database),
    ("row_locked", faults::a_row_that_stays_locked),
    ("locked_row_is_no_outage", faults::a_locked_row_is_no_outage),
    ("statement_timeout", faults::statement_timeout),
    ("became_read_only", faults::became_read_only),
    ("standby", faults::a_standby),
    ("odd_defaults", faults::odd_defaults),
    ("stopped_while_acquiring", silence::while_acquiring),
    ("stopped_while_holding", silence::while_holding),
    ("stopped_while_renewing", silence::while_renewing),
    ("stopped_while_releasing", silence::while_releasing),
    ("stopped_while_waiting", silence::while_waiting),
];

const SCHEMA: &[Listed] = &[
    ("missing", schema::missing),
    ("made_by_the_address", schema::made_by_the_address),
    ("made_by_many_at_once", schema::made_by_many_at_once),
    ("of_shedlock_itself", schema::of_shedlock_itself),
    ("other_columns", schema::other_columns),
    ("somewhere_else", schema::somewhere_else),
    ("no_right_to_make_it", rights::no_right_to_make_it),
    ("exactly_the_rights", rights::exactly_the_rights),
    ("each_right_missing", rights::each_right_missing),
];

const FENCES: &[Listed] = &[
    ("row_deleted", fences::the_row_was_deleted),
    ("tables_lost", fences::the_tables_were_lost),
    ("put_back_from_a_copy", fences::put_back_from_a_copy),
    ("at_its_end", fences::at_its_end),
    ("of_another_age", fences::of_another_age),
    ("of_the_same_owner", fences::of_the_same_owner),
];

const LINE: &[Listed] = &[
    ("two_hundred_on_one_connection", line::two_hundred),
    ("a_lost_notice", line::a_lost_notice),
    ("forgotten_tickets", line::forgotten_tickets),
    ("no_belief_beyond_the_row", line::no_belief_beyond_the_row),
];

const INTEROP: &[Listed] = &[
    ("counters_are_exact", interop::counters_are_exact),
    (
        "each_keeps_the_other_out",
        interop::each_keeps_the_other_out,
    ),
];

fn main() {
    trials::main::<actor::At>([
        Theme::repeated("nasty", 2, NASTY),
        Theme::once("faults", FAULTS),
        Theme::once("schema", SCHEMA),
        Theme::once("fences", FENCES),
        Theme::once("line", LINE),
        Theme::once("interop", INTEROP),
        Theme::once("handed_in", handed_in::TESTS),
    ]);
}

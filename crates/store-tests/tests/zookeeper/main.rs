//! Tests of the ZooKeeper store under faults of the network, the processes, other clients and the server.
//!
//! Every test has a private server. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the theme `attacks` runs twenty times, and the other tests run in their
//! long form. Measurements are printed in both cases.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::test_program::{self, NamedTest, Theme, tests};

mod actor;
mod addresses;
mod cancellation;
mod cost;
mod elections;
mod ensemble;
mod faults;
mod folders;
mod handed_in;
mod interop;
mod kills;
mod losses;
mod lost_answers;
mod network;
mod records;
mod restarts;
mod runtimes;
mod silence;
mod support;

const ATTACKS: &[NamedTest] = tests![
    "answer_lost_while_acquiring" = lost_answers::while_acquiring,
    "answer_lost_while_waiting" = lost_answers::while_waiting,
    "answer_lost_while_releasing" = lost_answers::while_releasing,
    network::cut_while_holding,
    network::cut_while_waiting,
    network::cut_off_while_holding,
    network::cut_off_while_waiting,
    "restarted_while_holding" = restarts::while_holding,
    "restarted_while_waiting" = restarts::while_waiting,
    "restarted_while_releasing" = restarts::while_releasing,
    "restarted_without_its_data" = restarts::without_its_data,
    "restarted_after_we_gave_up" = restarts::after_we_gave_up,
    "stopped_while_acquiring" = silence::while_acquiring,
    "stopped_for_a_moment" = silence::for_a_moment,
    "stopped_beyond_the_ttl" = silence::beyond_the_ttl,
    "stopped_beyond_the_session" = silence::beyond_the_session,
    "stopped_while_waiting" = silence::while_waiting,
    "stopped_while_releasing" = silence::while_releasing,
    "cancelled_at_every_await" = cancellation::at_every_await,
    "holder_killed" = kills::a_holder,
    "waiter_killed" = kills::a_waiter,
    "holder_stopped" = kills::a_holder_stopped_beyond_its_ttl,
    "waiter_stopped" = kills::a_waiter_stopped_beyond_its_session,
];

const ENSEMBLE: &[NamedTest] = tests![
    ensemble::leader_killed,
    ensemble::majority_lost,
    ensemble::follower_cut_off,
    ensemble::turn_told_late_by_a_follower_cut_off,
    ensemble::waiter_stopped_at_a_follower_cut_off,
];

const FAULTS: &[NamedTest] = tests![
    faults::absent,
    faults::absent_when_asked,
    faults::absent_while_waiting,
    faults::silent,
    "web_server" = faults::a_web_server,
    faults::not_an_address,
    "ttl_beyond_the_session" = faults::a_ttl_beyond_the_session,
    faults::wrong_password,
    faults::no_right_to_write,
    "ephemeral_in_the_way" = faults::an_ephemeral_node_in_the_way,
    "node_that_cannot_be_deleted" = faults::a_node_that_cannot_be_deleted,
    "node_deleted_while_held" = faults::deleted_while_held,
    "node_deleted_while_waiting" = faults::deleted_while_waiting,
];

const ADDRESSES: &[NamedTest] = tests![
    addresses::a_base_of_its_own,
    addresses::the_root,
    addresses::several_hosts,
    addresses::user_and_password,
];

const COST: &[NamedTest] = tests![
    cost::one_waiter_is_woken,
    cost::transactions_are_few,
    cost::batches_are_renewed_side_by_side,
];

const FOLDERS: &[NamedTest] = tests![
    folders::removed_when_idle,
    folders::of_others_are_left_alone,
    folders::vanish_under_a_newcomer,
];

const RUNTIMES: &[NamedTest] = tests![
    runtimes::the_next_one_goes_on,
    runtimes::an_old_place_is_given_up,
    runtimes::none_at_all,
];

const INTEROP: &[NamedTest] = tests![
    interop::curator,
    interop::kazoo,
    interop::what_others_hold_is_shown,
];

fn main() {
    test_program::main::<actor::At>([
        Theme::repeated("attacks", 2, ATTACKS),
        Theme::repeated("ensemble", 2, ENSEMBLE),
        Theme::once("faults", FAULTS),
        Theme::once("addresses", ADDRESSES),
        Theme::once("cost", COST),
        Theme::once("folders", FOLDERS),
        Theme::once("runtimes", RUNTIMES),
        Theme::once("interop", INTEROP),
        Theme::once("handed_in", handed_in::TESTS),
        Theme::once("losses", losses::TESTS),
        Theme::once("elections", elections::TESTS),
        Theme::once("records", records::TESTS),
    ]);
}

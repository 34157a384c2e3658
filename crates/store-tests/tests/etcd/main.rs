//! Tests of the etcd store under faults of the network, the processes, other clients and the servers.
//!
//! Every test has private servers. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the faults run twenty times, and the other tests run in their long
//! form. Measurements are printed in both cases.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::test_program::{self, NamedTest, Theme, tests};

mod actor;
mod addresses;
mod cancellation;
mod cluster;
mod connections;
mod elections;
mod faults;
mod handed_in;
mod interop;
mod kills;
mod losses;
mod places;
mod records;
mod restarts;
mod support;
mod tls;
mod ttls;
mod writes;

const FAULTS: &[NamedTest] = tests![
    faults::absent,
    faults::silent,
    faults::a_web_server,
    faults::wrong_password,
    faults::no_rights,
    faults::full,
    faults::stopped_while_holding,
    faults::a_lease_taken_away,
    faults::a_key_taken_away,
    faults::a_key_written_into,
    faults::compacted_while_waiting,
    "restarted_while_holding" = restarts::while_holding,
    "restarted_while_waiting" = restarts::while_waiting,
    "restarted_while_releasing" = restarts::while_releasing,
    connections::cut_at_every_byte,
    connections::slow_to_connect,
    connections::cut_while_waiting,
    connections::answers_swallowed,
];

const CLUSTER: &[NamedTest] = tests![
    cluster::one_of_three_is_dead,
    cluster::leader_killed,
    cluster::member_stopped,
    cluster::leader_stopped,
    cluster::majority_lost,
    cluster::old_leader_wakes,
];

const CANCELLATION: &[NamedTest] = tests![
    cancellation::after_every_poll,
    cancellation::after_every_delay,
    cancellation::races_leave_nothing,
];

const KILLS: &[NamedTest] = tests![
    kills::holder_killed,
    kills::waiter_killed,
    kills::holder_stopped,
    kills::waiter_stopped,
];

const LOSSES: &[NamedTest] = tests![
    losses::lease_revoked,
    losses::key_deleted,
    losses::more_holds_than_streams,
    losses::deleted_after_a_compaction,
];

const ADDRESSES: &[NamedTest] = tests![
    addresses::user_and_password,
    addresses::prefix,
    addresses::nested_names,
    "tls" = tls::private_authority,
    "tls_with_client_certificate" = tls::client_certificate,
    addresses::no_runtime,
];

const TTLS: &[NamedTest] = tests![ttls::short_ttl];

const WRITES: &[NamedTest] = tests![writes::writes_while_held];

const INTEROP: &[NamedTest] = tests![
    interop::excludes_and_is_excluded,
    interop::counters_are_exact,
];

fn main() {
    test_program::main::<actor::At>([
        Theme::repeated("faults", 2, FAULTS),
        Theme::repeated("cluster", 2, CLUSTER),
        Theme::once("cancellation", CANCELLATION),
        Theme::repeated("kills", 2, KILLS),
        Theme::repeated("losses", 2, LOSSES),
        Theme::once("addresses", ADDRESSES),
        Theme::once("ttls", TTLS),
        Theme::once("writes", WRITES),
        Theme::once("interop", INTEROP),
        Theme::once("handed_in", handed_in::TESTS),
        Theme::once("places", places::TESTS),
        Theme::once("elections", elections::TESTS),
        Theme::once("records", records::TESTS),
    ]);
}

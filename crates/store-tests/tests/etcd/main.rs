//! Tests of the etcd store under faults of the network, the processes, other clients and the servers.
//!
//! Every test has private servers. This program is also the program of every child: a part in the environment makes it play
//! that part instead of testing. With `FENCEPOST_SOAK=1` the faults run twenty times, and the other tests run in their long
//! form. Measurements are printed in both cases.
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::trials::{self, Listed, Theme};

mod actor;
mod cancellation;
mod cluster;
mod connections;
mod faults;
mod handed_in;
mod interop;
mod kills;
mod losses;
mod places;
mod restarts;
mod support;
mod tls;
mod ways;

const FAULTS: &[Listed] = &[
    ("absent", faults::absent),
    ("silent", faults::silent),
    ("a_web_server", faults::a_web_server),
    ("wrong_password", faults::wrong_password),
    ("no_rights", faults::no_rights),
    ("full", faults::full),
    ("stopped_while_holding", faults::stopped_while_holding),
    ("a_lease_taken_away", faults::a_lease_taken_away),
    ("a_key_taken_away", faults::a_key_taken_away),
    ("a_key_written_into", faults::a_key_written_into),
    ("compacted_while_waiting", faults::compacted_while_waiting),
    ("restarted_while_holding", restarts::while_holding),
    ("restarted_while_waiting", restarts::while_waiting),
    ("restarted_while_releasing", restarts::while_releasing),
    ("cut_at_every_byte", connections::cut_at_every_byte),
    ("cut_while_waiting", connections::cut_while_waiting),
    ("answers_swallowed", connections::answers_swallowed),
];

const CLUSTER: &[Listed] = &[
    ("one_of_three_is_dead", cluster::one_of_three_is_dead),
    ("leader_killed", cluster::leader_killed),
    ("member_stopped", cluster::member_stopped),
    ("leader_stopped", cluster::leader_stopped),
    ("majority_lost", cluster::majority_lost),
    ("old_leader_wakes", cluster::old_leader_wakes),
];

const CANCELLATION: &[Listed] = &[
    ("after_every_poll", cancellation::after_every_poll),
    ("after_every_delay", cancellation::after_every_delay),
    ("races_leave_nothing", cancellation::races_leave_nothing),
];

const KILLS: &[Listed] = &[
    ("holder_killed", kills::holder_killed),
    ("waiter_killed", kills::waiter_killed),
    ("holder_stopped", kills::holder_stopped),
    ("waiter_stopped", kills::waiter_stopped),
];

const LOSSES: &[Listed] = &[
    ("lease_revoked", losses::lease_revoked),
    ("key_deleted", losses::key_deleted),
    ("more_holds_than_streams", losses::more_holds_than_streams),
    (
        "deleted_after_a_compaction",
        losses::deleted_after_a_compaction,
    ),
];

const WAYS: &[Listed] = &[
    ("user_and_password", ways::user_and_password),
    ("prefix", ways::prefix),
    ("nested_names", ways::nested_names),
    ("writes_while_held", ways::writes_while_held),
    ("short_ttl", ways::short_ttl),
    ("tls", tls::private_authority),
    ("tls_with_client_certificate", tls::client_certificate),
    ("no_runtime", ways::no_runtime),
];

const INTEROP: &[Listed] = &[
    (
        "excludes_and_is_excluded",
        interop::excludes_and_is_excluded,
    ),
    ("counters_are_exact", interop::counters_are_exact),
];

fn main() {
    trials::main::<actor::At>([
        Theme::repeated("faults", 2, FAULTS),
        Theme::repeated("cluster", 2, CLUSTER),
        Theme::once("cancellation", CANCELLATION),
        Theme::repeated("kills", 2, KILLS),
        Theme::repeated("losses", 2, LOSSES),
        Theme::once("ways", WAYS),
        Theme::once("interop", INTEROP),
        Theme::once("handed_in", handed_in::TESTS),
        Theme::once("places", places::TESTS),
    ]);
}

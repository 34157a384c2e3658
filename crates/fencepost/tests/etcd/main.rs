//! The etcd store under attack: by the network, by signals, by other clients, by the servers themselves.
//!
//! Every test has private servers. This program is also every child it starts: a role in the environment makes it play
//! that instead of testing. With `FENCEPOST_SOAK=1` the faults run twenty times, and the others take their
//! long form. Figures are printed either way.
#![allow(clippy::unwrap_used)]

use libtest_mimic::{Arguments, Trial};

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
#[cfg(feature = "etcd-tls")]
mod tls;
mod ways;

const FAULTS: &[(&str, fn())] = &[
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

const CLUSTER: &[(&str, fn())] = &[
    ("one_of_three_is_dead", cluster::one_of_three_is_dead),
    ("leader_killed", cluster::leader_killed),
    ("member_stopped", cluster::member_stopped),
    ("leader_stopped", cluster::leader_stopped),
    ("majority_lost", cluster::majority_lost),
    ("old_leader_wakes", cluster::old_leader_wakes),
];

const CANCELLATION: &[(&str, fn())] = &[
    ("after_every_poll", cancellation::after_every_poll),
    ("after_every_delay", cancellation::after_every_delay),
    ("races_leave_nothing", cancellation::races_leave_nothing),
];

const KILLS: &[(&str, fn())] = &[
    ("holder_killed", kills::holder_killed),
    ("waiter_killed", kills::waiter_killed),
    ("holder_stopped", kills::holder_stopped),
    ("waiter_stopped", kills::waiter_stopped),
];

const LOSSES: &[(&str, fn())] = &[
    ("lease_revoked", losses::lease_revoked),
    ("key_deleted", losses::key_deleted),
    ("more_holds_than_streams", losses::more_holds_than_streams),
    (
        "deleted_after_a_compaction",
        losses::deleted_after_a_compaction,
    ),
];

const WAYS: &[(&str, fn())] = &[
    ("user_and_password", ways::user_and_password),
    ("prefix", ways::prefix),
    ("nested_names", ways::nested_names),
    ("writes_while_held", ways::writes_while_held),
    ("short_ttl", ways::short_ttl),
    #[cfg(feature = "etcd-tls")]
    ("tls", tls::private_authority),
    #[cfg(feature = "etcd-tls")]
    ("tls_with_client_certificate", tls::client_certificate),
    #[cfg(feature = "blocking")]
    ("no_runtime", ways::no_runtime),
];

const INTEROP: &[(&str, fn())] = &[
    (
        "excludes_and_is_excluded",
        interop::excludes_and_is_excluded,
    ),
    ("counters_are_exact", interop::counters_are_exact),
];

fn main() {
    if let Some(part) = actor::Part::of_this_process() {
        return actor::play(&part);
    }
    let mut arguments = Arguments::from_args();
    if support::is_soak() {
        // Side by side they would disturb each other's figures.
        arguments.test_threads = Some(1);
    }
    let runs = support::runs();
    let themes = [
        ("faults", FAULTS, runs),
        ("cluster", CLUSTER, runs),
        ("cancellation", CANCELLATION, 1),
        ("kills", KILLS, runs),
        ("losses", LOSSES, runs),
        ("ways", WAYS, 1),
        ("interop", INTEROP, 1),
        ("handed_in", handed_in::TESTS, 1),
        ("places", places::TESTS, 1),
    ];
    let trials = themes.into_iter().flat_map(|(theme, tests, runs)| {
        tests
            .iter()
            .map(move |&(name, test)| trial(theme, name, test, runs))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn trial(theme: &str, name: &str, test: fn(), runs: usize) -> Trial {
    Trial::test(format!("{theme}::{name}"), move || {
        (0..runs).for_each(|_| test());
        Ok(())
    })
}

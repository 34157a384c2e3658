//! An exhaustive state search over the waiting line on Redis. It needs no server.
//!
//! The model has the scripts as they run inside Redis (`server`, with `advance`, `line` and `fence`), the client's state
//! machine (`client`), connections and their faults (`network`), and a plain client that does not use the line. Everything that
//! can happen next is a move (`moves`). `search` explores all of them, breadth first, and checks every state against the
//! promises in `invariants` and, by fair runs from there, in `progress`. Time is counted in heartbeats; everything may be
//! delayed.
//!
//! The model is kept by hand. What it says of the store (`crates/fencepost/src/stores/redis`), in names that a test looks up:
//!
//! | in the model | in the store |
//! |---|---|
//! | `Script::acquire`, `Script::try_acquire` | `acquire_fast.lua`, `acquire.lua` |
//! | `Script::release` | `release_fast.lua`, `release.lua` |
//! | `Script::beat_waiting` | `beat.lua` |
//! | `Script::beat_holding` | `renew.lua` |
//! | `Script::advance`, `Script::bury` | `advance` and `bury` in `shared.lua` |
//! | `Script::draw_fence`, `Script::lift_fence` | `next_epoch` and `lift` in `shared.lua` |
//! | `Script::give_up_guess`, `Key::is_guessed` | `is_guessed` in `shared.lua` |
//! | `Script::mark_key`, `Key::is_marked` | `is_marked_by_waiters` in `shared.lua` |
//! | `is_fresh` | `is_recorded` in `shared.lua`, which says the opposite |
//! | `Script::run_next`, `Attempt` | `try_plain_commands` in `requests.rs` |
//! | `Client::may_use_plain_commands` | `NameHistory::plan` |
//! | `Client::last_epoch`, `Client::highest_epoch` | `NameHistory::epoch`, `NameHistory::highest`; the latter is sent as `floor` |
//! | `Client::ask`, `receive_reply` | `ask` in `requests.rs` |
//! | `receive_push`, `take_grant` | `Hub::pushed`, `is_good` in `requests.rs` |
//! | `network::reconnect` | `Hub::connect`, `session::connect` |
//! | `Times::waiter_lease`, `Times::liveness` | `Times::waiter_lease`, `Times::live` in `waiting.rs` |
//!
//! A search that finds nothing proves little about itself. So each rule of the protocol can be broken by a switch (`variants`),
//! and the tests require that the search convicts every broken protocol of the right promise, with the shortest story that
//! shows it. `docs/decisions/0005-redis-line-model.md` says why the search is our own.
//!
//! `cargo test -p fencepost-models --test redis_line_model -- --nocapture` prints counts and stories. With
//! `FENCEPOST_SOAK=1` the search goes deeper, which requires the release profile.

mod advance;
mod canonical;
mod client;
mod fence;
mod invariants;
mod line;
mod moves;
mod network;
mod plain_commands;
mod progress;
mod scenarios;
mod search;
mod server;
mod setup;
mod state;
mod story;
mod variants;

use fencepost_rig::is_soak;
use scenarios::{
    FORGETFUL_SERVER, FORGETFUL_SERVER_DEEPER, PLAIN_COMMANDS, PLAIN_COMMANDS_DEEPER, Scenario,
    THREE_CLIENTS, THREE_CLIENTS_DEEPER, TWO_CLIENTS, TWO_CLIENTS_DEEPER,
};
use search::search;
use setup::Setup;
use variants::{Flaw, Variant, variants};

#[test]
fn the_table_names_what_exists() {
    fencepost_models::assert_names_exist("redis_line_model", &["stores/redis"]);
}

#[test]
fn two_clients_are_served_whatever_happens() {
    keep_every_promise(TWO_CLIENTS, TWO_CLIENTS_DEEPER);
}

#[test]
fn three_clients_are_served_in_order_whatever_happens() {
    keep_every_promise(THREE_CLIENTS, THREE_CLIENTS_DEEPER);
}

#[test]
fn fences_order_what_a_server_forgot() {
    keep_every_promise(FORGETFUL_SERVER, FORGETFUL_SERVER_DEEPER);
}

#[test]
fn plain_commands_keep_what_the_scripts_promise() {
    keep_every_promise(PLAIN_COMMANDS, PLAIN_COMMANDS_DEEPER);
}

#[test]
fn every_broken_variant_is_convicted() {
    for Variant {
        flaw,
        setup,
        breaks,
    } in variants()
    {
        let outcome = search(&setup);
        println!("{flaw:?}: {outcome}");
        let Some(conviction) = outcome.conviction else {
            panic!("{flaw:?} was not convicted");
        };
        println!("{}", conviction.story);
        assert_eq!(conviction.promise, breaks, "{flaw:?}");
        if is_soak() {
            // The flaw must cause the conviction, not the setup it is shown in.
            keeps_every_promise(
                "without it",
                &Setup {
                    flaw: None,
                    ..setup
                },
            );
        }
    }
}

#[test]
fn every_flaw_has_its_variant() {
    let mut flaws: Vec<_> = variants().iter().map(|it| it.flaw as usize).collect();
    flaws.sort_unstable();
    let all: Vec<_> = (0..=Flaw::BuriesTheLiving as usize).collect();
    assert_eq!(flaws, all);
}

fn keep_every_promise(scenarios: &[Scenario], deeper: &[Scenario]) {
    let deeper = deeper.iter().filter(|_| is_soak());
    for Scenario { title, setup } in scenarios.iter().chain(deeper) {
        keeps_every_promise(title, setup);
    }
}

fn keeps_every_promise(title: &str, setup: &Setup) {
    let outcome = search(setup);
    println!("{title}: {outcome}");
    if let Some(conviction) = outcome.conviction {
        panic!(
            "{title}: '{}' is broken\n{}",
            conviction.promise, conviction.story
        );
    }
}

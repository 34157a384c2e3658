//! The waiting line on Redis, searched state by state. No server is needed.

mod canonical;
mod client;
mod invariants;
mod moves;
mod network;
mod progress;
mod search;
mod server;
mod setup;
mod state;
mod story;
mod variants;

use search::search;
use setup::{Setup, Troubles};
use variants::variants;

fn keeps_every_promise(title: &str, setup: &Setup) {
    let outcome = search(setup);
    println!("{title}: {outcome}");
    if let Some(conviction) = outcome.conviction {
        panic!("{title}: «{}» is broken\n{}", conviction.promise, conviction.story);
    }
}

#[test]
fn two_calm() {
    keeps_every_promise("two clients", &Setup { plain_turns: 1, ..Setup::CALM });
}

#[test]
fn two_one_fault() {
    keeps_every_promise("two clients, any fault", &Setup { faults: 1, troubles: Troubles::CLIENTS, ..Setup::CALM });
}

#[test]
fn three_calm() {
    keeps_every_promise("three clients", &Setup { clients: 3, ..Setup::CALM });
}

#[test]
fn every_flaw_is_convicted() {
    let mut wrong = Vec::new();
    for variant in variants() {
        let outcome = search(&variant.setup);
        println!("{:?}: {outcome}", variant.flaw);
        match &outcome.conviction {
            None => wrong.push(format!("{:?} was not convicted", variant.flaw)),
            Some(found) => {
                println!("{}", found.story);
                if found.promise != variant.breaks {
                    wrong.push(format!("{:?} broke «{}»", variant.flaw, found.promise));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

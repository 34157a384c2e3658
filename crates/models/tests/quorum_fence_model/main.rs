//! An exhaustive state search over the fence of Redlock. It needs no server.
//!
//! The model has the scripts as they run on three nodes (`node`), clients that ask, propose an epoch, hold, extend and release
//! (`moves`), and connections in between that may be arbitrarily slow and may break (`faults`). Everything that can happen next
//! is a move. `search` explores all of them, breadth first, and checks every step against the promises in `promises`.
//!
//! The model is kept by hand. What it says of the store (`crates/fencepost/src/stores/redlock`), in names that a test looks up:
//!
//! | in the model | in the store |
//! |---|---|
//! | `lock` in `node.rs` | `lock.lua` |
//! | `accept` in `node.rs` | `accept.lua` |
//! | `extend` in `node.rs` | `renew.lua` |
//! | `release`, `release_taken` | `release.lua`, with one bound and with both |
//! | `Node::counter`, `EPOCHS_PER_TICK` | `last`, `keep` and `lifted` in `counter.lua` |
//! | `Node::young` | `Server::least_age_seconds`, `is_grown` in `renew.lua` |
//! | `ask`, `Client::attempt` | `Hub::attempt`, `Attempt::stamp` |
//! | `propose`, `raise` | `proposal` in `votes.rs`, `Hub::settle` |
//! | `keep`, `Client::before`, `Client::known` | `Granted::take`, `Hub::hear_who_knows`, `Ballot::known` |
//! | `conclude`, `give_back` | the end of `Hub::attempt`, `Hub::give_up_attempt` |
//! | `Client::confirmed`, `Client::is_lost`, `lose` | `Lease::confirmed`, `Granted::extended`, `Granted::lose` |
//! | `Wire::owed`, `Wire::paid`, `Wire::owe_taken` | `Debts::owe`, `Debts::paid`, `Span::after` |
//! | `Client::seen`, `Request::Lock` | `SeenEpochs` |
//!
//! A search that finds nothing proves little about itself. So each rule can be broken by a switch (`setup::Flaw`), and the
//! tests require that the search convicts every broken fence of the right promise, with the shortest story that shows it. The
//! limits of the fence (a node that comes back empty, with a clock behind the others) are demonstrated in the same way. See
//! `docs/decisions/0007-the-quorum-fence.md`.
//!
//! `cargo test -p fencepost-models --test quorum_fence_model -- --nocapture` prints counts and stories. With
//! `FENCEPOST_SOAK=1` the search goes deeper, which requires the release profile.

mod canonical;
mod faults;
mod moves;
mod node;
mod promises;
mod scenarios;
mod search;
mod setup;
mod state;
mod story;

use fencepost_rig::is_soak;
use scenarios::{BROKEN, Broken, LIMITS, SOUND, SOUND_DEEPER, Scenario};
use search::search;

#[test]
fn the_table_names_what_exists() {
    fencepost_models::assert_names_exist("quorum_fence_model", &["stores/redlock"]);
}

#[test]
fn epochs_are_unique_and_rise() {
    let deeper = SOUND_DEEPER.iter().filter(|_| is_soak());
    for Scenario { title, setup } in SOUND.iter().chain(deeper) {
        let outcome = search(setup);
        println!("{title}: {outcome}");
        if let Some(conviction) = outcome.conviction {
            panic!(
                "{title}: '{}' is broken\n{}",
                conviction.promise, conviction.story
            );
        }
    }
}

#[test]
fn every_broken_variant_is_convicted() {
    convict(BROKEN);
}

#[test]
fn what_it_cannot_do_is_known() {
    convict(LIMITS);
}

fn convict(accused: &[Broken]) {
    let mut searched = 0;
    for Broken {
        title,
        setup,
        breaks,
        is_long,
    } in accused
    {
        if *is_long && !is_soak() {
            println!("{title}: only with FENCEPOST_SOAK=1");
            continue;
        }
        let outcome = search(setup);
        println!("{title}: {outcome}");
        let Some(conviction) = outcome.conviction else {
            panic!("{title}: not convicted");
        };
        println!("{}", conviction.story);
        assert_eq!(conviction.promise, *breaks, "{title}");
        searched += 1;
    }
    assert!(searched > 0, "all searches take too long for everyday runs");
}

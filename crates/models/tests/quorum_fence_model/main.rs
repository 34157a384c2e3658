//! The fence of Redlock, searched state by state. No server is needed.
//!
//! The model has the scripts as they run on three nodes (`node`), clients that ask, propose an epoch, hold, extend and release
//! (`moves`), and connections in between that are as slow as they like and may break (`faults`). Anything that can happen next is a move;
//! `search` goes through all of them, breadth first, and holds every step against the promises in `promises`.
//!
//! A search that finds nothing proves little about itself. So each rule can be broken by a switch (`setup::Flaw`), and the tests demand
//! that every broken fence is convicted, of the right promise, with the shortest story that shows it. What the fence cannot promise (a
//! node that comes back empty, with a clock behind the others') is shown in the same way. See
//! `docs/decisions/0007-the-quorum-fence.md`.
//!
//! `cargo test --test quorum_fence_model -- --nocapture` prints counts and stories. With `FENCEPOST_SOAK=1` the search goes
//! deeper; that is for the release profile.

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
fn epochs_are_unique_and_rise() {
    let deeper = SOUND_DEEPER.iter().filter(|_| is_soak());
    for Scenario { title, setup } in SOUND.iter().chain(deeper) {
        let outcome = search(setup);
        println!("{title}: {outcome}");
        if let Some(conviction) = outcome.conviction {
            panic!(
                "{title}: «{}» is broken\n{}",
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
    }
}

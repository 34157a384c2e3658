//! The fence of Postgres' advisory locks, searched state by state. No server is needed.
//!
//! The model has two sequences as Postgres keeps them (`server`): what they say now, what is on the disk, what a standby has received.
//! Sessions take one lock in turn, lift the fence and draw from it (`moves`). The server may crash, and a standby that lags may take
//! over. `search` goes through every order of these steps, breadth first, and demands that each fence that a holder is told is
//! larger than all fences told before.
//!
//! A search that finds nothing proves little about itself. So each rule can be broken by a switch (`setup::Flaw`), and the tests demand
//! that every broken variant is convicted. What the fence cannot promise is shown in the same way. See
//! `docs/decisions/0009-the-fence-of-postgres.md`.
//!
//! `cargo test --test pg_fence_model -- --nocapture` prints counts and stories. With `FENCEPOST_SOAK=1` the worlds are larger.

mod moves;
mod search;
mod server;
mod setup;

use fencepost_rig::is_soak;
use search::search;
use setup::{BROKEN, LIMITS, SOUND, SOUND_DEEPER, Setup};

#[test]
fn fences_rise() {
    let deeper = SOUND_DEEPER.iter().filter(|_| is_soak());
    for (title, setup) in SOUND.iter().chain(deeper) {
        let outcome = search(setup);
        println!("{title}: {} states", outcome.states);
        if let Some(story) = outcome.story {
            panic!("{title}: a fence fell\n{story}");
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

fn convict(accused: &[(&str, Setup)]) {
    for (title, setup) in accused {
        let outcome = search(setup);
        let Some(story) = outcome.story else {
            panic!("{title}: not convicted in {} states", outcome.states);
        };
        println!("{title}: {} states\n{story}", outcome.states);
    }
}

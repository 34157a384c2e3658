//! An exhaustive state search over the record of one semaphore or read-write lock. It needs no server.
//!
//! What a record contains, and what a request does to it, is not modelled: the model calls the library's own state machine. Around it are a
//! store that replaces records by compare-and-set (`moves`), clients that read, decide and send, and what they believe (`world`). Answers get
//! lost, replacements arrive late, clients die, time passes, and the store may lose the record. `search` explores every order of these
//! steps, breadth first, and checks the promises in every state (`promises`). Where no more can go wrong, it also lets everybody who lives
//! finish, and requires that they do.
//!
//! | in the model | in the library |
//! |---|---|
//! | `World::record`, `Change` | `Roster`, `Shares::replace` |
//! | `World::settled` | `Roster::settle` |
//! | `Aim::Try`, `Aim::Wait` | `Asking::Once`, `Asking::InLine`, in `Shares::ask` |
//! | `Aim::Renew` | `Roster::renew`, in `Shares::renew_those_of` |
//! | `Aim::Leave` | `Roster::release`, in `Shares::give_back` |
//! | `Client::place` | `Owners::place_of` |
//! | `Client::is_unsure` | `Owners::is_answered` |
//! | `Client::is_stored` | `Reading::is_stored` |
//! | `World::late` | what `Sent` is about, if it is dropped |
//! | `Move::Downgrade` | `WriteGuard::downgrade` |
//! | `Flaw::ComparesNothing` | `Replaced::Outdated` |
//!
//! A search that finds nothing proves little about itself. So each rule can be broken by a switch (`setup::Flaw`), and the tests require that
//! the search convicts every broken variant. See `docs/decisions/0019-kinds-of-lock-are-records.md`.
//!
//! `cargo test -p fencepost-models --test shares_model -- --nocapture` prints counts and stories. With `FENCEPOST_SOAK=1` it searches deeper.

mod flaws;
mod moves;
mod promises;
mod search;
mod setup;
mod world;

use fencepost_rig::is_soak;
use search::search;
use setup::{BROKEN, SOUND, SOUND_DEEPER};

#[test]
fn the_table_names_what_exists() {
    let paths = ["shares", "kinds", "backend/records.rs"];
    fencepost_models::assert_names_exist("shares_model", &paths);
}

#[test]
fn the_promises_hold() {
    let deeper = SOUND_DEEPER.iter().filter(|_| is_soak());
    for (title, setup) in SOUND.iter().chain(deeper) {
        let started = std::time::Instant::now();
        let outcome = search(setup);
        println!(
            "{title}: {} states, {:.1?}",
            outcome.states,
            started.elapsed()
        );
        if let Some(story) = outcome.story {
            panic!("{title}: {story}");
        }
    }
}

#[test]
fn every_broken_variant_is_convicted() {
    for (title, promise, setup) in BROKEN {
        let outcome = search(setup);
        let Some(story) = outcome.story else {
            panic!("{title}: not convicted in {} states", outcome.states);
        };
        println!("{title}: {} states\n{story}", outcome.states);
        assert!(
            story.starts_with(promise),
            "{title}: convicted of something else\n{story}"
        );
    }
}

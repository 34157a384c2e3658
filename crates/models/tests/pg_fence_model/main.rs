//! An exhaustive state search over the fence of Postgres' advisory locks. It needs no server.
//!
//! The model has two sequences as Postgres keeps them (`server`): their current values, what is on disk, and what a standby has
//! received. Sessions take one lock in turn, lift the fence and draw from it (`moves`). The server may crash, and a lagging
//! standby may take over. `search` explores every order of these steps, breadth first, and requires that each fence reported to
//! a holder is larger than all fences reported before.
//!
//! The model is kept by hand. What it says of the store (`crates/fencepost/src/stores/postgres`, and `pg_tx` for locks in the
//! user's own transactions), in names that a test looks up:
//!
//! | in the model | in the store |
//! |---|---|
//! | `Server::draw` | `nextval` of `fencepost_fence`, in `DRAW` |
//! | `Server::set_lift`, `target` | `setval` of `fencepost_lift`, in `lift` in `fence.rs` |
//! | `Server::lifter`, `Phase::Lifting`, `Phase::Lifts` | `LIFT_IN_TURN` |
//! | `Session::is_lifted` | `LIFTED` and `NOTE_LIFTED`: a setting that the server keeps for the session |
//! | `Phase::Asks`, `Server::holder` | `try_lock` and `wait` in `statements.rs` |
//! | `Phase::Locked`, `Phase::Read`, `Phase::Drawn` | `Granting::columns`, which contain `DRAW`, once the lock is granted |
//! | `Server::flush`, before `Phase::Holds` | `WRITE` in `statements.rs`; lifts are `WITHOUT_WAITING` |
//! | `Setup::told_in_transaction` | `draw_statement` in `draw.rs`, in the user's own transaction |
//! | `Flaw::Cached` | `create_sequences` and `is_sound`, which require `CACHE` 1 |
//!
//! A search that finds nothing proves little about itself. So each rule can be broken by a switch (`setup::Flaw`), and the
//! tests require that the search convicts every broken variant. The limits of the fence are demonstrated in the same way. See
//! `docs/decisions/0009-the-fence-of-postgres.md`.
//!
//! `cargo test -p fencepost-models --test pg_fence_model -- --nocapture` prints counts and stories. With
//! `FENCEPOST_SOAK=1` the worlds are larger.

mod moves;
mod search;
mod server;
mod setup;

use fencepost_rig::is_soak;
use search::search;
use setup::{BROKEN, LIMITS, SOUND, SOUND_DEEPER, Setup};

#[test]
fn the_table_names_what_exists() {
    fencepost_models::assert_names_exist("pg_fence_model", &["stores/postgres", "pg_tx"]);
}

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

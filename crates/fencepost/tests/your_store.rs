//! Runs the conformance suite on the store of `docs/adding-a-store.md`.

use std::sync::Arc;

use fencepost::conformance::{StoreUnderTest, requirements};
use libtest_mimic::{Arguments, Trial};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example with a main of its own"
)]
#[path = "../examples/your_store.rs"]
mod your_store;

use your_store::Folder;

fn main() {
    let picked = requirements().filter(|one| one.applies_to(Folder::CAPABILITIES));
    let tests = picked.map(|requirement| {
        Trial::test(requirement.name(), || {
            let folder = tempfile::tempdir()?;
            let open = || Folder::open(folder.path()).map(Arc::new);
            let store = StoreUnderTest::with_two_connections(open()?, open()?);
            tokio::runtime::Runtime::new()?.block_on(requirement.run(store));
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), tests.collect()).exit();
}

//! Runs the requirements on records on the stores that need no server.

use std::sync::Arc;

use fencepost::Backend;
use fencepost::backend::Capabilities;
use fencepost::conformance::{Requirement, StoreUnderTest, requirements};
use fencepost::stores::memory::Memory;
use fencepost::stores::sqlite::Sqlite;
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;

fn main() {
    let is_about_records = |one: &&Requirement| {
        one.applies_to(Capabilities::new().records(true).shares(true))
            && !one.applies_to(Capabilities::new())
    };
    let tests = requirements().filter(is_about_records).flat_map(|one| {
        let run = move |store| {
            tokio::runtime::Runtime::new()?.block_on(one.run(store));
            Ok(())
        };
        let in_memory = Trial::test(format!("memory::{}", one.name()), move || {
            run(StoreUnderTest::new(Arc::new(Memory::new())))
        });
        let in_a_file = Trial::test(format!("sqlite::{}", one.name()), move || {
            let folder = tempfile::tempdir()?;
            run(two_connections(&folder)?)
        });
        [in_memory, in_a_file]
    });
    libtest_mimic::run(&Arguments::from_args(), tests.collect()).exit();
}

fn two_connections(folder: &TempDir) -> fencepost::Result<StoreUnderTest> {
    let open = || -> fencepost::Result<Arc<dyn Backend>> {
        let file = Sqlite::open_blocking(folder.path().join("locks.db"))?;
        Ok(Arc::new(file))
    };
    Ok(StoreUnderTest::with_two_connections(open()?, open()?))
}

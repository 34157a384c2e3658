//! Shares as locks, on the stores that need no server: with one permit of one, and with writing, every requirement on locks holds.

use std::sync::Arc;

use fencepost::Backend;
use fencepost::backend::{Capabilities, Part};
use fencepost::conformance::{Requirement, StoreUnderTest, requirements};
use fencepost::stores::memory::Memory;
use fencepost::stores::sqlite::Sqlite;
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;

const PARTS: [(&str, Part); 2] = [
    ("permits", Part::Permits { count: 1, of: 1 }),
    ("write", Part::Write),
];

fn main() {
    let all = Capabilities::new().fifo(true).leases(true);
    let all = all.across_processes(true);
    let tests = requirements().filter(|one| one.applies_to(all));
    let tests = tests.flat_map(|one| PARTS.map(|(what, part)| tests_of(one, what, part)));
    let tests = tests.flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

fn tests_of(one: &'static Requirement, what: &str, part: Part) -> [Trial; 2] {
    let run = move |store: StoreUnderTest| {
        let store = store.with_locks_as(part).expect("a store with records");
        tokio::runtime::Runtime::new()?.block_on(one.run(store));
        Ok(())
    };
    let in_memory = Trial::test(format!("memory::{what}::{}", one.name()), move || {
        run(StoreUnderTest::new(Arc::new(Memory::new())))
    });
    let in_a_file = Trial::test(format!("sqlite::{what}::{}", one.name()), move || {
        let folder = tempfile::tempdir()?;
        run(two_connections(&folder)?)
    });
    [in_memory, in_a_file]
}

fn two_connections(folder: &TempDir) -> fencepost::Result<StoreUnderTest> {
    let open = || -> fencepost::Result<Arc<dyn Backend>> {
        let file = Sqlite::open_blocking(folder.path().join("locks.db"))?;
        Ok(Arc::new(file))
    };
    Ok(StoreUnderTest::with_two_connections(open()?, open()?))
}

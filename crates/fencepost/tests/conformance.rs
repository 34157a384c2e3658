//! Every backend × every trial it promises to pass, each as a test of its own.

use std::sync::Arc;

use fencepost::backend::memory::Memory;
use fencepost::backend::sqlite::Sqlite;
use fencepost::conformance::{Subject, trials};
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;

/// A store for one trial, and the folder that must live as long.
type Stage = (Subject, Option<TempDir>);

fn main() {
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    tests.extend(tests_of("memory", memory));
    tests.extend(tests_of("sqlite", sqlite));
    libtest_mimic::run(&arguments, tests).exit();
}

fn memory() -> Stage {
    (Subject::new(Arc::new(Memory::new())), None)
}

/// One file through two connections, as two processes would have it.
fn sqlite() -> Stage {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("locks.db");
    let [one, other] =
        [(), ()].map(|()| Arc::new(Sqlite::open_blocking(&path).expect("a new file")));
    (Subject::with_two_connections(one, other), Some(folder))
}

fn tests_of(store: &'static str, stage: fn() -> Stage) -> Vec<Trial> {
    let capabilities = stage().0.capabilities();
    let applicable = trials().filter(|trial| trial.applies_to(capabilities));
    let test = |trial: &'static fencepost::conformance::Trial| {
        Trial::test(format!("{store}::{}", trial.name()), move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_time()
                .build();
            let (subject, _folder) = stage();
            runtime?.block_on(trial.run(subject));
            Ok(())
        })
    };
    applicable.map(test).collect()
}

//! The conformance suite on shares in memory: one permit of one and writing behave as a lock, and the requirements on semaphores and
//! read-write locks hold.

use std::sync::Arc;

use fencepost::Part;
use fencepost::conformance::{Subject, requirements};
use fencepost::stores::memory::Memory;
use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut tests = Vec::new();
    let parts = [
        ("permits", Part::Permits { count: 1, of: 1 }),
        ("write", Part::Write),
    ];
    for (what, part) in parts {
        let subject = move || {
            let subject = Subject::new(Arc::new(Memory::new())).with_locks_as(part);
            subject.expect("memory keeps records")
        };
        tests.extend(suite(what, subject));
    }
    tests.extend(suite("memory", || Subject::new(Arc::new(Memory::new()))));
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

fn suite(
    what: &'static str,
    subject: impl Fn() -> Subject + Clone + Send + 'static,
) -> impl Iterator<Item = Trial> {
    let capabilities = subject().capabilities();
    let picked = requirements().filter(move |one| one.applies_to(capabilities));
    picked.map(move |requirement| {
        let subject = subject.clone();
        Trial::test(format!("{what}::{}", requirement.name()), move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?;
            runtime.block_on(requirement.run(subject()));
            Ok(())
        })
    })
}

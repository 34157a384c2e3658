//! Every backend × every trial it promises to pass, each as a test of its own.

use std::sync::Arc;

use fencepost::backend::memory::Memory;
use fencepost::conformance::{Subject, trials};
use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    tests.extend(tests_of("memory", || Subject::new(Arc::new(Memory::new()))));
    libtest_mimic::run(&arguments, tests).exit();
}

fn tests_of(store: &'static str, subject: fn() -> Subject) -> Vec<Trial> {
    let capabilities = subject().capabilities();
    let applicable = trials().filter(|trial| trial.applies_to(capabilities));
    let test = |trial: &'static fencepost::conformance::Trial| {
        Trial::test(format!("{store}::{}", trial.name()), move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_time()
                .build();
            runtime?.block_on(trial.run(subject()));
            Ok(())
        })
    };
    applicable.map(test).collect()
}

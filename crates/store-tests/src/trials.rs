//! The program of a store's tests: a list of trials, or the child that one of them has started.

use fencepost_rig::is_soak;
use libtest_mimic::{Arguments, Trial};

use crate::actor::{Opener, Part};

/// How often what is repeated runs in a soak.
const SOAK_RUNS: usize = 20;

/// A name, and the function that panics if the trial fails.
pub type Listed = (&'static str, fn());

/// Trials that have something in common: `theme::trial` is the name of each.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    name: &'static str,
    trials: &'static [Listed],
    runs: usize,
}

impl Theme {
    /// Trials that run once. Some of them take a longer form in a soak.
    pub const fn once(name: &'static str, trials: &'static [Listed]) -> Self {
        Self {
            name,
            trials,
            runs: 1,
        }
    }

    /// Trials that run so often, and many times in a soak, because what they show depends on the moment.
    pub fn repeated(name: &'static str, usual_runs: usize, trials: &'static [Listed]) -> Self {
        let runs = if is_soak() { SOAK_RUNS } else { usual_runs };
        Self { name, trials, runs }
    }

    fn trials(self) -> impl Iterator<Item = Trial> {
        let Self { name, trials, runs } = self;
        trials.iter().map(move |&(trial, test)| {
            let name = if name.is_empty() {
                trial.to_owned()
            } else {
                format!("{name}::{trial}")
            };
            Trial::test(name, move || {
                (0..runs).for_each(|_| test());
                Ok(())
            })
        })
    }
}

/// The `main` of a store's tests. In a child it plays the part that the test gave it; otherwise it runs the trials that are asked for.
pub fn main<O: Opener>(themes: impl IntoIterator<Item = Theme>) {
    match Part::<O>::of_this_process() {
        Some(part) => part.play(),
        None => run(themes),
    }
}

/// Runs the trials that the command line asks for, and ends the process.
pub fn run(themes: impl IntoIterator<Item = Theme>) -> ! {
    let trials = themes.into_iter().flat_map(Theme::trials).collect();
    libtest_mimic::run(&arguments(), trials).exit()
}

/// The command line. If it does not say how many trials run at once, these are two per processor: most of the time they wait for a lease to
/// end. In a soak it is one, lest they disturb each other's figures.
pub fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    if is_soak() {
        arguments.test_threads = Some(1);
    } else if arguments.test_threads.is_none() {
        arguments.test_threads = std::thread::available_parallelism()
            .ok()
            .map(|processors| 2 * processors.get());
    }
    arguments
}

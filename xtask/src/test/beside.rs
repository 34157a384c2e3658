//! Runs compile-heavy steps beside the tests, which spend most of their time waiting.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::counts::Counts;
use crate::terminal;

/// A step with its name.
pub(super) type Step = (String, Box<dyn FnOnce() -> Result<Counts> + Send>);

/// The result and the output of a step.
pub(super) struct Done {
    pub(super) name: String,
    pub(super) output: Vec<u8>,
    pub(super) counts: Result<Counts>,
    pub(super) took: Duration,
}

/// Steps that run one after the other in the background, with lower priority than the tests.
pub(super) struct Beside(JoinHandle<Vec<Done>>);

impl Beside {
    pub(super) fn start(steps: Vec<Step>) -> Self {
        Self(thread::spawn(|| {
            // Affects only this thread and the processes that it starts.
            let _ = rustix::process::nice(15);
            steps.into_iter().map(run).collect()
        }))
    }

    /// Waits until all steps have ended.
    ///
    /// # Errors
    /// Returns an error if a step panicked.
    pub(super) fn join(self) -> Result<Vec<Done>> {
        let done = self.0.join();
        done.map_err(|_| anyhow!("a step beside the tests panicked"))
    }
}

fn run((name, step): Step) -> Done {
    let output = terminal::keep_output();
    let started = Instant::now();
    let counts = step();
    Done {
        name,
        output: output.take(),
        counts,
        took: started.elapsed(),
    }
}

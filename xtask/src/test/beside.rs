//! Steps that run beside the tests: most tests wait most of the time, and these have something to compile.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::counts::Counts;
use crate::terminal;

/// A step and its name.
pub(super) type Step = (String, Box<dyn FnOnce() -> Result<Counts> + Send>);

/// What a step has done, and said.
pub(super) struct Done {
    pub(super) name: String,
    pub(super) output: Vec<u8>,
    pub(super) counts: Result<Counts>,
    pub(super) took: Duration,
}

/// Steps under way, one after the other. They leave the processors to the tests as far as these want them.
pub(super) struct Beside(JoinHandle<Vec<Done>>);

impl Beside {
    pub(super) fn start(steps: Vec<Step>) -> Self {
        Self(thread::spawn(|| {
            // Of this thread alone, and of what it starts.
            let _ = rustix::process::nice(15);
            steps.into_iter().map(run).collect()
        }))
    }

    /// Waits until they are over.
    ///
    /// # Errors
    /// A step that panicked.
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

//! A script for several processes that act one after the other.

use super::Act;

/// What several processes do, one act at a time.
pub(super) struct Sequence {
    scripts: Vec<Vec<Act>>,
    last: Option<usize>,
}

impl Sequence {
    pub(super) fn of(processes: usize) -> Self {
        Self {
            scripts: vec![Vec::new(); processes],
            last: None,
        }
    }

    /// Lets a process do this when everything before it is done.
    pub(super) fn then(&mut self, process: usize, act: Act) {
        if let Some(last) = self.last.filter(|last| *last != process) {
            let done = self.scripts[last].len();
            self.scripts[process].push(Act::After(last, done));
        }
        self.scripts[process].push(act);
        self.last = Some(process);
    }

    /// Returns the script of each process.
    pub(super) fn scripts(self) -> Vec<Vec<Act>> {
        self.scripts
    }
}

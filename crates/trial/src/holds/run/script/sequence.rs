//! The acts of several processes, written in an order in which they can happen. Whoever adds acts learns which milestone the process has
//! reached then, and another process can wait for that: nobody counts acts by hand.

use std::time::Duration;

use super::Act;

/// How far a process has come in its script: it has done the acts that were there when the milestone was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Milestone {
    process: usize,
    acts: usize,
}

/// Waits until the other process has come this far, or has done all of its acts.
pub(super) fn after(there: Milestone) -> Act {
    Act::After(there.process, there.acts)
}

/// Does the same as `after`, but no longer than this duration.
pub(super) fn meet(there: Milestone, longest: Duration) -> Act {
    Act::Meet(there.process, there.acts, longest)
}

/// Waits until the other process is paused at a step, or has come this far.
pub(super) fn after_pause(there: Milestone) -> Act {
    Act::AfterPause(there.process, there.acts)
}

/// Waits until the reply that was chosen on another process's road has come, when that process has come to the first milestone; or until it has
/// come to the second.
pub(super) fn after_met(first: Milestone, second: Milestone) -> Act {
    Act::AfterMet(first.process, first.acts, second.acts)
}

/// What several processes do.
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

    /// Lets a process do this when it has done what was added for it before. Returns how far it has come then.
    pub(super) fn add(&mut self, process: usize, acts: impl IntoIterator<Item = Act>) -> Milestone {
        self.scripts[process].extend(acts);
        self.last = Some(process);
        self.milestone_of(process)
    }

    /// Lets a process do this when everything before it is done, whoever does that.
    pub(super) fn then(&mut self, process: usize, act: Act) {
        let last = self.last.filter(|last| *last != process);
        let before = last.map(|last| after(self.milestone_of(last)));
        self.add(process, before.into_iter().chain([act]));
    }

    /// Returns how far a process comes with what was added for it so far.
    pub(super) fn milestone_of(&self, process: usize) -> Milestone {
        Milestone {
            process,
            acts: self.scripts[process].len(),
        }
    }

    /// Returns the script of each process.
    pub(super) fn scripts(self) -> Vec<Vec<Act>> {
        self.scripts
    }
}

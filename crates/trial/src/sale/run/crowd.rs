//! The buyers of a sale, and which of them have answered.

use super::operation;
use crate::history::What;
use crate::processes::{Heard, Processes, Said};
use crate::protocol::{Reply, Request};
use crate::text::foreign::quote;

pub(super) struct Crowd {
    pub(super) subjects: Processes,
    done: Vec<bool>,
}

impl Crowd {
    pub(super) fn of(subjects: Processes) -> Self {
        let done = vec![false; subjects.len()];
        Self { subjects, done }
    }

    /// Interprets a line as the answer to a purchase. Returns `None` if the process has already answered.
    pub(super) fn answer(&mut self, heard: Heard) -> Option<What> {
        let index = heard.from;
        if std::mem::replace(&mut self.done[index], true) {
            return None;
        }
        let op = operation(index);
        let unknown = |message| What::Failed {
            op,
            definite: false,
            message,
        };
        let what = match heard.what {
            Said::Closed => unknown(self.subjects.how_it_ended_with_stderr(index)),
            Said::Reply(Reply::Purchased { op: of, purchase }, _) if of == op => {
                What::Purchased { op, purchase }
            }
            Said::Reply(
                Reply::Error {
                    op: of,
                    definite,
                    message,
                },
                _,
            ) if of == Some(op) => What::Failed {
                op,
                definite,
                message,
            },
            Said::Reply(_, line) => unknown(format!("answered another request: {}", quote(&line))),
            Said::Invalid(why) | Said::CutOff(why) => unknown(why),
        };
        self.subjects.send(index, &Request::Shutdown);
        Some(what)
    }

    pub(super) fn answered(&self) -> usize {
        self.done.iter().filter(|done| **done).count()
    }

    /// Returns the processes that have not answered.
    pub(super) fn silent(&self) -> Vec<usize> {
        (0..self.done.len())
            .filter(|index| !self.done[*index])
            .collect()
    }

    /// Gives every process that answered the time to exit by itself.
    pub(super) fn wait_for_exits(&mut self) {
        let done = &self.done;
        self.subjects.wait_for_exits(|index| done[index]);
    }
}

//! The buyers of a sale, and which of them have answered.

use fencepost_rig::{FeedItem, Output};

use super::operation;
use crate::history::What;
use crate::processes::{Processes, quote};
use crate::protocol::{Reply, Request};

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
    pub(super) fn answer(&mut self, heard: &FeedItem) -> Option<What> {
        if std::mem::replace(&mut self.done[heard.child], true) {
            return None;
        }
        let op = operation(heard.child);
        let unknown = |message| What::Failed {
            op,
            definite: false,
            message,
        };
        let what = match &heard.output {
            Output::Closed => unknown(self.subjects.how_it_ended_with_stderr(heard.child)),
            Output::Line(line) => match serde_json::from_str(line) {
                Ok(Reply::Purchased { op: of, purchase }) if of == op => {
                    What::Purchased { op, purchase }
                }
                Ok(Reply::Error {
                    op: of,
                    definite,
                    message,
                }) if of == Some(op) => What::Failed {
                    op,
                    definite,
                    message,
                },
                Ok(_) => unknown(format!("answered another request: {}", quote(line))),
                Err(error) => unknown(format!(
                    "sent an invalid message ({error}): {}",
                    quote(line)
                )),
            },
        };
        self.subjects.send(heard.child, &Request::Shutdown);
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

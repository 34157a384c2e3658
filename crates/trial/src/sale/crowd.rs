//! The processes of a sale, and what each of them has said so far.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use fencepost_rig::{Child, Ears, Feed, Heard, Said, Signal, allow_open_files, feed};

use super::{Stopped, name, operation};
use crate::history::What;
use crate::protocol::{Reply, Request};

/// Files open beside the three pipes of each process.
const OTHER_FILES: u64 = 64;
/// How long a process may take to end after it was told to, or after it closed its output.
const FAREWELL: Duration = Duration::from_secs(2);
/// How much of a line that is no message is quoted.
const QUOTE_CHARS: usize = 120;

pub(super) struct Crowd {
    children: Vec<Child>,
    done: Vec<bool>,
    pub(super) feed: Feed,
    ears: Ears,
}

impl Crowd {
    pub(super) fn of(size: usize) -> Result<Self, Stopped> {
        let wanted = 3 * size as u64 + OTHER_FILES;
        allow_open_files(wanted).map_err(|allowed| {
            let processes = allowed.saturating_sub(OTHER_FILES) / 3;
            Stopped::TooManyFiles {
                wanted,
                allowed,
                processes,
            }
        })?;
        let (feed, ears) = feed();
        Ok(Self {
            children: Vec::with_capacity(size),
            done: vec![false; size],
            feed,
            ears,
        })
    }

    /// How many were started.
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    /// Starts the next process and tells it to get ready.
    pub(super) fn add(&mut self, command: Command, init: &Request) -> Result<(), Stopped> {
        let index = self.children.len();
        let program = command.get_program().display().to_string();
        let child = Child::spawn(command, index, &self.ears);
        let child = child
            .map_err(|error| not_ready(name(index), format!("{program}: {error}"), Vec::new()))?;
        self.children.push(child);
        self.send(index, init);
        Ok(())
    }

    /// Sends a request. Who has closed its input is dead or mute: listening tells which.
    pub(super) fn send(&mut self, index: usize, request: &Request) {
        let _ = self.children[index].send(request);
    }

    /// Takes what was heard as the answer to `init`.
    pub(super) fn expect_ready(&mut self, heard: &Heard) -> Result<(), Stopped> {
        let what = match &heard.said {
            Said::Closed => format!("{} before it was ready", self.how_it_ended(heard.child)),
            Said::Line(line) => match serde_json::from_str(line) {
                Ok(Reply::InitOk { .. }) => return Ok(()),
                Ok(Reply::Error { message, .. }) => return Err(Stopped::Store(message)),
                Ok(_) => format!("answered a request before it was ready: {}", quote(line)),
                Err(error) => format!("said what is no message ({error}): {}", quote(line)),
            },
        };
        Err(not_ready(
            name(heard.child),
            what,
            self.children[heard.child].last_words(),
        ))
    }

    /// Nobody has said anything for a long time.
    pub(super) fn nobody_ready(&self) -> Stopped {
        let what = "says nothing after init; does it flush its output after each line?";
        let words = self
            .children
            .iter()
            .map(Child::last_words)
            .find(|words| !words.is_empty());
        not_ready("a process".into(), what.into(), words.unwrap_or_default())
    }

    /// Takes what was heard as the answer to a purchase; `None` from somebody who has answered already.
    pub(super) fn answer(&mut self, heard: &Heard) -> Option<What> {
        if std::mem::replace(&mut self.done[heard.child], true) {
            return None;
        }
        let op = operation(heard.child);
        let unknown = |message| What::Failed {
            op,
            definite: false,
            message,
        };
        let what = match &heard.said {
            Said::Closed => unknown(self.obituary(heard.child)),
            Said::Line(line) => match serde_json::from_str(line) {
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
                Ok(_) => unknown(format!("an answer to something else: {}", quote(line))),
                Err(error) => unknown(format!("no message ({error}): {}", quote(line))),
            },
        };
        self.send(heard.child, &Request::Shutdown);
        Some(what)
    }

    pub(super) fn answered(&self) -> usize {
        self.done.iter().filter(|done| **done).count()
    }

    /// Those who have not answered.
    pub(super) fn silent(&self) -> Vec<usize> {
        (0..self.done.len())
            .filter(|index| !self.done[*index])
            .collect()
    }

    /// Gives everybody who answered the time to end by itself.
    pub(super) fn say_goodbye(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        for (child, _) in self
            .children
            .iter_mut()
            .zip(&self.done)
            .filter(|(_, done)| **done)
        {
            child.wait(deadline.saturating_duration_since(Instant::now()));
        }
    }

    fn obituary(&mut self, index: usize) -> String {
        let end = self.how_it_ended(index);
        match self.children[index].last_words().last() {
            Some(words) => format!("{end}: {}", quote(words)),
            None => end,
        }
    }

    fn how_it_ended(&mut self, index: usize) -> String {
        match self.children[index].wait(FAREWELL) {
            None => "closed its output".into(),
            Some(status) => ending(status),
        }
    }
}

fn ending(status: ExitStatus) -> String {
    match status.signal().map(Signal::try_from) {
        Some(Ok(signal)) => format!("killed by {signal}"),
        _ => format!("ended with {}", status.code().unwrap_or(-1)),
    }
}

fn not_ready(who: String, what: String, last_words: Vec<String>) -> Stopped {
    Stopped::NotReady {
        who,
        what,
        last_words,
    }
}

/// A foreign line, made fit to be shown.
fn quote(line: &str) -> String {
    let mut text: String = line
        .chars()
        .take(QUOTE_CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if line.chars().nth(QUOTE_CHARS).is_some() {
        text.push('…');
    }
    format!("'{text}'")
}

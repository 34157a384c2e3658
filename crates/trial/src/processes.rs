//! The processes of a run: starts them, sends requests, receives their lines and ends them.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use fencepost_rig::{
    Child, Feed, FeedItem, FeedSender, Interrupt, Output, Signal, allow_open_files, feed,
};

use crate::protocol::{Claims, Reply, Request};

pub(crate) mod start;
mod stopped;

pub use stopped::Stopped;

/// How long the lab waits for a line before it does other work.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(50);
/// How long the processes may be silent while they start, or beyond the time they were asked to work and wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The number of open files besides the three pipes of each process.
const OTHER_FILES: u64 = 64;
/// How long a process may take to exit after it was told to shut down, or after it closed its output.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How many characters of an invalid line are quoted.
const QUOTE_CHARS: usize = 120;

/// Starts one process, returns the claims that it makes, and lets it exit.
///
/// # Errors
///
/// Returns the reason if the process cannot be started, does not get ready within `patience`, or the lab is interrupted.
pub fn claims_of(
    subject: &dyn Fn() -> Command,
    init: &dyn Fn(&str) -> Request,
    patience: Duration,
    interrupt: Interrupt,
) -> Result<Claims, Stopped> {
    let name = vec!["the subject".to_owned()];
    let starting = &mut |_, _| {};
    let mut process = Processes::gather(name, subject, init, patience, interrupt, starting)?;
    process.send(0, &Request::Shutdown);
    process.wait_for_exits(|_| true);
    Ok(process.claims())
}

pub(crate) struct Processes {
    children: Vec<Child>,
    names: Vec<String>,
    /// The claims of each process that is ready.
    claims_of: Vec<Option<Claims>>,
    pub(crate) feed: Feed,
    sender: FeedSender,
}

impl Processes {
    /// Starts one process per name and waits until all have answered `init`.
    pub(crate) fn gather(
        names: Vec<String>,
        subject: &dyn Fn() -> Command,
        init: &dyn Fn(&str) -> Request,
        patience: Duration,
        interrupt: Interrupt,
        starting: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, Stopped> {
        let total = names.len();
        let mut processes = Self::unstarted(names)?;
        for index in 0..total {
            processes.check_interrupt(interrupt)?;
            processes.start(index, subject(), init)?;
        }
        let mut heard_at = Instant::now();
        for ready in 0..total {
            starting(ready, total);
            while processes.claims_of.iter().flatten().count() == ready {
                processes.check_interrupt(interrupt)?;
                match processes.feed.next(LOOK_UP) {
                    Ok(heard) => processes.expect_ready(&heard)?,
                    Err(_) if heard_at.elapsed() > patience => return Err(processes.mute()),
                    Err(_) => starting(ready, total),
                }
            }
            heard_at = Instant::now();
        }
        starting(total, total);
        Ok(processes)
    }

    /// Returns the claims; they are the same for all processes.
    pub(crate) fn claims(&self) -> Claims {
        self.claims_of
            .iter()
            .flatten()
            .next()
            .copied()
            .unwrap_or_default()
    }

    fn unstarted(names: Vec<String>) -> Result<Self, Stopped> {
        let wanted = 3 * names.len() as u64 + OTHER_FILES;
        allow_open_files(wanted).map_err(|allowed| Stopped::TooManyFiles {
            asked: names.len(),
            wanted,
            allowed,
            processes: allowed.saturating_sub(OTHER_FILES) / 3,
        })?;
        let (feed, sender) = feed();
        Ok(Self {
            children: Vec::with_capacity(names.len()),
            claims_of: vec![None; names.len()],
            names,
            feed,
            sender,
        })
    }

    fn start(
        &mut self,
        index: usize,
        command: Command,
        init: &dyn Fn(&str) -> Request,
    ) -> Result<(), Stopped> {
        let program = command.get_program().display().to_string();
        let child = Child::spawn(command, index, &self.sender);
        let child = child.map_err(|error| Stopped::NotStarted { program, error })?;
        self.children.push(child);
        let init = init(&self.names[index]);
        self.send(index, &init);
        Ok(())
    }

    /// Returns the number of processes that were started.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// Returns the process with this index.
    pub(crate) fn child(&mut self, index: usize) -> &mut Child {
        &mut self.children[index]
    }

    /// Sends a request. A process that has closed its input is dead or mute; listening shows which.
    pub(crate) fn send(&mut self, index: usize, request: &Request) {
        let _ = self.children[index].send(request);
    }

    fn expect_ready(&mut self, heard: &FeedItem) -> Result<(), Stopped> {
        let index = heard.child;
        let is_ready = self.claims_of[index].is_some();
        let what = match &heard.output {
            Output::Closed => {
                let when = if is_ready {
                    "it was asked anything"
                } else {
                    "it was ready"
                };
                format!("{} before {when}", self.how_it_ended(index))
            }
            Output::Line(line) => match serde_json::from_str(line) {
                Ok(Reply::InitOk { claims }) if !is_ready => {
                    match self.note_claims(index, claims) {
                        None => return Ok(()),
                        Some(contradiction) => contradiction,
                    }
                }
                Ok(Reply::Error { message, .. }) if !is_ready => {
                    return Err(Stopped::Store(message));
                }
                Ok(_) if is_ready => format!("sent another line after init_ok: {}", quote(line)),
                Ok(_) => format!("answered a request before it was ready: {}", quote(line)),
                Err(error) => format!("sent an invalid message ({error}): {}", quote(line)),
            },
        };
        let last_words = self.children[index].last_words();
        Err(self.not_ready(index, what, last_words))
    }

    /// Notes the claims of a process. All processes run the same program, so their claims must be equal. Returns a description
    /// of the difference if they are not.
    fn note_claims(&mut self, index: usize, claims: Claims) -> Option<String> {
        let of_another = self
            .claims_of
            .iter()
            .zip(&self.names)
            .find_map(|(claims_of, name)| {
                let claims_of = claims_of.filter(|claims_of| *claims_of != claims)?;
                Some(format!(
                    "promises {claims:?}, where {name} promises {claims_of:?}"
                ))
            });
        self.claims_of[index] = Some(claims);
        of_another
    }

    fn not_ready(&self, index: usize, what: String, last_words: Vec<String>) -> Stopped {
        Stopped::NotReady {
            who: self.names[index].clone(),
            what,
            last_words,
        }
    }

    /// Returns the error for the first process that has been silent for too long.
    fn mute(&self) -> Stopped {
        let what = "did not answer init; does it flush its output after each line?";
        let mute = self.claims_of.iter().position(Option::is_none).unwrap_or(0);
        self.not_ready(mute, what.into(), self.children[mute].last_words())
    }

    fn check_interrupt(&self, interrupt: Interrupt) -> Result<(), Stopped> {
        match interrupt.requested() {
            None => Ok(()),
            Some(signal) => Err(Stopped::Interrupted {
                signal,
                progress: "no process was asked anything yet".into(),
                stopped: self.children.len(),
                events: 0,
            }),
        }
    }

    /// Returns how a process that closed its output ended, with its last lines of standard error.
    pub(crate) fn how_it_ended_with_stderr(&mut self, index: usize) -> String {
        let end = self.how_it_ended(index);
        match self.children[index].last_words().last() {
            Some(words) => format!("{end}: {}", quote(words)),
            None => end,
        }
    }

    fn how_it_ended(&mut self, index: usize) -> String {
        match self.children[index].wait(EXIT_GRACE) {
            None => "closed its output".into(),
            Some(status) => ending(status),
        }
    }

    /// Gives the processes that were told to shut down the time to exit by themselves.
    pub(crate) fn wait_for_exits(&mut self, to: impl Fn(usize) -> bool) {
        let deadline = Instant::now() + EXIT_GRACE;
        let children = self.children.iter_mut().enumerate();
        for (_, child) in children.filter(|(index, _)| to(*index)) {
            child.wait(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

fn ending(status: ExitStatus) -> String {
    match status.signal().map(Signal::try_from) {
        Some(Ok(signal)) => format!("was killed by {signal}"),
        _ => format!("ended with {}", status.code().unwrap_or(-1)),
    }
}

/// Quotes a line from a process so that it is safe to print.
pub(crate) fn quote(line: &str) -> String {
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

//! The processes of a run: started, made ready, spoken to, and ended.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use fencepost_rig::{Child, Ears, Feed, Heard, Interrupt, Said, Signal, allow_open_files, feed};

use crate::protocol::{Reply, Request};
use crate::stopped::Stopped;

/// How often the lab looks up from listening.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(50);
/// How long all processes may say nothing while they start, or longer than they were told to work and wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Files open beside the three pipes of each process.
const OTHER_FILES: u64 = 64;
/// How long a process may take to end after it was told to, or after it closed its output.
const FAREWELL: Duration = Duration::from_secs(2);
/// How much of a line that is no message is quoted.
const QUOTE_CHARS: usize = 120;

pub(crate) struct Subjects {
    children: Vec<Child>,
    names: Vec<String>,
    pub(crate) feed: Feed,
    ears: Ears,
}

impl Subjects {
    /// Starts a process for every name and waits until all have answered `init`.
    pub(crate) fn gather(
        names: Vec<String>,
        subject: &dyn Fn() -> Command,
        init: &dyn Fn(&str) -> Request,
        patience: Duration,
        interrupt: Interrupt,
        starting: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, Stopped> {
        let total = names.len();
        let mut subjects = Self::none(names)?;
        for index in 0..total {
            subjects.check_interrupt(interrupt)?;
            subjects.start(index, subject(), init)?;
        }
        let mut heard_at = Instant::now();
        let mut ready = 0;
        while ready < total {
            subjects.check_interrupt(interrupt)?;
            starting(ready, total);
            match subjects.feed.next(LOOK_UP) {
                Ok(heard) => subjects.expect_ready(&heard)?,
                Err(_) if heard_at.elapsed() > patience => return Err(subjects.nobody_ready()),
                Err(_) => continue,
            }
            ready += 1;
            heard_at = Instant::now();
        }
        starting(total, total);
        Ok(subjects)
    }

    fn none(names: Vec<String>) -> Result<Self, Stopped> {
        let wanted = 3 * names.len() as u64 + OTHER_FILES;
        allow_open_files(wanted).map_err(|allowed| Stopped::TooManyFiles {
            asked: names.len(),
            wanted,
            allowed,
            processes: allowed.saturating_sub(OTHER_FILES) / 3,
        })?;
        let (feed, ears) = feed();
        Ok(Self {
            children: Vec::with_capacity(names.len()),
            names,
            feed,
            ears,
        })
    }

    fn start(
        &mut self,
        index: usize,
        command: Command,
        init: &dyn Fn(&str) -> Request,
    ) -> Result<(), Stopped> {
        let program = command.get_program().display().to_string();
        let child = Child::spawn(command, index, &self.ears);
        let child = child
            .map_err(|error| self.not_ready(index, format!("{program}: {error}"), Vec::new()))?;
        self.children.push(child);
        let init = init(&self.names[index]);
        self.send(index, &init);
        Ok(())
    }

    /// How many were started.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// The process itself.
    pub(crate) fn child(&mut self, index: usize) -> &mut Child {
        &mut self.children[index]
    }

    /// Sends a request. Who has closed its input is dead or mute: listening tells which.
    pub(crate) fn send(&mut self, index: usize, request: &Request) {
        let _ = self.children[index].send(request);
    }

    fn expect_ready(&mut self, heard: &Heard) -> Result<(), Stopped> {
        let what = match &heard.said {
            Said::Closed => format!("{} before it was ready", self.how_it_ended(heard.child)),
            Said::Line(line) => match serde_json::from_str(line) {
                Ok(Reply::InitOk { .. }) => return Ok(()),
                Ok(Reply::Error { message, .. }) => return Err(Stopped::Store(message)),
                Ok(_) => format!("answered a request before it was ready: {}", quote(line)),
                Err(error) => format!("said what is no message ({error}): {}", quote(line)),
            },
        };
        let last_words = self.children[heard.child].last_words();
        Err(self.not_ready(heard.child, what, last_words))
    }

    fn not_ready(&self, index: usize, what: String, last_words: Vec<String>) -> Stopped {
        Stopped::NotReady {
            who: self.names[index].clone(),
            what,
            last_words,
        }
    }

    /// Nobody has said anything for a long time.
    fn nobody_ready(&self) -> Stopped {
        let what = "says nothing after init; does it flush its output after each line?";
        let words = self
            .children
            .iter()
            .map(Child::last_words)
            .find(|words| !words.is_empty());
        Stopped::NotReady {
            who: "a process".into(),
            what: what.into(),
            last_words: words.unwrap_or_default(),
        }
    }

    fn check_interrupt(&self, interrupt: Interrupt) -> Result<(), Stopped> {
        match interrupt.requested() {
            None => Ok(()),
            Some(signal) => Err(Stopped::Interrupted {
                signal,
                progress: "nobody was asked anything yet".into(),
                stopped: self.children.len(),
                events: 0,
            }),
        }
    }

    /// How a process that closed its output ended, with its last words.
    pub(crate) fn obituary(&mut self, index: usize) -> String {
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

    /// Gives these, who were told to shut down, the time to end by themselves.
    pub(crate) fn say_goodbye(&mut self, to: impl Fn(usize) -> bool) {
        let deadline = Instant::now() + FAREWELL;
        let told = self.children.iter_mut().enumerate();
        for (_, child) in told.filter(|(index, _)| to(*index)) {
            child.wait(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

fn ending(status: ExitStatus) -> String {
    match status.signal().map(Signal::try_from) {
        Some(Ok(signal)) => format!("killed by {signal}"),
        _ => format!("ended with {}", status.code().unwrap_or(-1)),
    }
}

/// A foreign line, made fit to be shown.
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

//! The processes of a run: starts them, sends requests, receives their lines and ends them.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use fencepost::random::{Random, SeededRandom};
use fencepost_rig::{
    Child, Feed, FeedSender, Interrupt, Output, Signal, Silence, allow_open_files, bounded_feed,
};

use crate::protocol::{Claims, Reply, Request};
use crate::text::foreign::{harmless, parse, quote};

mod awake;
mod no_verdict;
mod pids;
pub(crate) mod start;

use awake::Awake;
pub use no_verdict::NoVerdict;
pub(crate) use pids::Pids;

/// How long the lab waits for a line before it does other work.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(50);
/// How much longer than [`LOOK_UP`] the lab may be away before it says that it stalled. All bounds of time have a slack of a second,
/// so a shorter absence cannot make anybody late.
const STALL: Duration = Duration::from_millis(200);
/// Stalls of the lab that are no longer than this go unnoticed.
pub(crate) const UNNOTICED_STALL: Duration = LOOK_UP.saturating_add(STALL);
/// How long the processes may be silent while they start, or beyond the time they were asked to work and wait.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of pipes of each process: input, output, errors, and the line to its supervisor.
const PIPES: u64 = 4;
/// The number of open files besides the pipes of the processes.
const OTHER_FILES: u64 = 64;
/// How long a process may take to exit after it was told to shut down, or after it closed its output.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How many lines a process may send, besides one for each request, and one more for each request to acquire a lock. Only `lost` comes
/// without a request, once per hold.
const UNASKED_LINES_MAX: usize = 100;

/// Returns for how many milliseconds the lab itself stalled, if it comes back to this place much later than it should. It looks
/// up at least every [`LOOK_UP`]. Whatever was said meanwhile was read late.
pub(crate) fn stall_ms(now: Instant, last_seen: &mut Instant) -> Option<f64> {
    let since = now - std::mem::replace(last_seen, now);
    (since > UNNOTICED_STALL).then_some(since.as_secs_f64() * 1e3)
}

/// Returns the indices of `count` processes in a random order.
pub(crate) fn shuffled(random: &SeededRandom, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..order.len()).rev() {
        let chosen = random.next_u64() % (last as u64 + 1);
        order.swap(last, chosen as usize);
    }
    order
}

/// Starts one process, returns the claims that it makes (`None` if it says nothing about them), and lets it exit.
///
/// # Errors
///
/// Returns the reason if the process cannot be started, does not get ready within `start_timeout`, or the lab is interrupted.
pub fn claims_of(
    subject: &dyn Fn() -> Command,
    init: &dyn Fn(&str) -> Request,
    start_timeout: Duration,
    interrupt: Interrupt,
) -> Result<Option<Claims>, NoVerdict> {
    let name = vec!["the subject".to_owned()];
    let starting = &mut |_, _| {};
    let subject = &|_| subject();
    let mut process = Processes::gather(
        (name, Pids::ANY),
        subject,
        init,
        start_timeout,
        interrupt,
        starting,
    )?;
    process.send(0, &Request::Shutdown);
    process.wait_for_exits(|_| true);
    Ok(process.claims())
}

pub(crate) struct Processes {
    children: Vec<Child>,
    /// The number under which the feed knows each process. One that was started again has a new number.
    feed_ids: Vec<usize>,
    last_feed_id: usize,
    names: Vec<String>,
    /// What each process said when it was ready.
    ready: Vec<Option<Ready>>,
    feed: Feed,
    sender: FeedSender,
    /// How many lines each process may still send.
    lines_left: Vec<usize>,
    is_cut_off: Vec<bool>,
    awake: Awake,
    /// Declared after the processes, which are started there.
    pids: Pids,
}

/// A process's answer to `init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ready {
    /// `None` if it says nothing about its claims.
    claims: Option<Claims>,
}

/// What a process did, and when the lab learned of it.
#[derive(Debug)]
pub(crate) struct Heard {
    /// The index of the process.
    pub(crate) from: usize,
    pub(crate) at: Instant,
    pub(crate) what: Said,
}

/// What a process did.
#[derive(Debug)]
pub(crate) enum Said {
    /// It sent a message. The line is kept for quoting.
    Reply(Reply, String),
    /// It sent a line that is not a message; the text says why and quotes it.
    Invalid(String),
    /// It sent more than the lab accepts, and was killed for it; the text says what. Nothing more comes from it.
    CutOff(String),
    /// It closed its output: nothing more comes from it.
    Closed,
}

impl Processes {
    /// Starts one process per name, with these process ids, and waits until all have answered `init`.
    pub(crate) fn gather(
        (names, pids): (Vec<String>, Pids),
        subject: &dyn Fn(usize) -> Command,
        init: &dyn Fn(&str) -> Request,
        start_timeout: Duration,
        interrupt: Interrupt,
        starting: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, NoVerdict> {
        let total = names.len();
        let mut processes = Self::unstarted(names, pids)?;
        for index in 0..total {
            processes.check_interrupt(interrupt)?;
            processes.start(index, subject(index), init)?;
        }
        let mut heard_at = Instant::now();
        for ready in 0..total {
            starting(ready, total);
            while processes.ready.iter().flatten().count() == ready {
                processes.check_interrupt(interrupt)?;
                match processes.next(LOOK_UP) {
                    Ok(heard) => processes.expect_ready(heard)?,
                    Err(_) if heard_at.elapsed() > start_timeout => return Err(processes.mute()),
                    Err(_) => starting(ready, total),
                }
            }
            heard_at = Instant::now();
        }
        starting(total, total);
        Ok(processes)
    }

    /// Returns the claims, which are the same for all processes. `None` if the processes say nothing about them.
    pub(crate) fn claims(&self) -> Option<Claims> {
        self.ready.iter().flatten().next()?.claims
    }

    fn unstarted(names: Vec<String>, pids: Pids) -> Result<Self, NoVerdict> {
        let wanted = PIPES * names.len() as u64 + OTHER_FILES;
        allow_open_files(wanted).map_err(|allowed| NoVerdict::TooManyFiles {
            asked: names.len(),
            wanted,
            allowed,
            processes: allowed.saturating_sub(OTHER_FILES) / PIPES,
        })?;
        let (feed, sender) = bounded_feed();
        Ok(Self {
            children: Vec::with_capacity(names.len()),
            feed_ids: (0..names.len()).collect(),
            last_feed_id: names.len(),
            ready: vec![None; names.len()],
            lines_left: vec![UNASKED_LINES_MAX; names.len()],
            is_cut_off: vec![false; names.len()],
            awake: Awake::begin(),
            names,
            feed,
            sender,
            pids,
        })
    }

    fn start(
        &mut self,
        index: usize,
        command: Command,
        init: &dyn Fn(&str) -> Request,
    ) -> Result<(), NoVerdict> {
        let program = command.get_program().display().to_string();
        let child = self.pids.spawn(index, command, index, &self.sender);
        let child = child.map_err(|error| NoVerdict::NotStarted { program, error })?;
        self.children.push(child);
        let init = init(&self.names[index]);
        self.send(index, &init);
        Ok(())
    }

    /// Starts a dead process again, and sends it `init`. What its earlier life said and nobody has read yet is dropped.
    ///
    /// Its answer comes with [`next`](Self::next) and belongs to [`expect_ready`](Self::expect_ready).
    pub(crate) fn restart(
        &mut self,
        index: usize,
        command: Command,
        init: &Request,
    ) -> Result<(), NoVerdict> {
        let program = command.get_program().display().to_string();
        self.last_feed_id += 1;
        let child = self
            .pids
            .spawn(index, command, self.last_feed_id, &self.sender);
        self.children[index] = child.map_err(|error| NoVerdict::NotStarted { program, error })?;
        self.feed_ids[index] = self.last_feed_id;
        self.ready[index] = None;
        self.lines_left[index] = UNASKED_LINES_MAX;
        self.is_cut_off[index] = false;
        self.send(index, init);
        Ok(())
    }

    /// Returns for how many milliseconds the machine was suspended since the processes were started, or since this was last told.
    pub(crate) fn slept_ms(&mut self) -> Option<f64> {
        self.awake.slept_ms()
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
        self.lines_left[index] += match request {
            // Its hold may be lost, and the process may say so.
            Request::Acquire { .. } => 2,
            _ => 1,
        };
        let _ = self.children[index].send(request);
    }

    /// Returns what a process did next, waiting up to `within` for it. A process that sends too much is cut off.
    pub(crate) fn next(&mut self, within: Duration) -> Result<Heard, Silence> {
        let deadline = Instant::now() + within;
        loop {
            let item = self
                .feed
                .next(deadline.saturating_duration_since(Instant::now()))?;
            let Some(from) = self.feed_ids.iter().position(|id| *id == item.child) else {
                // It comes from an earlier life.
                continue;
            };
            let at = item.at;
            if let Some(what) = self.interpret(from, item.output) {
                return Ok(Heard { from, at, what });
            }
        }
    }

    /// Returns what an item means, or `None` if its process was cut off before.
    fn interpret(&mut self, index: usize, output: Output) -> Option<Said> {
        let line = match output {
            _ if self.is_cut_off[index] => return None,
            Output::Closed => return Some(Said::Closed),
            Output::TooLong(beginning) => {
                let why = format!(
                    "sent an invalid message (longer than 16 KiB): {}",
                    quote(&beginning)
                );
                return Some(self.cut_off(index, why));
            }
            Output::Line(line) => line,
        };
        let Some(left) = self.lines_left[index].checked_sub(1) else {
            let why =
                "floods the lab with lines that nobody asked for, and was cut off; the last one:";
            return Some(self.cut_off(index, format!("{why} {}", quote(&line))));
        };
        self.lines_left[index] = left;
        Some(match parse(&line) {
            Ok(reply) => Said::Reply(reply, line),
            Err(error) => Said::Invalid(format!(
                "sent an invalid message ({error}): {}",
                quote(&line)
            )),
        })
    }

    fn cut_off(&mut self, index: usize, why: String) -> Said {
        self.is_cut_off[index] = true;
        // It may have ended already.
        let _ = self.children[index].signal(Signal::SIGKILL);
        Said::CutOff(why)
    }

    /// Handles what a process says before it is ready.
    pub(crate) fn expect_ready(&mut self, heard: Heard) -> Result<(), NoVerdict> {
        let index = heard.from;
        let is_ready = self.ready[index].is_some();
        let what = match heard.what {
            Said::Closed => {
                let when = if is_ready {
                    "it was asked anything"
                } else {
                    "it was ready"
                };
                format!("{} before {when}", self.how_it_ended(index))
            }
            Said::Reply(Reply::InitOk { claims }, _) if !is_ready => {
                match self.note_ready(index, Ready { claims }) {
                    None => return Ok(()),
                    Some(contradiction) => contradiction,
                }
            }
            Said::Reply(Reply::Error { message, .. }, _) if !is_ready => {
                let who = self.names[index].clone();
                return Err(NoVerdict::Refused { who, message });
            }
            Said::Reply(_, line) if is_ready => {
                format!("sent another line after init_ok: {}", quote(&line))
            }
            Said::Reply(_, line) => {
                format!("answered a request before it was ready: {}", quote(&line))
            }
            Said::Invalid(why) | Said::CutOff(why) => why,
        };
        let last_words = self.last_words(index);
        Err(self.not_ready(index, what, last_words))
    }

    /// Notes the claims of a process. All processes run the same program, so their claims must be equal. Returns a description
    /// of the difference if they are not.
    fn note_ready(&mut self, index: usize, ready: Ready) -> Option<String> {
        let promises = |ready: Ready| match ready.claims {
            Some(claims) => format!("promises {claims:?}"),
            None => "promises nothing".into(),
        };
        let mut others = self.ready.iter().zip(&self.names);
        let contradiction = others.find_map(|(other, name)| {
            let other = other.filter(|other| *other != ready)?;
            Some(format!(
                "{}, where {name} {}",
                promises(ready),
                promises(other)
            ))
        });
        self.ready[index] = Some(ready);
        contradiction
    }

    fn last_words(&self, index: usize) -> Vec<String> {
        let words = self.children[index].last_words();
        words.iter().map(|words| harmless(words)).collect()
    }

    fn not_ready(&self, index: usize, what: String, last_words: Vec<String>) -> NoVerdict {
        NoVerdict::NotReady {
            who: self.names[index].clone(),
            what,
            last_words,
        }
    }

    /// Returns the error for the first process that has been silent for too long.
    pub(crate) fn mute(&self) -> NoVerdict {
        let what = "did not answer init; does it flush its output after each line?";
        let mute = self.ready.iter().position(Option::is_none).unwrap_or(0);
        self.not_ready(mute, what.into(), self.last_words(mute))
    }

    fn check_interrupt(&self, interrupt: Interrupt) -> Result<(), NoVerdict> {
        match interrupt.requested() {
            None => Ok(()),
            Some(signal) => Err(NoVerdict::Interrupted {
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

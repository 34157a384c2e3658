//! A contender in a process of its own, which does what it is asked and says how long it took.
//!
//! One request per line, one line in answer. Times are nanoseconds; instants are those of CLOCK_MONOTONIC, which all
//! processes of a machine share.
//!
//! | request | does | answers |
//! |---|---|---|
//! | `pairs N` | acquires and releases, N times | the time |
//! | `many T N` | the same in T tasks at once, each with a lock of its own | the time |
//! | `turns T MS` | T tasks take turns with the shared lock, so many milliseconds long | instant and task of each turn |
//! | `queue N` | holds the lock until N tasks have asked for it; each then holds it for 1 ms | the time, and who was served, in order |
//! | `hold N` | acquires the lock of this number, with a lease of 2 s, and keeps it | `held`, when it has it |
#![allow(dead_code, reason = "each benchmark uses its own part of this")]

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};
use nix::time::{ClockId, clock_gettime};

/// Whoever needs longer has lost its way.
const LONGEST_MS: u16 = 60_000;
/// Left out at the beginning of a time of turns: not everybody has heard of it yet.
const SETTLING_MS: u64 = 50;

pub(crate) struct Player {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Player {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = process.stdin.take();
        let answers = process.stdout.take().expect("a pipe");
        Ok(Self {
            process,
            requests,
            answers: BufReader::new(answers),
        })
    }

    pub(crate) fn ask(&mut self, request: &str) -> String {
        self.try_ask(request).expect("a player that answers")
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn try_ask(&mut self, request: &str) -> io::Result<String> {
        self.request(request)?;
        self.answer()
    }

    /// The time that the request took.
    pub(crate) fn time(&mut self, request: &str) -> Duration {
        nanoseconds(self.ask(request).trim())
    }

    /// At once, and for good.
    pub(crate) fn kill(&mut self) {
        // Gone already will do as well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn request(&mut self, request: &str) -> io::Result<()> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(requests, "{request}")
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn answer(&mut self) -> io::Result<String> {
        let mut answers = [PollFd::new(
            self.answers.get_ref().as_fd(),
            PollFlags::POLLIN,
        )];
        if self.answers.buffer().is_empty() && poll(&mut answers, LONGEST_MS)? == 0 {
            self.kill();
            return Err(io::Error::other("it did not answer, and was killed"));
        }
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err(io::Error::other("it ended before it answered")),
            _ => Ok(line),
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It ends with its input; one that does not is ended.
        self.requests = None;
        for _ in 0..200 {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }
}

/// The time per change of holder while these players, with so many tasks each, take turns. Turns in which the lock
/// comes back to the one who had it before do not count.
pub(crate) fn take_turns(players: &mut [Player], tasks: usize, time: Duration) -> Duration {
    try_take_turns(players, tasks, time).expect("players that answer")
}

/// The same.
///
/// # Errors
/// When one of them has ended or does not answer.
pub(crate) fn try_take_turns(
    players: &mut [Player],
    tasks: usize,
    time: Duration,
) -> io::Result<Duration> {
    let start = monotonic_ns();
    let request = format!("turns {tasks} {}", time.as_millis());
    for player in players.iter_mut() {
        player.request(&request)?;
    }
    let mut turns: Vec<(u64, usize)> = Vec::new();
    for (number, player) in players.iter_mut().enumerate() {
        let answer = player.answer()?;
        let words: Vec<u64> = answer
            .split_whitespace()
            .map(|word| word.parse().expect("a number"))
            .collect();
        let turn = |pair: &[u64]| (pair[0], number * tasks + pair[1] as usize);
        turns.extend(words.chunks_exact(2).map(turn));
    }
    Ok(per_change(turns, start, time))
}

/// The time per change of holder, of turns (when, who) that began at `start` and went on for `time`.
pub(crate) fn per_change(mut turns: Vec<(u64, usize)>, start: u64, time: Duration) -> Duration {
    let counted = Duration::from_millis(SETTLING_MS)..time;
    let counted = start + counted.start.as_nanos() as u64..start + counted.end.as_nanos() as u64;
    turns.retain(|(at, _)| counted.contains(at));
    turns.sort_unstable();
    let changes = turns
        .windows(2)
        .filter(|pair| pair[0].1 != pair[1].1)
        .count();
    Duration::from_nanos((counted.end - counted.start) / changes.max(1) as u64)
}

pub(crate) fn nanoseconds(word: &str) -> Duration {
    Duration::from_nanos(word.parse().expect("nanoseconds"))
}

pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    Duration::from(now).as_nanos() as u64
}

//! A contender in a separate process, which executes requests and reports how long they took.
//!
//! Each request and each answer is one line. Times are nanoseconds; instants are those of CLOCK_MONOTONIC, which all processes of a
//! machine share.
//!
//! | request | does | answers |
//! |---|---|---|
//! | `pairs N` | acquires and releases, N times | the time |
//! | `many T N` | the same in T tasks at once, each with its own lock | the time |
//! | `turns T MS` | T tasks take turns with the shared lock for MS milliseconds | instant and task of each turn |
//! | `queue N` | holds the lock until N tasks have asked for it; each then holds it for 1 ms | the time, and the order of service |
//! | `hold N` | acquires the lock of this number, with a lease of 2 s, and keeps it | `held`, once it has the lock |
#![allow(dead_code, reason = "each benchmark uses its own part of this")]

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};
use nix::time::{ClockId, clock_gettime};

/// A contender that needs longer than this hangs.
const LONGEST_MS: u16 = 60_000;
/// Ignored at the beginning of a period of turns, because not everybody has received the request yet.
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
    /// Returns an error if the process has ended.
    pub(crate) fn try_ask(&mut self, request: &str) -> io::Result<String> {
        self.request(request)?;
        self.answer()
    }

    /// Sends a request, and returns the time that it took.
    pub(crate) fn time(&mut self, request: &str) -> Duration {
        nanoseconds(self.ask(request).trim())
    }

    /// Kills the process at once.
    pub(crate) fn kill(&mut self) {
        // It may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// # Errors
    /// Returns an error if the process has ended.
    pub(crate) fn request(&mut self, request: &str) -> io::Result<()> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(requests, "{request}")
    }

    /// # Errors
    /// Returns an error if the process has ended.
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
        // The process ends with its input; if it does not, it is killed.
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

/// Returns the time per change of holder while these players, with this many tasks each, take turns. Turns in which the same player gets
/// the lock again do not count.
pub(crate) fn take_turns(players: &mut [Player], tasks: usize, time: Duration) -> Duration {
    try_take_turns(players, tasks, time).expect("players that answer")
}

/// Does the same as [`take_turns`].
///
/// # Errors
/// Returns an error if one of the players has ended or does not answer.
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

/// Returns the time per change of holder, from turns (when, who) that began at `start` and lasted for `time`.
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

//! A child process with line-based input and output. It can be stopped and killed with its whole process group, and never outlives us.

use std::collections::VecDeque;
use std::io::{self, BufReader, PipeWriter, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpid, getppid, setsid};
use serde::Serialize;

use crate::feed::{FeedSender, read_line};
#[cfg(target_os = "linux")]
use crate::pid_space::PidSpace;
#[cfg(target_os = "linux")]
use crate::supervisor::{Place, supervise};

/// The stack size of the reading threads, which only split lines.
const READER_STACK_BYTES: usize = 256 * 1024;
/// How long to wait until a process is stopped. A process that waits for the disk stops only afterwards.
pub(crate) const TO_STOP: Duration = Duration::from_secs(10);
/// How many lines of a child's standard error are kept, to explain why it died.
const LAST_WORDS_MAX: usize = 10;
/// How long a supervisor may take to end everything. It gives up before.
const TO_END_ALL: Duration = Duration::from_secs(6);

/// A running process that leads its own session and process group.
///
/// Dropping it kills the group, even if it is stopped, and reaps the process.
#[derive(Debug)]
pub struct Child {
    /// The program, or its supervisor.
    process: std::process::Child,
    /// The program, which leads its group.
    group: Pid,
    /// The line to the supervisor, if there is one.
    supervisor: Option<PipeWriter>,
    stdin: Option<ChildStdin>,
    status: Option<ExitStatus>,
    last_words: Arc<Mutex<VecDeque<String>>>,
    stderr_reader: Option<JoinHandle<()>>,
}

impl Child {
    /// Starts `command`. Its output goes to `sender` under the number `id`.
    ///
    /// The kernel kills the process when the *thread* that calls this ends, so that no child outlives a killed program. Call this from a
    /// thread that lives as long as the child is needed, such as the main thread.
    ///
    /// # Errors
    /// Returns the system's error if the program cannot be started.
    pub fn spawn(mut command: Command, id: usize, sender: &FeedSender) -> io::Result<Self> {
        let parent = getpid();
        // SAFETY: between fork and exec only async-signal-safe calls are made: setsid, prctl, getppid.
        unsafe { command.pre_exec(move || enter_own_session(parent)) };
        let process = with_pipes(&mut command).spawn()?;
        let group = Pid::from_raw(process.id().cast_signed());
        Self::listening(process, group, None, id, sender)
    }

    /// Starts a program that we do not trust, like [`spawn`](Self::spawn), but below a supervisor: when the program ends, when the
    /// child is dropped, or when this program is gone, even by SIGKILL, everything that it has started is killed, in whatever session.
    ///
    /// # Errors
    /// Returns the system's error if the program cannot be started.
    #[cfg(target_os = "linux")]
    pub fn spawn_supervised(command: Command, id: usize, sender: &FeedSender) -> io::Result<Self> {
        Self::spawn_below(command, None, id, sender)
    }

    /// Starts a program like [`spawn_supervised`](Self::spawn_supervised), but in this PID namespace, where it has the process id `number`.
    /// Nobody else there may have it: a program that had it must have ended, and its [`status`](Self::status) must have been read.
    ///
    /// # Errors
    /// Returns the system's error if the program cannot be started with this number.
    #[cfg(target_os = "linux")]
    pub fn spawn_in(
        space: &PidSpace,
        number: i32,
        command: Command,
        id: usize,
        sender: &FeedSender,
    ) -> io::Result<Self> {
        Self::spawn_below(command, Some(space.place(number)), id, sender)
    }

    #[cfg(target_os = "linux")]
    fn spawn_below(
        mut command: Command,
        place: Option<Place>,
        id: usize,
        sender: &FeedSender,
    ) -> io::Result<Self> {
        let supervision = supervise(&mut command, place)?;
        let process = with_pipes(&mut command).spawn()?;
        // The command has copies of the supervisor's ends.
        drop(command);
        let (group, line) = supervision.begun()?;
        Self::listening(process, group, Some(line), id, sender)
    }

    /// Without supervisors on this system, only the process group is known.
    ///
    /// # Errors
    /// Returns the system's error if the program cannot be started.
    #[cfg(not(target_os = "linux"))]
    pub fn spawn_supervised(command: Command, id: usize, sender: &FeedSender) -> io::Result<Self> {
        Self::spawn(command, id, sender)
    }

    /// Never called: there is no such namespace on this system.
    ///
    /// # Errors
    /// Never returns.
    #[cfg(not(target_os = "linux"))]
    pub fn spawn_in(
        space: &crate::PidSpace,
        _number: i32,
        _command: Command,
        _id: usize,
        _sender: &FeedSender,
    ) -> io::Result<Self> {
        match space.0 {}
    }

    fn listening(
        mut process: std::process::Child,
        group: Pid,
        supervisor: Option<PipeWriter>,
        id: usize,
        sender: &FeedSender,
    ) -> io::Result<Self> {
        let stdin = process.stdin.take();
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        let last_words = Arc::default();
        // From here on, an early return kills the process.
        let mut child = Self {
            process,
            group,
            supervisor,
            stdin,
            status: None,
            last_words,
            stderr_reader: None,
        };
        let (sender, words) = (sender.clone(), Arc::clone(&child.last_words));
        reader(move || {
            stdout
                .into_iter()
                .for_each(|stdout| sender.listen(id, stdout))
        })?;
        let listen = move || {
            stderr
                .into_iter()
                .for_each(|stderr| keep_last(stderr, &words))
        };
        child.stderr_reader = Some(reader(listen)?);
        Ok(child)
    }

    /// Returns the process id, which is also the id of its group.
    pub fn pid(&self) -> i32 {
        self.group.as_raw()
    }

    /// Returns the process id that the program has for itself, as the kernel shows it from outside. `None` if it has ended.
    pub fn number_inside(&self) -> Option<i32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.group)).ok()?;
        let numbers = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))?;
        numbers.split_whitespace().next_back()?.parse().ok()
    }

    /// Writes `message` as one line of JSON.
    ///
    /// Blocks while the pipe is full: a child is expected to read its input.
    ///
    /// # Errors
    /// Returns the system's error if the child has closed its input.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(&line)
    }

    /// Sends `signal` to the whole process group. SIGSTOP takes effect some time after it was sent, so this returns when the process is
    /// stopped, or after some seconds.
    ///
    /// # Errors
    /// Returns `ESRCH` if no process is left in the group.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        // A supervisor ends right after it has reaped the program, whose id then belongs to nobody.
        if self.status.is_some() || (self.supervisor.is_some() && self.has_ended()) {
            return Err(Errno::ESRCH);
        }
        killpg(self.group, signal)?;
        if signal == Signal::SIGSTOP {
            self.wait_stopped(TO_STOP);
        }
        Ok(())
    }

    /// Waits until all threads of the process are stopped.
    ///
    /// Returns `false` if they were not stopped in time or the process has ended.
    pub fn wait_stopped(&self, within: Duration) -> bool {
        let look = || {
            if is_stopped(self.group) {
                Some(true)
            } else {
                has_ended(self.group).then_some(false)
            }
        };
        poll(within, look) == Some(true)
    }

    /// Returns how the process ended, or `None` while it runs. Kills what it left behind in its group.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() && self.has_ended() {
            self.end_group();
        }
        self.status
    }

    /// Waits for the process to end. `None` if it is still running.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        poll(within, || self.status())
    }

    /// Returns the last lines of its standard error, to explain why it died.
    pub fn last_words(&self) -> Vec<String> {
        if self.status.is_some() {
            // What it wrote before its end may still be in the pipe.
            let heard_all = || {
                self.stderr_reader
                    .as_ref()
                    .is_none_or(JoinHandle::is_finished)
            };
            let _ = poll(Duration::from_millis(500), || heard_all().then_some(()));
        }
        let words = self
            .last_words
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        words.iter().cloned().collect()
    }

    /// Checks without reaping: as long as the leader is not reaped, the system does not reuse its id for another group.
    fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(
            waitid(Id::Pid(self.process_id()), flags),
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
        )
    }

    fn process_id(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// Kills what is left of the group, then reaps the leader or its supervisor.
    fn end_group(&mut self) {
        match self.supervisor.take() {
            Some(line) => self.end_supervised(line),
            None => self.kill_group(),
        }
        self.status = self
            .process
            .wait()
            .ok()
            .or(Some(ExitStatus::from_raw(Signal::SIGKILL as i32)));
    }

    fn kill_group(&self) {
        // On some systems, a stopped process that is killed is only removed once it is continued.
        let _ = killpg(self.group, Signal::SIGKILL);
        let _ = killpg(self.group, Signal::SIGCONT);
    }

    /// Lets the supervisor end everything. A supervisor that does not, because the program has stopped it, is killed.
    fn end_supervised(&self, line: PipeWriter) {
        if self.has_ended() {
            return;
        }
        self.kill_group();
        drop(line);
        if poll(TO_END_ALL, || self.has_ended().then_some(())).is_none() {
            let _ = kill(self.process_id(), Signal::SIGKILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.end_group();
        }
    }
}

fn with_pipes(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
}

/// Runs in the child before the program starts: creates a session and asks the kernel to kill the child with its parent.
fn enter_own_session(parent: Pid) -> io::Result<()> {
    setsid()?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // If the parent died before the line above, the signal will never come.
    if getppid() != parent {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

fn reader(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .stack_size(READER_STACK_BYTES)
        .spawn(work)
}

fn keep_last(stderr: ChildStderr, words: &Mutex<VecDeque<String>>) {
    let mut stderr = BufReader::new(stderr);
    while let Some(line) = read_line(&mut stderr) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() == LAST_WORDS_MAX {
            words.pop_front();
        }
        words.push_back(line);
    }
}

/// Returns whether all threads of a process are stopped.
///
/// A single stopped thread is not enough: the signal reaches one thread, which then stops the others.
pub(crate) fn is_stopped(process: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let states: Vec<char> = threads
        .filter_map(|thread| state(&thread.path()))
        .filter(|state| !matches!(state, 'Z' | 'X'))
        .collect();
    !states.is_empty() && states.iter().all(|state| *state == 'T')
}

/// Returns whether the process does not exist or is a zombie.
pub(crate) fn has_ended(process: Pid) -> bool {
    let state = state(Path::new(&format!("/proc/{process}")));
    matches!(state, None | Some('Z' | 'X'))
}

/// Returns the state letter of a process or thread (`R`, `S`, `T` …) from its folder in /proc, or `None` if it does not exist.
fn state(folder: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The program's name is in parentheses and may itself contain parentheses.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Calls `question` every millisecond until it returns an answer.
pub(crate) fn poll<T>(within: Duration, mut question: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        let answer = question();
        if answer.is_some() || Instant::now() >= deadline {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests;

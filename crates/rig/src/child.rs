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
use crate::supervisor::supervise;

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
    pub fn spawn_supervised(
        mut command: Command,
        id: usize,
        sender: &FeedSender,
    ) -> io::Result<Self> {
        let supervision = supervise(&mut command)?;
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
mod tests {
    use super::*;
    use crate::feed::{Feed, Output, feed};

    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> (Child, Feed) {
        let (feed, sender) = feed();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        (Child::spawn(command, 7, &sender).unwrap(), feed)
    }

    fn line(feed: &Feed) -> String {
        match feed.next(LONG).unwrap().output {
            Output::Line(line) => line,
            other => panic!("{other:?}"),
        }
    }

    fn gone(pid: i32) -> bool {
        poll(LONG, || has_ended(Pid::from_raw(pid)).then_some(())).is_some()
    }

    #[test]
    fn a_child_answers_line_by_line_and_its_end_is_told() {
        let (mut child, feed) = shell("read x; echo \"got $x\"; echo tired >&2; exit 3");
        child.send(&serde_json::json!({"go": 1})).unwrap();
        assert_eq!(line(&feed), r#"got {"go":1}"#);
        assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
        assert_eq!(child.wait(LONG).and_then(|status| status.code()), Some(3));
        assert_eq!(child.last_words(), ["tired"]);
        assert_eq!(child.signal(Signal::SIGCONT), Err(Errno::ESRCH));
    }

    #[test]
    fn only_the_last_words_are_kept() {
        let (mut child, _feed) = shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >&2; done");
        assert!(child.wait(LONG).is_some());
        let words = child.last_words();
        assert_eq!(
            (words.len(), words[0].as_str(), words[9].as_str()),
            (10, "3", "12")
        );
    }

    #[test]
    fn dropping_a_stopped_child_kills_its_whole_group() {
        let (child, feed) = shell("sleep 1000 & echo $!; wait");
        let grandchild: i32 = line(&feed).parse().unwrap();
        assert!(!child.wait_stopped(Duration::ZERO));
        child.signal(Signal::SIGSTOP).unwrap();
        assert!(child.wait_stopped(LONG));
        let pid = child.pid();
        drop(child);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "reaped");
        assert!(gone(grandchild));
    }

    #[test]
    fn the_end_of_a_child_is_no_stop_and_is_not_waited_for() {
        let (child, feed) = shell("exit 0");
        assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
        let started = Instant::now();
        assert!(!child.wait_stopped(LONG));
        assert!(started.elapsed() < LONG / 2);
    }

    #[test]
    fn what_a_child_leaves_behind_ends_with_it() {
        let (mut child, feed) = shell("sleep 1000 >/dev/null 2>&1 & echo $!");
        let grandchild: i32 = line(&feed).parse().unwrap();
        assert!(child.wait(LONG).is_some());
        assert!(gone(grandchild));
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let (pid, child) = std::thread::spawn(|| {
            let (child, feed) = shell("echo ready; exec sleep 1000");
            assert_eq!(line(&feed), "ready");
            (child.pid(), child)
        })
        .join()
        .unwrap();
        assert!(gone(pid));
        drop(child);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let (_feed, sender) = feed();
        assert!(Child::spawn(Command::new("/no/such/program"), 0, &sender).is_err());
        let error = Child::spawn_supervised(Command::new("/no/such/program"), 0, &sender);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    fn supervised(script: &str) -> (Child, Feed) {
        let (feed, sender) = feed();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        (Child::spawn_supervised(command, 7, &sender).unwrap(), feed)
    }

    #[test]
    fn a_supervised_program_is_stopped_and_ends_like_any_other() {
        let (mut child, feed) = supervised("echo $$; read x; echo \"got $x\"; exit 3");
        assert_eq!(line(&feed), child.pid().to_string());
        child.signal(Signal::SIGSTOP).unwrap();
        assert!(child.wait_stopped(LONG));
        child.signal(Signal::SIGCONT).unwrap();
        child.send(&1).unwrap();
        assert_eq!(line(&feed), "got 1");
        assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
        assert_eq!(child.wait(LONG).and_then(|status| status.code()), Some(3));
        assert_eq!(child.signal(Signal::SIGCONT), Err(Errno::ESRCH));
        let (mut child, _feed) = supervised("sleep 1000");
        child.signal(Signal::SIGKILL).unwrap();
        let status = child.wait(LONG).unwrap();
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    }

    /// Starts a process in another session, whose parent has ended, and says its number.
    const FLEES: &str = "setsid sh -c 'sleep 1000 & echo $!'";

    #[test]
    fn what_a_supervised_program_starts_ends_with_it_in_whatever_session() {
        let (mut child, feed) = supervised(&format!("{FLEES}; read x"));
        let fled: i32 = line(&feed).parse().unwrap();
        assert!(!gone_at_once(fled));
        child.send(&1).unwrap();
        assert!(child.wait(LONG).is_some());
        assert!(gone_at_once(fled));
        // The fled process had the output open.
        assert_eq!(feed.next(LONG).unwrap().output, Output::Closed);
    }

    #[test]
    fn dropping_a_supervised_program_kills_all_that_it_started() {
        let (child, feed) = supervised(&format!("{FLEES}; kill -STOP $$"));
        let fled: i32 = line(&feed).parse().unwrap();
        assert!(child.wait_stopped(LONG));
        drop(child);
        assert!(gone_at_once(fled));
    }

    #[test]
    fn a_program_that_stops_its_supervisor_does_not_hold_us_up_for_ever() {
        let (child, feed) = supervised("kill -STOP $PPID; echo $$; sleep 1000");
        let program: i32 = line(&feed).parse().unwrap();
        let started = Instant::now();
        drop(child);
        assert!(started.elapsed() < LONG);
        assert!(gone(program));
    }

    fn gone_at_once(pid: i32) -> bool {
        has_ended(Pid::from_raw(pid))
    }
}

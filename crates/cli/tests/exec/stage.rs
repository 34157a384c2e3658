//! A lock file in a temporary folder, programs that use it, and functions that inspect their processes.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fencepost_rig::with_default_signals;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The time after which a test gives up.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The environment variable that identifies all processes of a stage.
const MARK: &str = "FENCEPOST_TEST_STAGE";

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    store: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("locks.db").display());
        Self { folder, store }
    }

    /// Creates a stage with locks in a store other than a file.
    pub(crate) fn with_store(store: String) -> Self {
        let mut stage = Self::new();
        stage.store = store;
        stage
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// Returns a command for the program with this stage's locks, a clean environment, and default signal actions.
    pub(crate) fn fencepost(&self, arguments: &[&str]) -> Command {
        self.program(Path::new(env!("CARGO_BIN_EXE_fencepost")), arguments)
    }

    /// The same with a program of another version.
    pub(crate) fn program(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        with_default_signals(&mut command)
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env("FENCEPOST_STORE", &self.store)
            .env(MARK, self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "TERM"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.start(arguments).end()
    }

    /// Starts `exec` with a shell script.
    pub(crate) fn shell(&self, flags: &str, script: &str) -> Play {
        let mut arguments = vec!["exec"];
        arguments.extend(flags.split_whitespace());
        arguments.extend(["--", "sh", "-c", script]);
        self.start(&arguments)
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Play {
        self.start_command(self.fencepost(arguments))
    }

    pub(crate) fn start_command(&self, mut command: Command) -> Play {
        // The program gets its own process group, so that signals to it do not hit this program.
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Play(Some(command.spawn().unwrap()))
    }

    /// Waits until a file has this many lines.
    pub(crate) fn until_lines(&self, file: &str, count: usize) {
        until(file, || self.read(file).lines().count() >= count);
    }

    /// Returns all processes of this stage: the programs and everything they started.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mark = format!("{MARK}={}", self.folder.path().display());
        let pids = std::fs::read_dir("/proc").unwrap();
        let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            has_variable(*pid, &mark) && state(*pid).is_some_and(|state| state != 'Z')
        })
        .collect()
    }

    pub(crate) fn until_empty(&self) {
        until("nobody is left", || self.processes().is_empty());
    }

    /// Returns the number of waiters for this lock.
    pub(crate) fn waiting(&self, name: &str) -> usize {
        let shown = self.run(&["locks", "show", name, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        document["lock"]["waiting"].as_array().map_or(0, Vec::len)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn has_variable(pid: i32, variable: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|own| own == variable.as_bytes())
}

/// Returns the state letter of a process.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns the only child of a process.
pub(crate) fn only_child(pid: i32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().unwrap()
}

pub(crate) fn is_running(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Reads one line, byte by byte, so that nothing of the next line is read.
fn line_of(stream: &mut impl Read) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// A running program that is killed when it is dropped.
pub(crate) struct Play(Option<std::process::Child>);

pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap()
    }
}

impl Play {
    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id().cast_signed()
    }

    /// Returns the process that guards the command.
    pub(crate) fn warden(&self) -> i32 {
        only_child(self.pid())
    }

    pub(crate) fn send(&self, number: Signal) {
        signal(self.pid(), number);
    }

    /// Stops the program and waits until it is stopped.
    pub(crate) fn stop(&self) {
        self.send(Signal::SIGSTOP);
        until("it stands still", || state(self.pid()) == Some('T'));
    }

    /// Waits until the program has written a line to standard error, and returns it with its line break. [`Self::end`] returns only what
    /// follows.
    pub(crate) fn next_line(&mut self) -> String {
        line_of(self.0.as_mut().unwrap().stderr.as_mut().unwrap())
    }

    /// The same for standard output.
    pub(crate) fn next_output_line(&mut self) -> String {
        line_of(self.0.as_mut().unwrap().stdout.as_mut().unwrap())
    }

    /// Waits for the program to exit.
    pub(crate) fn end(mut self) -> Ran {
        let mut child = self.0.take().unwrap();
        let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        Ran {
            status: child.wait().unwrap(),
            stdout: text,
            stderr: errors.join().unwrap(),
        }
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Replaces numbers by `N` and the host by `HOST`, and removes the folder.
pub(crate) fn shape(text: &str, folder: &Path) -> String {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let text = text
        .replace(&folder.display().to_string(), "")
        .replace(&host, "HOST");
    let mut shape = String::new();
    let letters: Vec<char> = text.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        let next_is_digit = letters.get(index + 1).is_some_and(char::is_ascii_digit);
        let in_number = shape.ends_with('N');
        match letter {
            digit if digit.is_ascii_digit() && in_number => {}
            digit if digit.is_ascii_digit() => shape.push('N'),
            '.' if in_number && next_is_digit => {}
            other => shape.push(*other),
        }
    }
    shape
}

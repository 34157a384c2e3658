//! A private Redis server: started for one run, gone with it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid};

use crate::child::Child;
use crate::feed::{Feed, Said, feed};
use crate::folder::{TempDir, folder};
use crate::resp::{Connection, Value};
use crate::server::free_port;

/// The programs that will do, the first one found.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one of its answers may take until it is looked at again whether it runs at all.
const ANSWER: Duration = Duration::from_millis(500);
/// How long a server may take to notice that its port is somebody else's.
const TO_NOTICE: Duration = Duration::from_secs(10);
/// How often another port is tried when somebody else was faster.
const PORTS: u32 = 10;
/// How many of its words are kept for the one who asks why it does not run.
const WORDS_MAX: usize = 10;

/// A Redis server of our own, on a free port of this machine.
///
/// It listens on the loopback address only, writes nothing to disk, and lives in a session of its own. Dropping it kills it
/// and removes its folder; it also dies with the *thread* that started it (see [`Child::spawn`]).
#[derive(Debug)]
pub struct Redis {
    child: Child,
    said: Mutex<Feed>,
    address: SocketAddr,
    version: String,
    started_with: RedisBuilder,
    program: PathBuf,
    // After the child: removed when nobody works in it any more.
    folder: TempDir,
}

/// How a private server is started; made by [`Redis::builder`].
#[derive(Debug, Clone, Default)]
pub struct RedisBuilder {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl RedisBuilder {
    /// Further arguments, which win over our own: `["--appendonly", "yes"]`. `FOLDER` in an argument becomes the server's folder.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// A variable in the server's environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// As [`Redis::start`].
    ///
    /// # Errors
    /// As [`Redis::start`].
    pub fn start(&self) -> Result<Redis, RedisError> {
        Redis::start_with(&find().ok_or(RedisError::NotInstalled)?, self)
    }

    fn spawn(&self, program: &Path, port: u16, folder: &Path) -> io::Result<(Child, Feed)> {
        let place = folder.to_string_lossy();
        let mut command = Command::new(program);
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--protected-mode", "yes", "--save", "", "--appendonly"])
            .args(["no", "--daemonize", "no", "--loglevel", "warning", "--dir"])
            .arg(folder)
            .args(
                self.arguments
                    .iter()
                    .map(|text| text.replace("FOLDER", &place)),
            )
            .envs(self.environment.iter().cloned())
            .current_dir(folder);
        let (said, ears) = feed();
        Ok((Child::spawn(command, 0, &ears)?, said))
    }
}

/// Why there is no private server.
#[derive(Debug)]
#[non_exhaustive]
pub enum RedisError {
    /// No program for it was found.
    NotInstalled,
    /// It ended, or did not answer in time.
    NotRunning {
        /// Which program.
        program: PathBuf,
        /// What happened.
        what: String,
        /// The last lines it wrote.
        last_words: Vec<String>,
    },
    /// It answers, but not as Redis does.
    NotRedis {
        /// Which program.
        program: PathBuf,
        /// What it answered.
        what: String,
    },
    /// The system's fault: no folder, no port.
    System(io::Error),
}

impl RedisError {
    /// How to get a server, for people.
    pub const INSTALL: &str = "apt-get install redis-server · brew install redis";
}

impl std::fmt::Display for RedisError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotInstalled => write!(f, "no {} in PATH", PROGRAMS.join(" or ")),
            Self::NotRunning { program, what, .. } | Self::NotRedis { program, what } => {
                write!(f, "{}: {what}", program.display())
            }
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RedisError {}

impl From<io::Error> for RedisError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// One attempt on one port.
enum Attempt {
    Failed(RedisError),
    PortTaken(RedisError),
}

impl Redis {
    /// Starts a server and waits until it answers.
    ///
    /// Call it from a thread that lives as long as the server is wanted.
    ///
    /// # Errors
    /// [`RedisError`] says why there is none; then nothing is left behind.
    pub fn start() -> Result<Self, RedisError> {
        Self::start_program(&find().ok_or(RedisError::NotInstalled)?)
    }

    /// Whether there is a program to start.
    pub fn is_installed() -> bool {
        find().is_some()
    }

    /// As [`start`](Self::start), with this program.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_program(program: &Path) -> Result<Self, RedisError> {
        Self::start_with(program, &RedisBuilder::default())
    }

    /// For a server with settings of its own.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    fn start_with(program: &Path, how: &RedisBuilder) -> Result<Self, RedisError> {
        let mut left = PORTS;
        loop {
            left -= 1;
            match Self::start_on(program, free_port()?, how) {
                Ok(server) => return Ok(server),
                Err(Attempt::PortTaken(_)) if left > 0 => {}
                Err(Attempt::PortTaken(error) | Attempt::Failed(error)) => return Err(error),
            }
        }
    }

    fn start_on(program: &Path, port: u16, how: &RedisBuilder) -> Result<Self, Attempt> {
        let system = |error: io::Error| Attempt::Failed(error.into());
        let folder = folder().map_err(system)?;
        let (child, said) = how.spawn(program, port, folder.path()).map_err(system)?;
        let mut server = Self {
            child,
            said: Mutex::new(said),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            version: String::new(),
            started_with: how.clone(),
            program: program.to_owned(),
            folder,
        };
        server.version = server.introduce_itself()?;
        Ok(server)
    }

    /// Crashes it (SIGKILL): returns when it is gone. Its folder stays.
    pub fn crash(&mut self) {
        // Gone already will do as well.
        let _ = self.child.signal(Signal::SIGKILL);
        let _ = self.child.wait(PATIENCE);
    }

    /// Whether its process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.status().is_some()
    }

    /// Starts it anew on the same port and in the same folder, with `more` arguments; crashes it before if it still runs. Does not
    /// wait until it answers.
    ///
    /// # Errors
    /// The system's, when it cannot be started.
    pub fn respawn(&mut self, more: &[&str]) -> io::Result<()> {
        self.crash();
        let how = self.started_with.clone().arguments(more.iter().copied());
        let (child, said) = how.spawn(&self.program, self.address.port(), self.folder.path())?;
        self.child = child;
        self.said = Mutex::new(said);
        Ok(())
    }

    /// Waits until it answers, and has loaded its data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn wait_until_ready(&mut self) -> Result<(), RedisError> {
        self.version = match self.introduce_itself() {
            Ok(version) => version,
            Err(Attempt::Failed(error) | Attempt::PortTaken(error)) => return Err(error),
        };
        Ok(())
    }

    /// Crashes it and starts it anew, on the same port: empty, unless its settings make it keep its data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), RedisError> {
        self.respawn(&[])?;
        self.wait_until_ready()
    }

    /// Where it keeps its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until the server answers; returns its version.
    fn introduce_itself(&mut self) -> Result<String, Attempt> {
        let program = &self.program.clone();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.child.status();
            // First the end, then the questions: an answer after our server's end would be somebody else's.
            if let Some(status) = status {
                return Err(self.not_running(&format!("ended with {status}")));
            }
            match self.introduce() {
                Ok(version) => return Ok(version),
                Err(Introduction::NotYet(_)) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(Introduction::NotYet(error)) => {
                    let what = format!("no answer within {} s: {error}", PATIENCE.as_secs());
                    return Err(self.not_running(&what));
                }
                Err(Introduction::Stranger(what)) => {
                    // Somebody else who was faster on this port; then ours is about to end.
                    if let Some(status) = self.child.wait(TO_NOTICE) {
                        return Err(self.not_running(&format!("ended with {status}")));
                    }
                    let program = program.to_owned();
                    return Err(Attempt::Failed(RedisError::NotRedis { program, what }));
                }
                Err(Introduction::OfSomebodyElse(what)) => {
                    let program = program.to_owned();
                    return Err(Attempt::PortTaken(RedisError::NotRedis { program, what }));
                }
            }
        }
    }

    /// Asks who answers on the port: it must be our process, and it must run scripts as Redis does.
    fn introduce(&self) -> Result<String, Introduction> {
        let mut connection =
            Connection::open(self.address, ANSWER).map_err(Introduction::NotYet)?;
        let mut ask = |words: &[&str]| match connection.ask(words) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Introduction::Stranger(error.to_string()))
            }
            Err(error) => Err(Introduction::NotYet(error)),
            Ok(Value::Error(message)) if message.starts_with("LOADING") => {
                Err(Introduction::NotYet(io::Error::other(message)))
            }
            Ok(value) => Ok(value),
        };
        let stranger = |command, answer: &Value| {
            Err(Introduction::Stranger(format!(
                "answers {command} with {answer:?}"
            )))
        };
        let info = match ask(&["INFO", "server"])? {
            Value::Text(info) => info,
            other => return stranger("INFO", &other),
        };
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let (Some(pid), Some(version)) = (
            field("process_id").and_then(|pid| pid.parse().ok()),
            field("redis_version"),
        ) else {
            return stranger("INFO", &Value::Text(info.lines().take(3).collect()));
        };
        // It may have been started by a script of that name: then the group is the same.
        if getpgid(Some(Pid::from_raw(pid))) != Ok(Pid::from_raw(self.child.pid())) {
            let what = format!("process {pid} answers on {}", self.address);
            return Err(Introduction::OfSomebodyElse(what));
        }
        match ask(&["EVAL", "return 6 * 7", "0"])? {
            Value::Number(42) => Ok(version.to_owned()),
            other => stranger("EVAL", &other),
        }
    }

    fn not_running(&self, what: &str) -> Attempt {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last_words = heard(&said);
        last_words.extend(self.child.last_words());
        last_words.drain(..last_words.len().saturating_sub(WORDS_MAX));
        let taken = last_words
            .iter()
            .any(|line| line.contains("Address already in use"));
        let error = RedisError::NotRunning {
            program: self.program.clone(),
            what: what.to_owned(),
            last_words,
        };
        if taken {
            Attempt::PortTaken(error)
        } else {
            Attempt::Failed(error)
        }
    }

    /// How clients name it: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The version it says it is compatible with, such as `7.0.15`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Sends it a signal: SIGSTOP to stall it, SIGKILL to crash it.
    ///
    /// # Errors
    /// `ESRCH` when it has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        self.child.signal(signal)
    }

    /// Waits until it is really stopped; `false`: it was not within that time.
    pub fn wait_stopped(&self, within: Duration) -> bool {
        self.child.wait_stopped(within)
    }
}

/// What came of asking who is there.
enum Introduction {
    NotYet(io::Error),
    Stranger(String),
    OfSomebodyElse(String),
}

/// The first of the programs on the search path.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    PROGRAMS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| is_executable(file))
}

/// What was said so far. An ended program's output closes soon after it.
fn heard(said: &Feed) -> Vec<String> {
    let mut lines = Vec::new();
    while let Ok(heard) = said.next(Duration::from_millis(500)) {
        match heard.said {
            Said::Line(line) => lines.push(line),
            Said::Closed => break,
        }
    }
    lines
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;

//! A private Redis server for tests and trials.

use std::ffi::OsString;
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
use crate::clock::ProgramClock;
use crate::feed::{Feed, Output, feed};
use crate::folder::{TempDir, folder};
use crate::resp::{Connection, Value};
use crate::server::{START_TIMEOUT, ServerError, free_port, installed};

/// The server programs that can be used; the first one found is.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const NOT_INSTALLED: ServerError = ServerError::NotInstalled {
    what: "redis-server or valkey-server",
    install: Redis::INSTALL,
};
/// How long to wait for one answer before checking whether the server still runs.
const ANSWER: Duration = Duration::from_millis(500);
/// How long a server may take to notice that its port is taken.
const TO_NOTICE: Duration = Duration::from_secs(10);
/// How often to try another port if another process takes the chosen one first.
const PORT_ATTEMPTS: u32 = 10;
/// How many lines of output are kept, to explain why the server does not run.
const WORDS_MAX: usize = 10;

/// A private Redis server on a free port of this machine.
///
/// It listens on the loopback address only, writes nothing to disk, and has its own session. Dropping it kills it and removes its
/// folder; it also dies with the *thread* that started it (see [`Child::spawn`]).
#[derive(Debug)]
pub struct Redis {
    child: Child,
    said: Mutex<Feed>,
    ports: Ports,
    version: String,
    started_with: RedisBuilder,
    program: PathBuf,
    // Declared after the child, so that the folder is removed when the server no longer uses it.
    folder: TempDir,
}

/// Settings for a private server; created by [`Redis::builder`].
#[derive(Debug, Clone, Default)]
pub struct RedisBuilder {
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
    is_tls: bool,
}

impl RedisBuilder {
    /// Adds arguments, which override the defaults: `["--appendonly", "yes"]`. `FOLDER` in an argument is replaced by the server's folder.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// Sets a variable in the server's environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Makes the server ask this clock for the time. The clock must live as long as the server.
    #[must_use]
    pub fn clock(mut self, clock: &ProgramClock) -> Self {
        let variables = clock
            .variables()
            .map(|(name, value)| (name.to_owned(), value));
        self.environment.extend(variables);
        self
    }

    /// Opens a second port on which clients use TLS; set the certificate with [`arguments`](Self::arguments).
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.is_tls = true;
        self
    }

    /// Starts the server; see [`Redis::start`].
    ///
    /// # Errors
    /// Returns the same errors as [`Redis::start`].
    pub fn start(&self) -> Result<Redis, ServerError> {
        Redis::start_with(&installed(&PROGRAMS).ok_or(NOT_INSTALLED)?, self)
    }

    fn spawn(&self, program: &Path, ports: Ports, folder: &Path) -> io::Result<(Child, Feed)> {
        let place = folder.to_string_lossy();
        let mut command = Command::new(program);
        if let Some(port) = ports.tls {
            command.args(["--tls-port", &port.to_string()]);
        }
        command
            .args(["--port", &ports.plain.to_string(), "--bind", "127.0.0.1"])
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
        let (said, sender) = feed();
        Ok((Child::spawn(command, 0, &sender)?, said))
    }
}

/// The ports of one server.
#[derive(Debug, Clone, Copy)]
struct Ports {
    plain: u16,
    tls: Option<u16>,
}

impl Ports {
    fn free(is_tls: bool) -> io::Result<Self> {
        Ok(Self {
            plain: free_port()?,
            tls: is_tls.then(free_port).transpose()?,
        })
    }
}

/// One attempt on some ports.
enum Attempt {
    Failed(ServerError),
    PortTaken(ServerError),
}

impl Redis {
    /// How to install a server.
    pub const INSTALL: &str = "apt-get install redis-server · brew install redis";

    /// Starts a server and waits until it answers.
    ///
    /// Call this from a thread that lives as long as the server is needed, because the server dies with that thread.
    ///
    /// # Errors
    /// Returns a [`ServerError`] that says why the server could not be started; nothing is left behind then.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_program(&installed(&PROGRAMS).ok_or(NOT_INSTALLED)?)
    }

    /// Returns whether the server is installed.
    pub fn is_installed() -> bool {
        installed(&PROGRAMS).is_some()
    }

    /// Does the same as [`start`](Self::start) with this program.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn start_program(program: &Path) -> Result<Self, ServerError> {
        Self::start_with(program, &RedisBuilder::default())
    }

    /// Returns a builder for a server with special settings.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    fn start_with(program: &Path, how: &RedisBuilder) -> Result<Self, ServerError> {
        let mut left = PORT_ATTEMPTS;
        loop {
            left -= 1;
            match Self::start_on(program, Ports::free(how.is_tls)?, how) {
                Ok(server) => return Ok(server),
                Err(Attempt::PortTaken(_)) if left > 0 => {}
                Err(Attempt::PortTaken(error) | Attempt::Failed(error)) => return Err(error),
            }
        }
    }

    fn start_on(program: &Path, ports: Ports, how: &RedisBuilder) -> Result<Self, Attempt> {
        let system = |error: io::Error| Attempt::Failed(error.into());
        let folder = folder().map_err(system)?;
        let (child, said) = how.spawn(program, ports, folder.path()).map_err(system)?;
        let mut server = Self {
            child,
            said: Mutex::new(said),
            ports,
            version: String::new(),
            started_with: how.clone(),
            program: program.to_owned(),
            folder,
        };
        server.version = server.wait_for_version()?;
        Ok(server)
    }

    /// Kills the server (SIGKILL) and waits until it is gone. Its folder stays.
    pub fn crash(&mut self) {
        // It does not matter if it is gone already.
        let _ = self.child.signal(Signal::SIGKILL);
        let _ = self.child.wait(START_TIMEOUT);
    }

    /// Returns whether the server process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.status().is_some()
    }

    /// Starts the server again on the same port and in the same folder, with `more` arguments. Kills it first if it still runs. Does not
    /// wait until it answers.
    ///
    /// # Errors
    /// Returns the system's error if the server cannot be started.
    pub fn respawn(&mut self, more: &[&str]) -> io::Result<()> {
        self.crash();
        let how = self.started_with.clone().arguments(more.iter().copied());
        let (child, said) = how.spawn(&self.program, self.ports, self.folder.path())?;
        self.child = child;
        self.said = Mutex::new(said);
        Ok(())
    }

    /// Waits until the server answers and has loaded its data.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn wait_until_ready(&mut self) -> Result<(), ServerError> {
        self.version = match self.wait_for_version() {
            Ok(version) => version,
            Err(Attempt::Failed(error) | Attempt::PortTaken(error)) => return Err(error),
        };
        Ok(())
    }

    /// Kills the server and starts it again on the same port. It is empty, unless its settings make it keep its data.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.respawn(&[])?;
        self.wait_until_ready()
    }

    /// Returns the folder with the server's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until the server answers, and returns its version.
    fn wait_for_version(&mut self) -> Result<String, Attempt> {
        let program = &self.program.clone();
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let status = self.child.status();
            // Check first whether our server has ended: an answer after that would come from another server.
            if let Some(status) = status {
                return Err(self.not_running(&format!("ended with {status}")));
            }
            match self.identify() {
                Ok(version) => return Ok(version),
                Err(Identity::NotReady(_)) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(Identity::NotReady(error)) => {
                    let what = format!("no answer within {} s: {error}", START_TIMEOUT.as_secs());
                    return Err(self.not_running(&what));
                }
                Err(Identity::NotRedis(what)) => {
                    // Another server took this port first, so ours is about to end.
                    if let Some(status) = self.child.wait(TO_NOTICE) {
                        return Err(self.not_running(&format!("ended with {status}")));
                    }
                    let program = program.to_owned();
                    return Err(Attempt::Failed(ServerError::NotTheServer { program, what }));
                }
                Err(Identity::OtherProcess(what)) => {
                    let program = program.to_owned();
                    return Err(Attempt::PortTaken(ServerError::NotTheServer {
                        program,
                        what,
                    }));
                }
            }
        }
    }

    /// Checks that the server on the port is our process and runs scripts like Redis.
    fn identify(&self) -> Result<String, Identity> {
        let mut connection =
            Connection::open(self.address(), ANSWER).map_err(Identity::NotReady)?;
        let mut ask = |words: &[&str]| match connection.ask(words) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Identity::NotRedis(error.to_string()))
            }
            Err(error) => Err(Identity::NotReady(error)),
            Ok(Value::Error(message)) if message.starts_with("LOADING") => {
                Err(Identity::NotReady(io::Error::other(message)))
            }
            Ok(value) => Ok(value),
        };
        let not_redis = |command, answer: &Value| {
            Err(Identity::NotRedis(format!(
                "answers {command} with {answer:?}"
            )))
        };
        let info = match ask(&["INFO", "server"])? {
            Value::Text(info) => info,
            other => return not_redis("INFO", &other),
        };
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let (Some(pid), Some(version)) = (
            field("process_id").and_then(|pid| pid.parse().ok()),
            field("redis_version"),
        ) else {
            return not_redis("INFO", &Value::Text(info.lines().take(3).collect()));
        };
        // A script may have started the server; then the process group is the same.
        if getpgid(Some(Pid::from_raw(pid))) != Ok(Pid::from_raw(self.child.pid())) {
            let what = format!("process {pid} answers on {}", self.address());
            return Err(Identity::OtherProcess(what));
        }
        match ask(&["EVAL", "return 6 * 7", "0"])? {
            Value::Number(42) => Ok(version.to_owned()),
            other => not_redis("EVAL", &other),
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
        let error = ServerError::NotRunning {
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

    /// Returns the address for clients: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.plain).into()
    }

    /// Returns the address on which the server expects TLS, if it was started with [`tls`](RedisBuilder::tls).
    pub fn tls_address(&self) -> Option<SocketAddr> {
        let port = self.ports.tls?;
        Some((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Returns the version of Redis that the server is compatible with, such as `7.0.15`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Sends a signal to the server: SIGSTOP to stall it, SIGKILL to kill it.
    ///
    /// # Errors
    /// Returns `ESRCH` if the server has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        self.child.signal(signal)
    }

    /// Waits until the server is really stopped. Returns `false` if it was not in time.
    pub fn wait_stopped(&self, within: Duration) -> bool {
        self.child.wait_stopped(within)
    }
}

/// The outcome of checking which server answers.
enum Identity {
    NotReady(io::Error),
    NotRedis(String),
    OtherProcess(String),
}

/// Returns the output so far. The output of a program that ended is closed soon after it.
fn heard(said: &Feed) -> Vec<String> {
    let mut lines = Vec::new();
    while let Ok(heard) = said.next(Duration::from_millis(500)) {
        match heard.output {
            Output::Line(line) => lines.push(line),
            Output::TooLong(_) | Output::Closed => break,
        }
    }
    lines
}

#[cfg(test)]
mod tests;

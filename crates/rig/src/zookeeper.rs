//! A private ZooKeeper server for tests and trials.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::child::Child;
use crate::feed::{Feed, feed};
use crate::folder::{TempDir, folder};
use crate::server::{START_TIMEOUT, ServerError, free_port};

mod ensemble;

pub use ensemble::ZookeeperEnsemble;

const INSTALL: &str = "apt-get install zookeeper default-jdk-headless";
/// The jar files in Debian's layout; the manifest of the first one names those that it needs.
const JARS: [&str; 2] = [
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/slf4j-simple.jar",
];
/// The main class, which runs a standalone server or a member of an ensemble, as configured.
const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
/// How often to try another port if another process takes the chosen one first.
const PORT_ATTEMPTS: u32 = 5;
/// How long to wait for one answer before checking whether the server still runs.
const ANSWER: Duration = Duration::from_millis(500);

/// Java options for a small server that starts quickly. It does not fsync: its data survive a crash of the server, but not of the machine.
const MACHINE: &[&str] = &[
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.forceSync=no",
    "-Dznode.container.checkIntervalMs=500",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// The default configuration. The tick time determines how precisely sessions end: at most a tenth of a second late.
const SETTINGS: &[&str] = &[
    "tickTime=100",
    "minSessionTimeout=500",
    "maxSessionTimeout=120000",
    "clientPortAddress=127.0.0.1",
    "maxClientCnxns=0",
    "admin.enableServer=false",
    "4lw.commands.whitelist=srvr,wchs",
];

/// A private, standalone ZooKeeper server on a free port of this machine.
///
/// It grants sessions of 0.5 s to 2 min and removes empty containers within about half a second. Dropping it kills it and removes its
/// folder; it also dies with the *thread* that started it (see [`Child::spawn`]).
#[derive(Debug)]
pub struct Zookeeper {
    child: Child,
    said: Mutex<Feed>,
    port: u16,
    version: String,
    properties: Vec<String>,
    // Declared after the child, so that the folder is removed when the server no longer uses it.
    folder: TempDir,
}

impl Zookeeper {
    /// Starts a server and waits until it is ready.
    ///
    /// Call this from a thread that lives as long as the server is needed, because the server dies with that thread.
    ///
    /// # Errors
    /// Returns a [`ServerError`] that says why the server could not be started; nothing is left behind then.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_with(&[])
    }

    /// Like [`start`](Self::start), with settings that override the defaults: `name=value` for the configuration file, or `-Dname=value`
    /// for Java properties.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        let mut ports_left = PORT_ATTEMPTS;
        loop {
            ports_left -= 1;
            match Starting::begin(free_port()?, settings)?.wait() {
                Err(ServerError::NotRunning { .. }) if ports_left > 0 => {}
                outcome => return outcome,
            }
        }
    }

    /// Returns whether ZooKeeper and Java are installed.
    pub fn is_installed() -> bool {
        Path::new(JARS[0]).exists() && java().is_some()
    }

    /// Kills the server (SIGKILL) and waits until it is gone. Its data stay.
    pub fn crash(&mut self) {
        // It does not matter if it is gone already.
        let _ = self.child.signal(Signal::SIGKILL);
        let _ = self.child.wait(START_TIMEOUT);
    }

    /// Starts the server again on the same port with the same data, and waits until it is ready. Kills it first if it still runs.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.crash();
        let (child, said) = spawn(self.folder.path(), &self.properties)?;
        let (child, _) = wait_until_serving(child, self.port)?;
        self.said = Mutex::new(said);
        self.child = child;
        Ok(())
    }

    /// Kills the server and deletes its data.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn forget(&mut self) -> io::Result<()> {
        self.crash();
        std::fs::remove_dir_all(self.folder.path().join("data"))
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the version, such as `3.8.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Sends a signal to the server: `SIGSTOP` makes it silent.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        self.child.signal(signal)
    }

    /// Waits until the server is really stopped. Returns `false` if it was not in time.
    pub fn wait_stopped(&self, within: Duration) -> bool {
        self.child.wait_stopped(within)
    }

    /// Returns how many clients of this server watch a node; `None` if the server does not answer.
    pub fn watching_clients(&self) -> Option<u32> {
        // "2 connections watching 3 paths"
        let said = said_to(self.port, b"wchs")?;
        said.split_whitespace().next()?.parse().ok()
    }

    /// Returns whether the server process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.status().is_some()
    }
}

/// A server that is not ready yet.
struct Starting {
    child: Child,
    said: Feed,
    port: u16,
    properties: Vec<String>,
    folder: TempDir,
}

impl Starting {
    fn begin(port: u16, settings: &[&str]) -> Result<Self, ServerError> {
        if !Zookeeper::is_installed() {
            return Err(ServerError::NotInstalled {
                what: "ZooKeeper",
                install: INSTALL,
            });
        }
        let folder = folder()?;
        let (properties, settings): (Vec<&str>, Vec<&str>) = settings
            .iter()
            .partition(|setting| setting.starts_with("-D"));
        let properties: Vec<String> = properties.into_iter().map(str::to_owned).collect();
        configure(folder.path(), port, &settings)?;
        let (child, said) = spawn(folder.path(), &properties)?;
        Ok(Self {
            child,
            said,
            port,
            properties,
            folder,
        })
    }

    fn wait(self) -> Result<Zookeeper, ServerError> {
        let (child, version) = wait_until_serving(self.child, self.port)?;
        Ok(Zookeeper {
            child,
            said: Mutex::new(self.said),
            port: self.port,
            version,
            properties: self.properties,
            folder: self.folder,
        })
    }
}

/// Writes the configuration. `myid=N` is not a setting but the number of the server in an ensemble, which goes into a separate file.
fn configure(folder: &Path, port: u16, settings: &[&str]) -> io::Result<()> {
    let data = folder.join("data");
    std::fs::create_dir_all(&data)?;
    let mut text = format!("clientPort={port}\ndataDir={}\n", data.display());
    for setting in SETTINGS.iter().chain(settings) {
        match setting.strip_prefix("myid=") {
            Some(number) => std::fs::write(data.join("myid"), number)?,
            None => {
                text.push_str(setting);
                text.push('\n');
            }
        }
    }
    std::fs::write(folder.join("zoo.cfg"), text)
}

fn spawn(folder: &Path, properties: &[String]) -> io::Result<(Child, Feed)> {
    let mut server = Command::new("java");
    server.args(MACHINE).args(properties);
    server.args(["-cp", &JARS.join(":")]);
    server.arg(MAIN_CLASS).arg("./zoo.cfg").current_dir(folder);
    let (said, sender) = feed();
    Ok((Child::spawn(server, 0, &sender)?, said))
}

/// Waits until the server is ready, and returns its version. It listens before it is ready, but `srvr` tells.
fn wait_until_serving(mut child: Child, port: u16) -> Result<(Child, String), ServerError> {
    let deadline = Instant::now() + START_TIMEOUT;
    while child.status().is_none() && Instant::now() < deadline {
        if let Some(said) = ask(port).filter(|_| child.status().is_none()) {
            return Ok((child, said.version));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(ServerError::NotRunning {
        program: PathBuf::from("java"),
        what: format!("{MAIN_CLASS} does not run"),
        last_words: child.last_words(),
    })
}

/// The answer of a server to `srvr`.
struct Status {
    version: String,
    /// `standalone`, `leader` or `follower`.
    mode: String,
}

/// Sends `srvr` and parses the answer, which begins with `Zookeeper version: 3.8.0-…, built on …`. `None` if the server is not ready.
fn ask(port: u16) -> Option<Status> {
    let said = said_to(port, b"srvr")?;
    let version = said.strip_prefix("Zookeeper version: ")?;
    let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "))?;
    Some(Status {
        version: version.split(['-', ',']).next()?.to_owned(),
        mode: mode.to_owned(),
    })
}

/// Returns what the server answers to a command of four letters; `None` if it does not.
fn said_to(port: u16, command: &[u8; 4]) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream.write_all(command).ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said)
}

fn java() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("java"))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_after_a_crash_and_goes_with_its_owner() {
        let mut server = Zookeeper::start().unwrap();
        assert!(server.version().starts_with("3."), "{}", server.version());
        server.restart().unwrap();
        server.forget().unwrap();
        server.restart().unwrap();
        let (pid, folder) = (server.pid(), server.folder.path().to_owned());
        drop(server);
        assert!(!folder.exists());
        assert!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_err());
    }
}

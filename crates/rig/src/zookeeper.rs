//! A private ZooKeeper server: started for one run, gone with it.

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
use crate::server::{PATIENCE, ServerError, free_port};

mod ensemble;

pub use ensemble::ZookeeperEnsemble;

const INSTALL: &str = "apt-get install zookeeper default-jdk-headless";
/// Where Debian keeps them; the first names all others that it needs.
const JARS: [&str; 2] = [
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/slf4j-simple.jar",
];
/// Alone or in an ensemble, as its configuration says.
const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
/// How often another port is tried when somebody else was faster.
const PORTS: u32 = 5;
/// How long one of its answers may take until it is looked at again whether it runs at all.
const ANSWER: Duration = Duration::from_millis(500);

/// Small and quick to start. Nothing is forced to the disk: a crash of the server keeps what it wrote, only one of the machine would not.
const MACHINE: &[&str] = &[
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.forceSync=no",
    "-Dznode.container.checkIntervalMs=500",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// A tick decides how exactly sessions end: a tenth of a second late at most.
const SETTINGS: &[&str] = &[
    "tickTime=100",
    "minSessionTimeout=500",
    "maxSessionTimeout=120000",
    "clientPortAddress=127.0.0.1",
    "maxClientCnxns=0",
    "admin.enableServer=false",
];

/// A ZooKeeper server of our own, alone (no ensemble), on a free port of this machine.
///
/// It grants sessions of 0.5 s to 2 min, and removes empty containers within half a second or so. Dropping it kills it and removes its
/// folder; it also dies with the *thread* that started it (see [`Child::spawn`]).
#[derive(Debug)]
pub struct Zookeeper {
    child: Child,
    said: Mutex<Feed>,
    port: u16,
    version: String,
    properties: Vec<String>,
    // After the child: removed when nobody works in it any more.
    folder: TempDir,
}

impl Zookeeper {
    /// Starts a server and waits until it serves.
    ///
    /// Call it from a thread that lives as long as the server is wanted.
    ///
    /// # Errors
    /// [`ServerError`] says why there is none; then nothing is left behind.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_with(&[])
    }

    /// The same with further settings, which win over our own: `name=value` of its configuration file, or `-Dname=value` for properties of
    /// the Java machine.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        let mut ports_left = PORTS;
        loop {
            ports_left -= 1;
            match Starting::begin(free_port()?, settings)?.wait() {
                Err(ServerError::NotRunning { .. }) if ports_left > 0 => {}
                outcome => return outcome,
            }
        }
    }

    /// Whether there is something to start, and a Java to start it with.
    pub fn is_installed() -> bool {
        Path::new(JARS[0]).exists() && java().is_some()
    }

    /// Crashes it (SIGKILL): returns when it is gone. Its data stay.
    pub fn crash(&mut self) {
        // Gone already will do as well.
        let _ = self.child.signal(Signal::SIGKILL);
        let _ = self.child.wait(PATIENCE);
    }

    /// Starts it anew on the same port with the same data; crashes it before if it still runs. Waits until it serves.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.crash();
        let (child, said) = spawn(self.folder.path(), &self.properties)?;
        let (child, _) = wait_until_serving(child, self.port)?;
        self.said = Mutex::new(said);
        self.child = child;
        Ok(())
    }

    /// Crashes it and makes it forget everything it knew.
    ///
    /// # Errors
    /// The system's.
    pub fn forget(&mut self) -> io::Result<()> {
        self.crash();
        std::fs::remove_dir_all(self.folder.path().join("data"))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Such as `3.8.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Sends it a signal: `SIGSTOP` makes it silent.
    ///
    /// # Errors
    /// The system's.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        self.child.signal(signal)
    }
}

/// A server that does not serve yet.
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

/// `myid=N` is no setting but says which server of an ensemble this is: it has a file of its own.
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
    let (said, ears) = feed();
    Ok((Child::spawn(server, 0, &ears)?, said))
}

/// It listens before it serves; it can tell, and gives its version.
fn wait_until_serving(mut child: Child, port: u16) -> Result<(Child, String), ServerError> {
    let deadline = Instant::now() + PATIENCE;
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

/// What a server says about itself while it serves.
struct Said {
    version: String,
    /// `standalone`, `leader` or `follower`.
    mode: String,
}

/// `Zookeeper version: 3.8.0-…, built on …`, and further lines; anything else while it does not serve.
fn ask(port: u16) -> Option<Said> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream.write_all(b"srvr").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    let version = said.strip_prefix("Zookeeper version: ")?;
    let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "))?;
    Some(Said {
        version: version.split(['-', ',']).next()?.to_owned(),
        mode: mode.to_owned(),
    })
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

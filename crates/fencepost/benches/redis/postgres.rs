//! A private Postgres server: started for one run, gone with it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fencepost_rig::{Child, Feed, Signal, TempDir, feed};
use nix::unistd::{Uid, User};

const INSTALL: &str = "apt-get install postgresql";
const PATIENCE: Duration = Duration::from_secs(20);

/// Two hundred wait at once, each with a session of its own; sixty-four and sixteen more at other times.
const SETTINGS: &[&str] = &[
    "max_connections=400",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
];

pub(crate) struct Postgres {
    child: Child,
    port: u16,
    version: String,
    _said: Feed,
    // After the child: removed when nobody works in it any more.
    _folder: TempDir,
}

impl Postgres {
    /// # Errors
    /// Why there is none, and what to do about it.
    pub(crate) fn start() -> Result<Self, String> {
        let programs = programs().ok_or(format!("not installed; {INSTALL}"))?;
        let user = user()?;
        let system = |error: std::io::Error| error.to_string();
        let folder = fencepost_rig::folder().map_err(system)?;
        if let Some(user) = &user {
            let (owner, group) = (user.uid.as_raw(), user.gid.as_raw());
            chown(folder.path(), Some(owner), Some(group)).map_err(system)?;
        }
        let place = folder.path().to_owned();
        let program = |name: &str| command(&programs.join(name), &place, user.as_ref());
        let made = program("initdb")
            .args(["--auth=trust", "--username=bench", "--no-sync", "--pgdata"])
            .arg(place.join("data"))
            .output()
            .map_err(system)?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).trim().to_owned());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(system)?;
        let port = listener.local_addr().map_err(system)?.port();
        drop(listener);
        let mut server = program("postgres");
        server.args(["-p", &port.to_string(), "-D"]);
        server.arg(place.join("data"));
        SETTINGS.iter().for_each(|setting| {
            server.args(["-c", setting]);
        });
        let (said, ears) = feed();
        let child = Child::spawn(server, 0, &ears).map_err(system)?;
        let mut server = Self {
            child,
            port,
            version: version(&mut program("postgres")),
            _said: said,
            _folder: folder,
        };
        server.wait_until_ready(&mut program("pg_isready"))?;
        Ok(server)
    }

    /// It listens before it lets anybody in; its own program can tell.
    fn wait_until_ready(&mut self, asking: &mut Command) -> Result<(), String> {
        asking.args(["--quiet", "--host=127.0.0.1"]);
        asking.arg(format!("--port={}", self.port));
        let deadline = Instant::now() + PATIENCE;
        while self.child.status().is_none() && Instant::now() < deadline {
            if asking.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let words = self.child.last_words();
        Err(format!("it does not run: {}", words.join("; ")))
    }

    pub(crate) fn address(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=bench dbname=postgres",
            self.port
        )
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its own way to end at once: it disconnects everybody and leaves no shared memory behind.
        let _ = self.child.signal(Signal::SIGINT);
        let _ = self.child.wait(PATIENCE);
    }
}

/// The newest of those that are installed the way Debian does it; they are not on the search path.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").exists())
        .max()
}

/// It refuses to run as root. `None`: we are not, and it runs as we do.
fn user() -> Result<Option<User>, String> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let found = User::from_name("postgres").map_err(|error| error.to_string())?;
    let missing = format!("must not run as root, and there is no user postgres; {INSTALL}");
    found.map(Some).ok_or(missing)
}

fn command(program: &Path, folder: &Path, user: Option<&User>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// `postgres (PostgreSQL) 15.14 (Debian …)`: the number alone.
fn version(command: &mut Command) -> String {
    let said = command.arg("--version").output();
    let said = said.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let version = said.split_whitespace().find(number);
    version.unwrap_or_default().to_owned()
}

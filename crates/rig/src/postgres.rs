//! A private Postgres server for tests and trials, with optional standbys.

mod template;

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};

use crate::child::{Child, TO_STOP, has_ended, is_stopped, poll};
use crate::feed::{Feed, feed};
use crate::folder::{TempDir, folder};
use crate::server::{START_TIMEOUT, ServerError, free_port};

pub use self::template::PostgresTemplate;

const INSTALL: &str = "apt-get install postgresql";
/// How often to try another port if another process takes the chosen one first.
const PORT_ATTEMPTS: u32 = 5;

const SETTINGS: &[&str] = &[
    "max_connections=400",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
];

/// A private Postgres server on a free port of this machine, with a superuser `fencepost` that needs no password.
///
/// If we are root, it runs as the user `postgres`, because it refuses to run as root. Dropping it stops it and removes its folder; it also
/// dies with the *thread* that started it (see [`Child::spawn`]).
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    said: Mutex<Feed>,
    port: u16,
    version: String,
    programs: PathBuf,
    user: Option<User>,
    settings: Vec<String>,
    // Declared after the child, so that the folder is removed when the server no longer uses it.
    folder: TempDir,
}

/// The name of the server's folder inside the temporary folder.
const HOME: &str = "home";

/// Creates the server's folder and makes `user` its owner. The folder around it stays ours, so that a later run may remove it.
fn make_home(folder: &TempDir, user: Option<&User>) -> io::Result<PathBuf> {
    let home = folder.path().join(HOME);
    DirBuilder::new().mode(0o700).create(&home)?;
    if let Some(user) = user {
        let passable = Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), passable)?;
        chown(&home, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    Ok(home)
}

impl Postgres {
    /// Starts a server and waits until it accepts connections.
    ///
    /// Call this from a thread that lives as long as the server is needed, because the server dies with that thread.
    ///
    /// # Errors
    /// Returns a [`ServerError`] that says why the server could not be started; nothing is left behind then.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_with(&[])
    }

    /// Like [`start`](Self::start), with settings (`name=value`) that override the defaults.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        Self::start_from(template::of_environment().as_deref(), settings)
    }

    fn start_from(template: Option<&Path>, settings: &[&str]) -> Result<Self, ServerError> {
        let programs = programs().ok_or(not_installed("Postgres"))?;
        let user = user()?;
        let folder = folder()?;
        let home = make_home(&folder, user.as_ref())?;
        let mut ports_left = PORT_ATTEMPTS;
        let base = SETTINGS.iter().chain(settings);
        let settings: Vec<String> = base.map(|setting| (*setting).to_owned()).collect();
        let environment = Environment {
            programs: &programs,
            folder: &home,
            user: user.as_ref(),
        };
        environment.make_data(template)?;
        loop {
            ports_left -= 1;
            let port = free_port()?;
            let started = environment.spawn(port, &settings);
            let (child, said) = started?;
            match environment.wait_until_ready(child, port) {
                Ok(child) => {
                    return Ok(Self {
                        child,
                        said: Mutex::new(said),
                        port,
                        version: environment.version(),
                        programs,
                        user,
                        settings,
                        folder,
                    });
                }
                Err(_) if ports_left > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a standby of this server. It is asynchronous unless the primary is configured otherwise.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn standby(&self) -> Result<Self, ServerError> {
        let folder = folder()?;
        let home = make_home(&folder, self.user.as_ref())?;
        let environment = Environment {
            programs: &self.programs,
            folder: &home,
            user: self.user.as_ref(),
        };
        let mut copy = environment.program("pg_basebackup");
        copy.args([
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            "--pgdata",
        ]);
        copy.arg(environment.data()).arg("--dbname").arg(self.url());
        ended_well(&mut copy, "could not copy the primary")?;
        let port = free_port()?;
        let (child, said) = environment.spawn(port, &self.settings)?;
        let child = environment.wait_until_ready(child, port)?;
        Ok(Self {
            child,
            said: Mutex::new(said),
            port,
            version: self.version.clone(),
            programs: self.programs.clone(),
            user: self.user.clone(),
            settings: self.settings.clone(),
            folder,
        })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join(HOME)
    }

    /// Returns whether the server is installed.
    pub fn is_installed() -> bool {
        programs().is_some()
    }

    /// Kills all processes of the server (SIGKILL) and waits until they are gone. Its data stay.
    pub fn crash(&mut self) {
        // Clients that lose a session reconnect at once. The main process must not fork another process for them, which would outlive it.
        let _ = self.child.signal(Signal::SIGSTOP);
        let processes = self.processes();
        let _ = self.signal(Signal::SIGKILL);
        let _ = self.child.wait(START_TIMEOUT);
        // Remaining processes would keep the data locked.
        let deadline = Instant::now() + START_TIMEOUT;
        while processes.iter().any(|&pid| is_there(pid)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns whether the main process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.status().is_some()
    }

    /// Starts the server again on the same port with the same data, and waits until it accepts connections. Kills it first if it still
    /// runs.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.crash();
        let environment = Environment {
            programs: &self.programs,
            folder: &self.home(),
            user: self.user.as_ref(),
        };
        let (child, said) = environment.spawn(self.port, &self.settings)?;
        let child = environment.wait_until_ready(child, self.port)?;
        self.said = Mutex::new(said);
        self.child = child;
        Ok(())
    }

    /// Returns the address for clients, with user and database.
    pub fn url(&self) -> String {
        format!("postgres://fencepost@{}/postgres", self.address())
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the version, such as `15.14`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the id of the main process; the others are its children.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Sends a signal to all processes of the server. After `SIGSTOP`, waits until they are stopped, for some seconds at most.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let to_all = || {
            // The main process comes last, in case it notices that its children die and starts others.
            for pid in self.processes().into_iter().skip(1) {
                // It does not matter if it is gone already.
                let _ = kill(Pid::from_raw(pid), signal);
            }
            self.child.signal(signal)
        };
        to_all()?;
        if signal == Signal::SIGSTOP {
            // Repeat: the main process may have forked a child in between.
            let is_silent = || (to_all().is_ok() && self.is_stopped()).then_some(());
            poll(TO_STOP, is_silent);
        }
        Ok(())
    }

    /// Returns whether all of its processes are stopped.
    pub fn is_stopped(&self) -> bool {
        // A child that ended stays a zombie, because its parent is stopped, too.
        let is_silent = |pid| {
            let process = Pid::from_raw(pid);
            has_ended(process) || is_stopped(process)
        };
        self.processes().into_iter().all(is_silent)
    }

    /// Returns the main process and its children, which leave its process group.
    fn processes(&self) -> Vec<i32> {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let first = self.child.pid();
        let children = pids.filter(|&pid| parent_of(pid) == Some(first));
        std::iter::once(first).chain(children).collect()
    }

    /// Returns a `psql` command to which `-c` can be added: unaligned, without headers, stopping at the first error.
    pub fn psql(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d"]);
        command.arg(self.url()).current_dir(self.home());
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The server's immediate shutdown: disconnects all clients and leaves no shared memory behind.
        let _ = self.signal(Signal::SIGCONT);
        let _ = self.child.signal(Signal::SIGINT);
        let _ = self.child.wait(START_TIMEOUT);
    }
}

/// Returns the parent's id: the field after the name in parentheses and the state.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

fn is_there(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

/// How to run the programs of Postgres: in which version, on which data, as which user.
struct Environment<'a> {
    programs: &'a Path,
    folder: &'a Path,
    user: Option<&'a User>,
}

impl Environment<'_> {
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.folder).stdin(Stdio::null());
        self.run_as_its_user(&mut command);
        command
    }

    fn run_as_its_user(&self, command: &mut Command) {
        if let Some(user) = self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Creates the data folder, from the template if there is one.
    fn make_data(&self, template: Option<&Path>) -> Result<(), ServerError> {
        match template.map(|template| self.copy_data(template)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => {
                // `initdb` refuses a folder with half a copy, and would hide why the copy failed.
                let _ = std::fs::remove_dir_all(self.data());
                self.compute_data()
            }
            None => self.compute_data(),
        }
    }

    fn compute_data(&self) -> Result<(), ServerError> {
        let mut making = self.program("initdb");
        making
            .args(["--auth=trust", "--username=fencepost", "--encoding=UTF8"])
            .args(["--locale=C", "--no-sync", "--pgdata"])
            .arg(self.data());
        ended_well(&mut making, "could not create the data folder")
    }

    fn spawn(&self, port: u16, settings: &[String]) -> io::Result<(Child, Feed)> {
        let mut server = self.program("postgres");
        server.args(["-p", &port.to_string(), "-D"]);
        server.arg(self.data());
        for setting in settings {
            server.args(["-c", setting]);
        }
        let (said, sender) = feed();
        Ok((Child::spawn(server, 0, &sender)?, said))
    }

    /// Waits until the server accepts connections, with `pg_isready`, because it listens before it accepts them.
    fn wait_until_ready(&self, mut child: Child, port: u16) -> Result<Child, ServerError> {
        let mut asking = self.program("pg_isready");
        asking.args(["--quiet", "--host=127.0.0.1"]);
        asking.arg(format!("--port={port}"));
        let deadline = Instant::now() + START_TIMEOUT;
        while child.status().is_none() && Instant::now() < deadline {
            if asking.status().is_ok_and(|status| status.success()) && child.status().is_none() {
                return Ok(child);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(ServerError::NotRunning {
            program: self.programs.join("postgres"),
            what: "it does not run".to_owned(),
            last_words: child.last_words(),
        })
    }

    /// Returns the number in `postgres (PostgreSQL) 15.14 (Debian …)`.
    fn version(&self) -> String {
        let said = self.program("postgres").arg("--version").output();
        let said = said.map_or(String::new(), |output| {
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let version = said.split_whitespace().find(number);
        version.unwrap_or_default().to_owned()
    }
}

/// Runs a program of Postgres and checks that it succeeds.
fn ended_well(command: &mut Command, otherwise: &str) -> Result<(), ServerError> {
    let ended = command.output()?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(ServerError::NotRunning {
        program: PathBuf::from(command.get_program()),
        what: otherwise.to_owned(),
        last_words: said.lines().map(str::to_owned).collect(),
    })
}

fn not_installed(what: &'static str) -> ServerError {
    ServerError::NotInstalled {
        what,
        install: INSTALL,
    }
}

/// Returns the folder of the newest version in Debian's layout, which is not in PATH.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let number = |folder: &PathBuf| {
        let version = folder.parent()?.file_name()?.to_str()?;
        version.parse::<u32>().ok()
    };
    folders
        .filter(|folder| folder.join("initdb").exists())
        .max_by_key(number)
}

/// Returns the user for the server, which refuses to run as root, or `None` if we are not root; then the server runs as our user.
fn user() -> Result<Option<User>, ServerError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let found = User::from_name("postgres").map_err(io::Error::from)?;
    found
        .map(Some)
        .ok_or(not_installed("the user postgres (it must not run as root)"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ask(server: &Postgres, sql: &str) -> String {
        let output = server.psql().args(["-c", sql]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn it_keeps_its_data_over_a_crash_and_goes_with_its_owner() {
        let mut server = Postgres::start().unwrap();
        assert!(!server.version().is_empty());
        ask(&server, "create table t as select 7 as x");
        server.restart().unwrap();
        assert_eq!(ask(&server, "select x from t"), "7");
        let (pid, folder) = (server.pid(), server.folder.path().to_owned());
        drop(server);
        assert!(!folder.exists());
        assert!(!is_there(pid));
    }
}

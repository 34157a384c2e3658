//! A private etcd server for tests and trials, alone or as a member of a cluster.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::child::Child;
use crate::feed::{Feed, feed};
use crate::folder::{TempDir, folder};
use crate::server::{START_TIMEOUT, ServerError, free_port};

mod cluster;

pub use cluster::EtcdCluster;

const INSTALL: &str = "apt-get install etcd-server etcd-client";
/// How often to try other ports if another process takes one of the chosen ones first.
const PORT_ATTEMPTS: u32 = 5;
/// How long a server may take to answer a health check.
const ANSWER: Duration = Duration::from_secs(2);

/// A private etcd server on free ports of this machine, alone or as a member of an [`EtcdCluster`].
///
/// It does not fsync: its data survive a crash of the server, but not of the machine. Dropping it kills it and removes its folder; it also
/// dies with the *thread* that started it (see [`Child::spawn`]).
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    said: Mutex<Feed>,
    ports: Ports,
    program: PathBuf,
    arguments: Vec<String>,
    // Declared after the child, so that the folder is removed when the server no longer uses it.
    folder: TempDir,
}

/// Settings for a private server; created by [`Etcd::builder`].
#[derive(Debug, Clone, Default)]
pub struct EtcdBuilder {
    arguments: Vec<String>,
    is_tls: bool,
}

impl EtcdBuilder {
    /// Adds arguments, such as `["--quota-backend-bytes=1000000"]`.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let arguments = arguments.into_iter().map(str::to_owned);
        self.arguments.extend(arguments);
        self
    }

    /// Makes clients use TLS; set the certificate with [`arguments`](Self::arguments).
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.is_tls = true;
        self
    }

    /// Starts the server; see [`Etcd::start`].
    ///
    /// # Errors
    /// Returns the same errors as [`Etcd::start`].
    pub fn start(&self) -> Result<Etcd, ServerError> {
        let mut members = self.start_members(1)?;
        Ok(members.remove(0))
    }

    /// Starts a cluster; see [`EtcdCluster::start`].
    ///
    /// # Errors
    /// Returns the same errors as [`EtcdCluster::start`].
    pub fn start_cluster(&self, members: usize) -> Result<EtcdCluster, ServerError> {
        Ok(EtcdCluster::of(self.start_members(members)?))
    }

    fn start_members(&self, count: usize) -> Result<Vec<Etcd>, ServerError> {
        let program = find("etcd").ok_or(not_installed("etcd"))?;
        let mut left = PORT_ATTEMPTS;
        loop {
            left -= 1;
            match self.start_on_free_ports(&program, count) {
                Err(ServerError::NotRunning { .. }) if left > 0 => {}
                started => return started,
            }
        }
    }

    fn start_on_free_ports(&self, program: &Path, count: usize) -> Result<Vec<Etcd>, ServerError> {
        let ports: Vec<Ports> = (0..count)
            .map(|_| Ports::free())
            .collect::<io::Result<_>>()?;
        let peers: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(number, ports)| format!("m{number}=http://127.0.0.1:{}", ports.peer))
            .collect();
        let peers = peers.join(",");
        let mut members = Vec::new();
        for (number, ports) in ports.into_iter().enumerate() {
            let mut arguments = ports.arguments(number, self.is_tls);
            arguments.push(format!("--initial-cluster={peers}"));
            arguments.extend(self.arguments.iter().cloned());
            let folder = folder()?;
            let (child, said) = spawn(program, &arguments, folder.path())?;
            members.push(Etcd {
                child,
                said: Mutex::new(said),
                ports,
                program: program.to_owned(),
                arguments,
                folder,
            });
        }
        for member in &mut members {
            member.wait_until_ready()?;
        }
        Ok(members)
    }
}

/// The ports of one server.
#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    peer: u16,
    /// For health checks, without TLS and password, whatever clients need.
    health: u16,
}

impl Ports {
    fn free() -> io::Result<Self> {
        Ok(Self {
            client: free_port()?,
            peer: free_port()?,
            health: free_port()?,
        })
    }

    fn arguments(self, number: usize, is_tls: bool) -> Vec<String> {
        let Self {
            client,
            peer,
            health,
        } = self;
        let scheme = if is_tls { "https" } else { "http" };
        vec![
            format!("--name=m{number}"),
            "--data-dir=data".to_owned(),
            format!("--listen-client-urls={scheme}://127.0.0.1:{client}"),
            format!("--advertise-client-urls={scheme}://127.0.0.1:{client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--listen-metrics-urls=http://127.0.0.1:{health}"),
            "--unsafe-no-fsync".to_owned(),
            "--logger=zap".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }
}

impl Etcd {
    /// Starts a single server and waits until it is ready.
    ///
    /// Call this from a thread that lives as long as the server is needed, because the server dies with that thread.
    ///
    /// # Errors
    /// Returns a [`ServerError`] that says why the server could not be started; nothing is left behind then.
    pub fn start() -> Result<Self, ServerError> {
        Self::builder().start()
    }

    /// Returns a builder for a server with special settings.
    pub fn builder() -> EtcdBuilder {
        EtcdBuilder::default()
    }

    /// Returns whether the server and its client `etcdctl` are installed.
    pub fn is_installed() -> bool {
        find("etcd").is_some() && find("etcdctl").is_some()
    }

    /// Kills the server (SIGKILL) and waits until it is gone. Its data stay.
    pub fn crash(&mut self) {
        // It does not matter if it is gone already.
        let _ = self.child.signal(Signal::SIGKILL);
        let _ = self.child.wait(START_TIMEOUT);
    }

    /// Returns whether the server process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.status().is_some()
    }

    /// Starts the server again on the same ports with the same data. Kills it first if it still runs. Does not wait until it is ready.
    ///
    /// # Errors
    /// Returns the system's error if the server cannot be started.
    pub fn respawn(&mut self) -> io::Result<()> {
        self.crash();
        let (child, said) = spawn(&self.program, &self.arguments, self.folder.path())?;
        self.child = child;
        self.said = Mutex::new(said);
        Ok(())
    }

    /// Calls [`respawn`](Self::respawn) and waits until the server is ready.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.respawn()?;
        self.wait_until_ready()
    }

    /// Waits until the server is ready, which takes a leader and, in a cluster, a majority.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn wait_until_ready(&mut self) -> Result<(), ServerError> {
        let deadline = Instant::now() + START_TIMEOUT;
        while self.child.status().is_none() && Instant::now() < deadline {
            if self.is_serving() && self.child.status().is_none() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let what = match self.child.status() {
            Some(status) => format!("ended with {status}"),
            None => format!("does not serve after {} s", START_TIMEOUT.as_secs()),
        };
        Err(ServerError::NotRunning {
            program: self.program.clone(),
            what,
            last_words: self.child.last_words(),
        })
    }

    /// Returns whether the server reports that it is healthy.
    pub fn is_serving(&self) -> bool {
        let health = self.ask("/health");
        health.is_ok_and(|health| health.contains(r#""health":"true""#))
    }

    /// Returns whether the server reports that it leads.
    pub fn is_leader(&self) -> bool {
        let metrics = self.ask("/metrics");
        metrics.is_ok_and(|all| all.lines().any(|line| line == "etcd_server_is_leader 1"))
    }

    fn ask(&self, path: &str) -> io::Result<String> {
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, self.ports.health).into();
        let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Returns the address for our store: `etcd://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("etcd://{}", self.address())
    }

    /// Returns the address on which the server listens for clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.client).into()
    }

    /// Returns the address on which the server answers plain HTTP requests for its health.
    pub fn health_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.health).into()
    }

    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Sends a signal to the server: SIGSTOP makes it silent.
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

    /// Returns an `etcdctl` command with the address of this server.
    pub fn etcdctl(&self) -> Command {
        etcdctl(&[self.address()])
    }
}

fn etcdctl(addresses: &[SocketAddr]) -> Command {
    let endpoints: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut command = Command::new("etcdctl");
    command
        .env("ETCDCTL_API", "3")
        .arg(format!("--endpoints={}", endpoints.join(",")))
        .stdin(Stdio::null());
    command
}

fn spawn(program: &Path, arguments: &[String], folder: &Path) -> io::Result<(Child, Feed)> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let (said, sender) = feed();
    Ok((Child::spawn(command, 0, &sender)?, said))
}

fn not_installed(what: &'static str) -> ServerError {
    ServerError::NotInstalled {
        what,
        install: INSTALL,
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_server_answers_and_keeps_its_data_across_a_crash() {
        let mut server = Etcd::start().unwrap();
        assert_eq!(run(server.etcdctl().args(["put", "a", "1"])), "OK\n");
        server.crash();
        assert!(!server.is_serving());
        server.restart().unwrap();
        assert_eq!(run(server.etcdctl().args(["get", "a"])), "a\n1\n");
    }

    #[test]
    fn a_setting_that_is_none_is_reported_with_what_the_server_said() {
        let error = Etcd::builder().arguments(["--election-timeout=1"]).start();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("--election-timeout"), "{error}");
    }
}

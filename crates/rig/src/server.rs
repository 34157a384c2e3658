//! What all kinds of private servers share: the error type and the choice of a port.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may take to answer after its start.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the first of these programs in PATH.
pub(crate) fn installed(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut places = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.find(|place| is_executable(place))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Why a private server could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is not installed.
    NotInstalled {
        /// What was looked for.
        what: &'static str,
        /// How to install it.
        install: &'static str,
    },
    /// The server ended, or did not answer in time.
    NotRunning {
        /// Which program.
        program: PathBuf,
        /// What happened.
        what: String,
        /// The last lines it wrote.
        last_words: Vec<String>,
    },
    /// The program answers, but not like the server that it should be.
    NotTheServer {
        /// Which program.
        program: PathBuf,
        /// What it answered.
        what: String,
    },
    /// The system refused a folder or a port.
    System(io::Error),
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotInstalled { what, install } => {
                write!(f, "{what} is not installed: {install}")
            }
            Self::NotRunning {
                program,
                what,
                last_words,
            } => {
                write!(f, "{}: {what}", program.display())?;
                if last_words.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; it said: {}", last_words.join(" / "))
                }
            }
            Self::NotTheServer { program, what } => write!(f, "{}: {what}", program.display()),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {}

impl From<io::Error> for ServerError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Ports below the ephemeral range, so that a server that is restarted finds its port still free.
const PORT_RANGE: Range<u16> = 20_000..32_000;
/// How many of these ports to try before asking the system for any port.
const TRIES: u32 = 50;

/// Returns a port that is free now. On Linux, this function gives the last 256 ports of a process to no other process while that one runs: a
/// server that is stopped finds its port free when it is started again. Programs that choose their ports in another way may still take it.
///
/// # Errors
/// Returns the system's error if there is no free port.
pub fn free_port() -> io::Result<u16> {
    let some = RandomState::new();
    for number in 0..TRIES {
        let many = some.hash_one(number) % u64::from(PORT_RANGE.end - PORT_RANGE.start);
        let port = PORT_RANGE.start + many as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && reservation::reserve(port) {
            return Ok(port);
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    reservation::reserve(port);
    Ok(port)
}

/// Ports that processes have reserved for their servers. Each is a socket without a file, which the system removes with its process.
#[cfg(target_os = "linux")]
mod reservation {
    use std::collections::VecDeque;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::sync::{Mutex, PoisonError};

    /// How many ports a process reserves. The oldest are given up first, so that a process that runs for long does not run out of files.
    const RESERVED_MAX: usize = 256;

    static RESERVED: Mutex<VecDeque<UnixListener>> = Mutex::new(VecDeque::new());

    /// Reserves the port. Returns whether nobody had it.
    pub(super) fn reserve(port: u16) -> bool {
        let name = SocketAddr::from_abstract_name(format!("fencepost-port-{port}"));
        let Ok(socket) = name.and_then(|name| UnixListener::bind_addr(&name)) else {
            return false;
        };
        let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.push_back(socket);
        if reserved.len() > RESERVED_MAX {
            reserved.pop_front();
        }
        true
    }
}

#[cfg(not(target_os = "linux"))]
mod reservation {
    /// Only Linux has sockets without a file.
    pub(super) fn reserve(_: u16) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_port_is_reserved_once() {
        let port = free_port().unwrap();
        assert!(!reservation::reserve(port));
    }
}

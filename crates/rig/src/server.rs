//! What all kinds of private servers share: the error type and the choice of a port.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may take to answer after its start.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

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

/// Returns a port that is free now. Another process may take it before the server binds it.
///
/// # Errors
/// Returns the system's error if there is no free port.
pub fn free_port() -> io::Result<u16> {
    let some = RandomState::new();
    for number in 0..TRIES {
        let many = some.hash_one(number) % u64::from(PORT_RANGE.end - PORT_RANGE.start);
        let port = PORT_RANGE.start + many as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

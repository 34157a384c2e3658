//! What private servers of any kind have in common.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may take until it answers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no private server.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// It is not on this machine.
    NotInstalled {
        /// What was looked for.
        what: &'static str,
        /// How to get it, for people.
        install: &'static str,
    },
    /// It ended, or did not answer in time.
    NotRunning {
        /// Which program.
        program: PathBuf,
        /// What happened.
        what: String,
        /// The last lines it wrote.
        last_words: Vec<String>,
    },
    /// The system's fault: no folder, no port.
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
                match last_words.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; it said: {}", last_words.join(" / ")),
                }
            }
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

/// Below those that systems give to whoever asks for any port: a server that is restarted finds its own still free.
const OURS: Range<u16> = 20_000..32_000;
/// How many of these are tried before the system is asked for any.
const TRIES: u32 = 50;

/// A port that is free now; whether it still is when a server gets there, only the server can tell.
///
/// # Errors
/// The system's, when no port is to be had.
pub fn free_port() -> io::Result<u16> {
    let some = RandomState::new();
    for number in 0..TRIES {
        let many = some.hash_one(number) % u64::from(OURS.end - OURS.start);
        let port = OURS.start + many as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

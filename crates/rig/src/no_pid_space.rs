//! What stands for a PID namespace on systems that have none.

use std::convert::Infallible;
use std::io;

/// A PID namespace, which cannot be made on this system.
#[derive(Debug)]
pub struct PidSpace(pub(crate) Infallible);

impl PidSpace {
    /// Fails.
    ///
    /// # Errors
    /// Returns that this system has no PID namespaces.
    pub fn open() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns why no program can be given a process id on this machine.
    pub fn lacks() -> Option<&'static str> {
        Some("needs Linux, to choose the process id of a program")
    }
}

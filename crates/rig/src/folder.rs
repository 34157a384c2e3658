//! Folders that vanish.

use std::io;

use tempfile::TempDir;

/// A new, empty folder in the system's place for temporary files, removed with all it holds when it is dropped.
///
/// It also vanishes on Ctrl-C in a program that uses [`Interrupt`](crate::Interrupt), and when the program panics; not when it is
/// killed with SIGKILL.
///
/// # Errors
/// The system's, when the folder cannot be made.
pub fn folder() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("fencepost-").tempdir()
}

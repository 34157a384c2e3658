//! What the doctor and the tests need from the SQLite store, beyond the public API.

use std::path::Path;

use super::{SqliteBuilder, file};

impl SqliteBuilder {
    /// Pretends that the machine was booted with this `id`, so that a test can simulate a reboot.
    pub fn boot_id(mut self, id: &str) -> Self {
        self.boot_id = Some(id.to_owned());
        self
    }
}

/// Returns the kind of the file system of `path` if locks must not lie there, because machines share it or its locks between processes are
/// unreliable. Returns `None` if it is suitable, or if its kind is unknown.
pub fn network_file_system(path: &Path) -> Option<&'static str> {
    file::network_file_system(path)
}

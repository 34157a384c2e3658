//! What the doctor and the tests need of this store.

use std::path::Path;

use super::{SqliteBuilder, file};

impl SqliteBuilder {
    /// Pretends that the machine was booted as `id`, so that a test can "reboot" it.
    #[must_use]
    pub fn boot_id(mut self, id: &str) -> Self {
        self.boot_id = Some(id.to_owned());
        self
    }
}

/// The kind of file system that `path` lies on, if locks must not lie there: it is shared by machines, or its locks between processes are
/// not reliable. `None` if nothing speaks against it, or it cannot be told.
pub fn network_file_system(path: &Path) -> Option<&'static str> {
    file::network_file_system(path)
}

//! [`SqliteBuilder`]: holds the settings, and opens the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::oneshot;

use super::settings::{Purpose, Settings};
use super::{STORE, Sqlite, boot, thread_gone, worker};
use crate::error::{Error, ErrorKind, Operation, Result};

/// The settings for opening a [`Sqlite`]; [`Sqlite::builder`] creates it.
#[derive(Debug, Clone)]
#[must_use]
pub struct SqliteBuilder {
    path: PathBuf,
    busy_timeout: Duration,
    first_epoch: Option<u64>,
    pub(super) boot_id: Option<String>,
}

impl SqliteBuilder {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            busy_timeout: Duration::from_secs(5),
            first_epoch: None,
            boot_id: None,
        }
    }

    /// Sets how long a request waits while another program keeps the file locked. The default is 5 s.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets the epoch of the first grant, at least 1, if the file is *created*. Has no effect on an existing file.
    ///
    /// If the file was lost and the system time cannot be trusted, pass a value larger than every epoch that a protected resource has seen.
    /// The default is the wall time since 2024 in units of 7.8125 µs.
    pub fn first_epoch(mut self, epoch: u64) -> Self {
        self.first_epoch = Some(epoch);
        self
    }

    /// Opens the file without blocking the runtime, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unusable`] if the file cannot hold locks (see the [module](crate::stores::sqlite)), [`ErrorKind::Unavailable`]
    /// if another program keeps it locked, and [`ErrorKind::InvalidInput`] if the path is empty.
    ///
    /// # Cancel safety
    /// If the future is dropped, the file is closed again. A file that was created stays.
    pub async fn open(self) -> Result<Sqlite> {
        self.open_for(Purpose::Lock).await
    }

    /// Opens the file only to look at its locks, with [`inspect`](crate::Backend::inspect) and [`list`](crate::Backend::list).
    ///
    /// Changes nothing: it creates no file and no table, and a file of version 1 stays as it is, so programs of that version can continue
    /// to use it. Acquiring, renewing and releasing a lock fail.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::Unavailable`] if the file does not exist.
    ///
    /// # Cancel safety
    /// If the future is dropped, the file is closed again.
    pub async fn open_read_only(self) -> Result<Sqlite> {
        self.open_for(Purpose::Look).await
    }

    /// Opens the file to release locks. Called through [`StoreAddress::open_to_release`](crate::stores::StoreAddress::open_to_release),
    /// which refuses to take locks.
    pub(super) async fn open_to_release(self) -> Result<Sqlite> {
        self.open_for(Purpose::Release).await
    }

    async fn open_for(self, purpose: Purpose) -> Result<Sqlite> {
        let (opened, answer) = oneshot::channel();
        let sqlite = self.start(purpose, |outcome| {
            // If nobody listens any more, the thread also sees that its requests have ended.
            let _ = opened.send(outcome);
        })?;
        answer
            .await
            .unwrap_or_else(|_| Err(thread_gone(Operation::Open)))?;
        Ok(sqlite)
    }

    /// Opens the file like [`open`](Self::open), but blocks the calling thread.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    pub fn open_blocking(self) -> Result<Sqlite> {
        let (opened, answer) = std::sync::mpsc::channel();
        let sqlite = self.start(Purpose::Lock, move |outcome| {
            let _ = opened.send(outcome);
        })?;
        answer
            .recv()
            .unwrap_or_else(|_| Err(thread_gone(Operation::Open)))?;
        Ok(sqlite)
    }

    fn start(
        self,
        purpose: Purpose,
        opened: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Sqlite> {
        let path = std::path::absolute(&self.path).map_err(|error| {
            Error::new(
                ErrorKind::InvalidInput,
                STORE,
                Operation::Open,
                format!("{:?} is not a path of a file", self.path),
            )
            .with_source(error)
        })?;
        let settings = Settings {
            path: path.clone(),
            busy_timeout: self.busy_timeout,
            first_epoch: self.first_epoch,
            boot: match self.boot_id {
                Some(id) => id,
                None => boot::current_id()?,
            },
            purpose,
        };
        let requests = worker::start(settings, opened)?;
        Ok(Sqlite { path, requests })
    }
}

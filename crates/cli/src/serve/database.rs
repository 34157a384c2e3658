//! The value of `--db`: the database for products and orders.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fencepost::stores::kinds::{POSTGRES, POSTGRES_TABLE, SQLITE};
use fencepost::stores::{StoreAddress, without_password};
#[cfg(feature = "postgres")]
use fencepost_checkout::storage::postgres::PostgresStorage;
use fencepost_checkout::storage::sqlite::SqliteStorage;
use fencepost_checkout::storage::{Storage, StorageError};

use crate::command_error::CommandError;
use crate::exit;
use crate::values::BadValue;

/// The value of `--db`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Database {
    File(PathBuf),
    Postgres(String),
}

impl Database {
    pub(super) fn parse(text: &str) -> Result<Self, BadValue> {
        let unknown = || BadValue {
            what: format!("there is no database '{}'", without_password(text)),
            advice: "--db FILE, or --db postgres://USER@HOST/DATABASE".into(),
        };
        let file = match text.parse::<StoreAddress>() {
            Ok(address) if [&POSTGRES, &POSTGRES_TABLE].contains(&address.kind()) => {
                return Self::postgres(text);
            }
            _ if text.contains("://") => return Err(unknown()),
            Ok(address) if *address.kind() != SQLITE => return Err(unknown()),
            Ok(address) => PathBuf::from(address.without_scheme()),
            Err(_) => PathBuf::from(text),
        };
        if file.as_os_str().is_empty() {
            return Err(unknown());
        }
        Ok(Self::File(file))
    }

    fn postgres(address: &str) -> Result<Self, BadValue> {
        check_address(address)?;
        Ok(Self::Postgres(address.to_owned()))
    }

    /// Returns the address or path, without a password.
    pub(super) fn place(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Postgres(address) => without_password(address),
        }
    }

    pub(super) async fn open(&self) -> Result<Arc<dyn Storage>, CommandError> {
        match self {
            Self::File(path) => self.open_file(path),
            Self::Postgres(address) => self.open_postgres(address).await,
        }
    }

    fn open_file(&self, path: &Path) -> Result<Arc<dyn Storage>, CommandError> {
        match SqliteStorage::open(path) {
            Ok(storage) => Ok(Arc::new(storage)),
            Err(error) => Err(self.command_error(&error)),
        }
    }

    #[cfg(feature = "postgres")]
    async fn open_postgres(&self, address: &str) -> Result<Arc<dyn Storage>, CommandError> {
        match PostgresStorage::open(address).await {
            Ok(storage) => Ok(Arc::new(storage)),
            Err(error) => Err(self.command_error(&error)),
        }
    }

    #[cfg(not(feature = "postgres"))]
    async fn open_postgres(&self, _address: &str) -> Result<Arc<dyn Storage>, CommandError> {
        let words = "this program was built without Postgres";
        Err(self.command_error(&StorageError::Unavailable(words.into())))
    }

    pub(super) fn command_error(&self, error: &StorageError) -> CommandError {
        let (code, what, advice) = match (self, error) {
            (Self::File(_), StorageError::Broken(_)) => (
                exit::CANNOT_CREATE,
                "cannot use the file as a database",
                "--db FILE: an SQLite database, or a file that does not exist yet",
            ),
            (Self::File(path), _) if path.is_dir() => (
                exit::CANNOT_CREATE,
                "cannot open the database",
                "--db FOLDER/shop.db: this is a folder, but the database is a file, which is created if it does not exist",
            ),
            (Self::File(_), _) => (
                exit::CANNOT_CREATE,
                "cannot open the database",
                "--db FILE in a folder that this user may write to",
            ),
            (Self::Postgres(_), _) => (
                exit::STORE,
                "cannot use the database",
                "start Postgres there · --db postgres://USER:PASSWORD@HOST/DATABASE · no --db for a file",
            ),
        };
        CommandError::new(code, what)
            .at(format_args!("{}: {error}", self.place()))
            .effect("nothing is served")
            .try_this(advice)
    }
}

#[cfg(feature = "postgres")]
fn check_address(address: &str) -> Result<(), BadValue> {
    PostgresStorage::check_address(address).map_err(|error| BadValue {
        what: format!(
            "the address of the database is invalid: {}",
            error.message()
        ),
        advice: "--db postgres://USER:PASSWORD@HOST/DATABASE · no --db for a file".into(),
    })
}

#[cfg(not(feature = "postgres"))]
fn check_address(_address: &str) -> Result<(), BadValue> {
    Err(BadValue {
        what: "this program was built without Postgres".into(),
        advice: format!("{} · or --db FILE", crate::store::WITH_ALL_STORES),
    })
}

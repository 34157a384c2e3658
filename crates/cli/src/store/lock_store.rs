//! The value of `--store` for `exec`, `locks`, `doctor` and `serve`: a permanent file, or the address of servers that already run.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::kinds::SQLITE;
use fencepost::stores::sqlite::Sqlite;
use fencepost::stores::{KINDS, StoreAddress, StoreKind, without_password};
use fencepost::{Backend, Error, ErrorKind};

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::values::BadValue;
use crate::wording::seconds;
use fencepost_trial::store::TrialStore;
use fencepost_trial::text::shell_word;

/// The value of `--store` for commands that use locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockStore {
    /// A file shared by the processes of this machine; `None` for this user's default file.
    Sqlite(Option<PathBuf>),
    /// Servers at this address.
    Address(StoreAddress),
}

/// Why a store cannot be used, in words that fit into a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotOpened {
    /// The address, without its password.
    pub(crate) place: String,
    /// The reason.
    pub(crate) words: String,
    /// The exit code. It tells an invalid address from a store that is unavailable.
    pub(crate) code: u8,
    advice: Cow<'static, str>,
}

const SQLITE_ADVICE: &str = "--store sqlite:PATH for another file";

impl LockStore {
    pub(crate) fn parse(text: &str) -> Result<Self, BadValue> {
        if text == "sqlite" {
            return Ok(Self::Sqlite(None));
        }
        if let Some(store) = TrialStore::named(text).filter(TrialStore::is_private) {
            return Err(private(text, store.kind()));
        }
        match text.parse::<StoreAddress>() {
            Ok(address) if *address.kind() != SQLITE => {
                is_built_in(&address)?;
                Ok(Self::Address(address))
            }
            Ok(file) if !file.without_scheme().is_empty() => {
                Ok(Self::Sqlite(Some(file.without_scheme().into())))
            }
            _ => Err(BadValue {
                what: format!(
                    "there is no store '{}' in this version",
                    without_password(text)
                ),
                advice: format!(
                    "--store sqlite: a file of yours · sqlite:PATH: any file · {}",
                    known_addresses()
                ),
            }),
        }
    }

    /// Returns the address or path, without a password.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(_) => match self.file() {
                Some(path) => path.display().to_string(),
                None => "sqlite".to_owned(),
            },
            Self::Address(address) => address.to_string(),
        }
    }

    /// Returns the path, if the store is a file.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Sqlite(path) => path.clone().or_else(own_file),
            Self::Address(_) => None,
        }
    }

    /// Returns the `--store` flag that makes another command use this store, with a leading space; empty if the command would use it
    /// anyway.
    pub(crate) fn flag(&self) -> String {
        let usual = std::env::var("FENCEPOST_STORE").ok();
        let usual = usual.and_then(|text| Self::parse(&text).ok());
        if *self == usual.unwrap_or(Self::Sqlite(None)) {
            return String::new();
        }
        let typed = match self {
            Self::Sqlite(None) => "sqlite".to_owned(),
            Self::Sqlite(Some(path)) => format!("sqlite:{}", path.display()),
            Self::Address(address) => address.to_string(),
        };
        format!(" --store {}", shell_word(&typed))
    }

    /// Opens the store for locks of this TTL. Creates the file if it does not exist.
    pub(crate) async fn open_with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Backend>, NotOpened> {
        match self {
            Self::Sqlite(path) => {
                let file: Arc<dyn Backend> = self.open_or_make(path.as_deref()).await?;
                Ok(file)
            }
            Self::Address(address) => {
                let opened = address.open_with_ttl(ttl.max(fencepost::DEFAULT_TTL)).await;
                opened.map_err(|error| NotOpened::new(self, &error))
            }
        }
    }

    /// Opens the file, and creates it if it does not exist. `None` if the store is a server.
    pub(crate) async fn open_sqlite(&self) -> Result<Option<Arc<Sqlite>>, NotOpened> {
        match self {
            Self::Sqlite(path) => self.open_or_make(path.as_deref()).await.map(Some),
            Self::Address(_) => Ok(None),
        }
    }

    async fn open_or_make(&self, given: Option<&Path>) -> Result<Arc<Sqlite>, NotOpened> {
        let path = self.path(given)?;
        if let Some(folder) = path.parent().filter(|_| self == &Self::Sqlite(None)) {
            std::fs::create_dir_all(folder).map_err(|error| self.failed(&error))?;
        }
        self.open_file(&path).await
    }

    /// Opens the store without changing it. `None` if there is no file, and so there are no locks.
    pub(crate) async fn open_read_only(&self) -> Result<Option<Arc<dyn Backend>>, NotOpened> {
        match self {
            Self::Sqlite(path) => {
                let path = self.path(path.as_deref())?;
                if !self.exists(&path)? {
                    return Ok(None);
                }
                match Sqlite::builder(&path).open_read_only().await {
                    Ok(file) => Ok(Some(Arc::new(file))),
                    Err(error) => Err(NotOpened::new(self, &error)),
                }
            }
            Self::Address(address) => match address.open_read_only().await {
                Ok(store) => Ok(Some(store)),
                Err(error) => Err(NotOpened::new(self, &error)),
            },
        }
    }

    /// Opens the store to release a lock by force. `None` if there is no file, and so there are no locks.
    pub(crate) async fn open_to_release(&self) -> Result<Option<Arc<dyn Backend>>, NotOpened> {
        match self {
            Self::Sqlite(path) if !self.exists(&self.path(path.as_deref())?)? => Ok(None),
            Self::Sqlite(_) => self.open_with_ttl(fencepost::DEFAULT_TTL).await.map(Some),
            Self::Address(address) => match address.open_to_release().await {
                Ok(store) => Ok(Some(store)),
                Err(error) => Err(NotOpened::new(self, &error)),
            },
        }
    }

    fn exists(&self, file: &Path) -> Result<bool, NotOpened> {
        file.try_exists().map_err(|error| self.failed(&error))
    }

    async fn open_file(&self, path: &Path) -> Result<Arc<Sqlite>, NotOpened> {
        let opened = Sqlite::open(path).await;
        let sqlite = opened.map_err(|error| NotOpened::new(self, &error))?;
        Ok(Arc::new(sqlite))
    }

    /// Returns the given path, or this user's default file.
    pub(crate) fn path(&self, given: Option<&Path>) -> Result<PathBuf, NotOpened> {
        let path = given.map(Path::to_owned).or_else(own_file);
        path.ok_or_else(|| NotOpened {
            place: self.place(),
            words: "neither XDG_STATE_HOME nor HOME is set".to_owned(),
            code: exit::STORE,
            advice: SQLITE_ADVICE.into(),
        })
    }

    fn failed(&self, error: &std::io::Error) -> NotOpened {
        NotOpened {
            place: self.place(),
            words: system_words(error),
            code: exit::STORE,
            advice: SQLITE_ADVICE.into(),
        }
    }
}

impl NotOpened {
    /// Creates the reason for a request that failed after the store was opened.
    pub(crate) fn new(store: &LockStore, error: &Error) -> Self {
        Self {
            place: store.place(),
            words: match error.kind() {
                ErrorKind::Timeout => {
                    let look = format!("fencepost doctor{} may say why", store.flag());
                    format!("{}; {look}", error.message())
                }
                _ => error.message().to_owned(),
            },
            code: match error.kind() {
                ErrorKind::InvalidInput | ErrorKind::Unsupported => exit::USAGE,
                _ => exit::STORE,
            },
            advice: advice(store, error.kind()),
        }
    }

    /// Creates the reason for a store that did not answer for this long after it was opened.
    pub(crate) fn silent(store: &LockStore, timeout: Duration) -> Self {
        Self {
            place: store.place(),
            words: format!("it did not answer for {}", seconds(timeout)),
            code: exit::STORE,
            advice: advice(store, ErrorKind::Unavailable),
        }
    }

    pub(crate) fn command_error(&self) -> CommandError {
        self.command_error_with("none", &self.advice)
    }

    /// Returns the error message if the command had already begun: `effect` says what it may have changed.
    pub(crate) fn command_error_with(&self, effect: &str, advice: &str) -> CommandError {
        CommandError::new(self.code, "cannot use the store")
            .at(format_args!("{}: {}", self.place, self.words))
            .effect(effect)
            .try_this(advice)
    }
}

fn advice(store: &LockStore, kind: ErrorKind) -> Cow<'static, str> {
    let LockStore::Address(address) = store else {
        return SQLITE_ADVICE.into();
    };
    let store = address.kind();
    match kind {
        ErrorKind::Unavailable => {
            format!("start {} there · no --store for sqlite", store.server).into()
        }
        _ => format!("--store {} · no --store for sqlite", store.address_form).into(),
    }
}

/// Refuses the name of a private server, which only the lab starts.
fn private(name: &str, kind: &StoreKind) -> BadValue {
    BadValue {
        what: format!(
            "--store {name} would start a private server, which no other process could use"
        ),
        advice: format!(
            "--store {} for one you run · no --store for sqlite",
            kind.address_form
        ),
    }
}

fn is_built_in(address: &StoreAddress) -> Result<(), BadValue> {
    let scheme = address.scheme();
    if scheme.is_built_in {
        return Ok(());
    }
    Err(BadValue {
        what: format!("this program was built without {}", scheme.prefix),
        advice: "build it with --features full, which brings all stores (etcd needs protoc) · no --store for sqlite"
            .into(),
    })
}

/// Returns the prefixes of the server addresses that this program supports.
fn known_addresses() -> String {
    let servers = KINDS.iter().filter(|kind| ***kind != SQLITE);
    let schemes = servers.filter_map(|kind| kind.schemes.first());
    let known = schemes.filter(|scheme| scheme.is_built_in);
    let mut forms: Vec<String> = known
        .map(|scheme| format!("{}HOST", scheme.prefix))
        .collect();
    forms.dedup();
    forms.join(" · ")
}

/// Returns the default file of this user. It is not in a temporary folder, because its fence counter must survive a reboot.
fn own_file() -> Option<PathBuf> {
    let folder = |name, rest: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value
            .filter(|path| path.is_absolute())
            .map(|path| path.join(rest))
    };
    folder("XDG_STATE_HOME", "fencepost/locks.db")
        .or_else(|| folder("HOME", ".local/state/fencepost/locks.db"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "etcd")]
    #[test]
    fn etcd_is_reached_with_tls_too() {
        let address = "etcds://ci:p@a,b";
        let parsed = LockStore::parse(address).unwrap();
        assert_eq!(parsed, LockStore::Address(address.parse().unwrap()));
        assert_eq!(parsed.place(), "etcds://ci:***@a,b");
    }

    #[test]
    fn advice_can_be_followed() {
        let advice = LockStore::parse("redlock").unwrap_err().advice;
        assert!(advice.starts_with("--store redlock://[USER:PASSWORD@]HOST,HOST,HOST"));
    }

    #[test]
    fn a_store_of_locks_is_a_file_or_an_address() {
        assert_eq!(LockStore::parse("sqlite"), Ok(LockStore::Sqlite(None)));
        let file = LockStore::Sqlite(Some("/srv/my locks.db".into()));
        assert_eq!(LockStore::parse("sqlite:/srv/my locks.db"), Ok(file));
        for address in [
            "redis://cache",
            "rediss://u:p@cache:6380/2",
            "unix:/run/redis.sock",
        ] {
            let parsed = LockStore::parse(address).unwrap();
            assert_eq!(parsed, LockStore::Address(address.parse().unwrap()));
            assert!(!parsed.place().contains(":p@"), "{}", parsed.place());
        }
        for refused in ["redis", "etcd", "sqlite:", "mysql://u:hunter2@h", ""] {
            let error = LockStore::parse(refused).unwrap_err();
            assert!(!error.what.contains("hunter2"), "{}", error.what);
        }
    }
}

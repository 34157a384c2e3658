//! The store of `exec`, `locks` and `doctor`: a file that stays, or a server that somebody runs.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, Error, ErrorKind};

use crate::arguments::{BadValue, without_password};
use crate::exit;
use crate::fault::Fault;
use crate::server::Server;
use crate::wording::{seconds, shell_word};

/// What `--store` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockStore {
    /// A file shared by the processes of this machine; without a path, that of this user.
    Sqlite(Option<PathBuf>),
    /// A server at this address.
    Address(String),
}

/// A store that cannot be used, in words that fit into a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotOpened {
    /// Where, fit to be shown.
    pub(crate) place: String,
    /// Why.
    pub(crate) words: String,
    /// What the program ends with: an address that can never work is not a store that is away.
    pub(crate) code: u8,
    advice: Cow<'static, str>,
}

const SQLITE_ADVICE: &str = "--store sqlite:PATH for another file";

impl LockStore {
    pub(crate) fn parse(text: &str) -> Result<Self, BadValue> {
        if let Some(server) = Server::of(text) {
            server.is_built_in()?;
            return Ok(Self::Address(text.to_owned()));
        }
        match text {
            "sqlite" => Ok(Self::Sqlite(None)),
            "redis" | "redlock" | "postgres" | "etcd" | "zk" => Err(BadValue {
                what: format!(
                    "--store {text} is a private server, which nobody else could ask for a lock"
                ),
                advice: format!(
                    "--store {text}://{} for one you run · no --store for sqlite",
                    if text == "redlock" {
                        "HOST,HOST,HOST"
                    } else {
                        "HOST"
                    }
                ),
            }),
            _ => match text.strip_prefix("sqlite:") {
                Some(path) if !path.is_empty() => Ok(Self::Sqlite(Some(path.into()))),
                _ => Err(BadValue {
                    what: format!(
                        "there is no store '{}' in this version",
                        without_password(text)
                    ),
                    advice: format!(
                        "--store sqlite: a file of yours · sqlite:PATH: any file · {}",
                        Server::shown()
                    ),
                }),
            },
        }
    }

    /// Where this is, fit to be shown.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(_) => match self.file() {
                Some(path) => path.display().to_string(),
                None => "sqlite".to_owned(),
            },
            Self::Address(address) => without_password(address),
        }
    }

    /// Its file, if it is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Sqlite(path) => path.clone().or_else(own_file),
            Self::Address(_) => None,
        }
    }

    /// What makes another command look here, to be put behind it: nothing where it would anyway.
    pub(crate) fn flag(&self) -> String {
        let usual = std::env::var("FENCEPOST_STORE").ok();
        let usual = usual.and_then(|text| Self::parse(&text).ok());
        if *self == usual.unwrap_or(Self::Sqlite(None)) {
            return String::new();
        }
        let typed = match self {
            Self::Sqlite(None) => "sqlite".to_owned(),
            Self::Sqlite(Some(path)) => format!("sqlite:{}", path.display()),
            Self::Address(address) => without_password(address),
        };
        format!(" --store {}", shell_word(&typed))
    }

    /// Opens the store for locks of this TTL; a file is made where none is.
    pub(crate) async fn open_for(&self, ttl: Duration) -> Result<Arc<dyn Backend>, NotOpened> {
        match self {
            // Its locks end with the session, which must not be shorter.
            #[cfg(feature = "zookeeper")]
            Self::Address(address) if address.starts_with("zk://") => {
                let builder = fencepost::stores::zookeeper::Zookeeper::builder(address);
                let session = ttl.max(fencepost::DEFAULT_TTL);
                match builder.session_timeout(session).open().await {
                    Ok(store) => Ok(Arc::new(store)),
                    Err(error) => Err(NotOpened::new(self, &error)),
                }
            }
            _ => {
                let _ = ttl;
                self.open().await
            }
        }
    }

    /// Opens the store; a file is made where none is.
    async fn open(&self) -> Result<Arc<dyn Backend>, NotOpened> {
        match self {
            Self::Sqlite(path) => {
                let file: Arc<dyn Backend> = self.open_or_make(path.as_deref()).await?;
                Ok(file)
            }
            Self::Address(address) => {
                let opened = fencepost::stores::open(address).await;
                opened.map_err(|error| NotOpened::new(self, &error))
            }
        }
    }

    /// Opens the file, making it where none is. `None`: the store is a server.
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

    /// Opens the store to look at it, without changing it. `None`: there is no file, so there are no locks.
    pub(crate) async fn open_to_look(&self) -> Result<Option<Arc<dyn Backend>>, NotOpened> {
        match self {
            Self::Sqlite(path) => {
                let path = self.path(path.as_deref())?;
                if !self.exists(&path)? {
                    return Ok(None);
                }
                match Sqlite::builder(&path).open_to_look().await {
                    Ok(file) => Ok(Some(Arc::new(file))),
                    Err(error) => Err(NotOpened::new(self, &error)),
                }
            }
            Self::Address(address) => match fencepost::stores::open_to_look(address).await {
                Ok(store) => Ok(Some(store)),
                Err(error) => Err(NotOpened::new(self, &error)),
            },
        }
    }

    /// Opens the store if it is there. `None`: there is no file, so there are no locks.
    pub(crate) async fn open_existing(&self) -> Result<Option<Arc<dyn Backend>>, NotOpened> {
        if let Self::Sqlite(path) = self
            && !self.exists(&self.path(path.as_deref())?)?
        {
            return Ok(None);
        }
        self.open().await.map(Some)
    }

    fn exists(&self, file: &Path) -> Result<bool, NotOpened> {
        file.try_exists().map_err(|error| self.failed(&error))
    }

    async fn open_file(&self, path: &Path) -> Result<Arc<Sqlite>, NotOpened> {
        let opened = Sqlite::open(path).await;
        let sqlite = opened.map_err(|error| NotOpened::new(self, &error))?;
        Ok(Arc::new(sqlite))
    }

    /// The file of this path, or else this user's own.
    pub(crate) fn path(&self, given: Option<&Path>) -> Result<PathBuf, NotOpened> {
        let path = given.map(Path::to_owned).or_else(own_file);
        path.ok_or_else(|| NotOpened {
            place: self.place(),
            words: "neither XDG_STATE_HOME nor HOME says where this user's files are".to_owned(),
            code: exit::STORE,
            advice: SQLITE_ADVICE.into(),
        })
    }

    fn failed(&self, error: &std::io::Error) -> NotOpened {
        NotOpened {
            place: self.place(),
            words: crate::fault::system_words(error),
            code: exit::STORE,
            advice: SQLITE_ADVICE.into(),
        }
    }
}

impl NotOpened {
    /// The store is open and failed all the same.
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
                ErrorKind::InvalidInput => exit::USAGE,
                _ => exit::STORE,
            },
            advice: advice(store, error.kind()),
        }
    }

    /// The store was open and has not answered for so long.
    pub(crate) fn silent(store: &LockStore, patience: Duration) -> Self {
        Self {
            place: store.place(),
            words: format!("it did not answer for {}", seconds(patience)),
            code: exit::STORE,
            advice: advice(store, ErrorKind::Unavailable),
        }
    }

    pub(crate) fn fault(&self) -> Fault {
        self.fault_with("none", &self.advice)
    }

    /// Where something had begun already.
    pub(crate) fn fault_with(&self, effect: &str, advice: &str) -> Fault {
        Fault::new(self.code, "cannot use the store")
            .at(format_args!("{}: {}", self.place, self.words))
            .effect(effect)
            .try_this(advice)
    }
}

fn advice(store: &LockStore, kind: ErrorKind) -> Cow<'static, str> {
    let LockStore::Address(address) = store else {
        return SQLITE_ADVICE.into();
    };
    let Some(server) = Server::of(address) else {
        return "no --store for sqlite".into();
    };
    match kind {
        ErrorKind::Unavailable => {
            format!("start {} there · no --store for sqlite", server.name).into()
        }
        _ => format!("--store {} · no --store for sqlite", server.form).into(),
    }
}

/// The file of this user: its fence counter must outlive a reboot, so it is no temporary file.
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
        assert_eq!(parsed, LockStore::Address(address.into()));
        assert_eq!(parsed.place(), "etcds://ci:***@a,b");
    }

    #[test]
    fn advice_can_be_followed() {
        let advice = LockStore::parse("redlock").unwrap_err().advice;
        assert!(advice.starts_with("--store redlock://HOST,HOST,HOST "));
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
            assert_eq!(parsed, LockStore::Address(address.into()));
            assert!(!parsed.place().contains(":p@"), "{}", parsed.place());
        }
        for refused in ["redis", "etcd", "sqlite:", "mysql://u:hunter2@h", ""] {
            let error = LockStore::parse(refused).unwrap_err();
            assert!(!error.what.contains("hunter2"), "{}", error.what);
        }
    }
}

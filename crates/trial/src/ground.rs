//! What the strategies stand on: one store that holds the stock and the records of hand-made locks.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::latch::{self, Latches};
use crate::stock::{self, Stock};
use crate::strategy::Failure;

/// Where a trial takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// A file, shared by the processes of this machine.
    Sqlite(PathBuf),
}

impl Ground {
    /// The ground that an endpoint names: `sqlite:PATH`.
    pub fn parse(endpoint: &str) -> Option<Self> {
        let path = endpoint.strip_prefix("sqlite:")?;
        Some(Self::Sqlite(PathBuf::from(path)))
    }

    /// The first ground among a subject's endpoints.
    ///
    /// # Errors
    /// None of them is one.
    pub fn among(endpoints: &[String]) -> Result<Self, Failure> {
        let ground = endpoints.iter().find_map(|endpoint| Self::parse(endpoint));
        ground.ok_or_else(|| Failure::definite(format!("no store among {endpoints:?}")))
    }

    /// The store's name, as `--store` has it.
    pub fn store(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
        }
    }

    /// Makes it ready for a trial. Called once, before the first process connects.
    ///
    /// # Errors
    /// The store's.
    pub fn prepare(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(path) => {
                stock::sqlite::create(path)?;
                latch::sqlite::create(path)
            }
        }
    }

    /// Connects to the stock.
    ///
    /// # Errors
    /// The store's.
    pub fn stock(&self) -> Result<Box<dyn Stock>, Failure> {
        match self {
            Self::Sqlite(path) => Ok(Box::new(stock::sqlite::SqliteStock::open(path)?)),
        }
    }

    /// Connects to the records of hand-made locks.
    ///
    /// # Errors
    /// The store's.
    pub fn latches(&self) -> Result<Box<dyn Latches>, Failure> {
        match self {
            Self::Sqlite(path) => Ok(Box::new(latch::sqlite::SqliteLatches::open(path)?)),
        }
    }

    /// Looks at a lock with the lab's own eyes: hand-made ones and the library's alike.
    ///
    /// # Errors
    /// The store's.
    pub fn look(&self, key: &str) -> Result<Look, Failure> {
        match self {
            Self::Sqlite(path) => latch::sqlite::SqliteLatches::open(path)?.look(key),
        }
    }
}

/// As an endpoint.
impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

/// What the store says about a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Somebody's key is there, and has not expired.
    pub taken: bool,
    /// How long until it expires. `None` on a key that is taken: never.
    pub ttl_left: Option<Duration>,
}

impl Look {
    /// Nobody's.
    pub const FREE: Self = Self {
        taken: false,
        ttl_left: None,
    };

    /// Somebody's, and no time will free it.
    pub fn is_for_ever(self) -> bool {
        self.taken && self.ttl_left.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_names_its_ground() {
        let ground = Ground::parse("sqlite:/tmp/run.db").unwrap();
        assert_eq!(ground, Ground::Sqlite("/tmp/run.db".into()));
        assert_eq!(ground.to_string(), "sqlite:/tmp/run.db");
        assert_eq!(Ground::parse("etcd://x"), None);
    }
}

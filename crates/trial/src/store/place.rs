//! Where trials take place, as people say it.

use std::path::Path;

use fencepost::random::{Random, SystemRandom};

use super::locks::{Apart, Kind};
use super::{Ground, reach, redis};

/// Where somebody wants trials to take place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// In a file of their own.
    #[default]
    Sqlite,
    /// On a Redis server.
    Redis {
        /// Its address.
        url: String,
        /// What people call it: `redis` for a private one, else the address without a password.
        name: String,
    },
    /// In a Postgres database.
    Postgres {
        /// Its address.
        url: String,
        /// What people call it: `postgres` for a private one, else the address without a password.
        name: String,
    },
    /// On servers that keep locks and nothing else of the lab's.
    Locks {
        /// Their address.
        url: String,
        /// What people call them: `etcd`, `zk` or `redlock` for private ones, else the address without a password.
        name: String,
    },
}

impl Place {
    /// The place that a history names; `None` if it is not one that this version knows. A trial cannot be held there again
    /// without the server's address.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sqlite" => Self::Sqlite,
            name if name == "postgres" || reach::names_postgres(name) => Self::Postgres {
                url: name.to_owned(),
                name: name.to_owned(),
            },
            name if Kind::of(name).is_some() => Self::Locks {
                url: name.to_owned(),
                name: name.to_owned(),
            },
            name if name == "redis" || reach::names_redis(name) => Self::Redis {
                url: name.to_owned(),
                name: name.to_owned(),
            },
            _ => return None,
        })
    }

    /// A Redis server of the lab's own, started when a trial needs it.
    pub fn private_redis() -> Self {
        Self::Redis {
            url: "redis".into(),
            name: "redis".into(),
        }
    }

    /// What people call it, as in `--store`.
    pub fn name(&self) -> &str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Redis { name, .. } | Self::Postgres { name, .. } | Self::Locks { name, .. } => {
                name
            }
        }
    }

    /// The same as somebody types it in a shell.
    pub fn typed(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_:/@.,=+".contains(c);
        if self.name().chars().all(is_plain) {
            self.name().to_owned()
        } else {
            format!("'{}'", self.name())
        }
    }

    /// The same with a gloss, for titles.
    pub fn title(&self) -> String {
        match self {
            Self::Sqlite => "sqlite (one machine)".into(),
            Self::Redis { name, .. } if name == "redis" => "redis (a private server)".into(),
            Self::Postgres { name, .. } if name == "postgres" => {
                "postgres (a private server)".into()
            }
            Self::Locks { name, .. } if !name.contains("://") => match Kind::of(name) {
                Some(Kind::Zookeeper) => format!("{name} (a private server)"),
                _ => format!("{name} (three servers)"),
            },
            Self::Redis { name, .. } | Self::Postgres { name, .. } | Self::Locks { name, .. } => {
                name.clone()
            }
        }
    }

    /// A ground of one trial's own: a file in `folder`, or a space or a schema of its own on the server.
    pub fn ground(&self, folder: &Path) -> Ground {
        match self {
            Self::Sqlite => Ground::Sqlite(folder.join("run.db")),
            Self::Redis { url, .. } => {
                let space = SystemRandom.next_u64();
                Ground::Redis(format!("{url}#fencepost-lab-{space:016x}"))
            }
            Self::Postgres { url, .. } => {
                let space = SystemRandom.next_u64();
                Ground::Postgres(format!("{url}#fencepost_lab_{space:016x}"))
            }
            Self::Locks { url, .. } => {
                let space = SystemRandom.next_u64();
                Ground::Locks(Apart {
                    servers: format!("{url}#fencepost-lab-{space:016x}"),
                    data: folder.join("run.db"),
                })
            }
        }
    }

    /// The same for something that may be killed before it can clear: on a Redis server keys vanish by themselves, unless they are
    /// [kept](Ground::keep).
    pub fn scratch(&self, folder: &Path) -> Ground {
        match self {
            Self::Redis { url, .. } => Ground::Redis(redis::scratch(url, SystemRandom.next_u64())),
            place => place.ground(folder),
        }
    }

    /// The kind of servers that keep locks only; `None` if what is sold is kept there as well.
    pub fn lock_servers(&self) -> Option<Kind> {
        match self {
            Self::Locks { name, .. } => Kind::of(name),
            _ => None,
        }
    }

    /// The shortest TTL that can be judged there.
    pub fn shortest_ttl_ms(&self) -> u64 {
        let is_private = !self.name().contains("://");
        self.lock_servers()
            .map_or(0, |kind| kind.shortest_ttl_ms(is_private))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_knows_is_no_place() {
        for name in ["mysql", "mysql://shop", "", "redis2", "Redis"] {
            assert_eq!(Place::named(name), None, "{name}");
        }
    }

    #[test]
    fn the_names_in_histories_are_places() {
        for name in [
            "sqlite",
            "redis",
            "redis://cache:6379",
            "postgres",
            "postgres://shop",
            "postgresql://shop",
            "etcd",
            "zk://a/base",
            "redlock?restart_delay=3s",
        ] {
            assert_eq!(Place::named(name).unwrap().name(), name);
        }
    }
}

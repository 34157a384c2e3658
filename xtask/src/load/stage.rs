//! Starts two instances of the service and the private servers they need, on free ports; stops them on drop.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fencepost_rig::{Child, Output, Postgres, Redis, TempDir, feed, folder};

use super::Db;
use crate::interrupt;
use crate::terminal::say;

const INSTANCES: usize = 2;
/// How long an instance may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Stage {
    // Dropped in this order: first the instances, then what they use.
    instances: Vec<Instance>,
    _servers: (Option<Postgres>, Option<Redis>),
    _folder: TempDir,
}

struct Instance {
    _process: Child,
    address: String,
}

impl Stage {
    /// Starts everything and waits until it is ready.
    ///
    /// Call this from a thread that lives as long as the stage, because the processes die with that thread.
    ///
    /// # Errors
    /// Returns an error if a server is not installed or does not start.
    pub(super) fn start(program: &Path, db: Db, store: Option<&str>) -> Result<Self> {
        let folder = folder().context("a temporary folder")?;
        let postgres = match db {
            Db::Postgres => Some(Postgres::start().context("a private Postgres")?),
            Db::Sqlite => None,
        };
        let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let database = postgres.as_ref().map(Postgres::url);
        let database = database.unwrap_or_else(|| file("shop.db"));
        let store = store.unwrap_or(match db {
            Db::Sqlite => "sqlite",
            Db::Postgres => "redis",
        });
        let redis = match store {
            "redis" => Some(Redis::start().context("a private Redis")?),
            _ => None,
        };
        let locks = match (store, &redis) {
            (_, Some(redis)) => format!("redis://{}", redis.address()),
            // One file for both instances, not the default file of this user.
            ("sqlite", None) => format!("sqlite:{}", file("locks.db")),
            (address, None) => address.to_owned(),
        };
        let mut instances = Vec::new();
        for _ in 0..INSTANCES {
            instances.push(Instance::start(program, &database, &locks, folder.path())?);
        }
        let stage = Self {
            instances,
            _servers: (postgres, redis),
            _folder: folder,
        };
        say(format!(
            "products and orders in {}, locks in {}, served at {}",
            db.as_str(),
            store,
            stage.addresses().join(" and ")
        ));
        Ok(stage)
    }

    /// Returns the addresses of the instances.
    pub(super) fn addresses(&self) -> Vec<&str> {
        let instances = self.instances.iter();
        instances.map(|instance| &*instance.address).collect()
    }
}

impl Instance {
    fn start(program: &Path, database: &str, locks: &str, folder: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["serve", "--lab", "--quiet", "--port", "0"])
            // In the environment, as in deploy/compose.yml, because addresses may contain passwords.
            .env("FENCEPOST_DB", database)
            .env("FENCEPOST_STORE", locks)
            .env_remove("FENCEPOST_ADMIN_TOKEN")
            // The instance is killed in the end; what it leaves behind is removed with our folder.
            .env("TMPDIR", folder)
            .current_dir(folder);
        let (said, sender) = feed();
        let mut process = Child::spawn(command, 0, &sender)
            .with_context(|| format!("cannot start {}", program.display()))?;
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline && !interrupt::happened() {
            match said
                .next(Duration::from_millis(100))
                .map(|heard| heard.output)
            {
                Ok(Output::Line(line)) => {
                    if let Some(address) = line.strip_prefix("listening on ") {
                        let address = address.to_owned();
                        return Ok(Self {
                            _process: process,
                            address,
                        });
                    }
                }
                Ok(Output::TooLong(_) | Output::Closed) => break,
                Err(_) => {}
            }
        }
        // An instance that cannot start exits at once, and its error message is what the user needs.
        let _ = process.wait(Duration::from_secs(1));
        bail!(
            "the service did not start: {}",
            process.last_words().join(" / ")
        );
    }
}

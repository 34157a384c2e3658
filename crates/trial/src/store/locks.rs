//! Stores that keep only the locks of a trial: etcd, ZooKeeper, and Redlock.
//!
//! The stock is kept separately, in a file of the trial, just as many systems have a lock service next to their business
//! database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fencepost::Backend;
use fencepost::stores;
use fencepost::{BoxFuture, ErrorKind, LockName};

use super::Look;
use super::reach::NotReached;
use super::redis::{Connection, Trouble};
use crate::protocol::Failure;

/// How long the servers may take to answer the lab's question about a lock.
const ANSWER: Duration = Duration::from_secs(5);

/// The answer of Redis to `PTTL` for a key that does not exist.
const NO_KEY: i64 = -2;
/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(50);

/// The lock servers, the key space of one trial, and the file with the stock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// An address that the library accepts. The part after `#` is the prefix of this trial's lock names.
    pub servers: String,
    /// The file with the stock.
    pub data: PathBuf,
}

impl Apart {
    fn split(&self) -> (&str, &str) {
        self.servers
            .rsplit_once('#')
            .unwrap_or((&self.servers, "fencepost-lab"))
    }

    /// Returns the name of a key's lock on the servers.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}:{key}", self.split().1)
    }

    /// Opens the library's backend for the servers, for leases of this length.
    pub(crate) async fn library(&self, ttl: Duration) -> Result<Arc<dyn Backend>, Failure> {
        let opened = open(self.split().0, ttl).await;
        opened.map_err(Failure::definite)
    }

    /// Returns the state of a lock on the servers.
    pub(super) fn look(&self, key: &str) -> Result<Look, Failure> {
        let name = LockName::new(&self.name(key)).map_err(Failure::definite)?;
        let asked = wait_for(ANSWER, async {
            let servers = self.library(fencepost::DEFAULT_TTL).await?;
            servers.inspect(&name).await.map_err(Failure::definite)
        });
        let record = asked?.ok_or_else(|| Failure::definite("the servers say nothing"))??;
        let holder = record.and_then(|record| record.holder);
        Ok(holder.map_or(Look::FREE, |holder| Look {
            taken: true,
            ttl_left: holder.ttl_left,
        }))
    }

    /// Removes records that would otherwise stay. Most locks disappear with their leases and sessions.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        let (url, space) = self.split();
        for server in redis_servers(url) {
            Connection::open(&format!("{server}#{space}"))?.clear()?;
        }
        Ok(())
    }
}

/// Returns the addresses of the individual Redlock servers; empty for other stores.
pub(crate) fn redis_servers(url: &str) -> Vec<String> {
    let Some(all) = url.strip_prefix("redlock://") else {
        return Vec::new();
    };
    let all = all.split_once('?').map_or(all, |(all, _)| all);
    let (servers, database) = match all.rsplit_once('/') {
        Some((servers, database)) => (servers, format!("/{database}")),
        None => (all, String::new()),
    };
    let one = |server| format!("redis://{server}{database}");
    servers.split(',').map(one).collect()
}

/// Inspects a key on a single Redis server.
pub(crate) fn look_at_one(server: &str, key: &str) -> Result<Look, Failure> {
    let left_ms: i64 = Connection::open(server)?
        .ask(redis::cmd("PTTL").arg(key))
        .map_err(Trouble::unread)?;
    Ok(Look {
        taken: left_ms != NO_KEY,
        ttl_left: u64::try_from(left_ms).ok().map(Duration::from_millis),
    })
}

/// Returns how long a restarted server does not vote, if a Redlock name or address specifies it.
pub fn restart_delay(text: &str) -> Option<Duration> {
    let (_, delay) = text.split_once("?restart_delay=")?;
    let (number, unit_ms) = match delay.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (delay.strip_suffix('s')?, 1_000),
    };
    let number: u32 = number.parse().ok()?;
    Some(Duration::from_millis(u64::from(number) * unit_ms))
}

/// Waits until servers that have just been started vote, if this store delays that.
pub fn grow_old(store: &str) {
    if let Some(delay) = restart_delay(store) {
        // The servers count whole seconds, vote once the count exceeds the delay, and update the count ten times a second.
        std::thread::sleep(delay + Duration::from_millis(2_100));
    }
}

/// Makes sure that enough servers answer. Retries for up to `patience` while they cannot be reached.
///
/// # Errors
/// Returns a [`NotReached`] that says why they cannot be used. A refusal is returned immediately.
pub(super) fn reach(url: &str, patience: Duration) -> Result<(), NotReached> {
    let mut said = "no answer".to_owned();
    let reached = wait_for(patience, async {
        loop {
            match open(url, fencepost::DEFAULT_TTL).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    error.message().clone_into(&mut said);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(NotReached::Refuses(error.message().to_owned())),
            }
        }
    });
    let reached = reached.map_err(|failure| NotReached::Refuses(failure.message))?;
    reached.unwrap_or(Err(NotReached::Silent(said)))
}

fn open(url: &str, ttl: Duration) -> BoxFuture<'_, fencepost::Result<Arc<dyn Backend>>> {
    #[cfg(feature = "zookeeper")]
    if url.starts_with("zk://") {
        use fencepost::stores::zookeeper::Zookeeper;
        return Box::pin(async move {
            // This is how long a killed process keeps its lock, and the longest possible TTL.
            let session = Zookeeper::builder(url).session_timeout(ttl);
            let backend: Arc<dyn Backend> = Arc::new(session.open().await?);
            Ok(backend)
        });
    }
    let _ = ttl;
    Box::pin(stores::open(url))
}

/// Runs the future on this thread. Returns `None` if it takes longer than `longest`.
fn wait_for<T>(longest: Duration, work: impl Future<Output = T>) -> Result<Option<T>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::definite)?;
    Ok(runtime.block_on(async { tokio::time::timeout(longest, work).await.ok() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_part_of_a_name() {
        for (text, delay_ms) in [
            ("redlock?restart_delay=3s", Some(3_000)),
            ("redlock://a,b,c/2?restart_delay=500ms", Some(500)),
            ("redlock?restart_delay=3", None),
            ("redlock", None),
        ] {
            assert_eq!(restart_delay(text), delay_ms.map(Duration::from_millis));
        }
    }

    #[test]
    fn the_servers_of_redlock_are_known_one_by_one() {
        assert_eq!(
            redis_servers("redlock://u:p@a:1,b/3?restart_delay=3s"),
            ["redis://u:p@a:1/3", "redis://b/3"]
        );
        assert_eq!(redis_servers("etcd://a,b"), [] as [&str; 0]);
    }
}

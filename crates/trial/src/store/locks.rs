//! Servers that keep locks and nothing else of the lab's: etcd, ZooKeeper, and Redis servers of which a majority decides.
//!
//! What is sold lies apart from them, in a file of the trial's own, as it does for people who have a lock database beside that of their
//! business.

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

/// How long the servers may take to tell the lab about a lock.
const ANSWER: Duration = Duration::from_secs(5);

/// What Redis answers when it is asked how long a key lasts that is not there.
const NO_KEY: i64 = -2;
/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(50);

/// Such servers, the space of one trial there, and the file with what is sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// By an address that the library knows. After a `#`, what the names of this trial's locks begin with.
    pub servers: String,
    /// The file.
    pub data: PathBuf,
}

impl Apart {
    fn split(&self) -> (&str, &str) {
        self.servers
            .rsplit_once('#')
            .unwrap_or((&self.servers, "fencepost-lab"))
    }

    /// What the lock of a key is called there.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}:{key}", self.split().1)
    }

    /// The library's way to the servers, for leases of this length.
    pub(crate) async fn library(&self, ttl: Duration) -> Result<Arc<dyn Backend>, Failure> {
        let opened = open(self.split().0, ttl).await;
        opened.map_err(Failure::definite)
    }

    /// What the servers say about a lock.
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

    /// Removes what would stay. Elsewhere locks go with their leases and sessions, and leave nothing.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        let (url, space) = self.split();
        for server in redis_servers(url) {
            Connection::open(&format!("{server}#{space}"))?.clear()?;
        }
        Ok(())
    }
}

/// The single servers of Redlock, by their addresses; none for others.
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

/// What a single Redis server has under this key.
pub(crate) fn look_at_one(server: &str, key: &str) -> Result<Look, Failure> {
    let left_ms: i64 = Connection::open(server)?
        .ask(redis::cmd("PTTL").arg(key))
        .map_err(Trouble::unread)?;
    Ok(Look {
        taken: left_ms != NO_KEY,
        ttl_left: u64::try_from(left_ms).ok().map(Duration::from_millis),
    })
}

/// How long a server that was started anew does not vote, if a name or an address of Redlock says so.
pub fn restart_delay(text: &str) -> Option<Duration> {
    let (_, delay) = text.split_once("?restart_delay=")?;
    let (number, unit_ms) = match delay.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (delay.strip_suffix('s')?, 1_000),
    };
    let number: u32 = number.parse().ok()?;
    Some(Duration::from_millis(u64::from(number) * unit_ms))
}

/// Waits until servers that were started just now vote, where this store keeps them from it for a while.
pub fn grow_old(store: &str) {
    if let Some(delay) = restart_delay(store) {
        // They count whole seconds, and vote when they say that it is more than this, which they notice ten times a second.
        std::thread::sleep(delay + Duration::from_millis(2_100));
    }
}

/// Makes sure that enough of the servers answer. Asks again for up to `patience` while nobody is there.
///
/// # Errors
/// [`NotReached`] says why they cannot be used. A refusal comes at once.
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
            // What a killed process costs, and the longest TTL there can be.
            let session = Zookeeper::builder(url).session_timeout(ttl);
            let backend: Arc<dyn Backend> = Arc::new(session.open().await?);
            Ok(backend)
        });
    }
    let _ = ttl;
    Box::pin(stores::open(url))
}

/// Carries it out on this thread; `None` when it takes longer.
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

//! Stores that keep only the locks of a trial: etcd, ZooKeeper, and Redlock.
//!
//! The stock is kept separately, in a file of the trial, just as many systems have a lock service next to their business
//! database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::{RedlockAddress, StoreAddress};
use fencepost::{Backend, ErrorKind, LockName};

use super::not_reached::{NotReached, PAUSE};
use super::redis::{Connection, StoreError};
use super::{LockState, ServerList, TrialStore};
use crate::protocol::Failure;

/// How long the servers may take to answer the lab's question about a lock.
const ANSWER: Duration = Duration::from_secs(5);

/// The answer of Redis to `PTTL` for a key that does not exist.
const NO_KEY: i64 = -2;

/// The lock servers, the key space of one trial, and the file with the stock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockServers {
    /// An address that the library accepts. The part after `#` is the prefix of this trial's lock names.
    pub address: String,
    /// The file with the stock.
    pub stock_file: PathBuf,
}

impl LockServers {
    fn split(&self) -> (&str, &str) {
        self.address
            .rsplit_once('#')
            .unwrap_or((&self.address, "fencepost-lab"))
    }

    /// Returns an address for each server. A server of Redlock is one of Redis.
    pub(super) fn each(&self) -> Vec<String> {
        let (url, space) = self.split();
        match RedlockAddress::parse(url) {
            Some(redlock) => {
                let servers = redlock.servers.iter();
                servers.map(|server| format!("{server}#{space}")).collect()
            }
            None => ServerList::read(&self.address).map_or_else(Vec::new, |list| list.each()),
        }
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
    pub(super) fn inspect(&self, key: &str) -> Result<LockState, Failure> {
        let name = LockName::new(&self.name(key)).map_err(Failure::definite)?;
        let asked = wait_for(ANSWER, async {
            let servers = self.library(fencepost::DEFAULT_TTL).await?;
            servers.inspect(&name).await.map_err(Failure::definite)
        });
        let record = asked?.ok_or_else(|| Failure::definite("the servers did not answer"))??;
        let holder = record.and_then(|record| record.holder);
        Ok(holder.map_or(LockState::FREE, |holder| LockState {
            taken: true,
            ttl_left: holder.ttl_left,
        }))
    }

    /// Removes records that would otherwise stay. Most locks disappear with their leases and sessions.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        let (url, space) = self.split();
        let servers = RedlockAddress::parse(url).map(|address| address.servers);
        for server in servers.unwrap_or_default() {
            Connection::open(&format!("{server}#{space}"))?.clear()?;
        }
        Ok(())
    }
}

/// Inspects a key on a single Redis server.
pub(crate) fn inspect_one(server: &str, key: &str) -> Result<LockState, Failure> {
    let left_ms: i64 = Connection::open(server)?
        .ask(redis::cmd("PTTL").arg(key))
        .map_err(StoreError::into_read_failure)?;
    Ok(LockState {
        taken: left_ms != NO_KEY,
        ttl_left: u64::try_from(left_ms).ok().map(Duration::from_millis),
    })
}

/// Waits until servers that have just been started vote, if this store delays that.
pub fn wait_until_voting(store: &TrialStore) {
    if let Some(delay) = store.restart_delay() {
        // The servers count whole seconds, vote once the count exceeds the delay, and update the count ten times a second.
        std::thread::sleep(delay + Duration::from_millis(2_100));
    }
}

/// Makes sure that enough servers answer. Retries for up to `timeout` while they cannot be reached.
///
/// # Errors
/// Returns a [`NotReached`] that says why they cannot be used. A refusal is returned immediately.
pub(super) fn reach(url: &str, timeout: Duration) -> Result<(), NotReached> {
    let mut said = "no answer".to_owned();
    let reached = wait_for(timeout, async {
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

async fn open(url: &str, ttl: Duration) -> fencepost::Result<Arc<dyn Backend>> {
    url.parse::<StoreAddress>()?.open_with_ttl(ttl).await
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
    use crate::store::Ground;

    #[test]
    fn a_program_of_the_user_gets_one_endpoint_for_each_server_and_the_stock() {
        for (address, expected) in [
            (
                "redlock://u:p@a:1,v:q@b:2,c:3/2?restart_delay=3s#lab",
                vec![
                    "redis://u:p@a:1/2#lab",
                    "redis://v:q@b:2/2#lab",
                    "redis://c:3/2#lab",
                ],
            ),
            (
                "etcd://a:1,b:2/prefix#lab",
                vec!["etcd://a:1/prefix#lab", "etcd://b:2/prefix#lab"],
            ),
            ("zk://a:1/base#lab", vec!["zk://a:1/base#lab"]),
        ] {
            let ground = Ground::Locks(LockServers {
                address: address.into(),
                stock_file: "run.db".into(),
            });
            let mut expected = expected;
            expected.push("sqlite:run.db");
            assert_eq!(ground.endpoints_of_each_server(), expected, "{address}");
        }
    }
}

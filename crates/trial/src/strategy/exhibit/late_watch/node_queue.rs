//! The line of sequential nodes at ZooKeeper that `late-watch` waits in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fencepost::clock::BoxFuture;
use fencepost::random::{Random, SystemRandom};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::protocol::{Claims, ReleaseResult};
use crate::store::Ground;
use crate::store::locks::LockServers;
use crate::strategy::{Failure, Granted, Halt, Locking, Setup};

/// The shortest session that the server grants by default.
const SHORTEST_SESSION: Duration = Duration::from_secs(4);
/// How long to wait after a connection broke.
const PAUSE: Duration = Duration::from_millis(20);
/// The text before the number in a node's name. The library and Curator sort by what follows it.
const BEFORE_NUMBER: &str = "-lock-";
/// The folder of the library's locks if an address names none.
const BASE: &str = "/fencepost";

/// Queues with a session of its own.
pub(super) struct NodeQueue {
    client: Client,
    servers: LockServers,
    base: String,
    holds: HashMap<u64, String>,
    last_hold: u64,
}

impl NodeQueue {
    pub(super) async fn open(setup: &Setup) -> Result<Self, Failure> {
        let Ground::Locks(servers) = &setup.ground else {
            return Err(Failure::definite("late-watch stands in line at ZooKeeper"));
        };
        let address = Address::of(&servers.address);
        // Longer than the pauses during which a session must not end.
        let session = SHORTEST_SESSION.max(2 * setup.ttl);
        let mut connector = Client::connector().with_session_timeout(session);
        if let Some(person) = address.person {
            connector = connector.with_auth("digest", person.as_bytes());
        }
        let client = connector.connect(address.hosts).await;
        Ok(Self {
            client: client.map_err(failed)?,
            servers: servers.clone(),
            base: address.base.to_owned(),
            holds: HashMap::new(),
            last_hold: 0,
        })
    }

    /// Returns the folder of a lock: the same as the library's, so that the lab sees it.
    fn folder(&self, key: &str) -> String {
        format!("{}/{}", self.base, self.servers.name(key))
    }

    /// Creates a node at the end of the line and returns its name.
    async fn stand_in_line(&self, folder: &str) -> Result<String, Failure> {
        let token = format!("{:032x}", u128::from(SystemRandom.next_u64()));
        let path = format!("{folder}/_c_{token}{BEFORE_NUMBER}");
        let node = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        loop {
            match self.client.create(&path, b"", &node).await {
                Ok((_, number)) => return Ok(format!("_c_{token}{BEFORE_NUMBER}{number}")),
                // The server removes an empty folder.
                Err(Error::NoNode) => self
                    .client
                    .mkdir(folder, &container)
                    .await
                    .map_err(failed)?,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Returns the node just before this one in the line; `None` if it is this node's turn.
    async fn before(&self, folder: &str, own: &str) -> Result<Option<String>, Failure> {
        let mut line = self.client.list_children(folder).await.map_err(failed)?;
        line.retain(|node| number(node) < number(own));
        Ok(line.into_iter().max_by_key(|node| number(node).to_owned()))
    }

    async fn take(
        &mut self,
        key: &str,
        wait: Duration,
        halt: &mut dyn Halt,
    ) -> Result<Option<Granted>, Failure> {
        let asked = Instant::now();
        let folder = self.folder(key);
        let own = self.stand_in_line(&folder).await?;
        let path = format!("{folder}/{own}");
        let Some(before) = self.before(&folder, &own).await? else {
            return Ok(Some(self.granted(path, false)));
        };
        if wait.is_zero() {
            self.leave(&path).await?;
            return Ok(None);
        }
        halt.after(1, 2, "looks up who is ahead of it");
        let previous = format!("{folder}/{before}");
        let watched = self.client.check_and_watch_stat(&previous).await;
        // The first half of this answer would say whether the predecessor still exists. The flaw is to ignore it.
        let (_, watch) = watched.map_err(failed)?;
        let left = wait.saturating_sub(asked.elapsed());
        match tokio::time::timeout(left, watch.changed()).await {
            Ok(_) => Ok(Some(self.granted(path, true))),
            Err(_) => {
                self.leave(&path).await?;
                Ok(None)
            }
        }
    }

    fn granted(&mut self, path: String, contended: bool) -> Granted {
        self.last_hold += 1;
        self.holds.insert(self.last_hold, path);
        Granted::plain(self.last_hold, contended)
    }

    /// Deletes the node. Returns whether it existed, or may have existed at the first request.
    async fn leave(&self, path: &str) -> Result<bool, Failure> {
        let (asked, mut is_first) = (Instant::now(), true);
        loop {
            match self.client.delete(path, None).await {
                Ok(()) => return Ok(true),
                Err(Error::NoNode) => return Ok(!is_first),
                Err(Error::SessionExpired) => return Ok(false),
                // After a pause, the first request finds its connection broken.
                Err(error) if asked.elapsed() > SHORTEST_SESSION => return Err(failed(error)),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            is_first = false;
        }
    }

    async fn give_back(&mut self, hold: u64) -> Result<ReleaseResult, Failure> {
        let path = self.holds.remove(&hold);
        let path = path.ok_or_else(|| Failure::definite("there is no such hold"))?;
        Ok(if self.leave(&path).await? {
            ReleaseResult::Released
        } else {
            ReleaseResult::AlreadyLost
        })
    }
}

impl Locking for NodeQueue {
    fn claims(&self, known: Claims) -> Claims {
        let session = self.client.session_timeout();
        Claims {
            recovery_ms: u64::try_from(session.as_millis()).ok(),
            ..known
        }
    }

    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Granted>, Failure>> {
        Box::pin(self.take(key, wait, halt))
    }

    fn release<'a>(
        &'a mut self,
        hold: u64,
        _halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseResult, Failure>> {
        Box::pin(self.give_back(hold))
    }
}

fn number(node: &str) -> &str {
    node.rsplit_once(BEFORE_NUMBER)
        .map_or("", |(_, number)| number)
}

fn failed(error: Error) -> Failure {
    Failure::indefinite(format!("zookeeper: {error}"))
}

/// The parts of `zk://[USER:PASSWORD@]HOSTS[/BASE][#SPACE]`.
struct Address<'a> {
    hosts: &'a str,
    person: Option<&'a str>,
    base: &'a str,
}

impl<'a> Address<'a> {
    fn of(servers: &'a str) -> Self {
        let url = servers.split('#').next().unwrap_or_default();
        let rest = url.strip_prefix("zk://").unwrap_or(url);
        let (authority, base) = match rest.find('/') {
            Some(at) => (&rest[..at], rest[at..].trim_end_matches('/')),
            None => (rest, BASE),
        };
        let (person, hosts) = match authority.rsplit_once('@') {
            Some((person, hosts)) => (Some(person), hosts),
            None => (None, authority),
        };
        Self {
            hosts,
            person,
            base,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let address = Address::of("zk://a:1,b:2#space");
        assert_eq!((address.hosts, address.base), ("a:1,b:2", "/fencepost"));
        let address = Address::of("zk://u:p@a/base/#space");
        assert_eq!((address.hosts, address.base), ("a", "/base"));
        assert_eq!(address.person, Some("u:p"));
    }

    #[test]
    fn nodes_stand_in_the_order_of_their_numbers() {
        assert!(number("_c_f-lock-0000000009") < number("_c_a-lock-0000000010"));
    }
}

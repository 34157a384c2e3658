//! Redis servers that are flushed: one, or the three of a Redlock.

use fencepost::stores::kinds::REDIS;
use fencepost_rig::Redis;
use fencepost_rig::resp::{Connection, Value};

use super::{Keeper, Watched};
use crate::holds::run::servers::redis::ANSWER_TIMEOUT;
use crate::protocol::Failure;
use crate::store::{TrialStore, locks};

/// The number of servers of a Redlock.
const SEVERAL: usize = 3;

/// Servers whose keys are all deleted.
pub(super) struct Flushed {
    servers: Vec<Redis>,
    store: TrialStore,
}

impl Flushed {
    /// Starts one server.
    pub(super) fn one() -> Result<Self, Failure> {
        let server = Redis::start().map_err(Failure::definite)?;
        let store = TrialStore::private(&REDIS).at(server.url());
        let servers = vec![server];
        Ok(Self { servers, store })
    }

    /// Starts the servers of this Redlock, and waits until they vote.
    pub(super) fn three(store: &TrialStore) -> Result<Self, Failure> {
        let servers = (0..SEVERAL).map(|_| Redis::start().map_err(Failure::definite));
        let servers: Vec<Redis> = servers.collect::<Result<_, _>>()?;
        locks::wait_until_voting(store);
        let hosts = servers.iter().map(|server| server.address().to_string());
        let hosts: Vec<String> = hosts.collect();
        let address = format!("redlock://{}{}", hosts.join(","), store.parameters());
        let store = store.clone().at(address);
        Ok(Self { servers, store })
    }
}

impl Keeper for Flushed {
    fn store(&self) -> TrialStore {
        self.store.clone()
    }

    fn take_away(&self, _: &Watched<'_>) -> Result<bool, Failure> {
        let mut keys = 0;
        for server in &self.servers {
            keys += flush(server)?;
        }
        Ok(keys > 0)
    }
}

/// Deletes all keys. Returns how many there were.
fn flush(server: &Redis) -> Result<i64, Failure> {
    let connection = Connection::open(server.address(), ANSWER_TIMEOUT);
    let mut connection = connection.map_err(Failure::definite)?;
    let mut ask = |word: &str| connection.ask(&[word]).map_err(Failure::definite);
    let Value::Number(keys) = ask("DBSIZE")? else {
        return Err(Failure::definite("DBSIZE is not a number"));
    };
    match ask("FLUSHALL")? {
        Value::Error(message) => Err(Failure::definite(message)),
        _ => Ok(keys),
    }
}

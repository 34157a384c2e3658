//! Servers at which the lab takes the lock away while its holder works, as an administrator with a wrong command would.
//!
//! The servers live on and answer everybody. Only the records of the locks are gone, or the sessions that held them.

use std::time::Instant;

#[cfg(feature = "postgres")]
use fencepost::stores::kinds::POSTGRES;
#[cfg(feature = "zookeeper")]
use fencepost::stores::kinds::ZOOKEEPER;
use fencepost::stores::kinds::{ETCD, REDIS, REDLOCK};

use super::{Seen, Servers, Watched, seen};
use crate::history::{Change, What};
use crate::protocol::Failure;
use crate::store::TrialStore;

mod etcd;
#[cfg(feature = "postgres")]
mod postgres;
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

/// The name of all servers together.
const STORE: &str = "store";

/// Private servers that keep locks, and how the lab removes those.
trait Keeper {
    /// Returns the store as the processes reach it.
    fn store(&self) -> TrialStore;

    /// Removes every lock. Returns whether there was one, and all are gone.
    fn take_away(&self, watched: &Watched<'_>) -> Result<bool, Failure>;
}

/// Servers that lose their locks when the lab says so.
pub(super) struct Robbed(Box<dyn Keeper>);

impl Robbed {
    /// Starts private servers of this kind. `None` if the lab cannot take locks away there.
    pub(super) fn start(store: &TrialStore) -> Result<Option<Self>, Failure> {
        let keeper: Box<dyn Keeper> = match store {
            _ if store.is(&REDIS) => Box::new(redis::Flushed::one()?),
            _ if store.is(&REDLOCK) => Box::new(redis::Flushed::three(store)?),
            _ if store.is(&ETCD) => Box::new(etcd::Emptied::start()?),
            #[cfg(feature = "postgres")]
            _ if store.is(&POSTGRES) => Box::new(postgres::Terminated::start(store)?),
            #[cfg(feature = "zookeeper")]
            _ if store.is(&ZOOKEEPER) => Box::new(zookeeper::Unlinked::start()?),
            _ => return Ok(None),
        };
        Ok(Some(Self(keeper)))
    }
}

impl Servers for Robbed {
    fn store(&self) -> TrialStore {
        self.0.store()
    }

    fn misbehave(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        // Taken before: from here on, locks may be gone.
        let at = Instant::now();
        if !self.0.take_away(watched)? {
            return Ok(Vec::new());
        }
        let gone = seen(at, STORE, Change::TakenAway);
        let inspected = inspect(watched)?;
        Ok([gone].into_iter().chain(inspected).collect())
    }
}

/// Inspects the lock. Returns `None` if the lab does not know where the lock keeps its records.
fn inspect(watched: &Watched<'_>) -> Result<Option<Seen>, Failure> {
    if !watched.is_known {
        return Ok(None);
    }
    let state = watched.ground.inspect(watched.key)?;
    Ok(Some(Seen {
        at: Instant::now(),
        what: What::StoreRead {
            key: watched.key.into(),
            taken: state.taken,
            ttl_left_ms: state.ttl_left.map(|left| left.as_secs_f64() * 1e3),
            server: Some(STORE.into()),
        },
    }))
}

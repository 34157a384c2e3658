//! Children of the Redis tests, including counters for the storm.

use std::sync::Arc;

use fencepost::resource::{Credential, FencedError, RedisRegister};
use fencepost::stores::redis::Redis;
use fencepost::{ErrorKind, Guard, Locker};
use fencepost_rig::Child;
use fencepost_store_tests::actor::{self, Opener, Report, Served, Wrote, say, until_told};
use serde::{Deserialize, Serialize};

use crate::support::{NAME, Server, WAITER_LEASE};

pub(crate) type Part = actor::Part<At>;
pub(crate) type Task = actor::Task<Count>;

/// The address of a server, which also has a fenced number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At(pub(crate) String);

/// This many tasks repeatedly acquire the lock and add to the fenced number, until the child is told to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) tasks: usize,
}

impl Opener for At {
    type Store = Redis;
    type Verb = Count;

    async fn open(&self) -> Arc<Redis> {
        loop {
            match Redis::open(&self.0).await {
                Ok(store) => return Arc::new(store),
                // The storm cuts connections while they are being opened, too.
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn write(&self, store: &Arc<Redis>, guard: &Guard) -> Wrote {
        let register = RedisRegister::new(store, "count");
        register.write(guard.credential(), "late").await.into()
    }

    async fn perform(&self, count: &Count, store: &Arc<Redis>, locker: &Locker) {
        let register = RedisRegister::new(store, "count");
        for _ in 0..count.tasks {
            tokio::spawn(count_on(locker.clone(), register.clone()));
        }
        until_told().await;
        locker.shutdown().await;
    }
}

/// A killed holder costs the rest of its lease. That is a waiter lease, unless a slow machine made it hold for so long that it
/// was renewed, which is not tested here.
pub(crate) fn free_if_long_held<'a>(server: &Server, dead: impl IntoIterator<Item = &'a Child>) {
    let mut plain = server.plain();
    let left = plain.number(&["PTTL", NAME]);
    let value = plain.text(&["GET", NAME]).unwrap_or_default();
    let is_dead = dead
        .into_iter()
        .any(|child| value.ends_with(&format!(":{}", child.pid())));
    if is_dead && left > WAITER_LEASE.as_millis() as i64 {
        plain.does(&["DEL", NAME]);
    }
}

async fn count_on(locker: Locker, register: RedisRegister) {
    loop {
        let guard = match locker.acquire(NAME).await {
            Ok(guard) => guard,
            Err(error) if error.kind() == ErrorKind::Closed => return,
            Err(error) => {
                say(&Report::Failed(error.to_string()));
                continue;
            }
        };
        let mut served = Served::granted(&guard);
        match guard.run(add(&register, guard.credential())).await {
            Ok(Ok(counted)) => served.counted = Some(counted),
            Ok(Err(FencedError::Refused(_))) => {
                say(&Report::Refused);
                continue;
            }
            Ok(Err(error)) => say(&Report::Failed(error.to_string())),
            Err(_) => {
                say(&Report::Lost);
                continue;
            }
        }
        say(&Report::Served(served.release(guard).await));
    }
}

async fn add(register: &RedisRegister, credential: Credential) -> Result<u64, FencedError> {
    let text = register.read(credential).await?;
    let number = text.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap());
    tokio::task::yield_now().await;
    register
        .write(credential, (number + 1_u64).to_string())
        .await?;
    Ok(number + 1)
}

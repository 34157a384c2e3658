//! Fenced resources in Redis: a gate for your own scripts, and a value behind such a gate.

use std::fmt;
use std::sync::Arc;
use std::sync::LazyLock;

use redis::Value;

use super::hub::Hub;
use super::scripts::{ReadValue, Script};
use super::{Redis, failure, keys};
use crate::credential::Credential;
use crate::error::{Error, Operation};
use crate::refusal::{FencedError, Refused};

/// A Lua function for your own scripts: `admit(gate, epoch, seq, owner)`.
///
/// Put it at the start of a script and call it *first*, for reads as well as for writes. If it returns a value, the credential is stale and
/// the value is the highest fence seen: do nothing else in the script. `gate` is a key of your own, declared in `KEYS`, in the slot of the
/// resource and without expiry. The other arguments are [`Fence::epoch`](crate::Fence::epoch), [`Fence::seq`](crate::Fence::seq) and the
/// owner as text.
///
/// ```lua
/// local highest = admit(KEYS[2], ARGV[1], ARGV[2], ARGV[3])
/// if highest then return redis.error_reply('STALE ' .. highest) end
/// return redis.call('DECR', KEYS[1])
/// ```
pub const REDIS_ADMIT: &str = include_str!("scripts/admit.lua");

/// Two Lua functions for your own scripts behind a read-write lock: `admit_read(gate, epoch, seq, owner)` and `admit_write(…)`.
///
/// They are used as `admit` of [`REDIS_ADMIT`]. A write is refused below any fence that was seen, and a read below any fence that has written.
/// `gate` must be another key than that of `admit`.
///
/// ```lua
/// local fence = admit_read(KEYS[2], ARGV[1], ARGV[2], ARGV[3])
/// if fence then return redis.error_reply('STALE ' .. fence) end
/// return redis.call('GET', KEYS[1])
/// ```
pub const REDIS_ADMIT_RW: &str = include_str!("scripts/admit_rw.lua");

static REGISTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[REDIS_ADMIT, include_str!("scripts/register.lua")]));

/// A value in Redis that only the holder of a lock can read and write through it: a plain string key, with its gate in another key.
///
/// Any client can read the key with `GET`. A client that writes the key without the gate is not fenced.
#[derive(Clone)]
pub struct RedisRegister {
    hub: Arc<Hub>,
    key: String,
    gate: String,
}

impl RedisRegister {
    /// Creates a register for the value under `key`, which uses the connection of `redis`. It sends nothing yet.
    pub fn new(redis: &Redis, key: &str) -> Self {
        Self {
            hub: redis.hub.clone(),
            key: key.to_owned(),
            gate: keys::gate_of(key),
        }
    }

    /// Returns the value, or `None` if the key does not exist.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the gate has seen a higher fence, or the same fence from another owner, and
    /// [`FencedError::Failed`] if Redis fails or cannot be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, the gate may or may not have remembered the fence.
    pub async fn read(&self, credential: Credential) -> Result<Option<Vec<u8>>, FencedError> {
        let answer = self.call(credential, None).await?;
        match answer.item(1) {
            Some(Value::BulkString(value)) => Ok(Some(value.clone())),
            None => Ok(None),
            Some(other) => Err(unexpected(other)),
        }
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the gate has seen a higher fence, or the same fence from another owner, and
    /// [`FencedError::Failed`] if Redis fails or cannot be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, the value may or may not have been written.
    pub async fn write(
        &self,
        credential: Credential,
        value: impl AsRef<[u8]>,
    ) -> Result<(), FencedError> {
        self.call(credential, Some(value.as_ref()))
            .await
            .map(|_| ())
    }

    async fn call(
        &self,
        credential: Credential,
        value: Option<&[u8]>,
    ) -> Result<Value, FencedError> {
        let session = self.hub.session(Operation::Resource).await?;
        let mut call = REGISTER.call(2);
        call.arg(&self.key).arg(&self.gate);
        call.arg(credential.fence.epoch())
            .arg(credential.fence.seq());
        call.arg(credential.owner.to_string());
        if let Some(value) = value {
            call.arg(value);
        }
        let answer = session.call(Operation::Resource, &REGISTER, &call).await?;
        match answer.item(0).and_then(|admitted| admitted.integer()) {
            Some(1) => Ok(answer),
            Some(0) => {
                let highest = answer.item(1).and_then(|highest| highest.text());
                let highest = highest.ok_or_else(|| unexpected(&answer))?;
                Err(FencedError::Refused(Refused {
                    offered: credential.fence,
                    highest: highest.parse().map_err(|_| unexpected(&answer))?,
                }))
            }
            _ => Err(unexpected(&answer)),
        }
    }
}

fn unexpected(answer: &Value) -> FencedError {
    let error: Error = failure::unexpected(Operation::Resource, &format!("{answer:?}"));
    FencedError::Failed(error)
}

impl fmt::Debug for RedisRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisRegister")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

//! Fenced resources in Redis: a gate for scripts of your own, and a value behind it.

use std::fmt;
use std::sync::Arc;
use std::sync::LazyLock;

use redis::Value;

use super::{Credential, FencedError, Refused};
use crate::error::{Error, Operation};
use crate::stores::redis::Redis;
use crate::stores::redis::hub::Hub;
use crate::stores::redis::scripts::{Answer, Script};
use crate::stores::redis::{failure, keys};

/// A function for scripts of yours: `admit(gate, epoch, seq, owner)`, in Lua.
///
/// Put it in front of a script, call it *first*, for reads as well as for writes, and do nothing else when it returns a value: that is the
/// highest fence seen, and the credential is stale. `gate` is a key of yours, declared in `KEYS`, in the slot of the resource and
/// without expiry; give [`Fence::epoch`](crate::Fence::epoch), [`Fence::seq`](crate::Fence::seq) and the owner's text.
///
/// ```lua
/// local highest = admit(KEYS[2], ARGV[1], ARGV[2], ARGV[3])
/// if highest then return redis.error_reply('STALE ' .. highest) end
/// return redis.call('DECR', KEYS[1])
/// ```
pub const REDIS_ADMIT: &str = include_str!("admit.lua");

static REGISTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[REDIS_ADMIT, include_str!("register.lua")]));

/// A value in Redis that only the holder of a lock reaches: a plain string key, and its gate beside it.
///
/// Others can read the key with `GET`. What writes it without the gate is not fenced.
#[derive(Clone)]
pub struct RedisRegister {
    hub: Arc<Hub>,
    key: String,
    gate: String,
}

impl RedisRegister {
    /// The value under `key`, over the connection of `redis`. Nothing is sent yet.
    pub fn new(redis: &Redis, key: &str) -> Self {
        Self {
            hub: redis.hub.clone(),
            key: key.to_owned(),
            gate: keys::gate_of(key),
        }
    }

    /// The value; `None` when there is none.
    ///
    /// # Errors
    /// [`FencedError::Refused`] when a higher fence, or this one from another owner, was seen before.
    ///
    /// # Cancel safety
    /// If dropped, the fence may have been remembered or not.
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
    /// [`FencedError::Refused`] when a higher fence, or this one from another owner, was seen before.
    ///
    /// # Cancel safety
    /// If dropped, the value may have been written or not.
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

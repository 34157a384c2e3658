//! A plain connection to a Redis server, for the stock and for handmade locks.

use std::time::{Duration, Instant};

use fencepost::stores::redis::Redis;
use redis::{Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, Script};

use crate::protocol::Failure;

mod wire;

pub(crate) use wire::Wire;

/// The key space of an endpoint that names none.
const SPACE: &str = "fencepost-lab";
/// The prefix of key spaces that may never be cleared by their owner. Their keys expire.
const SCRATCH: &str = "fencepost-scratch-";
/// How long a key in such a space lasts unless its lifetime is extended.
const SCRATCH_LASTS: Duration = Duration::from_secs(300);
/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// A connection that was idle for this long may have broken meanwhile.
pub(crate) const IDLE_CONNECTION: Duration = Duration::from_millis(50);

/// Splits an endpoint, `redis://…#SPACE`, into the address of the server and the key space.
fn split(endpoint: &str) -> (&str, &str) {
    endpoint.split_once('#').unwrap_or((endpoint, SPACE))
}

/// Returns the endpoint of the scratch space with this number.
pub(crate) fn scratch(url: &str, number: u64) -> String {
    format!("{url}#{SCRATCH}{number:016x}")
}

/// Returns whether the keys of an endpoint expire.
pub(crate) fn is_scratch(endpoint: &str) -> bool {
    split(endpoint).1.starts_with(SCRATCH)
}

/// Returns the full name of a key in the space of an endpoint.
pub(crate) fn key(endpoint: &str, kind: &str, name: &str) -> String {
    key_in(split(endpoint).1, kind, name)
}

fn key_in(space: &str, kind: &str, name: &str) -> String {
    format!("{space}:{kind}:{name}")
}

/// Returns whether a key belongs to this space: a key of the lab, or one that the library keeps next to it.
fn is_in(space: &str, key: &str) -> bool {
    let key = key.strip_prefix("fp:{").unwrap_or(key);
    let rest = key.strip_prefix(space);
    rest.is_some_and(|rest| rest.starts_with(':'))
}

/// Opens the library's backend for the server of an endpoint.
pub(crate) async fn library(endpoint: &str) -> Result<Redis, Failure> {
    let opened = Redis::open(split(endpoint).0).await;
    opened.map_err(Failure::definite)
}

/// A connection with the space of its keys. It reconnects after a failure.
pub(crate) struct Connection {
    client: Client,
    connection: Option<Wire>,
    used: Instant,
    lost: i64,
    space: String,
}

/// A failure on the way to the server, or on the server.
pub(crate) struct StoreError {
    error: RedisError,
    /// Whether the request had been sent.
    sent: bool,
}

impl StoreError {
    /// Converts the failure of a command that changes something: if it was sent, it may have been executed.
    pub(crate) fn into_write_failure(self) -> Failure {
        let answered = !self.error.is_io_error() && !self.error.is_unrecoverable_error();
        if answered || !self.sent {
            Failure::definite(self.message())
        } else {
            Failure::indefinite(self.message())
        }
    }

    /// Converts the failure of a command that changes nothing.
    pub(crate) fn into_read_failure(self) -> Failure {
        Failure::definite(self.message())
    }

    /// Returns the error code of the server.
    pub(crate) fn code(&self) -> Option<&str> {
        self.error.code()
    }

    fn message(&self) -> String {
        let what = if self.sent { "" } else { "no connection: " };
        format!("redis: {what}{}", self.error)
    }
}

impl Connection {
    /// Connects to `redis://…`, or to `redis://…#SPACE` for a separate key space.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        let (url, space) = split(endpoint);
        let client = Client::open(url);
        let client = client.map_err(|error| Failure::definite(format!("redis: {error}")))?;
        let mut connection = Self {
            client,
            connection: None,
            used: Instant::now(),
            lost: 0,
            space: space.to_owned(),
        };
        connection
            .with(|_| Ok(()))
            .map_err(StoreError::into_read_failure)?;
        Ok(connection)
    }

    /// Returns the full name of a key in this space.
    pub(crate) fn key(&self, kind: &str, name: &str) -> String {
        key_in(&self.space, kind, name)
    }

    /// Returns the default lifetime of keys in this space in milliseconds. `None` if they do not expire.
    pub(crate) fn lasts_ms(&self) -> Option<u64> {
        let is_scratch = self.space.starts_with(SCRATCH);
        is_scratch.then(|| u64::try_from(SCRATCH_LASTS.as_millis()).unwrap_or(u64::MAX))
    }

    /// Extends the lifetime of these keys as if they had been written now. Does nothing outside of a scratch space.
    pub(crate) fn keep(&mut self, keys: impl Iterator<Item = String>) -> Result<(), Failure> {
        let Some(lasts_ms) = self.lasts_ms() else {
            return Ok(());
        };
        let mut all = redis::pipe();
        for key in keys {
            all.cmd("PEXPIRE").arg(key).arg(lasts_ms).ignore();
        }
        self.ask_all(&all).map_err(StoreError::into_write_failure)
    }

    /// Returns the number of the connection. What the server remembers for a connection is lost when the number changes.
    pub(crate) fn generation(&self) -> i64 {
        self.lost
    }

    /// Makes sure that the connection works, as pools do before they lend one: pings a connection that was idle, and reconnects
    /// if it broke.
    ///
    /// Do not use this where the server must remember something about the connection.
    pub(crate) fn freshen(&mut self) {
        let idle = self.used.elapsed();
        self.used = Instant::now();
        let Some(connection) = self.connection.as_mut().filter(|_| idle >= IDLE_CONNECTION) else {
            return;
        };
        let answered: RedisResult<()> = redis::cmd("PING").query(connection);
        if answered.as_ref().is_err_and(broke) {
            self.lost += 1;
            self.connection = None;
        }
    }

    /// Sends a command.
    pub(crate) fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, StoreError> {
        self.with(|connection| command.query(connection))
    }

    /// Sends several commands that are executed together.
    pub(crate) fn ask_all<T: FromRedisValue>(
        &mut self,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        self.with(|connection| commands.query(connection))
    }

    /// Runs a script on these keys.
    pub(crate) fn run<T: FromRedisValue>(
        &mut self,
        script: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<T, StoreError> {
        let script = Script::new(script);
        let mut call = script.prepare_invoke();
        call.key(keys).arg(arguments);
        self.with(|connection| call.invoke(connection))
    }

    /// Deletes every key of this space.
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        let pattern = format!("*{}:*", self.space);
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern);
            let (next, mut keys): (String, Vec<String>) = self
                .ask(scan.arg("COUNT").arg(1_000))
                .map_err(StoreError::into_read_failure)?;
            keys.retain(|key| is_in(&self.space, key));
            if !keys.is_empty() {
                let _: i64 = self
                    .ask(redis::cmd("DEL").arg(keys))
                    .map_err(StoreError::into_write_failure)?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Wire) -> RedisResult<T>) -> Result<T, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self
                .connect()
                .map_err(|error| StoreError { error, sent: false })?,
        };
        let done = work(&mut connection);
        // After a failure on the way, answers may no longer match their requests.
        if done.as_ref().is_err_and(broke) {
            self.lost += 1;
        } else {
            self.connection = Some(connection);
        }
        done.map_err(|error| StoreError { error, sent: true })
    }

    fn connect(&mut self) -> RedisResult<Wire> {
        let connection = Wire::connect(&self.client, CONNECT)?;
        connection.limit(ANSWER)?;
        Ok(connection)
    }
}

fn broke(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_a_space_are_taken_for_its_own() {
        for own in ["lab:lock:a", "fp:{lab:lock:a}:fence:lab:lock:a"] {
            assert!(is_in("lab", own), "{own}");
        }
        for other in [
            "lab",
            "lab2:lock:a",
            "my-lab:lock:a",
            "fp:{lab2:a}:line:lab2:a",
            "fp:{x}:lab:a",
        ] {
            assert!(!is_in("lab", other), "{other}");
        }
    }
}

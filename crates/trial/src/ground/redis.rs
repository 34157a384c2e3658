//! A plain connection to a Redis server, for the stock and for hand-made locks.

use std::time::{Duration, Instant};

use fencepost::backend::redis::Redis;
use redis::{Client, Cmd, Connection, FromRedisValue, Pipeline, RedisError, RedisResult, Script};

use crate::strategy::Failure;

/// Where keys live when an endpoint names no space of its own.
const SPACE: &str = "fencepost-lab";
/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// A connection that lay idle for so long is tried before it is used, as pools do: the server may have gone meanwhile.
pub(crate) const IDLE_CONNECTION: Duration = Duration::from_millis(50);

/// The address of the server and the space in which keys are: `redis://…#SPACE`.
fn split(endpoint: &str) -> (&str, &str) {
    endpoint.split_once('#').unwrap_or((endpoint, SPACE))
}

/// The name of a key in the space of an endpoint.
pub(crate) fn key(endpoint: &str, kind: &str, name: &str) -> String {
    key_in(split(endpoint).1, kind, name)
}

fn key_in(space: &str, kind: &str, name: &str) -> String {
    format!("{space}:{kind}:{name}")
}

/// Whether a key belongs to this space: the lab's own, and those that the library keeps beside them.
fn is_in(space: &str, key: &str) -> bool {
    let key = key.strip_prefix("fp:{").unwrap_or(key);
    let rest = key.strip_prefix(space);
    rest.is_some_and(|rest| rest.starts_with(':'))
}

/// The library's way to the server of an endpoint.
pub(crate) async fn library(endpoint: &str) -> Result<Redis, Failure> {
    let opened = Redis::open(split(endpoint).0).await;
    opened.map_err(Failure::definite)
}

/// A connection that is made anew after it broke, and the space in which its keys are.
pub(crate) struct Link {
    client: Client,
    connection: Option<Connection>,
    used: Instant,
    lost: i64,
    space: String,
}

/// What went wrong on the way to the server or there.
pub(crate) struct Trouble {
    error: RedisError,
    /// Whether the request had been sent.
    sent: bool,
}

impl Trouble {
    /// A command that changes something: its answer may be all that was lost.
    pub(crate) fn unwritten(self) -> Failure {
        let answered = !self.error.is_io_error() && !self.error.is_unrecoverable_error();
        if answered || !self.sent {
            Failure::definite(self.message())
        } else {
            Failure::indefinite(self.message())
        }
    }

    /// A command that changes nothing.
    pub(crate) fn unread(self) -> Failure {
        Failure::definite(self.message())
    }

    /// The word with which the server refused.
    pub(crate) fn code(&self) -> Option<&str> {
        self.error.code()
    }

    fn message(&self) -> String {
        let what = if self.sent { "" } else { "no connection: " };
        format!("redis: {what}{}", self.error)
    }
}

impl Link {
    /// Connects to `redis://…`, or `redis://…#SPACE` for keys apart from others'.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        let (url, space) = split(endpoint);
        let client = Client::open(url);
        let client = client.map_err(|error| Failure::definite(format!("redis: {error}")))?;
        let mut link = Self {
            client,
            connection: None,
            used: Instant::now(),
            lost: 0,
            space: space.to_owned(),
        };
        link.with(|_| Ok(())).map_err(Trouble::unread)?;
        Ok(link)
    }

    /// The name of a key in this space.
    pub(crate) fn key(&self, kind: &str, name: &str) -> String {
        key_in(&self.space, kind, name)
    }

    /// Which connection this is: what the server remembers of one is forgotten by the next.
    pub(crate) fn generation(&self) -> i64 {
        self.lost
    }

    /// Sends a command.
    pub(crate) fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Trouble> {
        self.with(|connection| command.query(connection))
    }

    /// Sends several commands that are carried out together.
    pub(crate) fn ask_all<T: FromRedisValue>(&mut self, commands: &Pipeline) -> Result<T, Trouble> {
        self.with(|connection| commands.query(connection))
    }

    /// Runs a script on one key.
    pub(crate) fn run<T: FromRedisValue>(
        &mut self,
        script: &str,
        key: &str,
        argument: &str,
    ) -> Result<T, Trouble> {
        let script = Script::new(script);
        self.with(|connection| script.key(key).arg(argument).invoke(connection))
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
                .map_err(Trouble::unread)?;
            keys.retain(|key| is_in(&self.space, key));
            if !keys.is_empty() {
                let _: i64 = self
                    .ask(redis::cmd("DEL").arg(keys))
                    .map_err(Trouble::unwritten)?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, Trouble> {
        let mut connection = match self.living() {
            Some(connection) => connection,
            None => self
                .connect()
                .map_err(|error| Trouble { error, sent: false })?,
        };
        let done = work(&mut connection);
        // After a failure on the way, answers and questions may no longer match.
        if done.as_ref().is_err_and(broke) {
            self.lost += 1;
        } else {
            self.connection = Some(connection);
        }
        done.map_err(|error| Trouble { error, sent: true })
    }

    /// The connection, unless there is none or it broke while nobody used it.
    fn living(&mut self) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        let idle = self.used.elapsed();
        self.used = Instant::now();
        if idle < IDLE_CONNECTION {
            return Some(connection);
        }
        let answered: RedisResult<()> = redis::cmd("PING").query(&mut connection);
        if answered.as_ref().is_err_and(broke) {
            self.lost += 1;
            return None;
        }
        Some(connection)
    }

    fn connect(&mut self) -> RedisResult<Connection> {
        let connection = self.client.get_connection_with_timeout(CONNECT)?;
        connection.set_read_timeout(Some(ANSWER))?;
        connection.set_write_timeout(Some(ANSWER))?;
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

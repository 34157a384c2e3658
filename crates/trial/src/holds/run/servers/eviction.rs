//! A Redis server that is short of memory and evicts what was used least recently, as caches do.

use std::time::Instant;

use fencepost_rig::resp::{Connection, Value};
use fencepost_rig::{Proxy, Redis};

use super::redis::{ANSWER_TIMEOUT, SERVER, private};
use super::{Seen, Servers, Watched, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::TrialStore;

/// How much memory is left when the server becomes short of it.
const ROOM_BYTES: u64 = 1 << 20;
/// The size of what the lab writes, as other users of a cache would.
const VALUE_BYTES: usize = 8 << 10;
/// How many values the lab writes at most.
const VALUES_MAX: usize = 100_000;
/// How many it writes before it looks again.
const VALUES_AT_ONCE: usize = 50;

/// One server that others use as a cache.
pub(super) struct Crowded {
    front: Proxy,
    server: Redis,
}

impl Crowded {
    /// Starts the server. It has enough memory at first.
    pub(super) fn start() -> Result<Self, Failure> {
        let server = Redis::builder().arguments(["--maxmemory-policy", "allkeys-lru"]);
        let server = server.start().map_err(Failure::definite)?;
        let front = Proxy::start(server.address()).map_err(Failure::definite)?;
        Ok(Self { front, server })
    }

    /// Fills the server until none of the keys that it has now is left. Returns `false` if some stay, or if there are none.
    fn fill(&self) -> Result<bool, Failure> {
        let mut client = Client::of(&self.server)?;
        let keys = client.keys()?;
        if keys.is_empty() {
            return Ok(false);
        }
        let limit = client.info("memory", "used_memory")? + ROOM_BYTES;
        client.limit(limit)?;
        let value = "x".repeat(VALUE_BYTES);
        let mut is_gone = false;
        for number in 0..VALUES_MAX {
            client.ask(&["SET", &format!("fencepost-lab-page-{number}"), &value])?;
            if number % VALUES_AT_ONCE == 0 && client.are_gone(&keys)? {
                is_gone = true;
                break;
            }
        }
        // Nothing else is to be lost.
        client.limit(0)?;
        let evicted = client.info("stats", "evicted_keys")?;
        Ok(is_gone && evicted >= keys.len() as u64)
    }
}

impl Servers for Crowded {
    fn store(&self) -> TrialStore {
        private(&self.front)
    }

    fn misbehave(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        // Taken before: from here on, keys may be gone.
        let at = Instant::now();
        if !self.fill()? {
            return Ok(Vec::new());
        }
        let evicted = seen(at, SERVER, Change::Evicted);
        let inspected = watched.on(SERVER, &self.server.url())?;
        Ok([evicted].into_iter().chain(inspected).collect())
    }
}

/// A connection of the lab's own.
struct Client(Connection);

impl Client {
    fn of(server: &Redis) -> Result<Self, Failure> {
        let connection = Connection::open(server.address(), ANSWER_TIMEOUT);
        connection.map(Self).map_err(Failure::definite)
    }

    fn ask(&mut self, words: &[&str]) -> Result<Value, Failure> {
        match self.0.ask(words).map_err(Failure::definite)? {
            Value::Error(message) => Err(Failure::definite(message)),
            answer => Ok(answer),
        }
    }

    fn keys(&mut self) -> Result<Vec<String>, Failure> {
        let Value::List(keys) = self.ask(&["KEYS", "*"])? else {
            return Ok(Vec::new());
        };
        let text = |key| match key {
            Value::Text(key) => Some(key),
            _ => None,
        };
        Ok(keys.into_iter().filter_map(text).collect())
    }

    /// Returns whether none of these keys is there. Looking does not count as a use.
    fn are_gone(&mut self, keys: &[String]) -> Result<bool, Failure> {
        let words = ["EXISTS"]
            .into_iter()
            .chain(keys.iter().map(String::as_str));
        let words: Vec<&str> = words.collect();
        Ok(self.ask(&words)? == Value::Number(0))
    }

    /// Sets the memory that the server may use; 0 means as much as there is.
    fn limit(&mut self, bytes: u64) -> Result<(), Failure> {
        let bytes = bytes.to_string();
        self.ask(&["CONFIG", "SET", "maxmemory", &bytes]).map(drop)
    }

    fn info(&mut self, section: &str, field: &str) -> Result<u64, Failure> {
        let Value::Text(info) = self.ask(&["INFO", section])? else {
            return Err(Failure::definite("INFO is not text"));
        };
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let value = lines.find(|(name, _)| *name == field);
        let value = value.and_then(|(_, value)| value.parse().ok());
        value.ok_or_else(|| Failure::definite(format!("INFO does not say {field}")))
    }
}

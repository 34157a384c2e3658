//! A Redis client independent of the library, for tests that look at what a server stores, and connections to Redis that die silently.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost_rig::resp::{Connection, Value};
use fencepost_rig::{Direction, Fate, Proxy};

use crate::SOON;

/// A connection that sends plain commands and panics if one fails.
pub struct Plain(Connection);

impl Plain {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        Self(Connection::open(address, SOON).expect("a connection"))
    }

    /// Sends a command that the server may refuse.
    pub fn ask(&mut self, words: &[&str]) -> Value {
        self.0.ask(words).expect("an answer")
    }

    /// Sends a command that must work.
    pub fn does(&mut self, words: &[&str]) {
        let answer = self.ask(words);
        assert!(!matches!(answer, Value::Error(_)), "{words:?}: {answer:?}");
    }

    /// Sends a command that returns a number.
    pub fn number(&mut self, words: &[&str]) -> i64 {
        match self.ask(words) {
            Value::Number(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    /// Sends a command that returns a string or nil.
    pub fn text(&mut self, words: &[&str]) -> Option<String> {
        match self.ask(words) {
            Value::Text(text) => Some(text),
            Value::Nil => None,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    /// Sends a command that returns a list of strings.
    pub fn texts(&mut self, words: &[&str]) -> Vec<String> {
        let Value::List(values) = self.ask(words) else {
            panic!("{words:?}: not a list")
        };
        let text = |value| match value {
            Value::Text(text) => text,
            other => panic!("{words:?}: {other:?}"),
        };
        values.into_iter().map(text).collect()
    }

    /// Returns a field of `INFO`.
    pub fn info(&mut self, field: &str) -> String {
        let info = self.text(&["INFO", "all"]).expect("its fields");
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| *name == field);
        found.expect(field).1.to_owned()
    }

    /// Advances an epoch, as that many grants would. Returns the new epoch.
    pub fn counts_on(&mut self, fence: &str, by: u64) -> u64 {
        let script = "if redis.call('TYPE', KEYS[1]).ok == 'zset' then \
            return tonumber(redis.call('ZINCRBY', KEYS[1], ARGV[1], '2')) end \
            return redis.call('INCRBY', KEYS[1], ARGV[1])";
        let counted = self.number(&["EVAL", script, "1", fence, &by.to_string()]);
        counted.cast_unsigned()
    }

    /// Acquires a lock as plain clients do, without an expiry if `ms` is 0. Returns whether it was free.
    pub fn takes(&mut self, name: &str, ms: u64) -> bool {
        let ms = ms.to_string();
        let with_expiry = ["SET", name, "plain", "NX", "PX", &ms];
        let words = if ms == "0" {
            &with_expiry[..4]
        } else {
            &with_expiry[..]
        };
        self.ask(words) == Value::Word("OK".into())
    }

    /// Returns the keys that are left, except for counters with an expiry. Those have `counters` in their names.
    pub fn left_besides(&mut self, counters: &str) -> String {
        let mut left = String::new();
        for key in self.texts(&["KEYS", "*"]) {
            let life = self.number(&["PTTL", &key]);
            let is_gone = life == -2;
            let is_counter = key.starts_with("fp:{") && key.contains(counters) && life > 0;
            if !is_gone && !is_counter {
                left.push_str(&format!("{key} ({life} ms) "));
            }
        }
        left
    }
}

/// Returns whether a message contains this text.
pub fn contains(message: &[u8], text: &str) -> bool {
    message
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Makes the existing connections through a proxy die silently. Connections that are opened later work.
pub fn dies_silently(proxy: &Proxy) {
    let is_dead = Arc::new(AtomicBool::new(true));
    proxy.judge(Direction::ToServer, move |message| {
        if contains(message, "HELLO") {
            is_dead.store(false, Ordering::Relaxed);
        }
        if is_dead.load(Ordering::Relaxed) {
            Fate::Lose
        } else {
            Fate::Pass
        }
    });
}

//! The Lua scripts, which are called by hash, or by text if the server does not know the hash (yet, or any more).

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Arg, Cmd, Value};

use crate::clock::Moment;
use crate::fence::Fence;

/// A script and its hash.
pub(crate) struct Script {
    code: String,
    hash: String,
}

impl Script {
    pub(crate) fn new(parts: &[&str]) -> Self {
        let code = parts.concat();
        let hash = redis::Script::new(&code).get_hash().to_owned();
        Self { code, hash }
    }

    /// Returns a call by hash with this many keys. The caller appends the keys and then the arguments.
    pub(crate) fn call(&self, keys: usize) -> Cmd {
        let mut call = Cmd::with_capacity(16, 384);
        call.arg("EVALSHA").arg(&self.hash).arg(keys);
        call
    }

    /// Returns the same call by text, which makes the server remember the script.
    pub(crate) fn by_text(&self, call: &Cmd) -> Cmd {
        let mut by_text = redis::cmd("EVAL");
        by_text.arg(&self.code);
        for argument in call.args_iter().skip(2) {
            if let Arg::Simple(bytes) = argument {
                by_text.arg(bytes);
            }
        }
        by_text
    }
}

macro_rules! script {
    ($name:ident: $($part:expr),+) => {
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(&[$($part),+]));
    };
}

/// The member under which a fence stores its epoch; see `shared.lua`.
pub(super) const LAYOUT: u8 = 2;

const SHARED: &str = include_str!("scripts/shared.lua");

script!(ACQUIRE: include_str!("scripts/acquire_fast.lua"), SHARED, include_str!("scripts/acquire.lua"));
script!(RELEASE: include_str!("scripts/release_fast.lua"), SHARED, include_str!("scripts/release.lua"));
script!(BEAT: "local call = redis.call\n", SHARED, include_str!("scripts/beat.lua"));
script!(RENEW: include_str!("scripts/renew.lua"));
script!(READ_RECORD: include_str!("scripts/read_record.lua"));
script!(REPLACE_RECORD: include_str!("scripts/replace_record.lua"));
script!(INSPECT: include_str!("scripts/inspect.lua"));

/// Returns a time in the form that the scripts expect.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time of sending, which goes to the server and comes back with a grant: whole microseconds, rounded down.
pub(super) fn stamp(moment: Moment) -> u64 {
    moment.as_nanos() / 1000
}

/// Returns the moment of a stamp, or `None` if no moment has that stamp.
pub(super) fn of_stamp(stamp: u64) -> Option<Moment> {
    Some(Moment::from_nanos(stamp.checked_mul(1000)?))
}

/// Returns whether this is a valid epoch of a fence.
pub(super) fn is_epoch(number: u64) -> bool {
    (1..Fence::EPOCH_END).contains(&number)
}

/// Reads the answers of the scripts, which are arrays of integers and texts.
pub(crate) trait ReadValue {
    fn items(&self) -> Option<&[Value]>;
    fn integer(&self) -> Option<i64>;
    fn text(&self) -> Option<&str>;

    fn item(&self, at: usize) -> Option<&Value> {
        self.items()?.get(at)
    }

    /// Returns the epoch, or `None` if the number cannot be an epoch of this store.
    fn epoch(&self) -> Option<u64> {
        let epoch = u64::try_from(self.integer()?).ok()?;
        is_epoch(epoch).then_some(epoch)
    }
}

impl ReadValue for Value {
    fn items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the integer. Large numbers arrive as text, because numbers in scripts lose digits. Scores of sorted sets arrive as
    /// floating-point numbers, which are exact up to 2⁵³.
    fn integer(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Double(score) if score.fract() == 0.0 => Some(*score as i64),
            text => text.text()?.parse().ok(),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
            Value::SimpleString(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast paths come before the constants of `shared.lua`, so that a call that ends in them does not execute these.
    #[test]
    fn the_fast_paths_have_the_numbers_of_the_shared_part() {
        let (acquire, release) = (
            include_str!("scripts/acquire_fast.lua"),
            include_str!("scripts/release_fast.lua"),
        );
        let shared = |line: String| assert!(SHARED.contains(&line), "{line}");
        shared(format!("local LAYOUT = '{LAYOUT}'\n"));
        for fast in [acquire, release] {
            let count = format!("'ZADD', KEYS[3], 'XX', 'INCR', 1, '{LAYOUT}')");
            assert_eq!(fast.matches("'INCR'").count(), 1);
            assert!(fast.contains(&count));
        }
        shared("local LAYOUT_1_END = 2 ^ 42\n".to_owned());
        assert!(acquire.contains(&format!("tonumber(epoch) > {} then", 1_u64 << 42)));
        shared("local LINE_LIFE = 10000\n".to_owned());
        assert!(acquire.contains("call('PEXPIRE', KEYS[2], 10000)"));
        shared("waited > live * 166 end\n".to_owned());
        assert!(release.contains("waited < live * 166 and"));
    }

    #[test]
    fn only_what_a_fence_can_have_is_read_as_an_epoch() {
        assert_eq!(Value::Int(17).epoch(), Some(17));
        assert_eq!(Value::Double(17.0).epoch(), Some(17));
        assert_eq!(Value::BulkString(b"17".into()).epoch(), Some(17));
        for absurd in [-1, 0, i64::MIN, i64::MAX, 1 << 47] {
            assert_eq!(Value::Int(absurd).epoch(), None, "{absurd}");
        }
        for absurd in [-1.0, 0.5, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(Value::Double(absurd).epoch(), None, "{absurd}");
        }
        assert_eq!(Value::Nil.epoch(), None);
    }
}

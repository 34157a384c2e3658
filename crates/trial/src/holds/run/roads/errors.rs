//! Errors with which the lab answers a process in place of its store: which ones, to which commands, and whether the server carries the
//! command out all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_rig::{Proxy, StandIn};

use crate::history::Fault;

/// An error of a store of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::holds::run) enum StoreError {
    /// The server is out of memory. It refuses commands that may need more.
    OutOfMemory,
    /// The server is a replica. It refuses commands that write.
    ReadOnly,
    /// The server is loading its data. It refuses nearly everything.
    Loading,
    /// A proxy of Redis, such as Envoy, got no reply from its server in time. The server has carried the command out.
    Upstream,
}

/// Commands that a server carries out although it refuses writes.
const READS: [&str; 31] = [
    "GET",
    "MGET",
    "STRLEN",
    "GETRANGE",
    "EXISTS",
    "TTL",
    "PTTL",
    "TYPE",
    "KEYS",
    "SCAN",
    "TIME",
    "HGET",
    "HMGET",
    "HGETALL",
    "HEXISTS",
    "HLEN",
    "ZSCORE",
    "ZRANGE",
    "ZRANK",
    "ZCARD",
    "LRANGE",
    "LLEN",
    "LINDEX",
    "SMEMBERS",
    "SISMEMBER",
    "SCARD",
    "PUBLISH",
    "SCRIPT",
    "EVAL_RO",
    "EVALSHA_RO",
    "WAIT",
];

/// Commands that need no further memory.
const FREES: [&str; 17] = [
    "DEL",
    "UNLINK",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "PERSIST",
    "GETDEL",
    "GETEX",
    "HDEL",
    "SREM",
    "ZREM",
    "ZREMRANGEBYSCORE",
    "LREM",
    "LPOP",
    "RPOP",
    "FCALL_RO",
];

/// Commands that a server carries out while it is loading.
const WHILE_LOADING: [&str; 3] = ["WATCH", "UNWATCH", "PUBLISH"];

impl StoreError {
    /// Returns whether a server answers a command with this error.
    fn is_for(self, command: &str) -> bool {
        let is_among = |commands: &[&str]| commands.contains(&command);
        let is_read = is_among(&READS) || is_among(&WHILE_LOADING);
        match self {
            Self::OutOfMemory => !is_read && !is_among(&FREES),
            Self::ReadOnly => !is_read,
            Self::Loading => !is_among(&WHILE_LOADING),
            Self::Upstream => true,
        }
    }

    fn stand_in(self) -> StandIn {
        let error = match self {
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::Loading => "LOADING Redis is loading the dataset in memory",
            Self::Upstream => "upstream failure",
        };
        StandIn {
            error,
            is_carried_out: self == Self::Upstream,
        }
    }

    /// Returns the fault that a process meets.
    pub(in crate::holds::run) fn fault(self) -> Fault {
        match self {
            Self::OutOfMemory => Fault::AnsweredOom,
            Self::ReadOnly => Fault::AnsweredReadOnly,
            Self::Loading => Fault::AnsweredLoading,
            Self::Upstream => Fault::AnsweredUpstream,
        }
    }
}

/// Which requests to each server are answered with an error, counted from the moment at which the lab decided so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::holds::run) enum Which {
    /// The one with this number.
    Number(u64),
    /// All of them.
    All,
}

/// An error that some requests meet.
#[derive(Debug)]
pub(super) struct Errors {
    error: StoreError,
    is_met: AtomicBool,
    is_told: AtomicBool,
}

impl Errors {
    /// Lets these requests to each of the servers meet the error.
    pub(super) fn at(proxies: &[Proxy], error: StoreError, which: Which) -> Arc<Self> {
        let errors = Arc::new(Self {
            error,
            is_met: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
        });
        for proxy in proxies {
            let (errors, seen) = (Arc::clone(&errors), AtomicU64::new(0));
            proxy.stand_in(move |command| {
                if !error.is_for(command) {
                    return None;
                }
                let number = seen.fetch_add(1, Ordering::SeqCst) + 1;
                let is_chosen = which == Which::All || which == Which::Number(number);
                is_chosen.then(|| errors.meet())
            });
        }
        errors
    }

    fn meet(&self) -> StandIn {
        self.is_met.store(true, Ordering::SeqCst);
        self.error.stand_in()
    }

    /// Returns the fault when a request has met the error, once.
    pub(super) fn tell_met(&self) -> Option<Fault> {
        let is_new =
            self.is_met.load(Ordering::SeqCst) && !self.is_told.swap(true, Ordering::SeqCst);
        is_new.then(|| self.error.fault())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_refuses_only_what_it_really_refuses() {
        let refused = |error: StoreError| {
            let commands = ["SET", "EVALSHA", "DEL", "PEXPIRE", "GET", "WATCH"];
            commands.map(|command| error.is_for(command))
        };
        assert_eq!(
            refused(StoreError::OutOfMemory),
            [true, true, false, false, false, false]
        );
        assert_eq!(
            refused(StoreError::ReadOnly),
            [true, true, true, true, false, false]
        );
        assert_eq!(
            refused(StoreError::Loading),
            [true, true, true, true, true, false]
        );
        assert_eq!(refused(StoreError::Upstream), [true; 6]);
    }
}

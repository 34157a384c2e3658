//! The Lua scripts that vote, and the operation of each.

use std::sync::LazyLock;

use crate::error::Operation;
use crate::stores::redis::for_redlock::Script;

macro_rules! script {
    ($name:ident: $($file:literal),+) => {
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(&[$(include_str!($file)),+]));
    };
}

script!(LOCK: "scripts/counter.lua", "scripts/lock.lua");
script!(ACCEPT: "scripts/counter.lua", "scripts/accept.lua");
script!(RENEW: "scripts/counter.lua", "scripts/renew.lua");
script!(RELEASE: "scripts/release.lua");

/// The scripts, as indexes of a server's list of scripts that it knows.
#[derive(Clone, Copy)]
pub(super) enum ScriptId {
    Lock,
    Accept,
    Release,
    Renew,
}

impl ScriptId {
    /// Returns the operation, which decides how long a connection may be silent.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::Lock | Self::Accept => Operation::Acquire,
            Self::Release => Operation::Release,
            Self::Renew => Operation::Renew,
        }
    }

    pub(super) fn script(self) -> &'static Script {
        match self {
            Self::Lock => &LOCK,
            Self::Accept => &ACCEPT,
            Self::Release => &RELEASE,
            Self::Renew => &RENEW,
        }
    }
}

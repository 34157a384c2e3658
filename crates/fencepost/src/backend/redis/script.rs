//! The scripts, and how one is called: by its hash, or by its text where the server does not know it (yet, or any more).

use std::sync::LazyLock;

use redis::{Cmd, Value};

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

    /// The call by hash.
    pub(super) fn by_hash(&self, call: &Call) -> Cmd {
        call.command("EVALSHA", &self.hash)
    }

    /// The call by text, which teaches the server the hash.
    pub(super) fn by_text(&self, call: &Call) -> Cmd {
        call.command("EVAL", &self.code)
    }
}

macro_rules! script {
    ($name:ident: $($part:literal),+) => {
        pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(&[$(include_str!(concat!("scripts/", $part, ".lua"))),+]));
    };
}

script!(ACQUIRE: "shared", "acquire");
script!(RELEASE: "shared", "release");
script!(BEAT: "shared", "beat");
script!(RENEW: "renew");
script!(INSPECT: "inspect");

/// The keys and arguments of one call.
#[derive(Debug, Default)]
pub(crate) struct Call {
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    pub(crate) fn keys<'a>(mut self, keys: impl IntoIterator<Item = &'a str>) -> Self {
        self.keys.extend(keys.into_iter().map(str::to_owned));
        self
    }

    pub(crate) fn arg(self, argument: impl ToString) -> Self {
        self.bytes(argument.to_string().as_bytes())
    }

    pub(crate) fn bytes(mut self, argument: &[u8]) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len());
        for key in &self.keys {
            command.arg(key);
        }
        for argument in &self.arguments {
            command.arg(argument);
        }
        command
    }
}

/// Reads answers of the scripts: arrays of integers and texts.
pub(crate) trait Answer {
    fn items(&self) -> Option<&[Value]>;
    fn integer(&self) -> Option<i64>;
    fn text(&self) -> Option<&str>;

    fn item(&self, at: usize) -> Option<&Value> {
        self.items()?.get(at)
    }
}

impl Answer for Value {
    fn items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Large numbers come as text, because a script's own numbers lose their digits.
    fn integer(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
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

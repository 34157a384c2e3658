//! A blocking Redis connection that returns the server's refusals as values, not as errors.

use std::time::{Duration, Instant};

use fencepost::stores::redis::Redis;
use redis::{Connection, FromRedisValue, ProtocolVersion, RedisError, RedisResult};

use super::ANSWER_TIMEOUT;
use crate::command_error::system_words;

/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a server cannot be examined.
#[derive(Debug)]
pub(in super::super) enum Gone {
    /// Nothing answers; contains the system's message.
    Silent(String),
    /// Something answers, but it is not Redis.
    NotRedis,
    /// The server answers, but does not let this user in.
    Refuses(String),
}

/// The outcome of a command.
pub(super) enum Reply<T> {
    Said(T),
    /// The user may not call the command.
    Denied,
    /// The server does not know the command or these arguments; contains its message.
    Refused(String),
}

impl<T> Reply<T> {
    /// Drops the value.
    pub(super) fn emptied(self) -> Reply<()> {
        match self {
            Self::Said(_) => Reply::Said(()),
            Self::Denied => Reply::Denied,
            Self::Refused(words) => Reply::Refused(words),
        }
    }

    pub(super) fn said(self) -> Option<T> {
        match self {
            Self::Said(value) => Some(value),
            Self::Denied | Self::Refused(_) => None,
        }
    }
}

pub(super) struct Server {
    connection: Connection,
    user: String,
}

/// Waits until a server answers, at most for `timeout`.
pub(super) fn reach(address: &str, timeout: Duration) -> Result<(), Gone> {
    let started = Instant::now();
    loop {
        let tried = Server::open(address).and_then(|mut server| server.ask::<String>(&["PING"]));
        match tried {
            Ok(Reply::Refused(words)) if words.starts_with("LOADING") => {
                if started.elapsed() + PAUSE >= timeout {
                    return Err(Gone::Refuses(words));
                }
            }
            Ok(Reply::Refused(words)) if words.starts_with("NOAUTH") => {
                return Err(Gone::Refuses(words));
            }
            Ok(_) => return Ok(()),
            Err(Gone::Silent(words)) if started.elapsed() + PAUSE >= timeout => {
                let tried = timeout.as_secs_f64();
                return Err(Gone::Silent(format!("{words}, tried for {tried:.1} s")));
            }
            Err(Gone::Silent(_)) => {}
            Err(gone) => return Err(gone),
        }
        std::thread::sleep(PAUSE);
    }
}

impl Server {
    /// Connects with RESP2, which every server supports.
    pub(super) fn open(address: &str) -> Result<Self, Gone> {
        Self::connect(address, ProtocolVersion::RESP2).map_err(|error| gone(&error))
    }

    /// Connects with RESP3, as the library does. The inner error is the server's refusal.
    pub(super) fn open_resp3(address: &str) -> Result<Result<Self, String>, Gone> {
        match Self::connect(address, ProtocolVersion::RESP3) {
            Ok(server) => Ok(Ok(server)),
            Err(error) if error.is_io_error() => Err(gone(&error)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn connect(address: &str, protocol: ProtocolVersion) -> RedisResult<Self> {
        let client = Redis::visit(address, protocol).map_err(|error| {
            let what = error.message().to_owned();
            RedisError::from((redis::ErrorKind::InvalidClientConfig, "address", what))
        })?;
        let settings = client.get_connection_info().redis_settings();
        let user = settings.username().unwrap_or("default").to_owned();
        let connection = client.get_connection_with_timeout(ANSWER_TIMEOUT)?;
        connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        connection.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { connection, user })
    }

    /// Returns the user that the address names.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> Result<Reply<T>, Gone> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        match command.query(&mut self.connection) {
            Ok(value) => Ok(Reply::Said(value)),
            Err(error) if error.code() == Some("NOPERM") => Ok(Reply::Denied),
            Err(error) if error.code().is_some() => Ok(Reply::Refused(words_of(&error))),
            Err(error) => Err(gone(&error)),
        }
    }
}

/// Returns the server's error: its code and its message.
fn words_of(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    match error.detail() {
        Some(detail) => format!("{code} {detail}"),
        None => code.to_owned(),
    }
}

fn gone(error: &RedisError) -> Gone {
    match error.kind() {
        redis::ErrorKind::AuthenticationFailed => {
            Gone::Refuses("wrong user or password".to_owned())
        }
        _ if error.code().is_some() => Gone::Refuses(words_of(error)),
        _ if error.is_timeout() => Gone::Silent("no answer".to_owned()),
        _ if error.is_io_error() => Gone::Silent(silence(error)),
        redis::ErrorKind::InvalidClientConfig => Gone::Refuses(error.to_string()),
        _ => Gone::NotRedis,
    }
}

/// Describes an I/O error. If this process is stopped and continued while it waits for an answer, the system interrupts the wait and the
/// client returns `EINTR`; that counts as no answer.
fn silence(error: &RedisError) -> String {
    let interrupted = system_words(&std::io::Error::from(nix::errno::Errno::EINTR));
    match system_words(&std::io::Error::other(error.to_string())) {
        words if words == interrupted => "no answer".to_owned(),
        words => words,
    }
}

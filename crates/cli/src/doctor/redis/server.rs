//! A connection on which refusals are answers.

use std::time::{Duration, Instant};

use fencepost::stores::redis::Redis;
use redis::{Connection, FromRedisValue, ProtocolVersion, RedisError, RedisResult};

use super::PATIENCE;
use crate::fault::system_words;

/// Before somebody who is not there is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// A server that can no longer be examined, or never could.
#[derive(Debug)]
pub(in super::super) enum Gone {
    /// Nobody answers, in the system's words.
    Silent(String),
    /// Somebody answers, but it is not Redis.
    NotRedis,
    /// It answers, and lets nobody in.
    Refuses(String),
}

/// What came of a command.
pub(super) enum Reply<T> {
    Said(T),
    /// The user may not.
    Denied,
    /// The server does not know the command, or not like that.
    Refused(String),
}

impl<T> Reply<T> {
    /// The same without what was said.
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

/// Waits until somebody answers, at most for `patience`.
pub(super) fn reach(address: &str, patience: Duration) -> Result<(), Gone> {
    let started = Instant::now();
    loop {
        let tried = Server::open(address).and_then(|mut server| server.ask::<String>(&["PING"]));
        match tried {
            Ok(Reply::Refused(words)) if words.starts_with("LOADING") => {
                if started.elapsed() + PAUSE >= patience {
                    return Err(Gone::Refuses(words));
                }
            }
            Ok(Reply::Refused(words)) if words.starts_with("NOAUTH") => {
                return Err(Gone::Refuses(words));
            }
            Ok(_) => return Ok(()),
            Err(Gone::Silent(words)) if started.elapsed() + PAUSE >= patience => {
                let tried = patience.as_secs_f64();
                return Err(Gone::Silent(format!("{words}, tried for {tried:.1} s")));
            }
            Err(Gone::Silent(_)) => {}
            Err(gone) => return Err(gone),
        }
        std::thread::sleep(PAUSE);
    }
}

impl Server {
    /// Connects as every old client can.
    pub(super) fn open(address: &str) -> Result<Self, Gone> {
        Self::connect(address, ProtocolVersion::RESP2).map_err(|error| gone(&error))
    }

    /// Connects as the library does; what the server says when it cannot.
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
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { connection, user })
    }

    /// Whom the address names.
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

/// As the server said it: code and sentence.
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

/// Where this process was stopped and continued while it waited for an answer, the system ends the wait; the client passes that on.
fn silence(error: &RedisError) -> String {
    let interrupted = system_words(&std::io::Error::from(nix::errno::Errno::EINTR));
    match system_words(&std::io::Error::other(error.to_string())) {
        words if words == interrupted => "no answer".to_owned(),
        words => words,
    }
}

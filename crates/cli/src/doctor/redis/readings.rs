//! Reads the settings of a Redis server and the rights of the user. Writes nothing: it tests rights with commands that have no effect, or
//! asks the server for them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use fencepost::random::{Random, SystemRandom};
use redis::Value;

use super::super::pace::{self, Sample, Stopwatch};
use super::server::{Gone, Reply, Server};

/// Asks the server which of the commands in the locks' scripts the user may not call, without calling them.
/// `acl_check_cmd` exists since Redis 7.0; on older servers the script returns `false`.
const MAY_NOT: &str = "
    if not redis.acl_check_cmd then return false end
    local denied = {}
    for command in string.gmatch(ARGV[2], '%S+') do
        local call = command == 'TIME' and {command} or {command, ARGV[1]}
        local known, allowed = pcall(redis.acl_check_cmd, unpack(call))
        if not (known and allowed) then denied[#denied + 1] = command end
    end
    return denied";
/// Every command in the scripts of locks and fenced resources.
const COMMANDS: &str = "DEL EXISTS GET HDEL HGET HSET PEXPIRE PTTL SET SETRANGE STRLEN TIME TYPE ZADD ZINCRBY ZPOPMIN ZRANGE ZRANK ZREM ZSCORE";
/// A name like those of the locks' own keys and channels.
const KEY: &str = "fp:{fencepost-doctor}:line:fencepost-doctor";
/// The id of a connection that does not exist.
const NOBODY: &str = "9223372036854775807";
/// How many connections are opened to see whether the same server answers each time.
const CONNECTIONS: usize = 6;

/// What the rules for Redis judge.
pub(in super::super) struct Readings {
    pub(super) info: Option<Info>,
    pub(super) user: String,
    pub(super) save: Setting,
    /// `appendfsync`; `None` without an append-only file.
    pub(super) fsync: Option<Setting>,
    /// How many servers answer at the address; `None` if the user may not ask for their `run_id`.
    pub(super) servers: Option<usize>,
    /// The answer of a script that multiplies 6 by 7.
    pub(super) script: Reply<i64>,
    /// Commands of the locks' scripts that the user may not call; `None` if the server cannot answer that.
    pub(super) denied: Option<Vec<String>>,
    pub(super) subscribe: Reply<()>,
    pub(super) may_publish: bool,
    pub(super) kill: Reply<()>,
    /// The server's refusal if it does not support RESP3.
    pub(super) resp3: Result<(), String>,
    /// `None` without RESP3.
    pub(super) tracking: Option<Reply<()>>,
    /// Readings of the server's clock; `None` if the user may not call `TIME`.
    pub(super) samples: Option<Vec<Sample>>,
}

/// The fields of `INFO`, by name.
#[derive(Debug, Default)]
pub(super) struct Info(HashMap<String, String>);

impl Info {
    pub(super) fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let owned = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Self(owned.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// A value of the configuration.
pub(super) enum Setting {
    Is(String),
    /// Why the value could not be read.
    Unknown(String),
}

impl Readings {
    pub(super) fn of(address: &str) -> Result<Self, Gone> {
        let mut server = Server::open(address)?;
        let info = server.ask::<String>(&["INFO"])?.said();
        let info = info.map(|text| Info::parse(&text));
        let user = server.ask::<String>(&["ACL", "WHOAMI"])?.said();
        let user = user.unwrap_or_else(|| server.user().to_owned());
        let save = setting(&user, &mut server, "save")?;
        let has_file = info.as_ref().and_then(|info| info.get("aof_enabled"));
        let fsync = match has_file.filter(|enabled| *enabled != "0") {
            Some(_) => Some(setting(&user, &mut server, "appendfsync")?),
            None => None,
        };
        let servers = servers(info.as_ref(), address)?;
        let script = server.ask(&["EVAL", "return 6 * 7", "0"])?;
        let denied_commands = denied(&mut server, COMMANDS)?;
        let subscribe = subscribe(address)?;
        let may_not_publish = match &subscribe {
            Reply::Said(()) => denied(&mut server, "PUBLISH")?,
            Reply::Denied | Reply::Refused(_) => None,
        };
        let kill = server.ask::<i64>(&["CLIENT", "KILL", "ID", NOBODY])?;
        let (resp3, tracking) = match Server::open_resp3(address)? {
            Ok(mut modern) => (Ok(()), Some(tracking(&mut modern)?)),
            Err(words) => (Err(words), None),
        };
        Ok(Self {
            info,
            user,
            save,
            fsync,
            servers,
            script,
            denied: denied_commands,
            subscribe,
            may_publish: may_not_publish.is_none_or(|denied| denied.is_empty()),
            kill: kill.emptied(),
            resp3,
            tracking,
            samples: samples(&mut server)?,
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.info.as_ref()?.get(name)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }

    /// Returns an id that no other server has.
    pub(super) fn identity(&self) -> Option<String> {
        self.get("run_id").map(str::to_owned)
    }

    /// Returns whether the user may call none of the commands on keys of locks. (`TIME` needs no key.)
    pub(super) fn lacks_all_keys(&self) -> bool {
        let all = COMMANDS.split_whitespace().count() - 1;
        self.denied
            .as_ref()
            .is_some_and(|denied| denied.len() >= all)
    }

    /// Returns `Redis` or `Valkey`.
    pub(super) fn name(&self) -> &'static str {
        match self.get("server_name") {
            Some("valkey") => "Valkey",
            _ => "Redis",
        }
    }

    pub(super) fn version(&self) -> Option<&str> {
        let own = self.get("valkey_version");
        own.or_else(|| self.get("redis_version"))
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.is("cluster_enabled", "1") || self.is("redis_mode", "cluster")
    }

    /// Compares the Redis version that the server is compatible with; forks report that too. `None` if the version is missing or not a
    /// number.
    pub(super) fn is_older_than(&self, oldest: [u32; 2]) -> Option<bool> {
        let mut parts = self.get("redis_version")?.split('.');
        let mut number = || parts.next()?.parse::<u32>().ok();
        let version = [number()?, number()?];
        Some(version < oldest)
    }
}

fn setting(user: &str, server: &mut Server, name: &str) -> Result<Setting, Gone> {
    let pair: Reply<Vec<String>> = server.ask(&["CONFIG", "GET", name])?;
    Ok(match pair {
        Reply::Denied => Setting::Unknown(format!("user {user} may not CONFIG GET {name}")),
        Reply::Refused(words) => {
            Setting::Unknown(format!("CONFIG GET {name}: the server says '{words}'"))
        }
        Reply::Said(pair) => match pair.into_iter().nth(1) {
            Some(value) => Setting::Is(value),
            None => Setting::Unknown(format!("the server has no setting {name}")),
        },
    })
}

/// Returns how many different servers answer at the address. There must be only one: locks on different servers do not exclude each other.
fn servers(info: Option<&Info>, address: &str) -> Result<Option<usize>, Gone> {
    let Some(first) = info.and_then(|info| info.get("run_id")) else {
        return Ok(None);
    };
    let mut servers = BTreeSet::from([first.to_owned()]);
    for _ in 1..CONNECTIONS {
        let info = Server::open(address)?.ask::<String>(&["INFO", "server"])?;
        let info = info.said().map(|text| Info::parse(&text));
        servers.extend(info.and_then(|info| info.get("run_id").map(str::to_owned)));
    }
    Ok(Some(servers.len()))
}

/// Returns those of `commands` that the user may not call on keys, or channels, like [`KEY`]; `None` if the server cannot answer that.
fn denied(server: &mut Server, commands: &str) -> Result<Option<Vec<String>>, Gone> {
    let reply: Reply<Option<Vec<String>>> = server.ask(&["EVAL", MAY_NOT, "0", KEY, commands])?;
    Ok(reply.said().flatten())
}

/// Subscribes on a separate connection, because a connection that is subscribed accepts no other commands.
fn subscribe(address: &str) -> Result<Reply<()>, Gone> {
    let channel = format!("fp:{:016x}", SystemRandom.next_u64());
    let reply = Server::open(address)?.ask::<Value>(&["SUBSCRIBE", &channel])?;
    Ok(reply.emptied())
}

fn tracking(server: &mut Server) -> Result<Reply<()>, Gone> {
    let reply = server.ask::<Value>(&["CLIENT", "TRACKING", "ON", "OPTIN"])?;
    Ok(reply.emptied())
}

fn samples(server: &mut Server) -> Result<Option<Vec<Sample>>, Gone> {
    let start = Instant::now();
    let mut samples = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Stopwatch::now();
        let Some((seconds, micros)) = server.ask::<(u64, u32)>(&["TIME"])?.said() else {
            return Ok(None);
        };
        let theirs = Duration::from_secs(seconds) + Duration::from_micros(micros.into());
        samples.push(asked.answered(theirs, start));
    }
    Ok(Some(samples))
}

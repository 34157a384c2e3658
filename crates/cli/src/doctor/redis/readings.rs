//! What a Redis server says of itself and what this user may do there. Nothing is written: rights are tried with commands that change
//! nothing, or asked of the server itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fencepost::random::{Random, SystemRandom};
use redis::Value;

use super::super::pace::{self, Sample, Stopwatch};
use super::info::Info;
use super::server::{Gone, Reply, Server};

/// Asks the server itself which of the commands in the locks' scripts the user may not call; it calls none of them.
/// Redis 7.0 has this function, older servers have not.
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
/// A key of the kind that the locks keep beside their names; a channel of that name is one of theirs too.
const KEY: &str = "fp:{fencepost-doctor}:line:fencepost-doctor";
/// A connection that nobody has.
const NOBODY: &str = "9223372036854775807";
/// Connections that are made to see whether the same server answers each time.
const CONNECTIONS: usize = 6;

/// What is known when the rules are applied.
pub(in super::super) struct Readings {
    pub(super) info: Option<Info>,
    pub(super) user: String,
    pub(super) save: Setting,
    /// `None` without an append-only file.
    pub(super) fsync: Option<Setting>,
    /// How many servers answer at the address; `None` if they do not tell.
    pub(super) servers: Option<usize>,
    /// What a script answers that multiplies 6 by 7.
    pub(super) script: Reply<i64>,
    /// Commands of the locks' scripts that the user may not call; `None` if the server cannot say.
    pub(super) denied: Option<Vec<String>>,
    pub(super) subscribe: Reply<()>,
    pub(super) may_publish: bool,
    pub(super) kill: Reply<()>,
    /// Whether the server speaks RESP3, and else what it says.
    pub(super) resp3: Result<(), String>,
    /// `None` without RESP3.
    pub(super) tracking: Option<Reply<()>>,
    /// The server's time; `None` if the user may not ask for it.
    pub(super) samples: Option<Vec<Sample>>,
}

/// A value of the configuration.
pub(super) enum Setting {
    Is(String),
    /// Why it cannot be told.
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

    /// What tells this server from others.
    pub(super) fn identity(&self) -> Option<String> {
        self.get("run_id").map(str::to_owned)
    }

    /// Whether hardly any command on keys of locks is allowed. TIME needs no key.
    pub(super) fn lacks_all_keys(&self) -> bool {
        let all = COMMANDS.split_whitespace().count() - 1;
        self.denied
            .as_ref()
            .is_some_and(|denied| denied.len() >= all)
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

/// The same address must always lead to the same server: locks on two of them exclude nobody.
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

/// Those of `commands` that the user may not call on keys, or channels, like [`KEY`]; `None` if it cannot be told.
fn denied(server: &mut Server, commands: &str) -> Result<Option<Vec<String>>, Gone> {
    let reply: Reply<Option<Vec<String>>> = server.ask(&["EVAL", MAY_NOT, "0", KEY, commands])?;
    Ok(reply.said().flatten())
}

/// On a connection of its own, which is of no other use afterwards.
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

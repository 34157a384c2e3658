//! What the user may do, and what that costs where it may not.

use fencepost::random::{Random, SystemRandom};

use redis::Value;

use super::super::finding::{Finding, Harm};
use super::Known;
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
/// What it means not to be told.
const POLLING: &str = "Nobody can be told that it is its turn: whoever waits asks every 25 ms.";
/// A connection that nobody has.
const NOBODY: &str = "9223372036854775807";

pub(super) fn judge(
    known: &Known,
    server: &mut Server,
    address: &str,
) -> Result<Vec<Finding>, Gone> {
    let mut findings = vec![scripts(known, server)?];
    findings.extend(commands(known, server)?);
    findings.push(channels(known, server, address)?);
    findings.push(killing(known, server)?);
    findings.extend(modern(known, address)?);
    Ok(findings)
}

fn cannot(known: &Known, what: &str, reason: Option<&str>) -> String {
    match reason {
        None => format!("user {} may not {what}", known.user),
        Some(words) => format!("{what}: the server says '{words}'"),
    }
}

fn scripts(known: &Known, server: &mut Server) -> Result<Finding, Gone> {
    let what = match server.ask::<i64>(&["EVAL", "return 6 * 7", "0"])? {
        Reply::Said(42) => return Ok(Finding::fine("scripts", "scripts")),
        Reply::Said(_) => "scripts do not give the right answers".to_owned(),
        Reply::Denied => cannot(known, "run scripts", None),
        Reply::Refused(words) => cannot(known, "scripts do not run", Some(&words)),
    };
    Ok(Finding::danger("scripts", Harm::NoLocks, what)
        .means("Every step of a lock is a script: no lock can be taken.")
        .advice("+eval and +evalsha for this user"))
}

/// Those of `commands` that the user may not call on keys, or channels, like [`KEY`]; `None`: it cannot be told.
fn denied(server: &mut Server, commands: &str) -> Result<Option<Vec<String>>, Gone> {
    let reply: Reply<Option<Vec<String>>> = server.ask(&["EVAL", MAY_NOT, "0", KEY, commands])?;
    Ok(reply.said().flatten())
}

fn commands(known: &Known, server: &mut Server) -> Result<Option<Finding>, Gone> {
    let Some(denied) = denied(server, COMMANDS)? else {
        return Ok(None);
    };
    if denied.is_empty() {
        return Ok(Some(Finding::fine("keys", "keys of locks")));
    }
    // TIME needs no key.
    let all = COMMANDS.split_whitespace().count() - 1;
    let what = match denied.len() >= all {
        true => cannot(known, "use keys that begin with fp:", None),
        false => cannot(known, &format!("call {}", denied.join(", ")), None),
    };
    let finding = Finding::danger("keys", Harm::NoLocks, what)
        .means("The scripts of a lock need this: no lock can be taken.")
        .advice("~fp:* and the names of your locks as keys, +@read +@write +time for this user");
    Ok(Some(finding.figure("denied", denied)))
}

fn channels(known: &Known, server: &mut Server, address: &str) -> Result<Finding, Gone> {
    let channel = format!("fp:{:016x}", SystemRandom.next_u64());
    // A connection of its own: it is of no other use afterwards.
    let (what, means) = match Server::open(address)?.ask::<Value>(&["SUBSCRIBE", &channel])? {
        Reply::Said(_) => match denied(server, "PUBLISH")? {
            Some(denied) if !denied.is_empty() => (
                cannot(known, "PUBLISH to fp:*", None),
                "Nobody hears that it is its turn before its next sign of life.",
            ),
            _ => return Ok(Finding::fine("pub/sub", "pub/sub")),
        },
        Reply::Denied => (cannot(known, "SUBSCRIBE to fp:*", None), POLLING),
        Reply::Refused(words) => (cannot(known, "no pub/sub", Some(&words)), POLLING),
    };
    Ok(Finding::caution("pub/sub", Harm::Hampered, what)
        .means(means)
        .advice("+subscribe +publish and &fp:* for this user"))
}

fn killing(known: &Known, server: &mut Server) -> Result<Finding, Gone> {
    let what = match server.ask::<i64>(&["CLIENT", "KILL", "ID", NOBODY])? {
        Reply::Said(_) => return Ok(Finding::fine("killing", "CLIENT KILL")),
        Reply::Denied => cannot(known, "CLIENT KILL", None),
        Reply::Refused(words) => cannot(known, "no CLIENT KILL", Some(&words)),
    };
    Ok(Finding::caution("killing", Harm::Hampered, what)
        .means("After a broken connection, a command of it can be carried out late; what it leaves ends by its TTL.")
        .advice("+client|id +client|kill for this user (+client before Redis 7)"))
}

/// What only the newer protocol has.
fn modern(known: &Known, address: &str) -> Result<Vec<Finding>, Gone> {
    let mut server = match Server::open_resp3(address)? {
        Ok(server) => server,
        Err(words) => {
            let what = format!("RESP3 is refused: '{words}'");
            let finding = Finding::danger("protocol", Harm::NoLocks, what)
                .means("The locks speak RESP3: no lock can be taken here.")
                .advice("Redis 6.2 or later, without a proxy that speaks RESP2 only");
            return Ok(vec![finding]);
        }
    };
    let finding = match server.ask::<Value>(&["CLIENT", "TRACKING", "ON", "OPTIN"])? {
        Reply::Said(_) => Finding::fine("tracking", "CLIENT TRACKING"),
        Reply::Denied => no_tracking(cannot(known, "CLIENT TRACKING", None)),
        Reply::Refused(words) => no_tracking(cannot(known, "no CLIENT TRACKING", Some(&words))),
    };
    Ok(vec![finding])
}

fn no_tracking(what: String) -> Finding {
    Finding::caution("tracking", Harm::Hampered, what)
        .means("Who waits for a lock of another kind of client learns late that it was given back.")
        .advice("+client|tracking +client|caching for this user (+client before Redis 7)")
}

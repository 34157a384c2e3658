//! Whether locks outlive the server: files and replicas.

use fencepost_trial::text::numbers::count;

use super::super::finding::{Finding, Harm};
use super::Known;
use super::server::{Gone, Reply, Server};

/// Never «put it into the file and restart»: a server that finds the setting but no append-only file starts empty.
const TURN_IT_ON: &str = "fence the resource; or CONFIG SET appendonly yes while it runs (it writes all data to disk \
    once), then CONFIG REWRITE. Set in the file alone, the next start would find no such file, and begin empty.";

pub(super) fn judge(known: &Known, server: &mut Server) -> Result<Vec<Finding>, Gone> {
    let mut findings = Vec::new();
    let save = setting(known, server, "save")?;
    if let Setting::Unknown(why) = &save {
        findings.push(Finding::unknown("snapshots", why));
    }
    match known.get("aof_enabled") {
        Some("0") => findings.push(forgets(&save)),
        Some(_) => findings.push(file(&setting(known, server, "appendfsync")?)),
        None => {}
    }
    findings.extend(failed_writes(known));
    findings.extend(replicas(known));
    Ok(findings)
}

/// A value of the configuration.
enum Setting {
    Is(String),
    /// Why it cannot be told.
    Unknown(String),
}

fn setting(known: &Known, server: &mut Server, name: &str) -> Result<Setting, Gone> {
    let pair: Reply<Vec<String>> = server.ask(&["CONFIG", "GET", name])?;
    Ok(match pair {
        Reply::Denied => Setting::Unknown(format!("user {} may not CONFIG GET {name}", known.user)),
        Reply::Refused(words) => {
            Setting::Unknown(format!("CONFIG GET {name}: the server says '{words}'"))
        }
        Reply::Said(pair) => match pair.into_iter().nth(1) {
            Some(value) => Setting::Is(value),
            None => Setting::Unknown(format!("the server has no setting {name}")),
        },
    })
}

fn forgets(save: &Setting) -> Finding {
    let what = match save {
        Setting::Is(points) if points.is_empty() => {
            "append-only file off, no snapshots: a restart forgets every lock that is held"
        }
        Setting::Is(_) => {
            "append-only file off: a restart forgets locks taken since the last snapshot"
        }
        Setting::Unknown(_) => "append-only file off: a restart forgets locks that are held",
    };
    let finding = Finding::caution("persistence", Harm::Forgotten, what).advice(TURN_IT_ON);
    let finding = finding.figure("append_only", false);
    match save {
        Setting::Is(points) => finding.figure("save", points.as_str()),
        Setting::Unknown(_) => finding,
    }
}

fn file(fsync: &Setting) -> Finding {
    let fsync = match fsync {
        Setting::Is(fsync) => fsync,
        Setting::Unknown(why) => {
            let what = format!("append-only file on, how often it reaches the disk unknown: {why}");
            return Finding::unknown("persistence", what).figure("append_only", true);
        }
    };
    let finding = match fsync.as_str() {
        "no" => Finding::caution(
            "persistence",
            Harm::Forgotten,
            "append-only file with appendfsync no: a power cut forgets half a minute of locks",
        )
        .advice("appendfsync everysec, if the disk keeps up; or fence the resource"),
        "always" => Finding::fine("persistence", "append-only file, fsync always"),
        other => Finding::fine(
            "persistence",
            format!("append-only file, fsync {other} (a power cut forgets up to 2 s)"),
        ),
    };
    finding
        .figure("append_only", true)
        .figure("fsync", fsync.as_str())
}

/// A server that could not write its files refuses writes.
fn failed_writes(known: &Known) -> Option<Finding> {
    let file = match known {
        _ if known.is("aof_last_write_status", "err") => "append-only file",
        _ if known.is("rdb_last_bgsave_status", "err") => "snapshot",
        _ => return None,
    };
    let what = format!("the last write of the {file} failed");
    Some(
        Finding::danger("disk", Harm::NoLocks, what)
            .means("As Redis is set by default, it refuses all writes until one succeeds.")
            .advice("make room on its disk, or look at its log for the reason"),
    )
}

fn replicas(known: &Known) -> Option<Finding> {
    if known.is("role", "slave") {
        let host = known.get("master_host").unwrap_or("?");
        let port = known.get("master_port").unwrap_or("?");
        let what = format!("this is a replica of {host}:{port}, and takes no writes");
        return Some(
            Finding::danger("replica", Harm::NoLocks, what)
                .means("No lock can be taken here.")
                .advice("use the address of the primary"),
        );
    }
    let replicas = known.number("connected_slaves")?;
    if replicas == 0 {
        return Some(Finding::fine("replica", "no replica"));
    }
    let what = format!(
        "{}, asynchronous: a failover can give one lock to two clients",
        count(replicas)
    );
    Some(
        Finding::caution("replica", Harm::Forgotten, what)
            .advice("fence the resource; WAIT narrows the gap, it does not close it")
            .figure("replicas", replicas),
    )
}

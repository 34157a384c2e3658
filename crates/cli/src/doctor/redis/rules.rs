//! What is bad about a Redis server that holds locks.

use fencepost_trial::text::numbers::{count, plural};

use super::super::finding::Harm;
use super::super::rules::{self, Check, Figures, no_figures};
use super::memory::{
    evicted, is_nearly_full, limit, may_evict, mebibytes, memory_figures, policy, usage,
};
use super::patient::{is_cluster, is_older_than, name, version};
use super::readings::{Readings, Setting};
use super::server::Reply;

/// The oldest version that has what the locks need.
const OLDEST: [u32; 2] = [6, 2];
/// Never "put it into the file and restart": a server that finds the setting but no append-only file starts empty.
const TURN_IT_ON: &str = "fence the resource; or CONFIG SET appendonly yes while it runs (it writes all data to disk \
    once), then CONFIG REWRITE. Set in the file alone, the next start would find no such file, and begin empty.";
/// What it means not to be told.
const POLLING: &str = "Nobody can be told that it is its turn: whoever waits asks every 25 ms.";

type Rule = rules::Rule<Readings>;

pub(in super::super) const CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "settings",
        reads: "`INFO`",
        // Most of the rest rests on this.
        rules: &[
            Rule::caution(Harm::Vanishes, "the user may not `INFO`: most of this table cannot be told")
                .when(|read| read.info.is_none())
                .say_with(|read| format!("user {} may not INFO", read.user))
                .means("Eviction, persistence, replicas and version cannot be told: each can cost a lock.")
                .advise("ask as a user who may: +info and +config|get are enough"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "eviction",
        reads: "`INFO memory`",
        rules: &[
            Rule::danger(Harm::Vanishes, "a memory limit, and a policy other than `noeviction`: Redis deletes locks that are held")
                .when(|read| may_evict(read) && limit(read) != 0)
                .finds(|read| {
                    let policy = policy(read)?;
                    let evicted = match evicted(read) {
                        0 => "no key evicted so far".to_owned(),
                        1 => "1 key evicted".to_owned(),
                        keys => format!("{} keys evicted", count(keys)),
                    };
                    Some(format!("maxmemory-policy {policy}; {}, {evicted}", usage(read)))
                })
                .means_with(|read| {
                    let is_volatile = policy(read).is_some_and(|policy| policy.starts_with("volatile-"));
                    let first = if is_volatile {
                        " It deletes keys with a TTL only, and every lock has one."
                    } else {
                        ""
                    };
                    format!("Redis may delete a lock that is held; then two hold it.{first}")
                })
                .advise_with(|read| {
                    format!(
                        "give locks a Redis of their own with noeviction. Here, noeviction would make writes fail at {} MiB: \
                         raise maxmemory before you set it.",
                        mebibytes(limit(read))
                    )
                }),
            Rule::caution(Harm::Hampered, "such a policy without a limit")
                .when(may_evict)
                .finds(|read| Some(format!("maxmemory-policy {}, without a limit so far", policy(read)?)))
                .means("Nothing is deleted now. Once somebody sets maxmemory, locks that are held are.")
                .advise("noeviction, or a Redis for locks alone, before there is a limit"),
            Rule::fine()
                .when(|read| policy(read).is_some() && limit(read) == 0)
                .say("noeviction"),
            Rule::fine()
                .when(|read| policy(read).is_some() && !is_nearly_full(read))
                .say_with(|read| format!("noeviction, {}", usage(read))),
        ],
        figures: memory_figures,
    },
    Check {
        topic: "memory",
        reads: "`INFO memory`",
        rules: &[
            Rule::caution(Harm::Hampered, "`noeviction`, and 90 % of the limit used: when it is full, writes fail")
                .when(|read| policy(read).is_some() && !may_evict(read) && limit(read) != 0 && is_nearly_full(read))
                .say_with(|read| format!("noeviction, and {}", usage(read)))
                .means("When it is full, writes fail: nobody gets a lock, and none can be renewed.")
                .advise("raise maxmemory, as far as the machine has memory, or move other data away"),
        ],
        figures: memory_figures,
    },
    Check {
        topic: "snapshots",
        reads: "`CONFIG GET save`",
        rules: &[
            Rule::unknown().finds(|read| why(&read.save).map(str::to_owned)),
        ],
        figures: no_figures,
    },
    Check {
        topic: "persistence",
        reads: "`INFO persistence`, `CONFIG GET appendfsync`",
        rules: &[
            Rule::caution(Harm::Forgotten, "no append-only file: a restart forgets locks")
                .when(|read| read.is("aof_enabled", "0"))
                .say_with(|read| {
                    match &read.save {
                        Setting::Is(points) if points.is_empty() => {
                            "append-only file off, no snapshots: a restart forgets every lock that is held"
                        }
                        Setting::Is(_) => "append-only file off: a restart forgets locks taken since the last snapshot",
                        Setting::Unknown(_) => "append-only file off: a restart forgets locks that are held",
                    }
                    .to_owned()
                })
                .advise(TURN_IT_ON),
            Rule::unknown().finds(|read| {
                let why = why(read.fsync.as_ref()?)?;
                Some(format!("append-only file on, how often it reaches the disk unknown: {why}"))
            }),
            Rule::caution(Harm::Forgotten, "`appendfsync no`: a power cut forgets locks")
                .when(|read| fsync(read) == Some("no"))
                .say("append-only file with appendfsync no: a power cut forgets half a minute of locks")
                .advise("appendfsync everysec, if the disk keeps up; or fence the resource"),
            Rule::fine()
                .when(|read| fsync(read) == Some("always"))
                .say("append-only file, fsync always"),
            Rule::fine().finds(|read| {
                let fsync = fsync(read)?;
                Some(format!("append-only file, fsync {fsync} (a power cut forgets up to 2 s)"))
            }),
        ],
        figures: persistence_figures,
    },
    Check {
        topic: "disk",
        reads: "`INFO persistence`",
        rules: &[
            Rule::danger(Harm::NoLocks, "the last snapshot or write of the append-only file failed: Redis refuses writes")
                .finds(|read| Some(format!("the last write of the {} failed", failed_write(read)?)))
                .means("As Redis is set by default, it refuses all writes until one succeeds.")
                .advise("make room on its disk, or look at its log for the reason"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "replica",
        reads: "`INFO replication`",
        rules: &[
            Rule::danger(Harm::NoLocks, "the address is that of a replica")
                .when(|read| read.is("role", "slave"))
                .say_with(|read| {
                    let host = read.get("master_host").unwrap_or("?");
                    let port = read.get("master_port").unwrap_or("?");
                    format!("this is a replica of {host}:{port}, and takes no writes")
                })
                .means("No lock can be taken here.")
                .advise("use the address of the primary"),
            Rule::fine().when(|read| replicas(read) == Some(0)).say("no replica"),
            Rule::caution(Harm::Forgotten, "there are replicas: a failover can give one lock to two clients")
                .finds(|read| {
                    let replicas = count(replicas(read)?);
                    Some(format!("{replicas}, asynchronous: a failover can give one lock to two clients"))
                })
                .advise("fence the resource; WAIT narrows the gap, it does not close it"),
        ],
        figures: |read| {
            let replicas = replicas(read).filter(|replicas| *replicas != 0 && !read.is("role", "slave"));
            replicas.map(|replicas| ("replicas", replicas.into())).into_iter().collect()
        },
    },
    Check {
        topic: "version",
        reads: "`INFO server`",
        rules: &[
            Rule::unknown()
                .when(|read| is_older_than(read, OLDEST).is_none())
                .finds(|read| Some(format!("'{}'", read.get("redis_version")?))),
            Rule::danger(Harm::NoLocks, "older than 6.2")
                .when(|read| is_older_than(read, OLDEST) == Some(true))
                .finds(|read| Some(format!("{} {} is too old: 6.2 is the least", name(read), version(read)?)))
                .means("It lacks what the locks are made of: no lock can be taken here.")
                .advise("a newer server; try it with a copy of the data first"),
            Rule::fine().when(|read| read.get("redis_version").is_some()).say("version"),
        ],
        figures: |read| {
            let version = is_older_than(read, OLDEST).and_then(|_| version(read));
            version.map(|version| ("version", version.into())).into_iter().collect()
        },
    },
    Check {
        topic: "cluster",
        reads: "`INFO cluster`",
        rules: &[
            Rule::danger(Harm::NoLocks, "a node of a cluster: not supported yet")
                .when(is_cluster)
                .say("this is a node of a cluster")
                .means("Fencepost takes no locks there yet: the names of other nodes would fail.")
                .advise("a Redis of its own for locks, without cluster-enabled"),
            Rule::fine().when(|read| read.info.is_some()).say("no cluster"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "proxy",
        reads: "`run_id` over six connections",
        rules: &[
            Rule::fine().when(|read| read.servers == Some(1)).say("one server at this address"),
            Rule::danger(Harm::Vanishes, "several servers answer at one address")
                .finds(|read| {
                    let servers = plural(read.servers?, "server", "different servers");
                    Some(format!("{servers} answer at this address"))
                })
                .means("A lock on one of them keeps nobody out of the others.")
                .advise("give locks the address of one server, not of a proxy or a balancer"),
        ],
        figures: |read| {
            let several = read.servers.filter(|servers| *servers > 1);
            several.map(|servers| ("servers", servers.into())).into_iter().collect()
        },
    },
    Check {
        topic: "scripts",
        reads: "a script that changes nothing",
        rules: &[
            Rule::fine().when(|read| matches!(read.script, Reply::Said(42))).say("scripts"),
            Rule::danger(Harm::NoLocks, "the user may not run scripts, or they do not run")
                .say_with(|read| match &read.script {
                    Reply::Said(_) => "scripts do not give the right answers".to_owned(),
                    Reply::Denied => may_not(read, "run scripts"),
                    Reply::Refused(words) => refused("scripts do not run", words),
                })
                .means("Every step of a lock is a script: no lock can be taken.")
                .advise("+eval and +evalsha for this user"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "keys",
        reads: "`acl_check_cmd`, from Redis 7 on",
        rules: &[
            Rule::danger(Harm::NoLocks, "the user may not use the keys and commands that locks need")
                .finds(|read| {
                    let denied = read.denied.as_ref().filter(|denied| !denied.is_empty())?;
                    Some(if read.lacks_all_keys() {
                        may_not(read, "use keys that begin with fp:")
                    } else {
                        may_not(read, &format!("call {}", denied.join(", ")))
                    })
                })
                .means("The scripts of a lock need this: no lock can be taken.")
                .advise("~fp:* and the names of your locks as keys, +@read +@write +time for this user"),
            Rule::fine().when(|read| read.denied.is_some()).say("keys of locks"),
        ],
        figures: |read| {
            let denied = read.denied.clone().filter(|denied| !denied.is_empty());
            denied.map(|denied| ("denied", denied.into())).into_iter().collect()
        },
    },
    Check {
        topic: "pub/sub",
        reads: "a subscription, `acl_check_cmd`",
        rules: &[
            Rule::caution(Harm::Hampered, "waiters cannot be told that it is their turn, and ask instead")
                .when(|read| !matches!(read.subscribe, Reply::Said(())))
                .say_with(|read| cannot(read, &read.subscribe, "SUBSCRIBE to fp:*", "no pub/sub"))
                .means(POLLING)
                .advise("+subscribe +publish and &fp:* for this user"),
            Rule::caution(Harm::Hampered, "the user may not `PUBLISH`")
                .when(|read| !read.may_publish)
                .say_with(|read| may_not(read, "PUBLISH to fp:*"))
                .means("Nobody hears that it is its turn before its next sign of life.")
                .advise("+subscribe +publish and &fp:* for this user"),
            Rule::fine().say("pub/sub"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "killing",
        reads: "`CLIENT KILL` of nobody",
        rules: &[
            Rule::fine().when(|read| matches!(read.kill, Reply::Said(()))).say("CLIENT KILL"),
            Rule::caution(Harm::Hampered, "no `CLIENT KILL`: a command of a broken connection may come late")
                .say_with(|read| cannot(read, &read.kill, "CLIENT KILL", "no CLIENT KILL"))
                .means("After a broken connection, a command of it can be carried out late; what it leaves ends by its TTL.")
                .advise("+client|id +client|kill for this user (+client before Redis 7)"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "protocol",
        reads: "`HELLO 3`",
        rules: &[
            Rule::danger(Harm::NoLocks, "no RESP3")
                .finds(|read| Some(format!("RESP3 is refused: '{}'", read.resp3.as_ref().err()?)))
                .means("The locks speak RESP3: no lock can be taken here.")
                .advise("Redis 6.2 or later, without a proxy that speaks RESP2 only"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "tracking",
        reads: "`CLIENT TRACKING`",
        rules: &[
            Rule::fine()
                .when(|read| matches!(read.tracking, Some(Reply::Said(()))))
                .say("CLIENT TRACKING"),
            Rule::caution(Harm::Hampered, "no `CLIENT TRACKING`: another client's release is noticed late")
                .finds(|read| {
                    let tracking = read.tracking.as_ref()?;
                    Some(cannot(read, tracking, "CLIENT TRACKING", "no CLIENT TRACKING"))
                })
                .means("Who waits for a lock of another kind of client learns late that it was given back.")
                .advise("+client|tracking +client|caching for this user (+client before Redis 7)"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "clock",
        reads: "the server's time, 200 times",
        rules: &[
            Rule::unknown()
                .when(|read| read.samples.is_none())
                .say("this user may not ask for the TIME"),
        ],
        figures: no_figures,
    },
];

/// Why a setting is not known.
fn why(setting: &Setting) -> Option<&str> {
    match setting {
        Setting::Is(_) => None,
        Setting::Unknown(why) => Some(why),
    }
}

fn fsync(read: &Readings) -> Option<&str> {
    match read.fsync.as_ref()? {
        Setting::Is(fsync) => Some(fsync),
        Setting::Unknown(_) => None,
    }
}

fn persistence_figures(read: &Readings) -> Figures {
    let mut figures: Figures = vec![("append_only", (!read.is("aof_enabled", "0")).into())];
    if let (true, Setting::Is(points)) = (read.is("aof_enabled", "0"), &read.save) {
        figures.push(("save", points.as_str().into()));
    }
    figures.extend(fsync(read).map(|fsync| ("fsync", fsync.into())));
    figures
}

/// A server that could not write its files refuses writes.
fn failed_write(read: &Readings) -> Option<&'static str> {
    if read.is("aof_last_write_status", "err") {
        Some("append-only file")
    } else if read.is("rdb_last_bgsave_status", "err") {
        Some("snapshot")
    } else {
        None
    }
}

fn replicas(read: &Readings) -> Option<i64> {
    read.number("connected_slaves")
}

fn may_not(read: &Readings, what: &str) -> String {
    format!("user {} may not {what}", read.user)
}

fn refused(what: &str, words: &str) -> String {
    format!("{what}: the server says '{words}'")
}

/// Why a command was not carried out: the user may not `what`, or the server has it not.
fn cannot(read: &Readings, reply: &Reply<()>, what: &str, lacks: &str) -> String {
    match reply {
        Reply::Refused(words) => refused(lacks, words),
        Reply::Said(()) | Reply::Denied => may_not(read, what),
    }
}

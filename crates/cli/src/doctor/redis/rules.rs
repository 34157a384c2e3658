//! The rules for a Redis server that stores locks: which settings, rights and figures endanger them.

use fencepost_trial::text::numbers::{count, plural};

use super::super::finding::Harm;
use super::super::rules::{self, Check, Figures, no_figures};
use super::memory::{
    evicted, is_nearly_full, limit, may_evict, mebibytes, memory_figures, policy, usage,
};
use super::readings::{Readings, Setting};
use super::server::Reply;

/// The oldest version with all the commands that the locks need.
const OLDEST: [u32; 2] = [6, 2];
/// We never advise to edit the configuration file and restart: a server with `appendonly yes` but no append-only file starts empty.
const TURN_IT_ON: &str = "fence the resource; or CONFIG SET appendonly yes while it runs (it writes all data to disk \
    once), then CONFIG REWRITE. If you only edit the configuration file, the next start finds no append-only file and begins empty.";
/// What happens without notifications.
const POLLING: &str =
    "Waiters get no notification when it is their turn; they ask every 25 ms instead.";

type Rule = rules::Rule<Readings>;

pub(in super::super) const CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "settings",
        reads: "`INFO`",
        // Most other checks read the answer to `INFO`.
        rules: &[
            Rule::caution(Harm::Vanishes, "the user may not run `INFO`: most of this table cannot be checked")
                .when(|read| read.info.is_none())
                .say_with(|read| format!("user {} may not run INFO", read.user))
                .means("Eviction, persistence, replicas and version cannot be checked, and each of them can cost a lock.")
                .advise("run the doctor as a user who may; +info and +config|get are enough"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "eviction",
        reads: "`INFO memory`",
        rules: &[
            Rule::danger(Harm::Vanishes, "there is a memory limit and the policy is not `noeviction`: Redis may delete locks that are held")
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
                    format!("Redis may delete a lock that is held; then two clients can hold it.{first}")
                })
                .advise_with(|read| {
                    format!(
                        "give locks a Redis of their own with noeviction. Here, noeviction would make writes fail at {} MiB: \
                         raise maxmemory before you set it.",
                        mebibytes(limit(read))
                    )
                }),
            Rule::caution(Harm::Hampered, "the policy is not `noeviction`, but there is no memory limit yet")
                .when(may_evict)
                .finds(|read| Some(format!("maxmemory-policy {}, without a limit so far", policy(read)?)))
                .means("Nothing is deleted now. Once somebody sets maxmemory, Redis may delete locks that are held.")
                .advise("set noeviction, or use a separate Redis for locks, before anybody sets a limit"),
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
            Rule::caution(Harm::Hampered, "`noeviction`, and 90 % of the limit is used: when memory is full, writes fail")
                .when(|read| policy(read).is_some() && !may_evict(read) && limit(read) != 0 && is_nearly_full(read))
                .say_with(|read| format!("noeviction, and {}", usage(read)))
                .means("When memory is full, writes fail: no lock can be taken or renewed.")
                .advise("raise maxmemory if the machine has the memory, or move other data to another server"),
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
                Some(format!("append-only file on; how often it is written to disk is unknown: {why}"))
            }),
            Rule::caution(Harm::Forgotten, "`appendfsync no`: a power cut forgets locks")
                .when(|read| fsync(read) == Some("no"))
                .say("append-only file with appendfsync no: a power cut forgets locks of the last half minute")
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
                .means("With its default settings, Redis refuses all writes until one succeeds.")
                .advise("free space on its disk, or look for the reason in its log"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "replica",
        reads: "`INFO replication`",
        rules: &[
            Rule::danger(Harm::NoLocks, "the server is a replica")
                .when(|read| read.is("role", "slave"))
                .say_with(|read| {
                    let host = read.get("master_host").unwrap_or("?");
                    let port = read.get("master_port").unwrap_or("?");
                    format!("this is a replica of {host}:{port}, which accepts no writes")
                })
                .means("No lock can be taken here.")
                .advise("use the address of the primary"),
            Rule::fine().when(|read| replicas(read) == Some(0)).say("no replica"),
            Rule::caution(Harm::Forgotten, "there are replicas: a failover can give one lock to two clients")
                .finds(|read| {
                    let replicas = count(replicas(read)?);
                    Some(format!("{replicas}, asynchronous: a failover can give one lock to two clients"))
                })
                .advise("fence the resource; WAIT makes this less likely but does not prevent it"),
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
                .when(|read| read.is_older_than(OLDEST).is_none())
                .finds(|read| Some(format!("'{}'", read.get("redis_version")?))),
            Rule::danger(Harm::NoLocks, "older than 6.2")
                .when(|read| read.is_older_than(OLDEST) == Some(true))
                .finds(|read| Some(format!("{} {} is too old: 6.2 or later is required", read.name(), read.version()?)))
                .means("It lacks commands that the locks need: no lock can be taken here.")
                .advise("upgrade the server; test it with a copy of the data first"),
            Rule::fine().when(|read| read.get("redis_version").is_some()).say("version"),
        ],
        figures: |read| {
            let version = read.is_older_than(OLDEST).and_then(|_| read.version());
            version.map(|version| ("version", version.into())).into_iter().collect()
        },
    },
    Check {
        topic: "cluster",
        reads: "`INFO cluster`",
        rules: &[
            Rule::danger(Harm::NoLocks, "a node of a cluster: not supported yet")
                .when(Readings::is_cluster)
                .say("this is a node of a cluster")
                .means("Fencepost does not support clusters yet: locks whose keys belong to other nodes would fail.")
                .advise("use a separate Redis for locks, without cluster-enabled"),
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
                .means("A lock on one of them does not exclude clients of the others.")
                .advise("use the address of one server for locks, not that of a proxy or a load balancer"),
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
                    Reply::Said(_) => "scripts return wrong results".to_owned(),
                    Reply::Denied => may_not(read, "run scripts"),
                    Reply::Refused(words) => refused("scripts do not run", words),
                })
                .means("Every operation on a lock is a script: no lock can be taken.")
                .advise("grant +eval and +evalsha to this user"),
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
                .means("The scripts of the locks need this: no lock can be taken.")
                .advise("grant ~fp:*, the names of your locks as key patterns, and +@read +@write +time to this user"),
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
            Rule::caution(Harm::Hampered, "the user may not `SUBSCRIBE`: waiters get no notification and poll instead")
                .when(|read| !matches!(read.subscribe, Reply::Said(())))
                .say_with(|read| cannot(read, &read.subscribe, "SUBSCRIBE to fp:*", "no pub/sub"))
                .means(POLLING)
                .advise("grant +subscribe +publish and &fp:* to this user"),
            Rule::caution(Harm::Hampered, "the user may not `PUBLISH`")
                .when(|read| !read.may_publish)
                .say_with(|read| may_not(read, "PUBLISH to fp:*"))
                .means("A waiter learns that it is its turn only when it sends its next heartbeat.")
                .advise("grant +subscribe +publish and &fp:* to this user"),
            Rule::fine().say("pub/sub"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "killing",
        reads: "`CLIENT KILL` of a connection that does not exist",
        rules: &[
            Rule::fine().when(|read| matches!(read.kill, Reply::Said(()))).say("CLIENT KILL"),
            Rule::caution(Harm::Hampered, "no `CLIENT KILL`: a command sent on a broken connection may be executed late")
                .say_with(|read| cannot(read, &read.kill, "CLIENT KILL", "no CLIENT KILL"))
                .means("After a connection breaks, Redis may still execute a command sent on it. A lock taken that way ends with its TTL.")
                .advise("grant +client|id +client|kill to this user (+client before Redis 7)"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "protocol",
        reads: "`HELLO 3`",
        rules: &[
            Rule::danger(Harm::NoLocks, "no RESP3")
                .finds(|read| Some(format!("RESP3 is refused: '{}'", read.resp3.as_ref().err()?)))
                .means("The locks need RESP3: no lock can be taken here.")
                .advise("use Redis 6.2 or later, without a proxy that supports only RESP2"),
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
                .means("A client that waits for a lock held by another kind of client notices its release late.")
                .advise("grant +client|tracking +client|caching to this user (+client before Redis 7)"),
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

/// Returns the reason why a setting is unknown; `None` if it is known.
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

/// Returns the file that Redis failed to write, if any. Such a server refuses writes.
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

/// Returns why a command was not executed: the user may not do `what`, or the server does not support it (`lacks`).
fn cannot(read: &Readings, reply: &Reply<()>, what: &str, lacks: &str) -> String {
    match reply {
        Reply::Refused(words) => refused(lacks, words),
        Reply::Said(()) | Reply::Denied => may_not(read, what),
    }
}

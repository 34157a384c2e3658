//! What is bad about a ZooKeeper ensemble that holds locks.

use std::time::Duration;

use fencepost::DEFAULT_TTL;
use fencepost_trial::text::numbers::{count, decimal, plural};

use super::super::finding::Harm;
use super::super::rules::{self, Check, Figures, no_figures};
use super::readings::{Readings, SHORTEST};
use super::rights::Rights;
use super::words::Server;

type Rule = rules::Rule<Readings>;

/// The oldest version that has containers, which the folders of locks are.
const OLDEST: [u32; 2] = [3, 5];
/// A fence has room for so many elections: the upper half of a transaction's number counts them, and the fence has 15 bits for it.
const EPOCHS: u64 = 32_767;
const MANY_EPOCHS: u64 = 30_000;
/// From here on ZooKeeper itself warns, and sessions of a few seconds are in danger.
const SLOW_WRITE_MS: f64 = 1_000.0;

/// What is asked of the ensemble as a whole.
pub(in super::super) const ENSEMBLE_CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "leader",
        reads: "`srvr`",
        rules: &[
            Rule::danger(Harm::NoLocks, "servers listen and have no majority")
                .when(|read| read.session.is_none())
                .say_with(|read| {
                    let waiting = read.servers.iter().filter(|server| server.serves_nobody());
                    let waiting: Vec<&str> = waiting.map(Server::host).collect();
                    format!("{} listens but has no majority", waiting.join(", "))
                })
                .means("No lock can be taken, renewed or given back until enough servers are there.")
                .advise("start the servers that are missing"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "members",
        reads: "`/zookeeper/config`, `srvr`",
        rules: &[
            Rule::unknown().finds(|read| read.session.as_ref()?.voters.as_ref().err().cloned()),
            Rule::danger(Harm::Vanishes, "the address names servers of several ensembles")
                .when(|read| read.session.is_some() && leaders(read) > 1)
                .say_with(|read| {
                    let leaders = leaders(read);
                    format!("{leaders} servers of the address lead: they are of different ensembles")
                })
                .means("A lock in one of them keeps nobody out of the others.")
                .advise("the servers of one ensemble"),
            Rule::caution(Harm::OneMachine, "one server in all")
                .when(|read| voters(read) == Some(1))
                .say("one server, alone: nobody else has its data")
                .means("While it is down no lock can be taken, and without its disk all is forgotten, fences too.")
                .advise("an ensemble of three servers on three machines"),
            Rule::caution(Harm::Hampered, "two servers in all")
                .when(|read| voters(read) == Some(2))
                .say("two servers: when either is gone, no lock can be taken")
                .advise("three servers on three machines"),
            Rule::caution(Harm::Hampered, "one is silent, with how many more may fail")
                .when(|read| !missing(read).is_empty())
                .finds(|read| {
                    let (missing, voters) = (missing(read), voters(read)?);
                    let there = read.servers.len() - missing.len();
                    Some(format!("{there} of {voters} servers answer; silent: {}", missing.join(", ")))
                })
                .means_with(|read| match may_fail(read).saturating_sub(missing(read).len()) {
                    0 => "No further one may fail: then no lock can be taken.".to_owned(),
                    left => format!("{} may fail.", plural(left, "more", "more")),
                })
                .advise("start them again"),
            Rule::fine().finds(|read| Some(format!("{} servers, {} may fail", voters(read)?, may_fail(read)))),
        ],
        figures: member_figures,
    },
    Check {
        topic: "address",
        reads: "`/zookeeper/config`",
        rules: &[
            Rule::caution(Harm::Hampered, "it names fewer servers than there are")
                .finds(|read| {
                    let (named, voters) = (read.servers.len(), voters(read)?);
                    (named < voters).then(|| format!("the address names {named} of {voters} servers"))
                })
                .means("When those named are gone, no lock can be taken, although the ensemble lives.")
                .advise("name all servers: zk://HOST,HOST,HOST"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "sessions",
        reads: "a very short session and a very long one",
        rules: &[
            Rule::unknown().finds(|read| read.session.as_ref()?.timeouts.as_ref().err().cloned()),
            Rule::danger(Harm::NoLocks, "`maxSessionTimeout` below the usual TTL of 10 s: no lock with it")
                .when(|read| timeouts(read).is_some_and(|(_, most)| most < DEFAULT_TTL))
                .say_with(|read| {
                    let ttl = seconds(DEFAULT_TTL);
                    format!("{}: maxSessionTimeout is less than the usual TTL of {ttl} s", bounds(read))
                })
                .means("A lock cannot be kept for longer than a session: with the usual TTL none can be taken.")
                .advise_with(|_| {
                    let ttl = DEFAULT_TTL.as_millis();
                    format!("maxSessionTimeout={ttl} or more, or a shorter TTL in every program")
                }),
            Rule::caution(Harm::Hampered, "`minSessionTimeout` above the usual TTL")
                .when(|read| timeouts(read).is_some_and(|(least, _)| least > DEFAULT_TTL))
                .say_with(|read| {
                    let ttl = seconds(DEFAULT_TTL);
                    format!("{}: minSessionTimeout is more than the usual TTL of {ttl} s", bounds(read))
                })
                .means("When a holder dies, others wait for its session to end, whatever its TTL.")
                .advise("a smaller minSessionTimeout"),
            Rule::fine().when(|read| timeouts(read).is_some()).say_with(bounds),
        ],
        figures: |read| {
            let ms = |time: Duration| (time.as_millis() as u64).into();
            timeouts(read).map_or_else(Vec::new, |(least, most)| {
                vec![("least_ms", ms(least)), ("most_ms", ms(most))]
            })
        },
    },
    Check {
        topic: "rights",
        reads: "a transaction that cannot succeed",
        rules: &[
            Rule::danger(Harm::NoLocks, "nodes may not be listed, made or removed below the base")
                .finds(|read| match rights(read)? {
                    Rights::Lacking(what, place) => Some(format!("this user may not {what} nodes below {place}")),
                    _ => None,
                })
                .means("No lock can be taken here.")
                .advise("zk://USER:PASSWORD@HOST, or setAcl with the rights c, d, r and w on that node"),
            Rule::unknown().finds(|read| match rights(read)? {
                Rights::Unknown(why) => Some(why.clone()),
                _ => None,
            }),
            Rule::fine().finds(|read| match rights(read)? {
                Rights::Enough(place) => Some(format!("rights below {place}")),
                _ => None,
            }),
        ],
        figures: no_figures,
    },
];

/// What is asked of each server.
pub(in super::super) const SERVER_CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "version",
        reads: "`srvr`",
        rules: &[
            Rule::danger(Harm::NoLocks, "before 3.5: no containers")
                .finds(|read| {
                    let version = oldest(read).filter(|version| numbers(version) < OLDEST)?;
                    Some(format!("ZooKeeper {version} is too old: 3.5 is the least"))
                })
                .means("It has no containers, which the folders of locks are.")
                .advise("a newer server, one minor version at a time"),
            Rule::fine().when(|read| oldest(read).is_some()).say("version"),
        ],
        figures: |read| {
            let version = oldest(read).map(|version| ("version", version.into()));
            version.into_iter().collect()
        },
    },
    Check {
        topic: "disk",
        reads: "`mntr`",
        rules: &[
            Rule::unknown()
                .when(|read| slowest_write(read).is_none())
                .say("how long writes to the disk take: mntr is not allowed")
                .advise("4lw.commands.whitelist=srvr,mntr in zoo.cfg of each server, then restart one after the other"),
            Rule::caution(Harm::Vanishes, "a write took a second or more")
                .finds(|read| {
                    let (host, ms) = slowest_write(read).filter(|(_, ms)| *ms >= SLOW_WRITE_MS)?;
                    Some(format!("a write to the disk of {host} took {} ms or more", decimal(ms)))
                })
                .means("Sessions end when the leader stands still for long, and with them the locks; holders are told.")
                .advise("a disk of its own for dataLogDir"),
            Rule::fine().finds(|read| {
                let (_, ms) = slowest_write(read)?;
                Some(format!("slowest write to the disk {} ms", decimal(ms)))
            }),
        ],
        figures: |read| {
            let slowest = slowest_write(read).map(|(_, ms)| ("slowest_ms", ms.into()));
            slowest.into_iter().collect()
        },
    },
    Check {
        topic: "elections",
        reads: "`srvr`",
        rules: &[
            Rule::danger(Harm::NoLocks, "fences have no room for more")
                .when(|read| elections(read) > Some(EPOCHS))
                .say_with(used_up)
                .means("No lock can be taken here any more.")
                .advise("a new ensemble, with new fenced resources"),
            Rule::caution(Harm::Hampered, "fences have room for few more")
                .when(|read| elections(read) >= Some(MANY_EPOCHS))
                .say_with(used_up)
                .means("After that no lock can be taken.")
                .advise("plan a new ensemble, with new fenced resources"),
            Rule::fine().finds(|read| Some(format!("{} elections", count(elections(read)? as i64)))),
        ],
        figures: |read| {
            let elections = elections(read).map(|elections| ("elections", elections.into()));
            elections.into_iter().collect()
        },
    },
];

/// How many servers vote, if that is known.
fn voters(read: &Readings) -> Option<usize> {
    read.session.as_ref()?.voters.as_ref().ok().copied()
}

/// How many may fail while locks go on.
fn may_fail(read: &Readings) -> usize {
    let voters = voters(read).unwrap_or_default();
    voters.saturating_sub(voters / 2 + 1)
}

/// Servers of the address that do not serve, and why.
fn missing(read: &Readings) -> Vec<String> {
    let silent = read.servers.iter();
    let silent =
        silent.filter_map(|server| Some(format!("{} ({})", server.host(), server.silence()?)));
    let idle = read.servers.iter().filter(|server| server.serves_nobody());
    let idle = idle.map(|server| format!("{} (serves nobody)", server.host()));
    silent.chain(idle).collect()
}

/// More than one where the address has servers of several ensembles.
fn leaders(read: &Readings) -> usize {
    let servers = read.servers.iter();
    let leads = |server: &&Server| matches!(server.mode(), Some("leader" | "standalone"));
    servers.filter(leads).count()
}

fn member_figures(read: &Readings) -> Figures {
    let Some(voters) = voters(read) else {
        return Vec::new();
    };
    let mut figures: Figures = vec![("members", voters.into())];
    if leaders(read) < 2 {
        let there = read.servers.len() - missing(read).len();
        figures.push(("answering", there.into()));
    }
    figures
}

fn timeouts(read: &Readings) -> Option<(Duration, Duration)> {
    read.session.as_ref()?.timeouts.clone().ok()
}

fn bounds(read: &Readings) -> String {
    let (least, most) = timeouts(read).unwrap_or_default();
    let or_less = if least <= SHORTEST { " s or less" } else { "" };
    format!(
        "sessions of {}{or_less} to {} s",
        seconds(least),
        seconds(most)
    )
}

fn seconds(time: Duration) -> String {
    decimal(time.as_secs_f64())
}

fn rights(read: &Readings) -> Option<&Rights> {
    Some(&read.session.as_ref()?.rights)
}

fn oldest(read: &Readings) -> Option<&str> {
    let versions = read.servers.iter().filter_map(|server| server.version());
    versions.min_by_key(|version| numbers(version))
}

fn numbers(version: &str) -> [u32; 2] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    [parts.next().unwrap_or(0), parts.next().unwrap_or(0)]
}

/// How long the slowest write to a disk took and whose it was; before 3.6, how many were slower than a second.
fn slowest_write(read: &Readings) -> Option<(&str, f64)> {
    let slowest = |server: &Server| {
        let ms = server.measure("zk_max_fsynctime");
        let slow = || server.measure("zk_fsync_threshold_exceed_count");
        ms.or_else(|| slow().map(|times| times * SLOW_WRITE_MS))
    };
    let known = read
        .servers
        .iter()
        .filter_map(|server| Some((server.host(), slowest(server)?)));
    known.max_by(|one, other| one.1.total_cmp(&other.1))
}

fn elections(read: &Readings) -> Option<u64> {
    read.servers
        .iter()
        .filter_map(|server| server.epoch())
        .max()
}

fn used_up(read: &Readings) -> String {
    let elections = count(elections(read).unwrap_or_default() as i64);
    format!(
        "{elections} elections of {} that fences have room for",
        count(EPOCHS as i64)
    )
}

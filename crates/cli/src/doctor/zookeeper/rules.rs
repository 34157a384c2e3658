//! The rules for a ZooKeeper ensemble that stores locks: some about the ensemble as a whole, some about each server.

use std::time::Duration;

use fencepost::DEFAULT_TTL;
use fencepost_trial::text::numbers::{count, decimal, plural};

use super::super::finding::Harm;
use super::super::rules::{self, Check, Figures, no_figures};
use super::four_letter_commands::Server;
use super::readings::{Readings, SHORTEST};
use super::rights::Rights;

type Rule = rules::Rule<Readings>;

/// The oldest version with container nodes, which the locks need.
const OLDEST: [u32; 2] = [3, 5];
/// How many elections a fence can represent. The upper half of a transaction id counts elections, and the fence has 15 bits for them.
const EPOCHS: u64 = 32_767;
const MANY_EPOCHS: u64 = 30_000;
/// ZooKeeper logs a warning for such a slow write, and sessions of a few seconds are in danger.
const SLOW_WRITE_MS: f64 = 1_000.0;

/// Checks of the ensemble as a whole.
pub(in super::super) const ENSEMBLE_CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "leader",
        reads: "`srvr`",
        rules: &[
            Rule::danger(Harm::NoLocks, "servers answer but have no majority")
                .when(|read| read.session.is_none())
                .say_with(|read| {
                    let waiting = read.servers.iter().filter(|server| server.serves_nobody());
                    let waiting: Vec<&str> = waiting.map(Server::host).collect();
                    format!("no majority: the servers that answer ({}) serve no clients", waiting.join(", "))
                })
                .means("No lock can be taken, renewed or released until enough servers are running.")
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
                    format!("{leaders} servers of the address are leaders: they belong to different ensembles")
                })
                .means("A lock in one of them does not exclude clients of the others.")
                .advise("name the servers of one ensemble only"),
            Rule::caution(Harm::OneMachine, "the ensemble has one server")
                .when(|read| voters(read) == Some(1))
                .say("a single server: no other has a copy of its data")
                .means("While it is down, no lock can be taken. If its disk is lost, all locks and fences are forgotten.")
                .advise("run an ensemble of three servers on three machines"),
            Rule::caution(Harm::Hampered, "the ensemble has two servers")
                .when(|read| voters(read) == Some(2))
                .say("two servers: if either fails, no lock can be taken")
                .advise("three servers on three machines"),
            Rule::caution(Harm::Hampered, "some do not answer (the finding says how many more may fail)")
                .when(|read| !missing(read).is_empty())
                .finds(|read| {
                    let (missing, voters) = (missing(read), voters(read)?);
                    let there = read.servers.len() - missing.len();
                    Some(format!("{there} of {voters} servers answer; no answer from {}", missing.join(", ")))
                })
                .means_with(|read| match may_fail(read).saturating_sub(missing(read).len()) {
                    0 => "If another one fails, no lock can be taken.".to_owned(),
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
                .means("If the servers that it names fail, no lock can be taken, although the ensemble still works.")
                .advise("name all servers: zk://HOST,HOST,HOST"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "sessions",
        reads: "a very short session and a very long one",
        rules: &[
            Rule::unknown().finds(|read| read.session.as_ref()?.timeouts.as_ref().err().cloned()),
            Rule::danger(Harm::NoLocks, "`maxSessionTimeout` is below the default TTL of 10 s: no lock can be taken with that TTL")
                .when(|read| timeouts(read).is_some_and(|(_, most)| most < DEFAULT_TTL))
                .say_with(|read| {
                    let ttl = seconds(DEFAULT_TTL);
                    format!("{}: maxSessionTimeout is less than the default TTL of {ttl} s", bounds(read))
                })
                .means("A lock cannot outlast its session: with the default TTL no lock can be taken.")
                .advise_with(|_| {
                    let ttl = DEFAULT_TTL.as_millis();
                    format!("set maxSessionTimeout={ttl} or more, or use a shorter TTL in every program")
                }),
            Rule::caution(Harm::Hampered, "`minSessionTimeout` is above the default TTL")
                .when(|read| timeouts(read).is_some_and(|(least, _)| least > DEFAULT_TTL))
                .say_with(|read| {
                    let ttl = seconds(DEFAULT_TTL);
                    format!("{}: minSessionTimeout is more than the default TTL of {ttl} s", bounds(read))
                })
                .means("When a holder dies, others wait for its session to end, whatever its TTL.")
                .advise("lower minSessionTimeout"),
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
            Rule::danger(Harm::NoLocks, "the user may not list, create or delete nodes below the base")
                .finds(|read| match rights(read)? {
                    Rights::Lacking(what, place) => Some(format!("this user may not {what} nodes below {place}")),
                    _ => None,
                })
                .means("No lock can be taken here.")
                .advise("use zk://USER:PASSWORD@HOST, or grant the rights c, d, r and w on that node with setAcl"),
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

/// Checks of each server.
pub(in super::super) const SERVER_CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "version",
        reads: "`srvr`",
        rules: &[
            Rule::danger(Harm::NoLocks, "before 3.5: no containers")
                .finds(|read| {
                    let version = oldest(read).filter(|version| numbers(version) < OLDEST)?;
                    Some(format!("ZooKeeper {version} is too old: 3.5 or later is required"))
                })
                .means("It has no container nodes, which the locks need.")
                .advise("upgrade, one minor version at a time"),
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
                .say("how long writes to disk take: mntr is not allowed")
                .advise("set 4lw.commands.whitelist=srvr,mntr in zoo.cfg of each server, then restart one after the other"),
            Rule::caution(Harm::Vanishes, "a write took a second or more")
                .finds(|read| {
                    let (host, ms) = slowest_write(read).filter(|(_, ms)| *ms >= SLOW_WRITE_MS)?;
                    Some(format!("a write to the disk of {host} took {} ms or more", decimal(ms)))
                })
                .means("If the leader stalls for long, sessions end, and their locks with them; holders are notified.")
                .advise("put dataLogDir on a separate disk"),
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
            Rule::danger(Harm::NoLocks, "fences cannot represent more elections")
                .when(|read| elections(read) > Some(EPOCHS))
                .say_with(used_up)
                .means("No lock can be taken here any more.")
                .advise("a new ensemble, with new fenced resources"),
            Rule::caution(Harm::Hampered, "fences can represent only a few more elections")
                .when(|read| elections(read) >= Some(MANY_EPOCHS))
                .say_with(used_up)
                .means("When they are used up, no lock can be taken.")
                .advise("plan a new ensemble, with new fenced resources"),
            Rule::fine().finds(|read| Some(format!("{} elections", count(elections(read)? as i64)))),
        ],
        figures: |read| {
            let elections = elections(read).map(|elections| ("elections", elections.into()));
            elections.into_iter().collect()
        },
    },
];

/// Returns how many servers vote, if that is known.
fn voters(read: &Readings) -> Option<usize> {
    read.session.as_ref()?.voters.as_ref().ok().copied()
}

/// Returns how many servers may fail before locks stop working.
fn may_fail(read: &Readings) -> usize {
    let voters = voters(read).unwrap_or_default();
    voters.saturating_sub(voters / 2 + 1)
}

/// Returns the servers of the address that do not serve clients, and why.
fn missing(read: &Readings) -> Vec<String> {
    let silent = read.servers.iter();
    let silent =
        silent.filter_map(|server| Some(format!("{} ({})", server.host(), server.silence()?)));
    let idle = read.servers.iter().filter(|server| server.serves_nobody());
    let idle = idle.map(|server| format!("{} (serves no clients)", server.host()));
    silent.chain(idle).collect()
}

/// Returns how many servers lead; more than one if they belong to several ensembles.
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

/// Returns the host of the slowest write to disk, and how long it took in ms. Servers before 3.6 report only how many writes exceeded a
/// second; each of these counts as a second.
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
        "{elections} of the {} elections that fences can represent",
        count(EPOCHS as i64)
    )
}

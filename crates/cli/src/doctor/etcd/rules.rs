//! The rules for an etcd cluster that stores locks.

use std::time::Duration;

use fencepost::DEFAULT_TTL;
use fencepost_trial::text::numbers::{decimal, plural};

use super::super::finding::Harm;
use super::super::rules::{self, Check, no_figures};
use super::readings::{Members, Readings, Rights, Server};

type Rule = rules::Rule<Readings>;

/// The oldest version that the locks were tested with.
const OLDEST: [u32; 3] = [3, 4, 0];
/// The share of the quota from which the store counts as nearly full.
const NEARLY_FULL: f64 = 0.8;

pub(in super::super) const CHECKS: &[Check<Readings>] = &[
    Check {
        topic: "version",
        reads: "the status of each server",
        rules: &[
            Rule::danger(Harm::NoLocks, "before 3.4")
                .when(|read| numbers(oldest(read)) < OLDEST)
                .say_with(|read| format!("etcd {} is too old: 3.4 or later is required", oldest(read)))
                .means("The locks were never tested with it.")
                .advise("upgrade, one minor version at a time"),
            Rule::caution(
                Harm::Vanishes,
                "before 3.4.31 or 3.5.13: [etcd#15247](https://github.com/etcd-io/etcd/issues/15247)",
            )
            .when(|read| forgets_renewals(numbers(oldest(read))))
            .say_with(|read| format!("etcd {} has the bug etcd#15247", oldest(read)))
            .means("A leader that was paused for longer than a TTL ends leases that were kept alive in the meantime. The holder learns of it at its next renewal.")
            .advise("upgrade to 3.4.31, 3.5.13 or later; until then fence the resource, or write with write_while_held"),
            Rule::fine().say("version"),
        ],
        figures: |read| vec![("version", oldest(read).into())],
    },
    Check {
        topic: "cluster",
        reads: "the status of each server",
        rules: &[
            Rule::danger(Harm::Vanishes, "the address names servers of several clusters")
                .when(|read| read.clusters > 1)
                .say_with(|read| format!("the address names servers of {} clusters", read.clusters))
                .means("A lock in one of them does not exclude clients of the others.")
                .advise("name the servers of one cluster only"),
        ],
        figures: |read| vec![("servers", read.clusters.into())],
    },
    Check {
        topic: "leader",
        reads: "the status of each server",
        rules: &[
            Rule::fine().when(|read| read.clusters <= 1 && cut_off(read).is_empty()).say("a leader"),
            Rule::caution(Harm::Hampered, "one server is cut off from the others")
                .when(|read| read.clusters <= 1 && cut_off(read).len() < read.servers.len())
                .say_with(|read| format!("{} knows no leader, but others do", cut_off(read).join(", ")))
                .means("It is cut off from the others: clients that ask it first have to try another server.")
                .advise("check its log and the network between the members"),
            Rule::danger(Harm::NoLocks, "there is no leader: the majority is lost")
                .when(|read| read.clusters <= 1)
                .say("no leader: the majority of the members is lost")
                .means("No lock can be taken, renewed or released until a majority is back.")
                .advise("start the members that are missing"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "members",
        reads: "the list of members",
        rules: &[
            Rule::unknown().finds(|read| read.members.as_ref()?.as_ref().err().cloned()),
            Rule::caution(Harm::OneMachine, "the cluster has one member")
                .when(|read| voters(read) == Some(1))
                .say("one member: no other has a copy of its data")
                .means("While it is down, no lock can be taken. If its disk is lost, all locks and fences are forgotten.")
                .advise("three members on three machines"),
            Rule::caution(Harm::Hampered, "the cluster has two members")
                .when(|read| voters(read) == Some(2))
                .say("two members: if either fails, no lock can be taken")
                .advise("three members on three machines"),
            // Members that the address does not name were not asked, and do not count as silent.
            Rule::caution(Harm::Hampered, "some do not answer (the finding says how many more may fail)")
                .when(|read| !read.silent.is_empty())
                .finds(|read| {
                    let silent = read.silent.iter().map(|(host, why)| format!("{host} ({why})"));
                    let silent: Vec<String> = silent.collect();
                    let Members { voters, there } = members(read)?;
                    Some(format!("{there} of {voters} members answer; no answer from {}", silent.join(", ")))
                })
                .means_with(|read| match may_fail(read).saturating_sub(read.silent.len()) {
                    0 => "If another one fails, no lock can be taken.".to_owned(),
                    left => format!("{} more may fail.", plural(left, "one", "")),
                })
                .advise("start them, or remove them from the cluster"),
            Rule::fine().finds(|read| Some(format!("{} members, {} may fail", voters(read)?, may_fail(read)))),
        ],
        figures: |read| {
            members(read).map_or_else(Vec::new, |members| {
                vec![("members", members.voters.into()), ("answering", members.there.into())]
            })
        },
    },
    Check {
        topic: "address",
        reads: "the list of members",
        rules: &[
            Rule::caution(Harm::Hampered, "it names fewer members than there are")
                .finds(|read| {
                    let (named, voters) = (named(read), voters(read)?);
                    (named < voters).then(|| format!("the address names {named} of {voters} members"))
                })
                .means("If the members that it names fail, no lock can be taken, although the cluster still works.")
                .advise("name all members: etcd://HOST,HOST,HOST"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "alarm",
        reads: "the status of each server",
        rules: &[
            Rule::danger(Harm::NoLocks, "`NOSPACE`: the store is full")
                .when(|read| rings(read, "NOSPACE"))
                .say("NOSPACE: the store is full and refuses writes until the alarm is disarmed")
                .means("No lock can be taken; locks that are held can be released.")
                .advise("etcdctl compact, defrag, then alarm disarm; a larger --quota-backend-bytes if it fills again"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "alarm",
        reads: "the status of each server",
        rules: &[
            Rule::danger(Harm::Vanishes, "`CORRUPT`: the members do not have the same data")
                .when(|read| rings(read, "CORRUPT"))
                .say("CORRUPT: the members do not have the same data")
                .means("Two members can give one lock to two clients.")
                .advise("stop using the cluster; etcd's guide to data corruption explains how to replace the member"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "room",
        reads: "the status of each server, or its metrics",
        rules: &[
            Rule::unknown()
                .when(|read| !is_alarmed(read) && fullest(read).is_some_and(|server| server.quota.is_none()))
                .say_with(|read| {
                    let used = fullest(read).map_or(0.0, used);
                    let why = if read.is_tls {
                        "this version reports it only in its metrics, which the doctor does not read over TLS"
                    } else {
                        "neither its status nor its metrics contain it"
                    };
                    format!("{} MiB used of an unknown quota: {why}", mebibytes(used))
                }),
            Rule::caution(Harm::Hampered, "80 % of the quota is used")
                .when(|read| !is_alarmed(read) && fullest(read).is_some_and(|server| share(server) >= NEARLY_FULL))
                .say_with(usage)
                .means("When the store is full, etcd raises an alarm, and no lock can be taken until somebody disarms it.")
                .advise("run etcdctl compact and defrag; set --auto-compaction-retention; or raise --quota-backend-bytes"),
            // The alarm already reports a full store.
            Rule::fine().when(|read| !is_alarmed(read)).say_with(usage),
        ],
        figures: |read| {
            let known = fullest(read).and_then(|server| Some((used(server), server.quota?)));
            known.map_or_else(Vec::new, |(used, quota)| {
                vec![("used_bytes", (used as i64).into()), ("limit_bytes", (quota as i64).into())]
            })
        },
    },
    Check {
        topic: "rights",
        reads: "a transaction whose condition cannot hold",
        rules: &[
            Rule::danger(Harm::NoLocks, "the user may not read or write below the prefix")
                .finds(|read| {
                    let Rights::Lacking(what) = rights(read)? else {
                        return None;
                    };
                    let below = match read.prefix.as_str() {
                        "" => "any key".to_owned(),
                        prefix => format!("keys below {prefix}/"),
                    };
                    let user = read.user.as_deref().unwrap_or("nobody");
                    Some(format!("user {user} may not {what} {below}"))
                })
                .means("No lock can be taken here.")
                .advise("etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX/"),
            Rule::unknown().finds(|read| match rights(read)? {
                Rights::Unknown(why) => Some(why.clone()),
                _ => None,
            }),
            Rule::fine().when(|read| read.served.is_some()).say("rights"),
        ],
        figures: no_figures,
    },
    Check {
        topic: "leases",
        reads: "a lease of one second that is revoked at once",
        rules: &[
            Rule::unknown().finds(|read| shortest_lease(read)?.as_ref().err().cloned()),
            Rule::caution(Harm::Hampered, "the shortest lease is longer than the default TTL of 10 s (because of `--election-timeout`)")
                .finds(|read| {
                    let seconds = known_lease(read).filter(|seconds| Duration::from_secs(*seconds) > DEFAULT_TTL)?;
                    Some(format!("no lease is shorter than {seconds} s"))
                })
                .means("etcd grants at least one and a half election timeouts. When a holder dies, others wait that long, whatever its TTL.")
                .advise("shorten --election-timeout if the network allows it: ten times the round trip between members"),
            Rule::fine().finds(|read| Some(format!("leases of {} s and more", known_lease(read)?))),
        ],
        figures: |read| {
            let shortest = known_lease(read).map(|seconds| ("shortest_seconds", seconds.into()));
            shortest.into_iter().collect()
        },
    },
];

fn oldest(read: &Readings) -> &str {
    let oldest = read.versions().min_by_key(|version| numbers(version));
    oldest.unwrap_or_default()
}

fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version
        .split(['.', '-', '+'])
        .map(|part| part.parse().unwrap_or(0));
    [0; 3].map(|_: u32| parts.next().unwrap_or(0))
}

/// Returns whether this version has etcd#15247: a leader that was paused can end leases that were kept alive on another leader.
fn forgets_renewals(version: [u32; 3]) -> bool {
    match version {
        [3, (..=4), patch] => version[1] < 4 || patch < 31,
        [3, 5, patch] => patch < 13,
        _ => false,
    }
}

/// Returns the servers that know no leader.
fn cut_off(read: &Readings) -> Vec<&str> {
    let servers = read.servers.iter();
    let cut_off = servers.filter(|server| server.status.leader() == 0);
    cut_off.map(|server| server.host.as_str()).collect()
}

fn members(read: &Readings) -> Option<&Members> {
    read.members.as_ref()?.as_ref().ok()
}

fn voters(read: &Readings) -> Option<usize> {
    members(read).map(|members| members.voters)
}

/// Returns how many members may fail before locks stop working.
fn may_fail(read: &Readings) -> usize {
    let voters = voters(read).unwrap_or_default();
    voters.saturating_sub(voters / 2 + 1)
}

/// Returns how many servers the address names.
fn named(read: &Readings) -> usize {
    read.servers.len() + read.silent.len()
}

fn rings(read: &Readings, alarm: &str) -> bool {
    let mut errors = read
        .servers
        .iter()
        .flat_map(|server| server.status.errors());
    errors.any(|error| error.contains(alarm))
}

fn is_alarmed(read: &Readings) -> bool {
    rings(read, "NOSPACE") || rings(read, "CORRUPT")
}

/// Returns the server that uses the largest share of its quota.
fn fullest(read: &Readings) -> Option<&Server> {
    let servers = read.servers.iter();
    servers.reduce(|fullest, server| {
        if share(server) > share(fullest) {
            server
        } else {
            fullest
        }
    })
}

fn used(server: &Server) -> f64 {
    server.status.db_size() as f64
}

/// Returns the share of the quota that is used; 0 if the quota is unknown.
fn share(server: &Server) -> f64 {
    server.quota.map_or(0.0, |quota| used(server) / quota)
}

fn mebibytes(bytes: f64) -> String {
    decimal(bytes / 1_048_576.0)
}

fn usage(read: &Readings) -> String {
    let known = fullest(read).and_then(|server| Some((used(server), server.quota?)));
    let (used, quota) = known.unwrap_or_default();
    format!("{} of {} MiB used", mebibytes(used), mebibytes(quota))
}

fn rights(read: &Readings) -> Option<&Rights> {
    Some(&read.served.as_ref()?.rights)
}

fn shortest_lease(read: &Readings) -> Option<&Result<u64, String>> {
    Some(&read.served.as_ref()?.shortest_lease)
}

fn known_lease(read: &Readings) -> Option<u64> {
    shortest_lease(read)?.as_ref().ok().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, old, forgets) in [
            ("3.3.27", true, true),
            ("3.4.23", false, true),
            ("3.4.31", false, false),
            ("3.5.9", false, true),
            ("3.5.13", false, false),
            ("3.6.0-rc.1", false, false),
            ("4.0.0", false, false),
        ] {
            let numbers = numbers(version);
            assert_eq!(
                (numbers < OLDEST, forgets_renewals(numbers)),
                (old, forgets),
                "{version}"
            );
        }
    }
}

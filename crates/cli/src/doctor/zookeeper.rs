//! The examination of a ZooKeeper ensemble.
//!
//! What its servers say of themselves comes from their four-letter words, as far as they are allowed; the rest from sessions of our own. No
//! node is written: rights are tried with a transaction that cannot succeed.

use std::time::{Duration, Instant};

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::stores::zookeeper::client::{Client, Error as Cause};
use fencepost::{DEFAULT_TTL, Error};
use fencepost_trial::text::numbers::{count, decimal};

use super::finding::{Finding, Harm};
use super::reach::{refused, within_patience};
use super::{Examination, PATIENCE, pace};
use crate::backend::LockStore;
use crate::fault::Fault;

mod ensemble;
mod rights;
mod words;

use words::Server;

/// The oldest version that has containers, which the folders of locks are.
const OLDEST: [u32; 2] = [3, 5];
/// What is asked for to see the bounds. Less than the first nobody could keep over a slow network.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// A fence has room for so many elections.
const EPOCHS: u64 = 32_767;
/// From here on ZooKeeper itself warns, and sessions of a few seconds are in danger.
const SLOW_WRITE_MS: f64 = 1_000.0;

pub(super) async fn examine(store: &LockStore, address: &str) -> Result<Examination, Fault> {
    let failed = |error: Error| refused(store, &error);
    let (hosts, base) = Zookeeper::builder(address).servers().map_err(failed)?;
    let mut servers = Vec::new();
    for host in &hosts {
        servers.push(Server::ask(host).await);
    }
    let mut findings = Vec::new();
    match within_patience(|| session(address, DEFAULT_TTL)).await {
        Ok(client) => {
            findings.extend(ensemble::judge(&client, &servers).await);
            findings.push(sessions(address, &client).await);
            findings.push(rights::judge(&client, &base).await);
            findings.push(round_trip(&client).await);
            end(client).await;
        }
        Err(error) => match ensemble::has_no_majority(&servers) {
            Some(finding) => findings.push(finding),
            None => return Err(failed(error)),
        },
    }
    findings.extend(age(&servers));
    findings.push(disk(&servers));
    findings.extend(epochs(&servers));
    Ok(Examination {
        place: store.place(),
        patient: patient(&servers, address),
        findings,
    })
}

async fn session(address: &str, timeout: Duration) -> Result<Client, Error> {
    let builder = Zookeeper::builder(address).session_timeout(timeout);
    builder.connect_timeout(PATIENCE).visit().await
}

/// A session that is not closed would live on for its timeout.
async fn end(client: Client) {
    let mut state = client.state_watcher();
    drop(client);
    let ending = async {
        while !state.state().is_terminated() {
            state.changed().await;
        }
    };
    let _ended = tokio::time::timeout(PATIENCE, ending).await;
}

fn patient(servers: &[Server], address: &str) -> String {
    let version = servers.iter().find_map(|server| server.version());
    let there = servers.iter().filter(|server| server.is_there()).count();
    let has_user = address.contains('@');
    format!(
        "ZooKeeper{}, {there} of {} servers answer{}",
        version.map_or(String::new(), |version| format!(" {version}")),
        servers.len(),
        if has_user {
            ", as the user of the address"
        } else {
            ", without a user"
        }
    )
}

fn age(servers: &[Server]) -> Option<Finding> {
    let versions = servers.iter().filter_map(|server| server.version());
    let numbers = |version: &str| {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        [parts.next().unwrap_or(0_u32), parts.next().unwrap_or(0)]
    };
    let version = versions.min_by_key(|version| numbers(version))?;
    let finding = match numbers(version) < OLDEST {
        true => {
            let what = format!("ZooKeeper {version} is too old: 3.5 is the least");
            Finding::danger("version", Harm::NoLocks, what)
                .means("It has no containers, which the folders of locks are.")
                .advice("a newer server, one minor version at a time")
        }
        false => Finding::fine("version", "version"),
    };
    Some(finding.figure("version", version))
}

/// What the servers grant, found out by asking for too little and for too much.
async fn sessions(address: &str, usual: &Client) -> Finding {
    let granted = usual.session_timeout();
    let mut bounds = [granted; 2];
    for (bound, wanted) in bounds.iter_mut().zip([SHORTEST, LONGEST]) {
        match within_patience(|| session(address, wanted)).await {
            Ok(client) => {
                *bound = client.session_timeout();
                end(client).await;
            }
            Err(error) => {
                let what = format!("bounds of session timeouts: {}", error.message());
                return Finding::unknown("sessions", what);
            }
        }
    }
    let [least, most] = bounds;
    let or_less = if least <= SHORTEST { " s or less" } else { "" };
    let said = format!(
        "sessions of {}{or_less} to {} s",
        seconds(least),
        seconds(most)
    );
    let ttl = seconds(DEFAULT_TTL);
    let finding = if most < DEFAULT_TTL {
        Finding::danger("sessions", Harm::NoLocks, format!("{said}: maxSessionTimeout is less than the usual TTL of {ttl} s"))
            .means("A lock cannot be kept for longer than a session: with the usual TTL none can be taken.")
            .advice(format!("maxSessionTimeout={} or more, or a shorter TTL in every program", DEFAULT_TTL.as_millis()))
    } else if least > DEFAULT_TTL {
        Finding::caution(
            "sessions",
            Harm::Hampered,
            format!("{said}: minSessionTimeout is more than the usual TTL of {ttl} s"),
        )
        .means("When a holder dies, others wait for its session to end, whatever its TTL.")
        .advice("a smaller minSessionTimeout")
    } else {
        Finding::fine("sessions", said)
    };
    finding
        .figure("least_ms", least.as_millis() as u64)
        .figure("most_ms", most.as_millis() as u64)
}

fn seconds(time: Duration) -> String {
    decimal(time.as_secs_f64())
}

/// How long the slowest write to the disk took, or, before 3.6, how many were slower than a second.
fn disk(servers: &[Server]) -> Finding {
    let slowest = |server: &Server| {
        let ms = server.measure("zk_max_fsynctime");
        let slow = || server.measure("zk_fsync_threshold_exceed_count");
        ms.or_else(|| slow().map(|times| times * SLOW_WRITE_MS))
    };
    let known = servers
        .iter()
        .filter_map(|server| Some((server.host(), slowest(server)?)));
    let Some((host, ms)) = known.max_by(|one, other| one.1.total_cmp(&other.1)) else {
        let why = "how long writes to the disk take: mntr is not allowed";
        return Finding::unknown("disk", why)
            .advice("4lw.commands.whitelist=srvr,mntr in zoo.cfg of each server, then restart one after the other");
    };
    let finding = if ms < SLOW_WRITE_MS {
        Finding::fine(
            "disk",
            format!("slowest write to the disk {} ms", decimal(ms)),
        )
    } else {
        let what = format!(
            "a write to the disk of {host} took {} ms or more",
            decimal(ms)
        );
        Finding::caution("disk", Harm::Vanishes, what)
            .means("Sessions end when the leader stands still for long, and with them the locks; holders are told.")
            .advice("a disk of its own for dataLogDir")
    };
    finding.figure("slowest_ms", ms)
}

/// The upper half of a transaction's number counts elections, and the fence has 15 bits for it.
fn epochs(servers: &[Server]) -> Option<Finding> {
    let epoch = servers.iter().filter_map(|server| server.epoch()).max()?;
    let said = format!(
        "{} elections of {} that fences have room for",
        count(epoch as i64),
        count(EPOCHS as i64)
    );
    let finding = match epoch {
        ..30_000 => Finding::fine("elections", format!("{} elections", count(epoch as i64))),
        30_000..=EPOCHS => Finding::caution("elections", Harm::Hampered, said)
            .means("After that no lock can be taken.")
            .advice("plan a new ensemble, with new fenced resources"),
        _ => Finding::danger("elections", Harm::NoLocks, said)
            .means("No lock can be taken here any more.")
            .advice("a new ensemble, with new fenced resources"),
    };
    Some(finding.figure("elections", epoch))
}

/// Questions that go through the leader.
async fn round_trip(client: &Client) -> Finding {
    let mut times = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Instant::now();
        match within(client.sync("/")).await {
            Ok(()) => times.push(asked.elapsed()),
            Err(cause) => return Finding::unknown(pace::ROUND_TRIP, said(&cause)),
        }
    }
    pace::round_trip(&times)
}

async fn within<T>(asking: impl Future<Output = Result<T, Cause>>) -> Result<T, Cause> {
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or(Err(Cause::Timeout))
}

fn said(cause: &Cause) -> String {
    format!("the server says '{cause}'")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn server(srvr: &str) -> Vec<Server> {
        vec![Server::of("h:2181", srvr, "")]
    }

    #[test]
    fn slow_disks_are_told_as_each_version_tells_them() {
        let of = |mntr: &str| disk(&[Server::of("h:2181", "", mntr)]).severity;
        assert_eq!(
            of("mntr is not executed because it is not in the whitelist."),
            Severity::Unknown
        );
        assert_eq!(of("zk_max_fsynctime\t12\n"), Severity::Fine);
        assert_eq!(of("zk_max_fsynctime\t2500\n"), Severity::Caution);
        assert_eq!(of("zk_fsync_threshold_exceed_count\t0\n"), Severity::Fine);
        assert_eq!(
            of("zk_fsync_threshold_exceed_count\t3\n"),
            Severity::Caution
        );
    }

    #[test]
    fn old_servers_and_many_elections_are_told() {
        let severity = |version: &str| {
            let said = format!("Zookeeper version: {version}-abc, built on 2022\nMode: leader\n");
            age(&server(&said)).unwrap().severity
        };
        assert_eq!(severity("3.4.14"), Severity::Danger);
        assert_eq!(severity("3.5.1"), Severity::Fine);
        assert_eq!(severity("3.10.0"), Severity::Fine);
        let severity = |zxid: &str| {
            epochs(&server(&format!("Zxid: {zxid}\n")))
                .unwrap()
                .severity
        };
        assert_eq!(severity("0x500000001"), Severity::Fine);
        assert_eq!(severity("0x7fff00000001"), Severity::Caution);
        assert_eq!(severity("0x800000000001"), Severity::Danger);
    }
}

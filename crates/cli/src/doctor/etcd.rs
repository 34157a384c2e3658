//! The examination of an etcd cluster, server by server.
//!
//! No key is written. Rights are tried with a transaction whose condition cannot hold; how short a lease can be, with one that is given
//! back at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fencepost::stores::etcd::client::{Client, Compare, CompareOp, GetOptions, Txn, TxnOp};
use fencepost::stores::etcd::client::{Error as Cause, StatusResponse};
use fencepost::stores::etcd::{Etcd, Visit};
use fencepost::{DEFAULT_TTL, Error};

use super::finding::{Finding, Harm};
use super::pace::{self, ROUND_TRIP_CHECKS, RoundTrip, Times};
use super::reach::{refused, within_patience};
use super::rules::apply;
use super::{Examination, PATIENCE};
use crate::fault::Fault;
use crate::store::LockStore;

mod cluster;
mod room;

/// The oldest version that the locks were tried with.
const OLDEST: [u32; 3] = [3, 4, 0];
/// A key of the kind that a lock has.
const KEY: &str = "fencepost-doctor/0";
/// gRPC's number for «you may not».
const PERMISSION_DENIED: i32 = 7;

/// A server that answered.
struct Server {
    host: String,
    client: Client,
    status: StatusResponse,
}

/// What is known when the findings are made.
struct Known {
    /// At least one.
    servers: Vec<Server>,
    /// Hosts that did not answer, and why.
    silent: Vec<(String, String)>,
    prefix: String,
    user: Option<String>,
    is_tls: bool,
}

pub(super) async fn examine(
    store: &LockStore,
    address: &str,
    slow: Duration,
) -> Result<Examination, Fault> {
    let reached = within_patience(|| reach(address)).await;
    let mut known = reached.map_err(|error| refused(store, &error))?;
    let findings = look(&mut known, slow).await;
    Ok(Examination {
        place: store.place(),
        patient: patient(&known),
        findings,
    })
}

/// Asks every server how it is. At least one has to answer.
async fn reach(address: &str) -> Result<Known, Error> {
    let Visit {
        servers,
        prefix,
        user,
        is_tls,
        ..
    } = Etcd::visit(address, PATIENCE).await?;
    let mut known = Known {
        servers: Vec::new(),
        silent: Vec::new(),
        prefix,
        user,
        is_tls,
    };
    let mut refusal = None;
    for (host, client) in servers {
        let answer = match client {
            Err(error) => Err((error.message().to_owned(), Some(error))),
            Ok(mut client) => match tokio::time::timeout(PATIENCE, client.status()).await {
                Ok(Ok(status)) => Ok((client, status)),
                Ok(Err(cause)) => Err((words(&cause), None)),
                Err(_) => Err(("no answer".to_owned(), None)),
            },
        };
        match answer {
            Ok((client, status)) => known.servers.push(Server {
                host,
                client,
                status,
            }),
            Err((why, error)) => {
                refusal = refusal.or(error);
                known.silent.push((host, why));
            }
        }
    }
    if !known.servers.is_empty() {
        return Ok(known);
    }
    // Let nobody in, rather than nobody there, if that is what one of them said.
    if let Some(error) = refusal {
        return Err(error);
    }
    // In the store's own words: it asks the same of the same servers.
    match Etcd::builder(address)
        .connect_timeout(PATIENCE)
        .open()
        .await
    {
        Err(error) => Err(error),
        Ok(_) => Err(Error::new(
            fencepost::ErrorKind::Unavailable,
            "etcd",
            fencepost::Operation::Open,
            "no server answers",
        )),
    }
}

fn words(cause: &Cause) -> String {
    match cause {
        Cause::GRpcStatus(status) => status.message().to_owned(),
        cause => cause.to_string(),
    }
}

async fn look(known: &mut Known, slow: Duration) -> Vec<Finding> {
    let mut findings = vec![age(known)];
    findings.extend(cluster::judge(known).await);
    findings.extend(room::judge(known).await);
    let is_served = known
        .servers
        .iter()
        .any(|server| server.status.leader() != 0);
    if !is_served {
        return findings;
    }
    let Some(mut client) = leading(known) else {
        return findings;
    };
    findings.push(rights(known, &mut client).await);
    findings.push(shortest_lease(&mut client).await);
    findings.extend(apply(
        ROUND_TRIP_CHECKS,
        &round_trip(known, &mut client, slow).await,
    ));
    findings
}

/// A server that knows a leader.
fn leading(known: &Known) -> Option<Client> {
    let mut servers = known.servers.iter();
    let server = servers.find(|server| server.status.leader() != 0)?;
    Some(server.client.clone())
}

fn patient(known: &Known) -> String {
    let versions: BTreeSet<&str> = versions(known).collect();
    let versions: Vec<&str> = versions.into_iter().collect();
    let user = match &known.user {
        Some(user) => format!("as user {user}"),
        None => "without a user".to_owned(),
    };
    let all = known.servers.len() + known.silent.len();
    let answer = match known.silent.len() {
        0 => format!("{all} of {all} servers answer"),
        _ => format!("{} of {all} servers answer", known.servers.len()),
    };
    format!("etcd {}, {answer}, {user}", versions.join(" and "))
}

fn versions(known: &Known) -> impl Iterator<Item = &str> {
    known.servers.iter().map(|server| server.status.version())
}

fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version
        .split(['.', '-', '+'])
        .map(|part| part.parse().unwrap_or(0));
    [0; 3].map(|_: u32| parts.next().unwrap_or(0))
}

/// Before these, a leader that stood still could end leases that others had kept alive (etcd#15247).
fn forgets_renewals(version: [u32; 3]) -> bool {
    match version {
        [3, (..=4), patch] => version[1] < 4 || patch < 31,
        [3, 5, patch] => patch < 13,
        _ => false,
    }
}

fn age(known: &Known) -> Finding {
    let oldest = versions(known).min_by_key(|version| numbers(version));
    let version = oldest.unwrap_or_default();
    let finding = match numbers(version) {
        old if old < OLDEST => {
            let what = format!("etcd {version} is too old: 3.4 is the least");
            Finding::danger("version", Harm::NoLocks, what)
                .means("The locks were never tried there.")
                .advice("a newer server, one minor version at a time")
        }
        old if forgets_renewals(old) => {
            let what = format!("etcd {version} has the bug etcd#15247");
            Finding::caution("version", Harm::Vanishes, what)
                .means("A leader that stood still for longer than a TTL ends leases that were kept alive meanwhile. The holder is told at its next renewal.")
                .advice("3.4.31, 3.5.13 or later; until then fence the resource, or write with write_while_held")
        }
        _ => Finding::fine("version", "version"),
    };
    finding.figure("version", version)
}

fn key(known: &Known) -> String {
    match known.prefix.as_str() {
        "" => KEY.to_owned(),
        prefix => format!("{prefix}/{KEY}"),
    }
}

/// Whether the keys of locks may be read and written: with a transaction that never writes, as no key has a version below zero.
async fn rights(known: &Known, client: &mut Client) -> Finding {
    let key = key(known);
    let never = Compare::version(key.as_str(), CompareOp::Less, 0);
    let write = TxnOp::put(key.as_str(), "", None);
    let transaction = Txn::new().when([never]).and_then([write]);
    let below = match known.prefix.as_str() {
        "" => "any key".to_owned(),
        prefix => format!("keys below {prefix}/"),
    };
    let user = known.user.as_deref().unwrap_or("nobody");
    let denied = |what: &str| {
        Finding::danger(
            "rights",
            Harm::NoLocks,
            format!("user {user} may not {what} {below}"),
        )
        .means("No lock can be taken here.")
        .advice("etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX/")
    };
    let refused = |cause: &Cause| matches!(cause, Cause::GRpcStatus(status) if i32::from(status.code()) == PERMISSION_DENIED);
    match within(client.txn(transaction)).await {
        Ok(_) => {}
        Err(Some(cause)) if refused(&cause) => return denied("write"),
        Err(cause) => return Finding::unknown("rights", said(cause)),
    }
    let options = GetOptions::new().with_prefix().with_count_only();
    match within(client.get(key.as_str(), Some(options))).await {
        Ok(_) => Finding::fine("rights", "rights"),
        Err(Some(cause)) if refused(&cause) => denied("read"),
        Err(cause) => Finding::unknown("rights", said(cause)),
    }
}

/// The least that etcd grants: one and a half times its election timeout.
async fn shortest_lease(client: &mut Client) -> Finding {
    let granted = match within(client.lease_grant(1, None)).await {
        Ok(granted) => granted,
        Err(cause) => {
            let what = format!("how short a lease can be: {}", said(cause));
            return Finding::unknown("leases", what);
        }
    };
    let _given_back = within(client.lease_revoke(granted.id())).await;
    let seconds = granted.ttl().max(0) as u64;
    let finding = if Duration::from_secs(seconds) <= DEFAULT_TTL {
        Finding::fine("leases", format!("leases of {seconds} s and more"))
    } else {
        let what = format!("no lease is shorter than {seconds} s");
        Finding::caution("leases", Harm::Hampered, what)
            .means("etcd grants one and a half election timeouts at least: when a holder dies, others wait that long, whatever its TTL.")
            .advice("a shorter --election-timeout, if the network allows it: ten times the round trip between members")
    };
    finding.figure("shortest_seconds", seconds)
}

/// Reads that a majority confirms; where the user may not read, of the server alone.
async fn round_trip(known: &Known, client: &mut Client, slow: Duration) -> RoundTrip {
    let key = key(known);
    let mut times = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Instant::now();
        let answered = within(client.get(key.as_str(), None)).await;
        times.push(asked.elapsed());
        if let Err(cause) = answered {
            return Err(said(cause));
        }
    }
    Ok(Times::of(times, slow))
}

/// `Err(None)`: no answer in time.
async fn within<T>(asking: impl Future<Output = Result<T, Cause>>) -> Result<T, Option<Cause>> {
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer.map_err(Some),
        Err(_) => Err(None),
    }
}

fn said(cause: Option<Cause>) -> String {
    match cause {
        Some(cause) => format!("the server says '{}'", words(&cause)),
        None => "no answer in time".to_owned(),
    }
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

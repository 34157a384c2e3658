//! Reads the status of each server of an etcd cluster and the rights of the user.
//!
//! Writes no key: it tests rights with a transaction whose condition cannot hold, and the shortest lease with one that it revokes at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fencepost::Error;
use fencepost::stores::etcd::client::{Client, Compare, CompareOp, GetOptions, Txn, TxnOp};
use fencepost::stores::etcd::client::{Error as Cause, StatusResponse};
use fencepost::stores::etcd::{Etcd, Visit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::ANSWER_TIMEOUT;
use super::super::pace::{self, RoundTrip, Times};
use super::super::reach::until_it_answers;

/// A key like those of locks.
const KEY: &str = "fencepost-doctor/0";
/// gRPC's status code `PERMISSION_DENIED`.
const PERMISSION_DENIED: i32 = 7;

/// What the rules for etcd judge.
pub(in super::super) struct Readings {
    /// The servers that answered; at least one.
    pub(super) servers: Vec<Server>,
    /// Hosts that did not answer, and why.
    pub(super) silent: Vec<(String, String)>,
    pub(super) prefix: String,
    pub(super) user: Option<String>,
    pub(super) is_tls: bool,
    /// How many clusters these servers belong to.
    pub(super) clusters: usize,
    /// `None` if the servers belong to several clusters.
    pub(super) members: Option<Result<Members, String>>,
    /// `None` if no server knows a leader.
    pub(super) served: Option<Served>,
}

/// A server that answered.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) status: StatusResponse,
    /// The limit for the size of its data, in bytes; `None` if the server does not report it.
    pub(super) quota: Option<f64>,
}

/// How many members of the cluster vote.
pub(super) struct Members {
    pub(super) voters: usize,
    /// How many of them answered.
    pub(super) there: usize,
}

/// What only a cluster with a leader can answer.
pub(super) struct Served {
    pub(super) rights: Rights,
    /// The shortest lease that is granted, in seconds.
    pub(super) shortest_lease: Result<u64, String>,
    pub(super) round_trip: RoundTrip,
}

/// What the user may do with the keys of locks.
pub(super) enum Rights {
    Enough,
    /// What the user may not do: `read` or `write`.
    Lacking(&'static str),
    /// Why the rights are unknown.
    Unknown(String),
}

/// The servers after the first request to each.
struct Reached {
    servers: Vec<(String, Client, StatusResponse)>,
    silent: Vec<(String, String)>,
    prefix: String,
    user: Option<String>,
    is_tls: bool,
}

impl Readings {
    pub(super) async fn of(address: &str, slow: Duration) -> Result<Self, Error> {
        let reached = until_it_answers(|| reach(address)).await?;
        let headers = reached.servers.iter();
        let headers = headers.filter_map(|(_, _, status)| status.header());
        let clusters: BTreeSet<u64> = headers.map(|header| header.cluster_id()).collect();
        let members = match clusters.len() {
            0 | 1 => Some(members(&reached).await),
            _ => None,
        };
        let served = match leading(&reached) {
            Some(client) => Some(Served::of(client, &key(&reached.prefix), slow).await),
            None => None,
        };
        let mut servers = Vec::new();
        for (host, _, status) in reached.servers {
            let quota = match status.db_size_quota() {
                0 if reached.is_tls => None,
                0 => quota(&host).await,
                quota => Some(quota as f64),
            };
            servers.push(Server {
                host,
                status,
                quota: quota.filter(|quota| *quota > 0.0),
            });
        }
        Ok(Self {
            servers,
            silent: reached.silent,
            prefix: reached.prefix,
            user: reached.user,
            is_tls: reached.is_tls,
            clusters: clusters.len(),
            members,
            served,
        })
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.status.version())
    }
}

impl Served {
    async fn of(mut client: Client, key: &str, slow: Duration) -> Self {
        Self {
            rights: rights(&mut client, key).await,
            shortest_lease: shortest_lease(&mut client).await,
            round_trip: round_trip(&mut client, key, slow).await,
        }
    }
}

/// Asks every server for its status. Returns an error if none answers.
async fn reach(address: &str) -> Result<Reached, Error> {
    let Visit {
        servers,
        prefix,
        user,
        is_tls,
        ..
    } = Etcd::visit(address, ANSWER_TIMEOUT).await?;
    let mut known = Reached {
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
            Ok(mut client) => match tokio::time::timeout(ANSWER_TIMEOUT, client.status()).await {
                Ok(Ok(status)) => Ok((client, status)),
                Ok(Err(cause)) => Err((words(&cause), None)),
                Err(_) => Err(("no answer".to_owned(), None)),
            },
        };
        match answer {
            Ok((client, status)) => known.servers.push((host, client, status)),
            Err((why, error)) => {
                refusal = refusal.or(error);
                known.silent.push((host, why));
            }
        }
    }
    if !known.servers.is_empty() {
        return Ok(known);
    }
    // If a server refused this user, report that, and not that no server answers.
    if let Some(error) = refusal {
        return Err(error);
    }
    // The library's error describes best why no server answers.
    match Etcd::builder(address)
        .connect_timeout(ANSWER_TIMEOUT)
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

/// Returns a server that knows a leader.
fn leading(reached: &Reached) -> Option<Client> {
    let mut servers = reached.servers.iter();
    let (_, client, _) = servers.find(|(_, _, status)| status.leader() != 0)?;
    Some(client.clone())
}

async fn members(reached: &Reached) -> Result<Members, String> {
    let Some((_, client, _)) = reached.servers.first() else {
        return Err("how many there are: no server answers".to_owned());
    };
    let members = within(client.clone().member_list()).await;
    let members = members.map_err(|cause| format!("how many there are: {}", said(cause)))?;
    let voters = members.members().iter();
    let voters = voters.filter(|member| !member.is_learner());
    let voters: BTreeSet<u64> = voters.map(|member| member.id()).collect();
    let answered = reached.servers.iter();
    let answered = answered.filter_map(|(_, _, status)| status.header());
    let answered: BTreeSet<u64> = answered.map(|header| header.member_id()).collect();
    Ok(Members {
        voters: voters.len(),
        there: voters.intersection(&answered).count(),
    })
}

fn key(prefix: &str) -> String {
    if prefix.is_empty() {
        KEY.to_owned()
    } else {
        format!("{prefix}/{KEY}")
    }
}

/// Tests whether the user may read and write the keys of locks, with a transaction that never writes: no key has a version below zero.
async fn rights(client: &mut Client, key: &str) -> Rights {
    let never = Compare::version(key, CompareOp::Less, 0);
    let write = TxnOp::put(key, "", None);
    let transaction = Txn::new().when([never]).and_then([write]);
    let refused = |cause: &Cause| matches!(cause, Cause::GRpcStatus(status) if i32::from(status.code()) == PERMISSION_DENIED);
    match within(client.txn(transaction)).await {
        Ok(_) => {}
        Err(Some(cause)) if refused(&cause) => return Rights::Lacking("write"),
        Err(cause) => return Rights::Unknown(said(cause)),
    }
    let options = GetOptions::new().with_prefix().with_count_only();
    match within(client.get(key, Some(options))).await {
        Ok(_) => Rights::Enough,
        Err(Some(cause)) if refused(&cause) => Rights::Lacking("read"),
        Err(cause) => Rights::Unknown(said(cause)),
    }
}

/// Returns the shortest lease that etcd grants, in seconds: one and a half times its election timeout.
async fn shortest_lease(client: &mut Client) -> Result<u64, String> {
    let granted = within(client.lease_grant(1, None)).await;
    let granted = granted.map_err(|cause| format!("how short a lease can be: {}", said(cause)))?;
    let _given_back = within(client.lease_revoke(granted.id())).await;
    Ok(granted.ttl().max(0) as u64)
}

/// Measures linearizable reads, which a majority confirms.
async fn round_trip(client: &mut Client, key: &str, slow: Duration) -> RoundTrip {
    let mut times = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Instant::now();
        let answered = within(client.get(key, None)).await;
        times.push(asked.elapsed());
        if let Err(cause) = answered {
            return Err(said(cause));
        }
    }
    Ok(Times::of(times, slow))
}

/// Reads the server's quota from its metrics; `None` if they do not contain it.
async fn quota(host: &str) -> Option<f64> {
    let text = tokio::time::timeout(ANSWER_TIMEOUT, metrics(host))
        .await
        .ok()?
        .ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("etcd_server_quota_backend_bytes "));
    line?.trim().parse().ok()
}

async fn metrics(host: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Waits for an answer. Returns `Err(None)` if the server does not answer in time.
async fn within<T>(asking: impl Future<Output = Result<T, Cause>>) -> Result<T, Option<Cause>> {
    match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
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

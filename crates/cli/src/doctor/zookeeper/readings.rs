//! Reads the state of a ZooKeeper ensemble through four-letter commands and sessions.

use std::time::{Duration, Instant};

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::stores::zookeeper::client::Client;
use fencepost::{DEFAULT_TTL, Error};

use super::super::ANSWER_TIMEOUT;
use super::super::pace::{self, RoundTrip, Times};
use super::super::reach::until_it_answers;
use super::four_letter_commands::Server;
use super::rights::{self, Rights};
use super::{said, within};

/// The session timeouts that the doctor asks for to learn the server's bounds. A shorter one could not be kept alive over a slow network.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What the rules for ZooKeeper judge.
pub(in super::super) struct Readings {
    pub(super) servers: Vec<Server>,
    /// `None` if no session could be opened because there is no majority.
    pub(super) session: Option<Session>,
}

/// What the doctor reads through sessions.
pub(super) struct Session {
    /// How many servers vote.
    pub(super) voters: Result<usize, String>,
    /// The shortest and the longest session timeout that the servers grant.
    pub(super) timeouts: Result<(Duration, Duration), String>,
    pub(super) rights: Rights,
    pub(super) round_trip: RoundTrip,
}

impl Readings {
    /// Returns an error if no session can be opened for any reason other than a missing majority.
    pub(super) async fn of(address: &str, slow: Duration) -> Result<Self, Error> {
        let (hosts, base) = Zookeeper::builder(address).servers()?;
        let mut servers = Vec::new();
        for host in &hosts {
            servers.push(Server::ask(host).await);
        }
        let session = match until_it_answers(|| session(address, DEFAULT_TTL)).await {
            Ok(client) => Some(Session::of(client, address, &base, slow).await),
            Err(_) if servers.iter().any(Server::serves_nobody) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { servers, session })
    }
}

impl Session {
    async fn of(client: Client, address: &str, base: &str, slow: Duration) -> Self {
        let read = Self {
            voters: voters(&client).await,
            timeouts: timeouts(address).await,
            rights: rights::read(&client, base).await,
            round_trip: round_trip(&client, slow).await,
        };
        end(client).await;
        read
    }
}

async fn session(address: &str, timeout: Duration) -> Result<Client, Error> {
    let builder = Zookeeper::builder(address).session_timeout(timeout);
    builder.connect_timeout(ANSWER_TIMEOUT).visit().await
}

/// Closes a session and waits for it. A session that is not closed lives on until its timeout.
async fn end(client: Client) {
    let mut state = client.state_watcher();
    drop(client);
    let ending = async {
        while !state.state().is_terminated() {
            state.changed().await;
        }
    };
    let _ended = tokio::time::timeout(ANSWER_TIMEOUT, ending).await;
}

/// Counts the servers that vote. Every user may read that list; a standalone server has no list.
async fn voters(client: &Client) -> Result<usize, String> {
    let (config, _) = within(client.get_config())
        .await
        .map_err(|cause| format!("how many servers there are: {}", said(&cause)))?;
    let config = String::from_utf8_lossy(&config).into_owned();
    let votes = |line: &&str| line.starts_with("server.") && !line.contains(":observer");
    Ok(config.lines().filter(votes).count().max(1))
}

/// Finds out the bounds of session timeouts by asking for too little and for too much.
async fn timeouts(address: &str) -> Result<(Duration, Duration), String> {
    let granted = async |wanted| {
        let client = until_it_answers(|| session(address, wanted)).await;
        let client =
            client.map_err(|error| format!("bounds of session timeouts: {}", error.message()))?;
        let granted = client.session_timeout();
        end(client).await;
        Ok::<_, String>(granted)
    };
    Ok((granted(SHORTEST).await?, granted(LONGEST).await?))
}

/// Measures `sync` requests, which go through the leader.
async fn round_trip(client: &Client, slow: Duration) -> RoundTrip {
    let mut times = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Instant::now();
        match within(client.sync("/")).await {
            Ok(()) => times.push(asked.elapsed()),
            Err(cause) => return Err(said(&cause)),
        }
    }
    Ok(Times::of(times, slow))
}

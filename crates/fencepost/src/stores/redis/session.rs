//! One connection to Redis: multiplexed, with RESP3, and with its own channel for grants.
//!
//! The requests of a process are sent in the order in which they were made, including those whose futures were dropped, so a release takes
//! effect after the acquisition that it follows. This holds across connections as well, because a new connection first makes the server end
//! the old one, which might still have unread commands of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushInfo, RedisError, Value};
use tokio::sync::Notify;

use super::failure;
use super::scripts::Script;
use super::watched::{self, Watched};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};
use crate::stores::kit::silence::{ANSWER_TIMEOUT, Silence};

/// How many requests may wait for the socket at once. Further ones wait outside, in order.
const BUFFER: usize = 1024;

/// The channel name for a connection to which the server cannot send grants; its waiters have to ask.
const NO_CHANNEL: &str = "-";

pub(crate) struct Session {
    connection: MultiplexedConnection,
    /// How many commands were sent over this connection and those before it.
    sent: Arc<AtomicU64>,
    /// How the server identifies this connection, if it says so.
    pub(super) identity: Option<Identity>,
    channel: String,
    /// How long the server took to answer while connecting.
    pub(super) round_trip: Duration,
    down: AtomicBool,
    silence: Silence,
    /// Wakes the task that sends this connection's heartbeats.
    pub(super) wake: Notify,
    /// Nanoseconds of the [`Moment`] at which that task looks next.
    pub(super) next_look: AtomicU64,
    /// The keys whose changes the server announces.
    pub(super) watched: Watched,
    /// What was asked for before was answered over an earlier connection.
    pub(super) connected_at: Moment,
    /// The number of this connection; the first one is 1.
    pub(crate) generation: u64,
}

/// How a server distinguishes its connections. This includes the address, because a restarted server numbers its connections from the start
/// again, and the old number may belong to somebody else by then.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    id: String,
    address: String,
}

impl Identity {
    /// Parses the output of `CLIENT INFO`.
    fn read(info: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut fields = info.split_whitespace();
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        Some(Self {
            id: field("id")?.to_owned(),
            address: field("addr")?.to_owned(),
        })
    }
}

/// Connects, makes the server end the connections that this one replaces, and subscribes to grants on `channel`.
pub(super) async fn connect(
    client: &Client,
    channel: String,
    generation: u64,
    sent: Arc<AtomicU64>,
    replaced: &[Identity],
    on_push: impl Fn(PushInfo) + Send + Sync + 'static,
) -> std::result::Result<Session, RedisError> {
    let heard_at = Arc::new(AtomicU64::new(0));
    let hears = heard_at.clone();
    // The caller limits the time for connecting as a whole. Later, the callers of requests set their own limits.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(BUFFER)
        .set_push_sender(move |push| {
            hears.store(BootClock.now().as_nanos(), Ordering::Relaxed);
            on_push(push);
            Ok::<(), ()>(())
        });
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    let asked = BootClock.now();
    let mut command = redis::cmd("CLIENT");
    let info = command.arg("INFO").query_async(&mut connection).await;
    let first_round_trip = BootClock.now().saturating_duration_since(asked);
    // Without permission for these commands, a command may be executed after the connection was given up; what it leaves behind then ends
    // after its TTL. `fencepost doctor` names the missing permission.
    let info: Option<String> = refused_as_none(info)?;
    end_replaced(&mut connection, replaced).await?;
    let channel = match refused_as_none(connection.subscribe(&channel).await)? {
        Some(()) => channel,
        None => NO_CHANNEL.to_owned(),
    };
    let asked = BootClock.now();
    let mut name = redis::cmd("CLIENT");
    name.arg("SETNAME").arg("fencepost");
    refused_as_none(name.query_async::<Value>(&mut connection).await)?;
    // Take the shorter of two round trips: a delay during one of them says nothing about the network.
    let round_trip = first_round_trip.min(BootClock.now().saturating_duration_since(asked));
    Ok(Session {
        connection,
        sent,
        identity: info.as_deref().and_then(Identity::read),
        channel,
        round_trip,
        down: AtomicBool::new(false),
        silence: Silence::new(heard_at, round_trip),
        wake: Notify::new(),
        next_look: AtomicU64::new(0),
        watched: Watched::default(),
        connected_at: BootClock.now(),
        generation,
    })
}

/// Makes the server end the connections that this one replaces, if the user may do that.
async fn end_replaced(
    connection: &mut MultiplexedConnection,
    replaced: &[Identity],
) -> std::result::Result<(), RedisError> {
    for old in replaced {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(&old.id);
        kill.arg("ADDR").arg(&old.address);
        refused_as_none(kill.query_async::<Value>(connection).await)?;
    }
    Ok(())
}

/// Returns `None` if the server refused the command, and an error if the connection failed.
fn refused_as_none<T>(
    answer: std::result::Result<T, RedisError>,
) -> std::result::Result<Option<T>, RedisError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_io_error() => Err(error),
        Err(_) => Ok(None),
    }
}

impl Session {
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// Returns whether the server cannot send us grants, so that waiters have to ask often.
    pub(super) fn must_poll(&self) -> bool {
        self.channel == NO_CHANNEL
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    pub(super) fn give_up(&self) {
        self.down.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Calls a script.
    pub(crate) async fn call(
        self: &Arc<Self>,
        operation: Operation,
        script: &Script,
        call: &Cmd,
    ) -> Result<Value> {
        let silence_limit = self.silence_limit_for(operation);
        let answer = match self.send_limited(silence_limit, call).await {
            Err(cause) if failure::is_unknown_script(&cause) => {
                self.send_limited(silence_limit, &script.by_text(call))
                    .await
            }
            answer => answer,
        };
        answer.map_err(|cause| failure::of_command(operation, cause))
    }

    /// Sends one command and waits for its answer. If the caller gives up, [`ANSWER_TIMEOUT`] decides whether the connection is given up,
    /// too.
    pub(crate) async fn send(&self, command: &Cmd) -> std::result::Result<Value, RedisError> {
        self.send_limited(ANSWER_TIMEOUT, command).await
    }

    /// Records that the request sent at `asked_at` has no answer yet and since when the server has been silent. Gives up the connection if
    /// that is too long.
    pub(super) fn unanswered(&self, asked_at: Moment, silence_limit: Duration) {
        if self.silence.is_too_long(asked_at, silence_limit) {
            self.give_up();
        }
    }

    /// Sends one command. If the caller stops waiting for the answer and nothing was received for `silence_limit`, the connection is given
    /// up.
    pub(super) async fn send_limited(
        &self,
        silence_limit: Duration,
        command: &Cmd,
    ) -> std::result::Result<Value, RedisError> {
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_command(command);
        let answer = self.ask(1, silence_limit, answer).await;
        answer.and_then(Value::extract_error)
    }

    /// Returns how long the connection may stay silent during this operation.
    pub(super) fn silence_limit_for(&self, operation: Operation) -> Duration {
        self.silence.limit_for(operation)
    }

    /// Sends several commands in one go and waits for all answers, including refusals. Commands of other clients may run in between.
    pub(super) async fn send_all(
        &self,
        commands: &redis::Pipeline,
    ) -> std::result::Result<Vec<Value>, RedisError> {
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(commands, 0, commands.len());
        self.ask(commands.len(), ANSWER_TIMEOUT, answers).await
    }

    /// Asks the server to announce the next change of these keys. Returns `None` if that is not possible here, and otherwise whether each
    /// exists now.
    pub(super) async fn watch_all(&self, keys: &[String]) -> Option<Vec<bool>> {
        let get = |key: &String| {
            let mut get = redis::cmd("GET");
            get.arg(key);
            get
        };
        let Some(values) = self.watch_reads(keys.iter().map(get)).await else {
            self.watched.end(keys.iter().map(String::as_str));
            return None;
        };
        let is_there = |value: &Value| !matches!(value, Value::Nil);
        Some(values.iter().map(is_there).collect())
    }

    /// Sends commands that read one key each, and asks the server to announce the next change of these keys. Returns `None` if that is not
    /// possible here.
    pub(super) async fn watch_reads(
        &self,
        reads: impl IntoIterator<Item = Cmd>,
    ) -> Option<Vec<Value>> {
        if self.watched.is_impossible() {
            return None;
        }
        let mut commands = redis::pipe();
        let tracking = commands.cmd("CLIENT").arg("TRACKING");
        tracking.arg("ON").arg("OPTIN");
        for read in reads {
            commands.cmd("CLIENT").arg("CACHING").arg("YES");
            commands.add_command(read);
        }
        let answers = self.send_all(&commands).await;
        let values = answers.ok().and_then(watched::read);
        if values.is_none() {
            self.watched.give_up();
        }
        values
    }

    async fn ask<T>(
        &self,
        commands: usize,
        silence_limit: Duration,
        answer: impl Future<Output = std::result::Result<T, RedisError>>,
    ) -> std::result::Result<T, RedisError> {
        let mut asked = InFlight {
            session: self,
            at: BootClock.now(),
            silence_limit,
            answered: false,
        };
        self.sent.fetch_add(commands as u64, Ordering::Relaxed);
        let answer = answer.await;
        asked.answered = true;
        match &answer {
            Err(cause) if failure::ends_connection(cause) => self.give_up(),
            _ => self.silence.answered(asked.at),
        }
        answer
    }
}

/// A request in progress. If it is dropped, the session records since when the server has been silent.
struct InFlight<'a> {
    session: &'a Session,
    at: Moment,
    silence_limit: Duration,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.session.unanswered(self.at, self.silence_limit);
        }
    }
}

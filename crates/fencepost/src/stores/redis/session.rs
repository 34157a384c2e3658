//! One connection: multiplexed, RESP3, with a channel of its own for grants.
//!
//! Requests of one process go out in the order in which they were made, also those whose futures were dropped: a release
//! takes effect after the acquisition it follows. Across connections that holds because the new one first makes the server
//! end the old one, which might still have commands of ours to read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushInfo, RedisError, Value};
use tokio::sync::Notify;

use super::failure;
use super::scripts::Script;
use super::watched::Watched;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};

/// A connection on which something has been unanswered for this long is given up. Longer than a server's ordinary hiccups
/// (a fork, a slow command of somebody else), shorter than the patience of most callers.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// The same for a renewal, which is given up early by those who have a short TTL: there is time for one more, over another
/// connection, and the lock is at stake. A connection that is replaced in vain costs little.
const SILENCE_UNDER_RENEWAL: Duration = Duration::from_millis(250);
/// On a long road, or from a busy server, an answer takes its time, and so does a new connection.
const SILENCE_ANSWERS: u32 = 4;

/// Requests that may wait for the socket at once; more wait outside, in order.
const BUFFER: usize = 1024;

/// Where the server is told to send grants, when it cannot: the waiter has to ask.
const NO_CHANNEL: &str = "-";

pub(crate) struct Session {
    connection: MultiplexedConnection,
    /// Commands sent over this connection and those before it.
    sent: Arc<AtomicU64>,
    /// What the server calls this connection, if it tells.
    pub(super) identity: Option<Identity>,
    channel: String,
    #[cfg(feature = "redlock")]
    made_at: Moment,
    /// How long the server took to answer while connecting.
    pub(super) round_trip: Duration,
    down: AtomicBool,
    /// When the oldest request was sent that nobody waits for any more and that was not answered; 0: none.
    unanswered_since: AtomicU64,
    /// When an answer or a push was read last; nanoseconds of a [`Moment`].
    heard_at: Arc<AtomicU64>,
    /// How long answers take at present, in nanoseconds: rises with the slowest, and falls slowly.
    answer_ns: AtomicU64,
    /// Wakes the attendant of this connection.
    pub(super) bell: Notify,
    /// Nanoseconds of the [`Moment`] at which the attendant looks next.
    pub(super) next_look: AtomicU64,
    /// The keys of which the server tells when they change.
    pub(super) watched: Watched,
    /// Which connection this is of those that were made; the first is 1.
    pub(crate) generation: u64,
}

/// How a server tells one of its connections from the others. The address counts, too: a server that was restarted numbers
/// its connections from the start again, and the old number may be somebody else's by now.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    id: String,
    address: String,
}

impl Identity {
    /// Out of what `CLIENT INFO` says.
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

/// Connects, makes the server end the connections it replaces, and asks for grants to be sent to `channel`.
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
    // The caller has a deadline for all of it; later on, each request has its caller's.
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
    let first_round_trip = BootClock.now().since(asked);
    // Without the right to ask or to kill, a command may be carried out after the connection was given up; what it
    // leaves then ends by its TTL. `fencepost doctor` names the missing right.
    let info: Option<String> = only_server_errors(info)?;
    for old in replaced {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(&old.id);
        kill.arg("ADDR").arg(&old.address);
        only_server_errors(kill.query_async::<Value>(&mut connection).await)?;
    }
    let channel = match only_server_errors(connection.subscribe(&channel).await)? {
        Some(()) => channel,
        None => NO_CHANNEL.to_owned(),
    };
    let asked = BootClock.now();
    let mut name = redis::cmd("CLIENT");
    name.arg("SETNAME").arg("fencepost");
    only_server_errors(name.query_async::<Value>(&mut connection).await)?;
    // A hiccup during one of them says nothing about the road.
    let round_trip = first_round_trip.min(BootClock.now().since(asked));
    Ok(Session {
        connection,
        sent,
        identity: info.as_deref().and_then(Identity::read),
        channel,
        #[cfg(feature = "redlock")]
        made_at: BootClock.now(),
        round_trip,
        down: AtomicBool::new(false),
        unanswered_since: AtomicU64::new(0),
        heard_at,
        answer_ns: AtomicU64::new(nanos(round_trip)),
        bell: Notify::new(),
        next_look: AtomicU64::new(0),
        watched: Watched::default(),
        generation,
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// `None` when the server refused.
fn only_server_errors<T>(
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

    /// Grants are not sent to us: whoever waits has to ask often.
    pub(super) fn must_poll(&self) -> bool {
        self.channel == NO_CHANNEL
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    pub(super) fn give_up(&self) {
        self.down.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    /// Calls a script.
    pub(crate) async fn call(
        self: &Arc<Self>,
        operation: Operation,
        script: &Script,
        call: &Cmd,
    ) -> Result<Value> {
        let patience = self.patience_for(operation);
        let answer = match self.send_within(patience, call).await {
            Err(cause) if failure::is_unknown_script(&cause) => {
                self.send_within(patience, &script.by_text(call)).await
            }
            answer => answer,
        };
        answer.map_err(|cause| failure::of_command(operation, cause))
    }

    /// Sends one command and waits for its answer, however long that takes.
    pub(crate) async fn send(&self, command: &Cmd) -> std::result::Result<Value, RedisError> {
        self.send_within(SILENCE, command).await
    }

    /// The same, with the patience that this operation has.
    #[cfg(feature = "redlock")]
    pub(crate) async fn send_for(
        &self,
        operation: Operation,
        command: &Cmd,
    ) -> std::result::Result<Value, RedisError> {
        self.send_within(self.patience_for(operation), command)
            .await
    }

    /// A renewal of that moment is not waited for any longer, although its answer may still be heard. Gives the connection up if
    /// nothing was heard for as long as a renewal may take.
    #[cfg(feature = "redlock")]
    pub(super) fn renewal_unanswered(&self, asked_at: Moment) {
        let asked_at = asked_at.max(self.made_at);
        self.unanswered(asked_at, self.patience_for(Operation::Renew));
    }

    /// What was sent at `asked_at` has no answer yet: remembers since when the server has been silent, and gives the connection up when
    /// that is too long.
    fn unanswered(&self, asked_at: Moment, patience: Duration) {
        let asked_at = asked_at.as_nanos();
        let order = Ordering::Relaxed;
        let first = self
            .unanswered_since
            .compare_exchange(0, asked_at, order, order);
        let since = Moment::from_nanos(first.err().unwrap_or(asked_at));
        let heard_at = Moment::from_nanos(self.heard_at.load(Ordering::Relaxed));
        let now = BootClock.now();
        // Answers come in order: whatever else was heard, this one is missing.
        let is_overdue = now.since(since) >= SILENCE;
        if is_overdue || now.since(since.max(heard_at)) >= patience {
            self.give_up();
        }
    }

    /// Sends one command; the connection is given up when the answer is not waited for any longer and nothing was heard for `patience`.
    async fn send_within(
        &self,
        patience: Duration,
        command: &Cmd,
    ) -> std::result::Result<Value, RedisError> {
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_command(command);
        let answer = self.ask(1, patience, answer).await;
        answer.and_then(Value::extract_error)
    }

    /// What was sent at `asked_at` was answered just now.
    fn heard(&self, asked_at: Moment) {
        let now = BootClock.now();
        self.heard_at.store(now.as_nanos(), Ordering::Relaxed);
        self.unanswered_since.store(0, Ordering::Relaxed);
        let before = self.answer_ns.load(Ordering::Relaxed);
        let took = nanos(now.since(asked_at)).max(before - before / 8);
        self.answer_ns.store(took, Ordering::Relaxed);
    }

    /// Only a renewal is given up because the store is silent: its deadline is a part of the TTL. Other requests may be dropped because
    /// their caller has changed its mind, which says nothing about the connection.
    fn patience_for(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Renew => {
                let answer = Duration::from_nanos(self.answer_ns.load(Ordering::Relaxed));
                let usual = answer.saturating_mul(SILENCE_ANSWERS);
                usual.clamp(SILENCE_UNDER_RENEWAL, SILENCE)
            }
            _ => SILENCE,
        }
    }

    /// Sends several commands in one go and waits for all their answers, refusals among them. Commands of other clients may come
    /// in between.
    pub(super) async fn send_all(
        &self,
        commands: &redis::Pipeline,
    ) -> std::result::Result<Vec<Value>, RedisError> {
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(commands, 0, commands.len());
        self.ask(commands.len(), SILENCE, answers).await
    }

    async fn ask<T>(
        &self,
        commands: usize,
        patience: Duration,
        answer: impl Future<Output = std::result::Result<T, RedisError>>,
    ) -> std::result::Result<T, RedisError> {
        let mut asked = InFlight {
            session: self,
            at: BootClock.now(),
            patience,
            answered: false,
        };
        self.sent.fetch_add(commands as u64, Ordering::Relaxed);
        let answer = answer.await;
        asked.answered = true;
        match &answer {
            Err(cause) if failure::ends_connection(cause) => self.give_up(),
            _ => self.heard(asked.at),
        }
        answer
    }
}

/// A request under way. Whoever gives up waiting for it leaves a note of how long the server has been silent.
struct InFlight<'a> {
    session: &'a Session,
    at: Moment,
    patience: Duration,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.session.unanswered(self.at, self.patience);
        }
    }
}

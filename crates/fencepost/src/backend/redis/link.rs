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
use super::script::Script;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};

/// A connection on which something has been unanswered for this long is given up. Longer than a server's ordinary hiccups
/// (a fork, a slow command of somebody else), shorter than the patience of most callers.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// Requests that may wait for the socket at once; more wait outside, in order.
const BUFFER: usize = 1024;

/// Where the server is told to send grants, when it cannot: the waiter has to ask.
const NO_CHANNEL: &str = "-";

pub(crate) struct Link {
    connection: MultiplexedConnection,
    /// Commands sent over this connection and those before it.
    sent: Arc<AtomicU64>,
    /// What the server calls this connection, if it tells.
    pub(super) identity: Option<Identity>,
    channel: String,
    /// How long the server took to answer while connecting.
    pub(super) round_trip: Duration,
    down: AtomicBool,
    /// When the oldest request was sent that nobody waits for any more and that was not answered; 0: none.
    unanswered_since: AtomicU64,
    /// Wakes the attendant of this connection.
    pub(super) bell: Notify,
    /// Nanoseconds of the [`Moment`] at which the attendant looks next.
    pub(super) next_look: AtomicU64,
    /// The server tells when a watched key changes; found out at the first attempt.
    can_watch: AtomicBool,
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
) -> std::result::Result<Link, RedisError> {
    // The caller has a deadline for all of it; later on, each request has its caller's.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(BUFFER)
        .set_push_sender(move |push| {
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
    Ok(Link {
        connection,
        sent,
        identity: info.as_deref().and_then(Identity::read),
        channel,
        round_trip,
        down: AtomicBool::new(false),
        unanswered_since: AtomicU64::new(0),
        bell: Notify::new(),
        next_look: AtomicU64::new(0),
        can_watch: AtomicBool::new(true),
        generation,
    })
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

impl Link {
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
        let answer = match self.send(call).await {
            Err(cause) if failure::is_unknown_script(&cause) => {
                self.send(&script.by_text(call)).await
            }
            answer => answer,
        };
        answer.map_err(|cause| failure::of_command(operation, cause))
    }

    /// Sends one command and waits for its answer, however long that takes.
    pub(crate) async fn send(&self, command: &Cmd) -> std::result::Result<Value, RedisError> {
        let mut connection = self.connection.clone();
        let answer = self.ask(1, connection.send_packed_command(command)).await;
        answer.and_then(Value::extract_error)
    }

    /// Sends several commands in one go and waits for all their answers, refusals among them. Commands of other clients may come
    /// in between.
    pub(super) async fn send_all(
        &self,
        commands: &redis::Pipeline,
    ) -> std::result::Result<Vec<Value>, RedisError> {
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(commands, 0, commands.len());
        self.ask(commands.len(), answers).await
    }

    async fn ask<T>(
        &self,
        commands: usize,
        answer: impl Future<Output = std::result::Result<T, RedisError>>,
    ) -> std::result::Result<T, RedisError> {
        let mut asked = Asked {
            link: self,
            at: BootClock.now(),
            answered: false,
        };
        self.sent.fetch_add(commands as u64, Ordering::Relaxed);
        let answer = answer.await;
        asked.answered = true;
        match &answer {
            Err(cause) if failure::ends_connection(cause) => self.give_up(),
            _ => self.unanswered_since.store(0, Ordering::Relaxed),
        }
        answer
    }

    /// Makes the server tell when this key changes next. `None`: that does not work here; else whether there is such a key now.
    pub(crate) async fn watch(&self, key: &str) -> Option<bool> {
        if !self.can_watch.load(Ordering::Relaxed) {
            return None;
        }
        let mut commands = redis::pipe();
        commands
            .cmd("CLIENT")
            .arg("TRACKING")
            .arg("ON")
            .arg("OPTIN");
        commands.cmd("CLIENT").arg("CACHING").arg("YES");
        commands.cmd("GET").arg(key);
        match self.send_together(&commands).await {
            Ok(answers) => Some(!matches!(answers.last(), Some(Value::Nil))),
            Err(_) => {
                self.can_watch.store(false, Ordering::Relaxed);
                None
            }
        }
    }

    /// Commands that must stay together.
    async fn send_together(
        &self,
        commands: &redis::Pipeline,
    ) -> std::result::Result<Vec<Value>, RedisError> {
        self.sent
            .fetch_add(commands.len() as u64, Ordering::Relaxed);
        commands.query_async(&mut self.connection.clone()).await
    }
}

/// A request under way. Whoever gives up waiting for it leaves a note of how long the server has been silent.
struct Asked<'a> {
    link: &'a Link,
    at: Moment,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let silent = &self.link.unanswered_since;
        let first =
            silent.compare_exchange(0, self.at.as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
        let since = Moment::from_nanos(first.err().unwrap_or(self.at.as_nanos()));
        if BootClock.now().since(since) >= SILENCE {
            self.link.give_up();
        }
    }
}

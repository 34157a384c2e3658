//! One of the servers: its connection, and the requests to it, except for renewals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, RedisError, Value};

use super::debts::{Debts, Span};
use super::failure;
use super::listening::Listening;
use super::scripts::{ACCEPT, LOCK, RELEASE, ScriptId};
use super::settings::Settings;
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock};
use crate::error::{Error, Operation, Result};
use crate::stores::redis::for_redlock::{
    Hub as RedisHub, ReadValue, Session, failure as redis_failure, millis, quorum_of,
};

/// A key that never exists. A server that watches it announces only that all keys are gone.
const NOBODYS_KEY: &str = "fp:{}:flushed";

pub(super) struct Server {
    pub(super) hub: Arc<RedisHub>,
    /// The address without user and password.
    pub(super) address: String,
    pub(super) debts: Debts,
    pub(super) settings: Settings,
    /// Whether the server left a request unanswered for as long as it was allowed, and has not answered anything since.
    is_slow: AtomicBool,
    /// The connection over which the server announces that it was flushed.
    tells_over: AtomicU64,
    /// For each script, the connection over which it was last called with success; it need not be sent as text there.
    known: [AtomicU64; 4],
}

/// One attempt to acquire a lock, as it is sent to every server.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) claim: Claim,
    /// Milliseconds of the wall clock, later than the stamp of every earlier attempt.
    pub(super) stamp: u64,
    /// The last epoch of this name that this process has seen, or 0.
    pub(super) seen: u64,
}

/// A server's answer to a request for the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    /// The owner has the key, with this count. It had the key before this request if `is_known`.
    Ours { count: u64, is_known: bool },
    /// Somebody else has the key for this long, or for ever if `None`.
    Taken(Option<Duration>),
}

/// A server's answer to a proposed epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    Accepted,
    /// The owner no longer has the key.
    Gone,
    /// Somebody else has this count or a larger one.
    Behind(u64),
}

impl Server {
    pub(super) fn new(address: String, hub: Arc<RedisHub>, settings: Settings) -> Self {
        Self {
            hub,
            address,
            settings,
            debts: Debts::default(),
            is_slow: AtomicBool::new(false),
            tells_over: AtomicU64::new(0),
            known: Default::default(),
        }
    }

    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    pub(super) fn answered(&self) {
        self.is_slow.store(false, Ordering::Relaxed);
    }

    pub(super) fn was_silent(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    pub(super) async fn session(&self, operation: Operation) -> Result<Arc<Session>> {
        self.hub.session(operation).await
    }

    /// Makes the server announce over this connection when it is flushed, by watching a key, unless it does so already. Nobody waits for
    /// it.
    fn hear_of_flushes(&self, session: &Arc<Session>) {
        let before = self
            .tells_over
            .fetch_max(session.generation, Ordering::Relaxed);
        if before < session.generation {
            let session = session.clone();
            tokio::spawn(async move { session.watch(NOBODYS_KEY).await });
        }
    }

    /// Connects, and returns the identity of the server, or `None` if the server does not report it. Returns an error for a replica: it is
    /// not an independent server and has no vote.
    pub(super) async fn identity(&self) -> Result<Option<String>> {
        let session = self.session(Operation::Open).await?;
        if info_field(&session, "replication", "role:")
            .await
            .as_deref()
            == Some("slave")
        {
            return Err(failure::replica());
        }
        Ok(info_field(&session, "server", "run_id:").await)
    }

    /// Asks for the key.
    pub(super) async fn lock(
        self: Arc<Self>,
        attempt: Attempt,
        listening: Listening,
    ) -> Result<Vote> {
        let session = self.session_in_time(Operation::Acquire, &listening).await?;
        let Attempt { claim, stamp, seen } = &attempt;
        let now = BootClock.now();
        let lift = self.hub.names.plan(claim, &session, now).lift;
        let ttl = millis(claim.ttl);
        let name = claim.name.as_str();
        let mut call = LOCK.call(2);
        call.arg(name).arg(quorum_of(name));
        call.arg(claim.owner.to_string()).arg(ttl);
        call.arg(format!("{ttl} {stamp} {}", claim.label));
        call.arg(u8::from(lift));
        match self.debts.owed_by(claim.owner) {
            Some(released) => call.arg(released),
            None => call.arg(""),
        };
        call.arg(self.least_age_seconds());
        call.arg(millis(self.settings.keep_fences)).arg(seen);
        let answer = self.call(&session, ScriptId::Lock, &call, &listening);
        let answer = answer.await.map_err(of_command(Operation::Acquire))?;
        if lift && matches!(answer, Value::Int(drawn) if drawn > 0) {
            self.hub.names.lifted(&claim.name, &session, now);
        }
        vote(&answer)
    }

    /// Asks for an epoch to be accepted.
    pub(super) async fn accept(
        self: Arc<Self>,
        claim: Claim,
        epoch: u64,
        listening: Listening,
    ) -> Result<Acceptance> {
        let session = self.session_in_time(Operation::Acquire, &listening).await?;
        let name = claim.name.as_str();
        let mut call = ACCEPT.call(2);
        call.arg(name).arg(quorum_of(name));
        call.arg(claim.owner.to_string()).arg(epoch);
        call.arg(millis(self.settings.keep_fences));
        let answer = self.call(&session, ScriptId::Accept, &call, &listening);
        let answer = answer.await.map_err(of_command(Operation::Acquire))?;
        match answer.integer() {
            Some(0) => Ok(Acceptance::Gone),
            Some(count) if count < 0 => Ok(Acceptance::Behind(count.unsigned_abs())),
            Some(_) => Ok(Acceptance::Accepted),
            None => Err(unexpected(Operation::Acquire, &answer)),
        }
    }

    /// Releases a key if this owner has it and `span` contains it; while somebody listens, also if it was created later. Returns whether
    /// the owner had the key.
    pub(super) async fn release(
        self: Arc<Self>,
        name: Arc<str>,
        owner: OwnerId,
        span: Span,
        listening: Option<Listening>,
    ) -> Result<bool> {
        let session = self.session(Operation::Release).await?;
        let is_in_turn = listening.as_ref().is_some_and(Listening::goes_on);
        let up_to = (!is_in_turn).then_some(span.up_to);
        let mut call = RELEASE.call(1);
        call.arg(&*name).arg(owner.to_string());
        for bound in [up_to, span.after] {
            match bound {
                Some(stamp) => call.arg(stamp),
                None => call.arg(""),
            };
        }
        let listening = listening.unwrap_or_default();
        let answer = self.call(&session, ScriptId::Release, &call, &listening);
        let answer = answer.await.map_err(of_command(Operation::Release))?;
        match answer.integer() {
            Some(freed) => Ok(freed == 1),
            None => Err(unexpected(Operation::Release, &answer)),
        }
    }

    /// Returns how many seconds a server must have been up to grant keys.
    pub(super) fn least_age_seconds(&self) -> u64 {
        let whole_seconds = self.settings.restart_delay.as_millis().div_ceil(1000);
        u64::try_from(whole_seconds).unwrap_or(u64::MAX)
    }

    /// Calls a script. The first call over a connection is by text, so that it takes one command even if nobody waits for the answer. If
    /// the server has forgotten the script, calls it again if somebody still listens.
    pub(super) async fn call(
        &self,
        session: &Arc<Session>,
        which: ScriptId,
        call: &Cmd,
        listening: &Listening,
    ) -> std::result::Result<Value, RedisError> {
        let known = &self.known[which as usize];
        let operation = which.operation();
        let mut answer = if known.load(Ordering::Relaxed) == session.generation {
            session.send_for(operation, call).await
        } else {
            let by_text = which.script().by_text(call);
            session.send_for(operation, &by_text).await
        };
        let is_unknown = answer.as_ref().is_err_and(redis_failure::is_unknown_script);
        if is_unknown && listening.goes_on() {
            let by_text = which.script().by_text(call);
            answer = session.send_for(operation, &by_text).await;
        }
        if answer.is_ok() {
            known.store(session.generation, Ordering::Relaxed);
            self.hear_of_flushes(session);
        }
        answer
    }

    /// Returns the connection, if it is open while somebody still listens.
    pub(super) async fn session_in_time(
        &self,
        operation: Operation,
        listening: &Listening,
    ) -> Result<Arc<Session>> {
        let session = self.session(operation).await?;
        if listening.goes_on() {
            Ok(session)
        } else {
            Err(redis_failure::unreachable(operation))
        }
    }
}

/// Returns the value of a field in a section of `INFO`, or `None` if the user may not call it.
async fn info_field(session: &Session, section: &str, name: &str) -> Option<String> {
    let answer = session.send(redis::cmd("INFO").arg(section)).await.ok()?;
    let text = answer_text(&answer)?;
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.trim_end().to_owned()))
}

pub(super) fn of_command(operation: Operation) -> impl FnOnce(RedisError) -> Error {
    move |cause| redis_failure::of_command(operation, cause)
}

fn answer_text(answer: &Value) -> Option<String> {
    match answer {
        Value::VerbatimString { text, .. } => Some(text.clone()),
        other => other.text().map(str::to_owned),
    }
}

fn vote(answer: &Value) -> Result<Vote> {
    if let Value::Int(count) = answer {
        return Ok(Vote::Ours {
            count: count.unsigned_abs(),
            is_known: *count < 0,
        });
    }
    let number = |at: usize| answer.item(at).and_then(|item| item.integer());
    match number(0) {
        Some(-3) => Err(failure::young(number(1).unwrap_or(0))),
        Some(left) => Ok(Vote::Taken(
            u64::try_from(left).ok().map(Duration::from_millis),
        )),
        None => Err(unexpected(Operation::Acquire, answer)),
    }
}

pub(super) fn unexpected(operation: Operation, answer: &Value) -> Error {
    redis_failure::unexpected(operation, &format!("{answer:?}"))
}

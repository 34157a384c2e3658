//! The seat of one owner: its last request to the server, and what is known of the answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Shared, join};
use tokio_postgres::SimpleQueryRow;

use super::fence::MAY_NOT;
use super::published::{GrantedAt, PublishedLock};
use super::rows::text;
use super::session::Session;
use super::session_pool::SessionNumber;
use super::{STORE, failure, statements};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, BoxFuture, Clock, Moment};
use crate::error::{Error, Operation, Result};
use crate::mutex::lock;

/// A request in progress that several tasks can wait for. Dropping one of them does not stop it, and the next one can take over.
pub(super) type SharedAnswer<T> = Shared<BoxFuture<'static, T>>;

/// A lock that was granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrantedLock {
    pub(super) since: GrantedAt,
    /// A moment before the statement was sent with which the server's count of the lease began.
    pub(super) asked_at: Moment,
}

/// The last request of an owner, and its answer.
#[derive(Clone)]
pub(super) enum LastRequest {
    /// Take the lock if it is free.
    Try(SharedAnswer<Result<Option<GrantedLock>>>),
    /// Wait for the lock.
    Wait(SharedAnswer<Result<Option<GrantedLock>>>),
    /// Release the lock; returns whether the owner had it.
    Leave(SharedAnswer<Result<bool>>),
}

/// What one owner has, or waits for, on one session.
pub(super) struct Seat {
    pub(super) claim: Claim,
    pub(super) key: i64,
    pub(super) number: SessionNumber,
    pub(super) session: Arc<Session>,
    /// Whether the session had been used before, so that the server may be about to end it.
    pub(super) is_reused: bool,
    state: Mutex<State>,
}

struct State {
    last_request: LastRequest,
    held: Option<GrantedLock>,
    /// The longest TTL that was requested.
    ttl: Duration,
    /// When the lease that the last statement requested ends. The server executes statements in order, so every later one finds it
    /// granted, extended, or refused.
    until: Moment,
    /// A statement that was sent to release the overdue lock; `true` if it was executed. The lock is lost whatever the result.
    unlocking: Option<SharedAnswer<bool>>,
}

/// What the next statement of a session has to do about a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseCare {
    /// Nothing.
    Lasts,
    /// The lock was granted and not extended in time: release it.
    Overdue,
    /// A statement that releases it is in progress.
    Unlocking,
    /// A statement has released it.
    Unlocked,
}

impl Seat {
    pub(super) fn new(
        claim: &Claim,
        key: i64,
        (number, session): (SessionNumber, Arc<Session>),
        is_reused: bool,
        last_request: LastRequest,
    ) -> Self {
        Self {
            claim: claim.clone(),
            key,
            number,
            session,
            is_reused,
            state: Mutex::new(State {
                last_request,
                held: None,
                ttl: claim.ttl,
                until: BootClock.now() + claim.ttl,
                unlocking: None,
            }),
        }
    }

    pub(super) fn last_request(&self) -> LastRequest {
        lock(&self.state).last_request.clone()
    }

    pub(super) fn set_last_request(&self, last_request: LastRequest) {
        lock(&self.state).last_request = last_request;
    }

    /// Records what the server granted, and returns the grant for the caller.
    pub(super) fn record_grant(&self, held: GrantedLock) -> Grant {
        let mut state = lock(&self.state);
        if state.held.is_none() {
            state.held = Some(held);
            state.until = held.asked_at + state.ttl;
        }
        Grant {
            epoch: held.since.epoch,
            asked_at: held.asked_at,
            lease: self.claim.ttl.min(super::session::LONGEST_LEASE),
        }
    }

    pub(super) fn held(&self) -> Option<GrantedLock> {
        lock(&self.state).held
    }

    /// Raises the TTL to `ttl` if it is longer than the one that was requested before.
    pub(super) fn raise_ttl(&self, ttl: Duration) {
        let mut state = lock(&self.state);
        state.ttl = state.ttl.max(ttl);
    }

    /// Records that a renewal is about to be sent.
    pub(super) fn record_renewal_sent(&self, asked_at: Moment) {
        let mut state = lock(&self.state);
        state.until = state.until.max(asked_at + state.ttl);
    }

    /// Records a grant or a refusal that nobody has fetched yet.
    fn settle(&self) {
        let LastRequest::Try(answer) = self.last_request() else {
            return;
        };
        match answer.now_or_never() {
            Some(Ok(Some(held))) if self.held().is_none() => drop(self.record_grant(held)),
            Some(Ok(None) | Err(_)) => lock(&self.state).until = Moment::ZERO,
            _ => {}
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.last_request(), LastRequest::Leave(_))
    }

    /// Returns how long the session has to last for this lock.
    pub(super) fn left(&self, now: Moment) -> Duration {
        self.settle();
        if self.is_leaving() {
            Duration::ZERO
        } else {
            lock(&self.state).until.saturating_duration_since(now)
        }
    }

    pub(super) fn care(&self, now: Moment) -> LeaseCare {
        self.settle();
        let unlocking = lock(&self.state).unlocking.clone();
        match unlocking.map(|answer| answer.now_or_never()) {
            Some(Some(true)) => return LeaseCare::Unlocked,
            // The statement failed, and may or may not have released the lock.
            Some(Some(false)) if !self.is_leaving() => return LeaseCare::Overdue,
            Some(None) if !self.is_leaving() => return LeaseCare::Unlocking,
            _ => {}
        }
        let state = lock(&self.state);
        let is_overdue = state.held.is_some() && state.until < now;
        if is_overdue && !matches!(state.last_request, LastRequest::Leave(_)) {
            LeaseCare::Overdue
        } else {
            LeaseCare::Lasts
        }
    }

    /// Records that the lock is overdue and that a statement to release it was sent, with this answer.
    pub(super) fn record_unlock_sent<T: Clone + Send + Sync + 'static>(
        &self,
        answer: &SharedAnswer<Result<T>>,
    ) {
        let is_done: BoxFuture<'static, bool> =
            Box::pin(answer.clone().map(|answer| answer.is_ok()));
        lock(&self.state).unlocking = Some(is_done.shared());
    }

    /// Returns whether the lock is being released or was released, so that it cannot be extended any more.
    pub(super) fn is_lost(&self) -> bool {
        let state = lock(&self.state);
        state.unlocking.is_some() || matches!(state.last_request, LastRequest::Leave(_))
    }

    /// Returns whether the owner has got rid of the lock.
    pub(super) fn has_left(&self) -> bool {
        let (last_request, unlocking) = {
            let state = lock(&self.state);
            (state.last_request.clone(), state.unlocking.clone())
        };
        let is_unlocked = unlocking.and_then(|answer| answer.now_or_never()) == Some(true);
        match last_request {
            LastRequest::Leave(answer) => is_unlocked || answer.now_or_never().is_some(),
            LastRequest::Try(_) | LastRequest::Wait(_) => is_unlocked,
        }
    }

    /// Returns what the session publishes about this lock.
    pub(super) fn published(&self) -> PublishedLock {
        let state = lock(&self.state);
        let claim = Claim {
            ttl: state.ttl,
            ..self.claim.clone()
        };
        PublishedLock::of(&claim, state.held.map(|held| held.since))
    }
}

/// Asks for the lock if it is free. Sends `lift` before, if the session has to lift the fence first.
pub(super) fn start_try(
    session: Arc<Session>,
    key: i64,
    lift: Option<String>,
    statement: String,
) -> SharedAnswer<Result<Option<GrantedLock>>> {
    let asked_at = BootClock.now();
    let request = async move {
        // Both statements are sent at once, in this order.
        let lifting = async {
            match &lift {
                Some(lift) => session.lift(lift).await,
                None => Ok(()),
            }
        };
        let asking = session.ask(Operation::Acquire, &statement);
        let (lifted, answer) = join(lifting, asking).await;
        let granted = answer.and_then(|row| granted(&session, text(&row, 1), asked_at));
        match lifted.and(granted) {
            Ok(held) => Ok(held),
            Err(error) => {
                clean(&session, key).await;
                Err(error)
            }
        }
    };
    start(request)
}

/// Waits for the lock, and then turns it into a lease, which starts at that moment.
pub(super) fn start_wait(
    session: Arc<Session>,
    key: i64,
    wait: String,
    fence: String,
) -> LastRequest {
    let request = async move {
        let fenced = async {
            stand_in_line(&session, key, &wait).await?;
            let asked_at = BootClock.now();
            let row = session.ask(Operation::Acquire, &fence).await?;
            granted(&session, text(&row, 1), asked_at)
        };
        match fenced.await {
            Ok(held) => Ok(held),
            Err(error) => {
                clean(&session, key).await;
                Err(error)
            }
        }
    };
    LastRequest::Wait(start(request))
}

/// Returns when the lock is granted. A wait that has lasted too long starts again, at the end of the line.
async fn stand_in_line(session: &Session, key: i64, wait: &str) -> Result<()> {
    loop {
        match session.ask(Operation::Acquire, wait).await {
            // The lock may have been granted at the same moment.
            Err(error) if failure::is_lock_timeout(&error) => clean(session, key).await,
            answer => return answer.map(drop),
        }
    }
}

/// Releases the lock. If the session cannot report whether it did, the session is closed, which releases the lock.
pub(super) fn start_release(
    session: Arc<Session>,
    statement: String,
) -> SharedAnswer<Result<bool>> {
    let request = async move {
        let answer = session.ask(Operation::Release, &statement).await;
        if answer.is_err() {
            session.close();
        }
        answer.map(|row| text(&row, 1) == "t")
    };
    start(request)
}

/// Sets how long the session lasts.
pub(super) fn start_upkeep(session: Arc<Session>, statement: String) -> SharedAnswer<Result<()>> {
    start(async move {
        let answer = session.ask(Operation::Renew, &statement).await;
        answer.map(drop)
    })
}

/// Returns the rows of a statement that does not concern the session's own locks.
pub(super) fn start_query(
    session: Arc<Session>,
    operation: Operation,
    statement: String,
) -> SharedAnswer<Result<Arc<Vec<SimpleQueryRow>>>> {
    start(async move {
        let rows = session.ask_all(operation, &statement).await;
        rows.map(Arc::new)
    })
}

/// Polls the future once, so that its statement is sent. If callers do this under the mutex of the state from which they compose the
/// statement, statements reach the server in the order in which they were composed. Each sets how long the session lasts, and the last one
/// counts.
fn start<T: Clone>(request: impl Future<Output = T> + Send + 'static) -> SharedAnswer<T> {
    let request: BoxFuture<'static, T> = Box::pin(request);
    let answer = request.shared();
    let _answered_at_once = answer.clone().now_or_never();
    answer
}

/// Cleans up after a statement that failed: it may have got the lock before, and the session may hold locks of others.
async fn clean(session: &Session, key: i64) {
    if session.is_closed() {
        return;
    }
    let unlock = statements::only_unlock(key);
    if session.ask(Operation::Release, &unlock).await.is_err() {
        session.close();
    }
}

/// Parses the fence and the server time from the text of a grant (program, fence, owner, time, …). Returns `None` if nothing was granted.
fn granted(session: &Session, text: &str, asked_at: Moment) -> Result<Option<GrantedLock>> {
    if text.is_empty() {
        return Ok(None);
    }
    if text == MAY_NOT {
        return Err(session.must_not_draw());
    }
    let mut words = text.split(' ').skip(1).step_by(2);
    let mut number = || words.next()?.parse().ok();
    match (number(), number()) {
        (Some(epoch), Some(at_ms)) => Ok(Some(GrantedLock {
            since: GrantedAt { epoch, at_ms },
            asked_at,
        })),
        _ => Err(Error::unexpected_answer(STORE, Operation::Acquire, text)),
    }
}

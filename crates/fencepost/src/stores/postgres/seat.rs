//! One owner's dealings with the server: what was asked last, and what is known of the answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Shared, join};
use tokio_postgres::SimpleQueryRow;

use super::book::Number;
use super::fence::MAY_NOT;
use super::published::{Said, Since};
use super::session::{Session, text};
use super::{STORE, failure, statements};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, BoxFuture, Clock, Moment};
use crate::error::{Operation, Result};
use crate::lease::lock;

/// Under way until somebody polls it to its end: dropping one who waits for it does not stop it, and the next can take over.
pub(super) type Flight<T> = Shared<BoxFuture<'static, T>>;

/// A lock that was granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) since: Since,
    /// Before the statement was sent that the server's count of the lease began with.
    pub(super) asked_at: Moment,
}

/// The last thing an owner asked for.
#[derive(Clone)]
pub(super) enum Deed {
    /// The lock, if it is free.
    Try(Flight<Result<Option<Held>>>),
    /// The lock, when it is free.
    Wait(Flight<Result<Option<Held>>>),
    /// To be rid of it: whether it had it.
    Leave(Flight<Result<bool>>),
}

pub(super) struct Seat {
    pub(super) claim: Claim,
    pub(super) key: i64,
    pub(super) number: Number,
    pub(super) session: Arc<Session>,
    /// The session had been used before: the server may be about to end it.
    pub(super) is_reused: bool,
    state: Mutex<State>,
}

struct State {
    deed: Deed,
    held: Option<Held>,
    /// The longest that was asked for.
    ttl: Duration,
    /// When the lease ends that the last statement asked for: the server carries statements out in their order, so every later one
    /// finds it granted, extended, or refused.
    until: Moment,
    /// Was sent to give back the lock, which was overdue; true: it was carried out. Whatever becomes of it, the lock is lost.
    unlocking: Option<Flight<bool>>,
}

/// What the next statement of a session has to do about a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing.
    Lasts,
    /// It was granted and not extended in time: give it back.
    Overdue,
    /// A statement that gives it back is under way.
    Unlocking,
    /// A statement has given it back.
    Unlocked,
}

impl Seat {
    pub(super) fn new(
        claim: &Claim,
        key: i64,
        (number, session): (Number, Arc<Session>),
        is_reused: bool,
        deed: Deed,
    ) -> Self {
        Self {
            claim: claim.clone(),
            key,
            number,
            session,
            is_reused,
            state: Mutex::new(State {
                deed,
                held: None,
                ttl: claim.ttl,
                until: BootClock.now() + claim.ttl,
                unlocking: None,
            }),
        }
    }

    pub(super) fn deed(&self) -> Deed {
        lock(&self.state).deed.clone()
    }

    pub(super) fn does(&self, deed: Deed) {
        lock(&self.state).deed = deed;
    }

    /// Notes what the server granted; as a grant for whoever asked.
    pub(super) fn has(&self, held: Held) -> Grant {
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

    pub(super) fn held(&self) -> Option<Held> {
        lock(&self.state).held
    }

    pub(super) fn wants(&self, ttl: Duration) {
        let mut state = lock(&self.state);
        state.ttl = state.ttl.max(ttl);
    }

    /// A renewal is about to be sent.
    pub(super) fn extends(&self, asked_at: Moment) {
        let mut state = lock(&self.state);
        state.until = state.until.max(asked_at + state.ttl);
    }

    /// Takes note of a grant or a refusal that nobody has fetched yet.
    fn settle(&self) {
        let Deed::Try(flight) = self.deed() else {
            return;
        };
        match flight.now_or_never() {
            Some(Ok(Some(held))) if self.held().is_none() => drop(self.has(held)),
            Some(Ok(None) | Err(_)) => lock(&self.state).until = Moment::ZERO,
            _ => {}
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.deed(), Deed::Leave(_))
    }

    /// How long the session has to last for this lock.
    pub(super) fn left(&self, now: Moment) -> Duration {
        self.settle();
        match self.is_leaving() {
            true => Duration::ZERO,
            false => lock(&self.state).until.since(now),
        }
    }

    pub(super) fn standing(&self, now: Moment) -> Standing {
        self.settle();
        let unlocking = lock(&self.state).unlocking.clone();
        match unlocking.map(|flight| flight.now_or_never()) {
            Some(Some(true)) => return Standing::Unlocked,
            // It failed, and may have given the lock back or not.
            Some(Some(false)) if !self.is_leaving() => return Standing::Overdue,
            Some(None) if !self.is_leaving() => return Standing::Unlocking,
            _ => {}
        }
        let state = lock(&self.state);
        let is_overdue = state.held.is_some() && state.until < now;
        match is_overdue && !matches!(state.deed, Deed::Leave(_)) {
            true => Standing::Overdue,
            false => Standing::Lasts,
        }
    }

    /// The lock is overdue, and a statement that gives it back was sent, with this answer.
    pub(super) fn unlocks<T: Clone + Send + Sync + 'static>(&self, answer: &Flight<Result<T>>) {
        let is_done: BoxFuture<'static, bool> =
            Box::pin(answer.clone().map(|answer| answer.is_ok()));
        lock(&self.state).unlocking = Some(is_done.shared());
    }

    /// It is on its way out, or was let go: it cannot be extended any more.
    pub(super) fn is_lost(&self) -> bool {
        let state = lock(&self.state);
        state.unlocking.is_some() || matches!(state.deed, Deed::Leave(_))
    }

    /// It is rid of the lock.
    pub(super) fn has_left(&self) -> bool {
        let (deed, unlocking) = {
            let state = lock(&self.state);
            (state.deed.clone(), state.unlocking.clone())
        };
        let is_unlocked = unlocking.and_then(|flight| flight.now_or_never()) == Some(true);
        match deed {
            Deed::Leave(flight) => is_unlocked || flight.now_or_never().is_some(),
            Deed::Try(_) | Deed::Wait(_) => is_unlocked,
        }
    }

    pub(super) fn said(&self) -> Said {
        let state = lock(&self.state);
        let claim = Claim {
            ttl: state.ttl,
            ..self.claim.clone()
        };
        Said::of(&claim, state.held.map(|held| held.since))
    }
}

/// Asks for the lock if it is free. `lift` is sent before, if the session has to lift the fence first.
pub(super) fn trying(
    session: Arc<Session>,
    key: i64,
    lift: Option<String>,
    statement: String,
) -> Flight<Result<Option<Held>>> {
    let asked_at = BootClock.now();
    let flight = async move {
        // Both are sent at once, in this order.
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
    started(flight)
}

/// Waits for the lock; then makes a lease of it, which lasts from that moment.
pub(super) fn waiting(session: Arc<Session>, key: i64, wait: String, fence: String) -> Deed {
    let flight = async move {
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
    Deed::Wait(started(flight))
}

/// Returns when the lock is granted. A wait that has lasted too long begins anew, at the end of the line.
async fn stand_in_line(session: &Session, key: i64, wait: &str) -> Result<()> {
    loop {
        match session.ask(Operation::Acquire, wait).await {
            // The lock may have been granted at the same moment.
            Err(error) if failure::is_lock_timeout(&error) => clean(session, key).await,
            answer => return answer.map(drop),
        }
    }
}

/// Gives the lock back. A session that cannot say whether it did is closed: that does.
pub(super) fn leaving(session: Arc<Session>, statement: String) -> Flight<Result<bool>> {
    let flight = async move {
        let answer = session.ask(Operation::Release, &statement).await;
        if answer.is_err() {
            session.close();
        }
        answer.map(|row| text(&row, 1) == "t")
    };
    started(flight)
}

/// Sets how long the session lasts.
pub(super) fn keeping(session: Arc<Session>, statement: String) -> Flight<Result<()>> {
    started(async move {
        let answer = session.ask(Operation::Renew, &statement).await;
        answer.map(drop)
    })
}

/// The rows of a statement that is about no lock of the session's own.
pub(super) fn looking(
    session: Arc<Session>,
    operation: Operation,
    statement: String,
) -> Flight<Result<Arc<Vec<SimpleQueryRow>>>> {
    started(async move {
        let rows = session.ask_all(operation, &statement).await;
        rows.map(Arc::new)
    })
}

/// What is returned has been sent. So statements reach the server in the order in which they were composed, if that is done under
/// the mutex that guards what they are composed of: each sets how long the session lasts, and the last one counts.
fn started<T: Clone>(flight: impl Future<Output = T> + Send + 'static) -> Flight<T> {
    let flight: BoxFuture<'static, T> = Box::pin(flight);
    let flight = flight.shared();
    let _answered_at_once = flight.clone().now_or_never();
    flight
}

/// A statement that failed may have got the lock before it did, and others may have theirs in the same session.
async fn clean(session: &Session, key: i64) {
    if session.is_closed() {
        return;
    }
    let unlock = statements::only_unlock(key);
    if session.ask(Operation::Release, &unlock).await.is_err() {
        session.close();
    }
}

/// Fence and server time out of what a grant says (program, fence, owner, time, …); nothing when there is none.
fn granted(session: &Session, said: &str, asked_at: Moment) -> Result<Option<Held>> {
    if said.is_empty() {
        return Ok(None);
    }
    if said == MAY_NOT {
        return Err(session.must_not_draw());
    }
    let mut words = said.split(' ').skip(1).step_by(2);
    let mut number = || words.next()?.parse().ok();
    match (number(), number()) {
        (Some(epoch), Some(at_ms)) => Ok(Some(Held {
            since: Since { epoch, at_ms },
            asked_at,
        })),
        _ => Err(failure::unexpected(STORE, Operation::Acquire, said)),
    }
}

//! What all requests of one [`Postgres`](super::Postgres) share: its sessions, and the seats of the owners that use them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::STORE;
use super::address::Address;
use super::failure;
use super::published::{PublishedLock, comment, program};
use super::seat::{
    LastRequest, Seat, SharedAnswer, start_release, start_try, start_upkeep, start_wait,
};
use super::session::{STORE_PROGRAM, Session};
use super::session_pool::{Pick, SessionNumber, SessionPool};
use super::settings::Settings;
use super::statements::{self, Granting, Lasting};
use crate::backend::LossBell;
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment, within};
use crate::error::{Operation, Result};
use crate::mutex::lock;

mod borrowed_session;
mod renewals;
mod reservation;
mod upkeep;

use renewals::Renewals;
use reservation::{Found, OpeningSession, ReservedSession};
use upkeep::Upkeep;

pub(super) struct Hub {
    pub(super) address: Address,
    pub(super) settings: Settings,
    program: String,
    shared: Arc<Shared>,
}

/// The state that is also reachable from the callbacks at the end of a session.
struct Shared {
    state: Mutex<State>,
    loss_bell: LossBell,
}

struct State {
    pool: SessionPool<Arc<Session>>,
    seats: HashMap<OwnerId, Arc<Seat>>,
    renewals: HashMap<SessionNumber, Renewals>,
}

/// How an owner got a seat.
pub(super) enum Placed {
    /// It now asks for the lock.
    Asking(Arc<Seat>),
    /// It had a seat already.
    Already(Arc<Seat>),
    /// There is no session to ask with, because another owner of this process has the lock.
    Nowhere,
}

impl Hub {
    pub(super) fn new(address: Address, settings: Settings) -> Self {
        let program =
            program(address.application_name().unwrap_or(STORE_PROGRAM)) + settings.source.mark();
        let address = address.with_application_name(&program);
        let pool = SessionPool::new(settings.max_connections);
        Self {
            address,
            settings,
            program,
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    pool,
                    seats: HashMap::new(),
                    renewals: HashMap::new(),
                }),
                loss_bell: LossBell::new(),
            }),
        }
    }

    /// Opens one more session, outside the pool.
    pub(super) async fn open(&self, operation: Operation) -> Result<Arc<Session>> {
        let shared = Arc::downgrade(&self.shared);
        let ended = move || {
            if let Some(shared) = shared.upgrade() {
                shared.forget_closed();
            }
        };
        Session::open(operation, &self.address, &self.settings, ended).await
    }

    /// Keeps a session that was opened outside the pool, as a spare one.
    pub(super) fn keep(&self, session: Arc<Session>) {
        self.state().pool.opened(session, BootClock.now());
    }

    pub(super) fn seat(&self, owner: OwnerId) -> Option<Arc<Seat>> {
        self.state().seats.get(&owner).cloned()
    }

    /// Finds a session for the claim, and asks for the lock.
    pub(super) async fn place(&self, claim: &Claim, key: i64) -> Result<Placed> {
        loop {
            let reserved = match self.reserve(claim, key).await? {
                Found::Place(reserved) => reserved,
                Found::Seat(seat) => return Ok(Placed::Already(seat)),
                Found::Nothing => return Ok(Placed::Nowhere),
            };
            match self.ready(&reserved.session).await {
                Ok(()) => return Ok(self.send_try(claim, key, reserved)),
                Err(error) if reserved.is_reused && failure::was_ended(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn reserve(&self, claim: &Claim, key: i64) -> Result<Found<'_>> {
        let opening = {
            let mut state = self.tidied();
            if let Some(seat) = state.seats.get(&claim.owner) {
                return Ok(Found::Seat(seat.clone()));
            }
            match state.pool.pick(claim.owner, key, self.fresh_since()) {
                Pick::Use(number, session) => {
                    let reserved = ReservedSession::new(self, (number, session), claim.owner, true);
                    return Ok(Found::Place(reserved));
                }
                Pick::Unavailable => return Ok(Found::Nothing),
                Pick::Open => OpeningSession::new(self),
            }
        };
        let session = self.open(Operation::Acquire).await?;
        let mut state = self.state();
        let number = opening.done(&mut state, session.clone());
        state.pool.assign(number, claim.owner, key);
        let reserved = ReservedSession::new(self, (number, session), claim.owner, false);
        Ok(Found::Place(reserved))
    }

    /// Makes sure that fences can be drawn in this session. Returns at once if that was done before.
    async fn ready(&self, session: &Session) -> Result<()> {
        let ready = session.ready(Operation::Acquire);
        let until = BootClock.now() + self.settings.connect_timeout;
        match within(&BootClock, until, ready).await {
            Some(ready) => ready,
            None => Err(failure::unreachable(STORE, Operation::Acquire)),
        }
    }

    fn send_try(&self, claim: &Claim, key: i64, reserved: ReservedSession<'_>) -> Placed {
        let mut state = self.state();
        if let Some(seat) = state.seats.get(&claim.owner).cloned() {
            drop(state);
            return Placed::Already(seat);
        }
        let (number, session, is_reused) = reserved.taken();
        let upkeep = Upkeep::of(&mut state, number, self.settings.idle_timeout, None);
        let granting = Granting {
            owner: claim.owner,
            session_ttl: claim.ttl.max(upkeep.lasting.needed),
            program: &self.program,
            source: self.settings.source,
        };
        let others = upkeep.seats.iter().map(|seat| seat.published());
        let comment = comment(std::iter::once(PublishedLock::of(claim, None)).chain(others));
        let statement = comment + &statements::try_lock(key, &granting, &upkeep.lasting);
        let lift = session.take_lift_due().then(|| self.settings.source.lift());
        let answer = start_try(session.clone(), key, lift.flatten(), statement);
        upkeep.sent(&answer);
        let last_request = LastRequest::Try(answer);
        let seat = Arc::new(Seat::new(
            claim,
            key,
            (number, session),
            is_reused,
            last_request,
        ));
        state.seats.insert(claim.owner, seat.clone());
        Placed::Asking(seat)
    }

    /// Makes a seat that was refused the lock wait for it. Returns `false` if its session must not wait.
    pub(super) fn wait(&self, seat: &Seat) -> bool {
        // Locks of the same session that are over must not keep it from waiting.
        if !self.tidied().pool.begin_waiting(seat.number) {
            return false;
        }
        let granting = Granting {
            owner: seat.claim.owner,
            session_ttl: seat.claim.ttl,
            program: &self.program,
            source: self.settings.source,
        };
        let comment = comment(std::iter::once(seat.published()));
        let wait = comment.clone() + &statements::wait(seat.key, self.settings.requeue_after);
        let fence = comment + &statements::fence(&granting);
        seat.set_last_request(start_wait(seat.session.clone(), seat.key, wait, fence));
        true
    }

    /// Records that the wait is over, with or without success.
    pub(super) fn end_waiting(&self, seat: &Seat) {
        self.state().pool.end_waiting(seat.number);
    }

    /// Releases what a seat has. A seat that was forgotten has nothing.
    pub(super) fn give_back(&self, seat: &Seat) {
        let mut state = self.state();
        if !state.has(seat) {
            return;
        }
        let newest = state.on(seat.number).first().cloned();
        let is_newest = newest.is_some_and(|newest| newest.claim.owner == seat.claim.owner);
        let upkeep = Upkeep::of(
            &mut state,
            seat.number,
            self.settings.idle_timeout,
            Some(seat),
        );
        let shown = is_newest.then(|| self.application_name(upkeep.seats.first()));
        let shown = shown.flatten();
        let statement =
            upkeep.comment() + &statements::unlock(seat.key, &upkeep.lasting, shown.as_deref());
        let answer = start_release(seat.session.clone(), statement);
        upkeep.sent(&answer);
        seat.set_last_request(LastRequest::Leave(answer));
    }

    /// Returns the `application_name` of a session in which this lock is the one that was granted last, if any. Returns `None` if its fence is
    /// not known yet.
    fn application_name(&self, newest: Option<&Arc<Seat>>) -> Option<String> {
        let Some(seat) = newest else {
            return Some(self.program.clone());
        };
        let epoch = seat.held()?.since.epoch;
        Some(format!("{} {epoch} {}", self.program, seat.claim.owner))
    }

    /// Forgets the seat, because its owner has nothing at the server any more.
    pub(super) fn forget(&self, seat: &Seat) {
        self.state().forget(seat);
    }

    /// Forgets the seat of an owner that was refused the lock. Its session need not last for it.
    pub(super) fn refused(&self, seat: &Seat) {
        let mut state = self.state();
        state.forget(seat);
        if !seat.session.is_closed() && !state.on(seat.number).is_empty() {
            self.set_end(&mut state, seat.number, &seat.session);
        }
    }

    /// Makes the session last as long as its leases, whatever else it is used for.
    fn set_end(&self, state: &mut State, number: SessionNumber, session: &Arc<Session>) {
        let _sent = state.send(
            number,
            session,
            self.settings.idle_timeout,
            statements::keep,
        );
    }

    /// Returns the time after which a spare session must have been used, so that the server is not about to end it.
    fn fresh_since(&self) -> Moment {
        BootClock
            .now()
            .saturating_sub(self.settings.idle_timeout.mul_f64(0.8))
    }

    /// Returns the sessions and seats, after removing those that are over.
    fn tidied(&self) -> MutexGuard<'_, State> {
        self.shared.forget_closed();
        let mut state = self.state();
        drop(state.pool.remove_stale(self.fresh_since()));
        state.forget_renewals();
        let left = state.seats.values().filter(|seat| seat.has_left());
        for seat in left.cloned().collect::<Vec<_>>() {
            state.forget(&seat);
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// Returns the bell that rings for holders whose sessions are over.
    pub(super) fn loss_bell(&self) -> &LossBell {
        &self.shared.loss_bell
    }
}

impl Shared {
    /// Forgets the sessions that are over, together with the locks they held, and notifies the holders.
    fn forget_closed(&self) {
        let lost = {
            let mut state = lock(&self.state);
            let lost = state.pool.remove(|session| session.is_closed());
            for owner in &lost {
                state.seats.remove(owner);
            }
            state.forget_renewals();
            lost
        };
        if !lost.is_empty() {
            self.loss_bell.ring(&lost);
        }
    }
}

impl State {
    /// Returns the seats of a session, the newest first.
    fn on(&self, number: SessionNumber) -> Vec<Arc<Seat>> {
        let owners = self.pool.owners(number).into_iter();
        owners
            .filter_map(|owner| self.seats.get(&owner).cloned())
            .collect()
    }

    /// Sends a statement that only concerns the leases of a session.
    fn send(
        &mut self,
        number: SessionNumber,
        session: &Arc<Session>,
        spare: Duration,
        statement: impl FnOnce(&Lasting) -> String,
    ) -> SharedAnswer<Result<()>> {
        let upkeep = Upkeep::of(self, number, spare, None);
        let statement = upkeep.comment() + &statement(&upkeep.lasting);
        let answer = start_upkeep(session.clone(), statement);
        upkeep.sent(&answer);
        answer
    }

    /// Forgets the renewals of sessions that are gone.
    fn forget_renewals(&mut self) {
        let Self { pool, renewals, .. } = self;
        renewals.retain(|number, _| pool.has(*number));
    }

    /// Returns whether this is still its owner's seat. The owner may have asked again in another session.
    fn has(&self, seat: &Seat) -> bool {
        let found = self.seats.get(&seat.claim.owner);
        found.is_some_and(|found| std::ptr::eq(Arc::as_ptr(found), seat))
    }

    fn forget(&mut self, seat: &Seat) {
        let owner = seat.claim.owner;
        if self.has(seat) {
            self.seats.remove(&owner);
            self.pool.leave(seat.number, owner, BootClock.now());
        }
    }
}

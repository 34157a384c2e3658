//! What all requests share: the sessions, and who does what with them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::book::{Book, Number, Pick};
use super::connect::Address;
use super::fence::Source;
use super::published::{comment, program};
use super::seat::{Flight, Seat, keeping, leaving, trying, waiting};
use super::session::{STORE_PROGRAM, Session};
use super::statement::{self, Granting, Lasting};
use crate::backend::LossBell;
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};
use crate::lease::lock;

mod visit;

/// What the builder decided.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) connections: usize,
    pub(super) spare: Duration,
    pub(super) outage: Duration,
    pub(super) requeue_after: Duration,
    pub(super) source: Source,
    /// No lock is taken, so nothing is asked about fences.
    pub(super) looks_only: bool,
}

pub(super) struct Hub {
    pub(super) address: Address,
    pub(super) settings: Settings,
    program: String,
    shared: Arc<Shared>,
}

/// What the ends of sessions reach, too.
struct Shared {
    state: Mutex<State>,
    bell: LossBell,
}

struct State {
    book: Book<Arc<Session>>,
    seats: HashMap<OwnerId, Arc<Seat>>,
}

/// How an owner came to a seat.
pub(super) enum Placed {
    /// It asks for the lock now.
    Asking(Arc<Seat>),
    /// It had one already.
    Already(Arc<Seat>),
    /// There is no session to ask with: another owner of ours has the lock.
    Nowhere,
}

impl Hub {
    pub(super) fn new(address: Address, settings: Settings) -> Self {
        let program =
            program(address.application_name().unwrap_or(STORE_PROGRAM)) + settings.source.mark();
        let book = Book::new(settings.connections);
        Self {
            address,
            settings,
            program,
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    book,
                    seats: HashMap::new(),
                }),
                bell: LossBell::new(),
            }),
        }
    }

    /// One more session, outside the book.
    pub(super) async fn open(&self, operation: Operation) -> Result<Arc<Session>> {
        let Settings {
            connect_timeout,
            spare,
            source,
            looks_only,
            ..
        } = self.settings;
        let shared = Arc::downgrade(&self.shared);
        let ended = move || {
            if let Some(shared) = shared.upgrade() {
                shared.forget_closed();
            }
        };
        let times = (connect_timeout, spare);
        // Who opens the store tries first whether locks exclude there.
        let draws = !looks_only && operation != Operation::Open;
        Session::open(operation, &self.address, times, (source, draws), ended).await
    }

    /// Keeps a session that was opened outside the book, as a spare one.
    pub(super) fn keep(&self, session: Arc<Session>) {
        self.state().book.opened(session, BootClock.now());
    }

    pub(super) fn seat(&self, owner: OwnerId) -> Option<Arc<Seat>> {
        self.state().seats.get(&owner).cloned()
    }

    /// Finds a session for the claim and asks for the lock.
    pub(super) async fn place(&self, claim: &Claim, key: i64) -> Result<Placed> {
        let opening = {
            let mut state = self.tidied();
            if let Some(seat) = state.seats.get(&claim.owner) {
                return Ok(Placed::Already(seat.clone()));
            }
            match state.book.pick(claim.owner, key, self.fresh_since()) {
                Pick::Use(number, session) => {
                    return Ok(self.sit(&mut state, claim, key, (number, session), true));
                }
                Pick::None => return Ok(Placed::Nowhere),
                Pick::Open => Opening::new(self),
            }
        };
        let session = self.open(Operation::Acquire).await?;
        let mut state = self.state();
        let number = opening.done(&mut state, session.clone());
        if let Some(seat) = state.seats.get(&claim.owner) {
            return Ok(Placed::Already(seat.clone()));
        }
        state.book.assign(number, claim.owner, key);
        Ok(self.sit(&mut state, claim, key, (number, session), false))
    }

    fn sit(
        &self,
        state: &mut State,
        claim: &Claim,
        key: i64,
        at: (Number, Arc<Session>),
        is_reused: bool,
    ) -> Placed {
        let (number, session) = at;
        let (lasting, others) = self.let_go(state, number, None);
        let granting = Granting {
            owner: claim.owner,
            session_ttl: claim.ttl.max(lasting.needed),
            program: &self.program,
            source: self.settings.source,
        };
        let new = super::published::Said::of(claim, None);
        let others: Vec<_> = others.iter().map(|seat| seat.said()).collect();
        let comment = comment(std::iter::once(&new).chain(&others));
        let statement = comment + &statement::try_lock(key, &granting, &lasting);
        let lift = session.is_to_lift().then(|| self.settings.source.lift());
        let deed = trying(session.clone(), key, lift.flatten(), statement);
        let seat = Arc::new(Seat::new(claim, key, (number, session), is_reused, deed));
        state.seats.insert(claim.owner, seat.clone());
        Placed::Asking(seat)
    }

    /// Makes a seat that was refused the lock wait for it; false when its session must not wait.
    pub(super) fn wait(&self, seat: &Seat) -> bool {
        if !self.state().book.may_wait(seat.number) {
            return false;
        }
        let granting = Granting {
            owner: seat.claim.owner,
            session_ttl: seat.claim.ttl,
            program: &self.program,
            source: self.settings.source,
        };
        let said = seat.said();
        let comment = comment(std::iter::once(&said));
        let wait = comment.clone() + &statement::wait(seat.key, self.settings.requeue_after);
        let fence = comment + &statement::fence(&granting);
        seat.does(waiting(seat.session.clone(), seat.key, wait, fence));
        true
    }

    /// The wait is over, one way or the other.
    pub(super) fn waits_no_more(&self, seat: &Seat) {
        self.state().book.waits_no_more(seat.number);
    }

    /// Gives back what a seat has.
    pub(super) fn give_back(&self, seat: &Seat) {
        let mut state = self.state();
        let (lasting, others) = self.let_go(&mut state, seat.number, Some(seat));
        let said: Vec<_> = others.iter().map(|seat| seat.said()).collect();
        let spare_program = others.is_empty().then_some(self.program.as_str());
        let statement =
            comment(said.iter()) + &statement::unlock(seat.key, &lasting, spare_program);
        seat.does(leaving(seat.session.clone(), statement));
    }

    /// This owner has nothing to do with the server any more.
    pub(super) fn forget(&self, seat: &Seat) {
        self.state().forget(seat);
    }

    /// The lock was not granted: this owner has nothing to do with the server any more, and its session need not last for it.
    pub(super) fn refused(&self, seat: &Seat) {
        let mut state = self.state();
        state.forget(seat);
        if !seat.session.is_closed() && !state.on(seat.number).is_empty() {
            self.set_end(&mut state, seat.number, &seat.session);
        }
    }

    /// A sign of life for one lock; `None` when it has been let go. The locks beside it that nobody extends are let go.
    pub(super) fn sign_of_life(&self, seat: &Seat) -> Option<Flight<Result<()>>> {
        let mut state = self.state();
        if !state.has(seat) || seat.is_leaving() {
            return None;
        }
        seat.extends(BootClock.now());
        Some(self.send(&mut state, seat.number, &seat.session, statement::renew))
    }

    /// Makes the session last as long as its leases do, whatever else it is used for.
    fn set_end(&self, state: &mut State, number: Number, session: &Arc<Session>) {
        let _sent = self.send(state, number, session, statement::keep);
    }

    fn send(
        &self,
        state: &mut State,
        number: Number,
        session: &Arc<Session>,
        statement: impl FnOnce(&Lasting) -> String,
    ) -> Flight<Result<()>> {
        let (lasting, seats) = self.let_go(state, number, None);
        let said: Vec<_> = seats.iter().map(|seat| seat.said()).collect();
        let statement = comment(said.iter()) + &statement(&lasting);
        keeping(session.clone(), statement)
    }

    /// Takes the leases of a session that have ended out of the book. Returns what the next statement has to say about the session, and
    /// the seats that are left there, not counting the one that is `leaving` with that statement.
    fn let_go(
        &self,
        state: &mut State,
        number: Number,
        leaving: Option<&Seat>,
    ) -> (Lasting, Vec<Arc<Seat>>) {
        let now = BootClock.now();
        let leaving = leaving.map(|seat| seat.claim.owner);
        let mut seats = state.on(number);
        seats.retain(|seat| Some(seat.claim.owner) != leaving);
        let (over, left): (Vec<_>, Vec<_>) =
            seats.into_iter().partition(|seat| seat.is_overdue(now));
        for seat in &over {
            state.forget(seat);
        }
        let needed = left.iter().map(|seat| seat.left(now)).max();
        let lasting = Lasting {
            needed: needed.unwrap_or_default(),
            spare: self.settings.spare,
            overdue: over.iter().map(|seat| seat.key).collect(),
        };
        (lasting, left)
    }

    /// What a spare session must have been used after, so that the server is not about to end it.
    fn fresh_since(&self) -> Moment {
        BootClock.now().back(self.settings.spare.mul_f64(0.8))
    }

    /// The sessions and seats, without what is over.
    fn tidied(&self) -> MutexGuard<'_, State> {
        self.shared.forget_closed();
        let mut state = self.state();
        drop(state.book.remove_stale(self.fresh_since()));
        let left = state.seats.values().filter(|seat| seat.has_left());
        for seat in left.cloned().collect::<Vec<_>>() {
            state.forget(&seat);
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// Rings for those whose sessions are over.
    pub(super) fn bell(&self) -> &LossBell {
        &self.shared.bell
    }
}

impl Shared {
    /// Forgets the sessions that are over with the locks they held, and tells the holders.
    fn forget_closed(&self) {
        let lost = {
            let mut state = lock(&self.state);
            let lost = state.book.remove(|session| session.is_closed());
            for owner in &lost {
                state.seats.remove(owner);
            }
            lost
        };
        if !lost.is_empty() {
            self.bell.ring(&lost);
        }
    }
}

impl State {
    /// The seats at a session, the newest first.
    fn on(&self, number: Number) -> Vec<Arc<Seat>> {
        let owners = self.book.owners(number).into_iter();
        owners
            .filter_map(|owner| self.seats.get(&owner).cloned())
            .collect()
    }

    /// Whether this is still its owner's seat. The owner may have asked anew meanwhile, elsewhere.
    fn has(&self, seat: &Seat) -> bool {
        let found = self.seats.get(&seat.claim.owner);
        found.is_some_and(|found| std::ptr::eq(Arc::as_ptr(found), seat))
    }

    fn forget(&mut self, seat: &Seat) {
        let owner = seat.claim.owner;
        if self.has(seat) {
            self.seats.remove(&owner);
            self.book.leave(seat.number, owner, BootClock.now());
        }
    }
}

/// A session that is being opened has its place in the book, until it is there or nobody wants it any more.
struct Opening<'a>(Option<&'a Hub>);

impl<'a> Opening<'a> {
    fn new(hub: &'a Hub) -> Self {
        Self(Some(hub))
    }

    fn done(mut self, state: &mut State, session: Arc<Session>) -> Number {
        self.0 = None;
        state.book.opened(session, BootClock.now())
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if let Some(hub) = self.0 {
            hub.state().book.not_opened();
        }
    }
}

//! What all requests share: the sessions, and who does what with them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_postgres::SimpleQueryRow;

use super::book::{Book, Number, Pick};
use super::connect::Address;
use super::fence::Source;
use super::published::{comment, program};
use super::seat::{Flight, Seat, leaving, looking, renewing, trying, waiting};
use super::session::{STORE_PROGRAM, Session};
use super::statement::{self, Granting};
use super::{STORE, failure};
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};
use crate::lease::lock;

/// What the builder decided.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) connections: usize,
    pub(super) spare: Duration,
    pub(super) outage: Duration,
    pub(super) source: Source,
}

pub(super) struct Hub {
    pub(super) address: Address,
    pub(super) settings: Settings,
    program: String,
    state: Mutex<State>,
}

/// What a statement answered.
pub(super) type Rows = Arc<Vec<SimpleQueryRow>>;

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
            state: Mutex::new(State {
                book,
                seats: HashMap::new(),
            }),
        }
    }

    /// One more session, outside the book.
    pub(super) async fn open(&self, operation: Operation) -> Result<Arc<Session>> {
        let Settings {
            connect_timeout,
            spare,
            source,
            ..
        } = self.settings;
        Session::open(operation, &self.address, connect_timeout, spare, source).await
    }

    /// Keeps a session that was opened outside the book, as a spare one.
    pub(super) fn keep(&self, session: Arc<Session>) {
        lock(&self.state).book.opened(session, BootClock.now());
    }

    pub(super) fn seat(&self, owner: OwnerId) -> Option<Arc<Seat>> {
        lock(&self.state).seats.get(&owner).cloned()
    }

    /// Finds a session for the claim and asks for the lock.
    pub(super) async fn place(&self, claim: &Claim, key: i64) -> Result<Placed> {
        let opening = {
            let mut state = lock(&self.state);
            self.tidy(&mut state);
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
        let mut state = lock(&self.state);
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
        let others = state.on(number);
        let longest = others.iter().map(|seat| seat.ttl()).max();
        let granting = Granting {
            owner: claim.owner,
            session_ttl: claim.ttl.max(longest.unwrap_or_default()),
            program: &self.program,
            source: self.settings.source,
        };
        let new = super::published::Said::of(claim, None);
        let others: Vec<_> = others.iter().map(|seat| seat.said()).collect();
        let comment = comment(std::iter::once(&new).chain(&others));
        let spare = others.is_empty().then_some(self.settings.spare);
        let statement = comment + &statement::try_lock(key, &granting, spare);
        let lift = session.is_to_lift().then(|| self.settings.source.lift());
        let deed = trying(session.clone(), key, lift.flatten(), statement);
        let seat = Arc::new(Seat::new(claim, key, (number, session), is_reused, deed));
        state.seats.insert(claim.owner, seat.clone());
        Placed::Asking(seat)
    }

    /// Makes a seat that was refused the lock wait for it; false when its session must not wait.
    pub(super) fn wait(&self, seat: &Seat) -> bool {
        if !lock(&self.state).book.may_wait(seat.number) {
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
        let wait = comment.clone() + &statement::wait(seat.key);
        let fence = comment + &statement::fence(&granting);
        seat.does(waiting(seat.session.clone(), seat.key, wait, fence));
        true
    }

    /// The wait is over, one way or the other.
    pub(super) fn waits_no_more(&self, seat: &Seat) {
        lock(&self.state).book.waits_no_more(seat.number);
    }

    /// Gives back what a seat has.
    pub(super) fn give_back(&self, seat: &Seat) {
        let state = lock(&self.state);
        let others = state.on(seat.number);
        let others = others
            .iter()
            .filter(|other| other.claim.owner != seat.claim.owner);
        let others: Vec<_> = others.map(|seat| seat.said()).collect();
        let spare = others
            .is_empty()
            .then_some((self.settings.spare, self.program.as_str()));
        let statement = comment(others.iter()) + &statement::unlock(seat.key, spare);
        seat.does(leaving(seat.session.clone(), statement));
    }

    /// This owner has nothing to do with the server any more.
    pub(super) fn forget(&self, seat: &Seat) {
        lock(&self.state).forget(seat);
    }

    /// A sign of life for the locks of some owners, which are all at `number`; and the locks there that nobody extends are let go.
    pub(super) fn sign_of_life(
        &self,
        session: &Arc<Session>,
        number: Number,
        renewed: &[Arc<Seat>],
    ) -> Flight<Result<()>> {
        let now = BootClock.now();
        let mut state = lock(&self.state);
        let is_renewed = |seat: &Seat| {
            let mut owners = renewed.iter().map(|seat| seat.claim.owner);
            owners.any(|owner| owner == seat.claim.owner)
        };
        let all = state.on(number);
        let overdue = all
            .iter()
            .filter(|seat| !is_renewed(seat) && seat.is_overdue(now));
        let mut keys = Vec::new();
        for seat in overdue {
            keys.push(seat.key);
            state.forget(seat);
        }
        let left = state.on(number);
        let ttl = left.iter().map(|seat| seat.ttl()).max().unwrap_or_default();
        let said: Vec<_> = left.iter().map(|seat| seat.said()).collect();
        let statement = comment(said.iter()) + &statement::renew(ttl, &keys);
        renewing(session.clone(), statement)
    }

    /// Asks something that is about no lock of ours and may be asked twice.
    pub(super) async fn ask_aside(&self, operation: Operation, statement: &str) -> Result<Rows> {
        loop {
            let visit = self.visit(operation).await?;
            match visit.ask(operation, statement).await {
                // A spare session that the server was about to end. There are only so many.
                Err(error) if failure::was_ended(&error) && visit.is_reused => {}
                answer => return answer,
            }
        }
    }

    /// A session to look and to cancel with.
    async fn visit(&self, operation: Operation) -> Result<Visit<'_>> {
        let opening = {
            let mut state = lock(&self.state);
            self.tidy(&mut state);
            match state.book.visit(self.fresh_since()) {
                Pick::Use(number, session) => {
                    return Ok(Visit::new(self, number, session, true));
                }
                // All are being opened or wait: then one that only looks may be one too many.
                Pick::None => None,
                Pick::Open => Some(Opening::new(self)),
            }
        };
        let session = self.open(operation).await?;
        Ok(match opening {
            None => Visit::new(self, 0, session, false),
            Some(opening) => {
                let mut state = lock(&self.state);
                let number = opening.done(&mut state, session.clone());
                state.book.visit_this(number);
                Visit::new(self, number, session, false)
            }
        })
    }

    /// What a spare session must have been used after, so that the server is not about to end it.
    fn fresh_since(&self) -> Moment {
        BootClock.now().back(self.settings.spare.mul_f64(0.8))
    }

    /// Forgets what is over.
    fn tidy(&self, state: &mut State) {
        for owner in state.book.remove(|session| session.is_closed()) {
            state.seats.remove(&owner);
        }
        drop(state.book.remove_stale(self.fresh_since()));
        let left = state.seats.values().filter(|seat| seat.has_left());
        for seat in left.cloned().collect::<Vec<_>>() {
            state.forget(&seat);
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

    fn forget(&mut self, seat: &Seat) {
        let owner = seat.claim.owner;
        // The owner may have asked anew meanwhile, elsewhere.
        let is_this = |found: &Arc<Seat>| std::ptr::eq(Arc::as_ptr(found), seat);
        if self.seats.get(&owner).is_some_and(is_this) {
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
            lock(&hub.state).book.not_opened();
        }
    }
}

/// The use of a session for something that is about no lock of its own.
struct Visit<'a> {
    hub: &'a Hub,
    number: Number,
    session: Arc<Session>,
    is_reused: bool,
}

impl<'a> Visit<'a> {
    fn new(hub: &'a Hub, number: Number, session: Arc<Session>, is_reused: bool) -> Self {
        Self {
            hub,
            number,
            session,
            is_reused,
        }
    }

    /// Sends a statement, without hiding what the session says of its own locks.
    async fn ask(&self, operation: Operation, statement: &str) -> Result<Rows> {
        let asking = {
            let state = lock(&self.hub.state);
            let seats = state.on(self.number);
            let said: Vec<_> = seats.iter().map(|seat| seat.said()).collect();
            let statement = match said.is_empty() {
                true => statement::spare(self.hub.settings.spare, statement),
                false => comment(said.iter()) + statement,
            };
            let session = self.session.clone();
            looking(session, operation, statement)
        };
        match tokio::time::timeout(self.hub.settings.connect_timeout, asking).await {
            Ok(answer) => answer,
            Err(_) => {
                // Nobody is to come behind a statement that is not answered; but locks are not given up for that.
                let state = lock(&self.hub.state);
                if state.on(self.number).is_empty() {
                    self.session.close();
                }
                Err(failure::silent(STORE, operation))
            }
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.hub.state);
        state.book.visited(self.number, BootClock.now());
    }
}

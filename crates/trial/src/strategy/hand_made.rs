//! Handmade locks, built from the plain commands of the store.
//!
//! A [`Recipe`] defines which commands to use, and in which order. Handmade locks share the rest: a token per hold, and polling
//! while they wait.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fencepost::clock::BoxFuture;
use fencepost::random::{Random, SystemRandom};

use super::customer::Customer;
use super::{Buyer, Failure, Granted, Halt, Locking, Opening, Setup};
use crate::protocol::ReleaseResult;
use crate::store::latch::Latches;

/// The upper limit of a pause between two polls, in milliseconds. Pauses are random, from one millisecond.
const POLL_MS: u64 = 4;

/// How a handmade lock is acquired and released. Each step is reported to `Halt`.
pub(crate) struct Recipe {
    /// Acquires the key. Returns `false` if it is taken.
    pub(crate) take: fn(&mut Latch<'_>, &mut dyn Halt) -> Result<bool, Failure>,
    /// Called when the work under the lock is done.
    pub(crate) worked: fn(&mut Latch<'_>) -> Result<(), Failure>,
    /// Releases the key.
    pub(crate) give_back: fn(&mut Latch<'_>, &mut dyn Halt) -> Result<ReleaseResult, Failure>,
}

impl Recipe {
    /// A token, an expiry in the same step, and a release that compares and deletes in one step. `safe` uses it on Redis.
    pub(crate) const TOKEN: Self = Self {
        take: take_with_expiry,
        worked: |_| Ok(()),
        give_back: delete_own,
    };
}

/// One key, for one hold.
pub(crate) struct Latch<'a> {
    pub(crate) store: &'a mut dyn Latches,
    pub(crate) key: &'a str,
    /// The token that identifies this hold.
    pub(crate) token: &'a str,
    pub(crate) ttl: Duration,
    /// Whether the work under it is done.
    pub(crate) worked: bool,
}

/// A lock that follows a recipe.
pub(crate) struct HandMade {
    recipe: Recipe,
    latches: Box<dyn Latches>,
    ttl: Duration,
    holds: HashMap<u64, Hold>,
    last_hold: u64,
}

struct Hold {
    key: String,
    token: String,
    worked: bool,
}

/// Opens a buyer with a lock of this recipe.
pub(crate) fn buyer(setup: Setup, recipe: Recipe) -> Opening<dyn Buyer> {
    Box::pin(async move {
        let lock = HandMade::open(&setup, recipe)?;
        let buyer: Box<dyn Buyer> = Box::new(Customer::open(&setup, lock)?);
        Ok(buyer)
    })
}

/// Opens a lock of this recipe.
pub(crate) fn lock(setup: Setup, recipe: Recipe) -> Opening<dyn Locking> {
    Box::pin(async move {
        let lock: Box<dyn Locking> = Box::new(HandMade::open(&setup, recipe)?);
        Ok(lock)
    })
}

impl HandMade {
    /// Connects to the store.
    pub(crate) fn open(setup: &Setup, recipe: Recipe) -> Result<Self, Failure> {
        Ok(Self::over(setup.ground.latches()?, setup, recipe))
    }

    /// Creates a lock from these records.
    pub(crate) fn over(latches: Box<dyn Latches>, setup: &Setup, recipe: Recipe) -> Self {
        Self {
            recipe,
            latches,
            ttl: setup.ttl,
            holds: HashMap::new(),
            last_hold: 0,
        }
    }

    async fn take(
        &mut self,
        key: &str,
        wait: Duration,
        halt: &mut dyn Halt,
    ) -> Result<Option<Granted>, Failure> {
        let asked = Instant::now();
        let token = format!("{:016x}", SystemRandom.next_u64());
        let mut contended = false;
        loop {
            let mut latch = Latch {
                store: &mut *self.latches,
                key,
                token: &token,
                ttl: self.ttl,
                worked: false,
            };
            if (self.recipe.take)(&mut latch, halt)? {
                return Ok(Some(self.granted(key, token, contended)));
            }
            contended = true;
            let left = wait.saturating_sub(asked.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let pause = Duration::from_millis(1 + SystemRandom.next_u64() % POLL_MS);
            tokio::time::sleep(pause.min(left)).await;
        }
    }

    fn granted(&mut self, key: &str, token: String, contended: bool) -> Granted {
        self.last_hold += 1;
        let hold = Hold {
            key: key.to_owned(),
            token,
            worked: false,
        };
        self.holds.insert(self.last_hold, hold);
        Granted::plain(self.last_hold, contended)
    }

    /// Tells each hold that the work is done, because it may concern everything that is currently locked.
    fn work_done(&mut self) -> Result<(), Failure> {
        for hold in self.holds.values_mut() {
            hold.worked = true;
            (self.recipe.worked)(&mut hold.latch(&mut *self.latches, self.ttl))?;
        }
        Ok(())
    }

    fn give_back(&mut self, hold: u64, halt: &mut dyn Halt) -> Result<ReleaseResult, Failure> {
        let hold = self.holds.remove(&hold);
        let hold = hold.ok_or_else(|| Failure::definite("there is no such hold"))?;
        let mut latch = hold.latch(&mut *self.latches, self.ttl);
        (self.recipe.give_back)(&mut latch, halt)
    }
}

impl Hold {
    fn latch<'a>(&'a self, store: &'a mut dyn Latches, ttl: Duration) -> Latch<'a> {
        Latch {
            store,
            key: &self.key,
            token: &self.token,
            ttl,
            worked: self.worked,
        }
    }
}

impl Locking for HandMade {
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Granted>, Failure>> {
        Box::pin(self.take(key, wait, halt))
    }

    fn worked<'a>(&'a mut self, _hold: u64) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async { self.work_done() })
    }

    fn release<'a>(
        &'a mut self,
        hold: u64,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseResult, Failure>> {
        Box::pin(async move { self.give_back(hold, halt) })
    }
}

/// Deletes the key and checks its owner in one step.
fn delete_own(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<ReleaseResult, Failure> {
    let deleted = latch.store.delete_if(latch.key, latch.token)?;
    halt.after(1, 1, "deletes the key if it is its own");
    Ok(released_if(deleted))
}

/// Returns the result of a release that deletes the record only if it owns it.
pub(crate) fn released_if(deleted: bool) -> ReleaseResult {
    if deleted {
        ReleaseResult::Released
    } else {
        ReleaseResult::AlreadyLost
    }
}

/// Creates the key with its expiry in one step.
pub(crate) fn take_with_expiry(
    latch: &mut Latch<'_>,
    halt: &mut dyn Halt,
) -> Result<bool, Failure> {
    let ttl = Some(latch.ttl);
    let taken = latch.store.set_if_absent(latch.key, latch.token, ttl)?;
    if taken {
        halt.after(1, 1, "creates the key with its expiry");
    }
    Ok(taken)
}

/// Deletes the key without checking its owner.
pub(crate) fn delete_blindly(
    latch: &mut Latch<'_>,
    halt: &mut dyn Halt,
) -> Result<ReleaseResult, Failure> {
    latch.store.delete(latch.key)?;
    halt.after(1, 1, "deletes the key");
    Ok(ReleaseResult::Unknown)
}

//! The ways of buying that can be put on trial: a list, one entry each.
//!
//! A strategy with a lock says only how to take it and give it back ([`Locking`]); a customer around it buys. The
//! others buy in a way of their own ([`Buyer`]).

use std::time::Duration;

use fencepost::BoxFuture;
use fencepost::stores::kinds::{POSTGRES, ZOOKEEPER};

use crate::protocol::{Claims, Outcome, Promise, Purchase, ReleaseWord};
use crate::store::stock::Stock;
use crate::store::{Ground, TrialStore};

mod atomic;
mod constraint;
pub(crate) mod customer;
mod database;
pub(crate) mod direct;
pub mod exhibit;
mod fenced;
pub(crate) mod hand_made;
mod library;
mod list;
#[cfg(test)]
mod lock_tests;
mod optimistic;
mod queue;
mod safe;
mod watchdog;

pub use crate::protocol::Failure;
pub use list::{ALL, at, claims_in, find};

/// A way of buying.
#[derive(Debug)]
pub struct Strategy {
    /// Its name on the command line (`--lock`).
    pub name: &'static str,
    /// The heading under which tables list it.
    pub group: Group,
    /// Where it can be tried.
    pub stores: Stores,
    /// What it does, in one line.
    pub summary: &'static str,
    /// A short explanation for the title of a report; may be empty.
    pub gloss: &'static str,
    /// Why it fails, for those that do.
    pub flaw: Option<&'static str>,
    /// What it promises in a sale.
    pub promise: Promise,
    /// What it promises as a lock.
    pub claims: Claims,
    /// What is worth saying in a few words about a sale with it.
    pub remark: Remark,
    /// Opens the store and gets ready to buy.
    pub open: fn(Setup) -> Opening<dyn Buyer>,
    /// Opens the store and gets ready to lock. `None` if the strategy has no lock that could be held: then it is tried in sales only.
    pub lock: Option<fn(Setup) -> Opening<dyn Locking>>,
}

/// A strategy on its way to being ready.
pub type Opening<T> = BoxFuture<'static, Result<Box<T>, Failure>>;

/// The headings of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Nothing keeps processes apart.
    NoCoordination,
    /// Locks that keep the threads of one process apart, and no others.
    OneProcess,
    /// Locks across processes that fail in a way that is known.
    Flawed,
    /// Locks across processes.
    Locks,
    /// Locks that a database keeps beside the data.
    Database,
    /// The store itself sells exactly.
    NoLock,
}

impl Group {
    /// The heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::NoCoordination => "NO COORDINATION",
            Self::OneProcess => "LOCKS THAT END AT THE PROCESS",
            Self::Flawed => "LOCKS WITH A KNOWN FLAW",
            Self::Locks => "LOCKS",
            Self::Database => "LOCKS OF THE DATABASE (--store postgres)",
            Self::NoLock => "NO LOCK NEEDED",
        }
    }
}

/// Where a strategy can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Wherever locks are kept.
    Everywhere,
    /// Wherever a stock can be.
    Any,
    /// Where the database itself has such locks.
    Postgres,
    /// Where nodes stand in line.
    Zookeeper,
}

impl Stores {
    /// Whether this store is among them.
    pub fn include(self, store: &TrialStore) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Any => store.keeps_stock(),
            Self::Postgres => store.is(&POSTGRES),
            Self::Zookeeper => store.is(&ZOOKEEPER),
        }
    }
}

/// What a table says in a few words about a sale with a strategy. The sale's figures fill it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remark {
    /// Nothing.
    Nothing,
    /// Always the same.
    Always(&'static str),
    /// The same where the sale broke.
    Broken(&'static str),
    /// Where the sale held: the scenario in which the flaw shows.
    FlawShowsIn(&'static str),
    /// The same, unless buyers waited in vain after one had found nothing to buy.
    KeyLeftBehind(&'static str),
    /// Where the sale broke: how many read the same unit.
    SameUnit,
    /// How many met a version that was not the one they had read.
    Conflicts,
    /// How many the store refused.
    Refusals,
    /// How many requests one consumer served.
    Requests,
}

/// Where and how to buy.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The store with the stock and, where there are any, the locks.
    pub ground: Ground,
    /// How long a lock may be held without being renewed.
    pub ttl: Duration,
}

/// One attempt to buy one unit.
#[derive(Debug, Clone)]
pub struct Order {
    /// What to buy; also the name of the lock.
    pub product: String,
    /// How many units.
    pub quantity: u32,
    /// How long to wait for the lock; zero is one attempt.
    pub wait: Duration,
    /// Whether to wait in the library's line, where there is a choice.
    pub in_line: bool,
    /// How long the work takes between reading and writing the stock.
    pub delay: Duration,
}

/// A strategy that is ready to buy.
pub trait Buyer: Send {
    /// Makes one purchase.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes: nobody would know what was bought.
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>>;

    /// How many commands the locks of such orders have sent to the store so far; `None` if they are not counted.
    fn lock_commands(&self, order: &Order) -> Option<u64> {
        let _ = order;
        None
    }
}

/// A strategy that is ready to take locks, several at once if asked to.
pub trait Locking: Send {
    /// Takes the lock. Returns `None` if it did not become free within `wait` (zero: one attempt).
    ///
    /// Calls `halt` after each of its own steps at the store: the lab may want to kill it just there.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes.
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Held>, Failure>>;

    /// What it promises, where that depends on the store. By default `known`, the claims of the strategy.
    fn claims(&self, known: Claims) -> Claims {
        known
    }

    /// How many commands its locks have sent to the store so far; `None` if they are not counted.
    fn commands(&self) -> Option<u64> {
        None
    }

    /// The holds that taking another lock has cost it, since this was last asked: a database ends a deadlock so. By default none.
    fn forfeited(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// Whether the holder knows that this hold is lost. Strategies that never find out return `false`.
    fn knows_lost(&mut self, hold: u64) -> bool;

    /// The protected work is done: a strategy that sets the expiry only then does it here. By default nothing happens.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes.
    fn worked<'a>(&'a mut self, hold: u64) -> BoxFuture<'a, Result<(), Failure>> {
        let _ = hold;
        Box::pin(async { Ok(()) })
    }

    /// Gives the lock back. Whether the strategy checks that it still owns the lock is up to the strategy.
    ///
    /// Calls `halt` after each of its own steps at the store: the lab may want to pause it just there.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes.
    fn release<'a>(
        &'a mut self,
        hold: u64,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseWord, Failure>>;
}

/// A hold that was granted.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// What the strategy calls it; unique in the process.
    pub hold: u64,
    /// Its fence, where it has one.
    pub fence: Option<String>,
    /// How long it may be believed in, where that is known.
    pub valid_ms: Option<f64>,
    /// Whether the lock was found taken at first.
    pub contended: bool,
}

/// Where the lab can stop a strategy, between two steps of taking a lock or of giving it back.
pub trait Halt: Send {
    /// Step `step` of `of` was done; `what` says what it did. When the lab wants the process to stop here, this returns only if
    /// the process is continued.
    fn after(&mut self, step: u32, of: u32, what: &str);
}

/// Reads the stock, works, writes it back: what every strategy with or without a lock around it does.
pub(crate) fn read_work_write(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    let before = stock.read(&order.product)?;
    let after = before - i64::from(order.quantity);
    if after < 0 {
        return Ok(no_stock(before));
    }
    order.work();
    stock.write(&order.product, after)?;
    Ok(sold(before, after))
}

impl Order {
    /// Takes the time that the work takes.
    pub(crate) fn work(&self) {
        // The thread has nothing else to do, and a runtime's timer rounds up to whole milliseconds.
        std::thread::sleep(self.delay);
    }
}

/// Too little was left, and no other buyer was met.
pub(crate) fn no_stock(before: i64) -> Purchase {
    answer(Outcome::NoStock, Some(before), None)
}

/// It was sold, and no other buyer was met.
pub(crate) fn sold(before: i64, after: i64) -> Purchase {
    answer(Outcome::Sold, Some(before), Some(after))
}

/// The lock was taken.
pub(crate) fn busy() -> Purchase {
    Purchase {
        contended: true,
        ..answer(Outcome::Busy, None, None)
    }
}

fn answer(outcome: Outcome, before: Option<i64>, after: Option<i64>) -> Purchase {
    Purchase {
        outcome,
        before,
        after,
        contended: false,
        waited_ms: 0.0,
        fence: None,
        effort: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_be_found() {
        for strategy in ALL {
            assert!(std::ptr::eq(find(strategy.name).unwrap(), strategy));
        }
        assert!(find("sfae").is_none());
    }

    #[test]
    fn words_about_them_fit_the_screen() {
        for strategy in ALL {
            let why = strategy.flaw.map_or(0, |flaw| 12 + flaw.chars().count());
            assert!(why <= 100, "{}: {why}", strategy.name);
            assert!(19 + strategy.summary.chars().count() <= 100);
        }
    }

    #[test]
    fn the_groups_stand_together() {
        let mut groups: Vec<Group> = ALL.iter().map(|strategy| strategy.group).collect();
        groups.dedup();
        assert_eq!(groups.len(), 6);
    }

    #[test]
    fn buying_stops_at_zero() {
        let folder = tempfile::tempdir().unwrap();
        let ground = Ground::Sqlite(folder.path().join("run.db"));
        ground.prepare().unwrap();
        let mut stock = ground.stock().unwrap();
        stock.write("product_A", 1).unwrap();
        let order = Order {
            product: "product_A".into(),
            quantity: 1,
            wait: Duration::ZERO,
            in_line: false,
            delay: Duration::ZERO,
        };
        assert_eq!(read_work_write(&mut *stock, &order).unwrap(), sold(1, 0));
        assert_eq!(read_work_write(&mut *stock, &order).unwrap(), no_stock(0));
    }
}

//! The strategies: ways of buying and locking that can be put on trial.
//!
//! A strategy with a lock only defines how to acquire and release it ([`Locking`]); a customer around it does the buying. The
//! others define how to buy ([`Buyer`]).

use std::time::Duration;

use fencepost::clock::BoxFuture;
use fencepost::stores::StoreKind;

use crate::protocol::{Claims, Promise, Purchase, PurchaseOutcome, ReleaseResult};
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
pub use list::{ALL, at, claims_of, find};
pub(crate) use list::{is_of_external, of_run};

/// A way of buying.
#[derive(Debug)]
pub struct Strategy {
    /// Its name in titles and reports.
    pub name: &'static str,
    /// Whose it is.
    pub origin: Origin,
    /// The heading under which tables list it.
    pub group: Group,
    /// The stores on which it can be tried.
    pub stores: Stores,
    /// A one-line description.
    pub summary: &'static str,
    /// A short explanation for the title of a report; may be empty.
    pub gloss: &'static str,
    /// Why it fails, if it is flawed.
    pub flaw: Option<&'static str>,
    /// What it promises in a sale.
    pub promise: Promise,
    /// What it promises as a lock.
    pub claims: Claims,
    /// Whether a process that waits for its lock stands in a line, so that a comparison can include waiting in it.
    pub has_line: bool,
    /// The kind of remark that tables show about a sale with it.
    pub remark: Remark,
    /// Opens the store and gets ready to buy.
    pub open: fn(Setup) -> Opening<dyn Buyer>,
    /// Opens the store and gets ready to lock. `None` if the strategy has no lock that could be held; such a strategy takes
    /// part only in sales.
    pub lock: Option<fn(Setup) -> Opening<dyn Locking>>,
}

impl Strategy {
    /// Returns the value of `--lock` that chooses this strategy.
    pub fn argument(&self) -> &'static str {
        match self.origin {
            Origin::Ours => self.name,
            Origin::External { argument } => argument,
        }
    }

    /// Returns whether the lock is a program of the user, of whose records the lab knows nothing.
    pub(crate) fn is_external(&self) -> bool {
        matches!(self.origin, Origin::External { .. })
    }

    /// Returns the endpoints of this ground for processes that use this lock.
    pub(crate) fn endpoints(&self, ground: &Ground) -> Vec<String> {
        if self.is_external() {
            ground.endpoints_of_each_server()
        } else {
            ground.endpoints()
        }
    }
}

/// Whose a strategy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// One of the list.
    Ours,
    /// A program of the user. It has a name of its own, if it has a manifest.
    External {
        /// The value of `--lock` that chooses it.
        argument: &'static str,
    },
}

/// The future of a strategy that is being opened.
pub type Opening<T> = BoxFuture<'static, Result<Box<T>, Failure>>;

/// The headings of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Nothing keeps processes apart.
    NoCoordination,
    /// Locks that exclude only threads of the same process.
    OneProcess,
    /// Locks across processes with a known flaw.
    Flawed,
    /// Locks across processes.
    Locks,
    /// Locks that a database keeps beside the data.
    Database,
    /// The store itself sells exactly.
    NoLock,
}

impl Group {
    /// Returns the heading.
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

/// The stores on which a strategy can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Every store that keeps locks.
    All,
    /// Every store that keeps a stock.
    KeepingStock,
    /// Only this kind, whose own locks or nodes it uses.
    Only(&'static StoreKind),
}

impl Stores {
    /// Returns whether this store is among them.
    pub fn include(self, store: &TrialStore) -> bool {
        match self {
            Self::All => true,
            Self::KeepingStock => store.keeps_stock(),
            Self::Only(kind) => store.is(kind),
        }
    }
}

/// The kind of remark that a table shows about a sale. The figures of the sale complete it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remark {
    /// No remark.
    Nothing,
    /// Always this text.
    Always(&'static str),
    /// This text if the sale broke.
    Broken(&'static str),
    /// If the sale held: the scenario that reveals the flaw.
    FlawShowsIn(&'static str),
    /// The same, unless buyers waited in vain after one had found nothing to buy.
    KeyLeftBehind(&'static str),
    /// If the sale broke: how many buyers read the same unit.
    SameUnit,
    /// How many buyers found a version other than the one they had read.
    Conflicts,
    /// How many buyers the store refused.
    Refusals,
    /// How many requests the consumer served.
    Requests,
}

/// What a strategy needs to open.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The store with the stock and, if there are any, the locks.
    pub ground: Ground,
    /// How long a lock may be held without being renewed.
    pub ttl: Duration,
}

/// One attempt to buy.
#[derive(Debug, Clone)]
pub struct Order {
    /// What to buy; also the name of the lock.
    pub product: String,
    /// How many units.
    pub quantity: u32,
    /// How long to wait for the lock; zero means a single attempt.
    pub wait: Duration,
    /// Whether to wait in the library's line, if there is a choice.
    pub in_line: bool,
    /// The duration of the work between reading and writing the stock.
    pub delay: Duration,
}

/// A strategy that is ready to buy.
pub trait Buyer: Send {
    /// Makes one purchase.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes; otherwise it is unknown what was bought.
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>>;

    /// Returns how many commands the locks of such orders have sent to the store so far; `None` if they are not counted.
    fn lock_commands(&self, order: &Order) -> Option<u64> {
        let _ = order;
        None
    }
}

/// A strategy that is ready to take locks. It can hold several at once.
pub trait Locking: Send {
    /// Acquires the lock. Returns `None` if it did not become free within `wait` (zero means a single attempt).
    ///
    /// Calls `halt` after each of its own steps at the store, where the lab may want to kill it.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes.
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Granted>, Failure>>;

    /// Returns the claims of the lock, if they depend on the store. By default `known`, the claims of the strategy.
    fn claims(&self, known: Claims) -> Claims {
        known
    }

    /// Returns how many commands its locks have sent to the store so far; `None` if they are not counted.
    fn commands(&self) -> Option<u64> {
        None
    }

    /// Returns the holds that were lost, since the last call, by requesting another lock. A database ends a deadlock that way.
    /// By default there are none.
    fn forfeited(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// Returns whether the holder knows that this hold is lost. By default it never finds out.
    fn knows_lost(&mut self, _hold: u64) -> bool {
        false
    }

    /// Called when the protected work is done, for strategies that set the expiry only then. Does nothing by default.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes.
    fn worked<'a>(&'a mut self, hold: u64) -> BoxFuture<'a, Result<(), Failure>> {
        let _ = hold;
        Box::pin(async { Ok(()) })
    }

    /// Releases the lock. The strategy decides whether to check that it still owns the lock.
    ///
    /// Calls `halt` after each of its own steps at the store, where the lab may want to pause it.
    ///
    /// # Cancel safety
    /// Must not be dropped before it completes.
    fn release<'a>(
        &'a mut self,
        hold: u64,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseResult, Failure>>;
}

/// A hold that was granted.
#[derive(Debug, Clone, PartialEq)]
pub struct Granted {
    /// The strategy's identifier of the hold, unique in the process.
    pub hold: u64,
    /// Its fence, if it has one.
    pub fence: Option<String>,
    /// How long the holder may believe in it, if that is known.
    pub valid_ms: Option<f64>,
    /// Whether somebody else had the lock at the first try.
    pub contended: bool,
}

impl Granted {
    /// Creates a hold without a fence, whose holder does not know how long it lasts.
    pub(crate) fn plain(hold: u64, contended: bool) -> Self {
        Self {
            hold,
            fence: None,
            valid_ms: None,
            contended,
        }
    }
}

/// The points between two steps of acquiring or releasing at which the lab can stop a strategy.
pub trait Halt: Send {
    /// Called when step `step` of `of` is done; `what` describes it. If the lab wants the process to stop here, this returns
    /// only after the process is continued.
    fn after(&mut self, step: u32, of: u32, what: &str);
}

/// Reads the stock, works, and writes it back. Every strategy that reads and writes does this, with or without a lock.
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
    /// Sleeps for the duration of the work.
    pub(crate) fn work(&self) {
        // The thread has nothing else to do, and the timer of a runtime rounds up to whole milliseconds.
        std::thread::sleep(self.delay);
    }
}

/// Answers that too little was left, and the buyer met no other.
pub(crate) fn no_stock(before: i64) -> Purchase {
    answer(PurchaseOutcome::NoStock, Some(before), None)
}

/// Answers that the unit was sold, and the buyer met no other.
pub(crate) fn sold(before: i64, after: i64) -> Purchase {
    answer(PurchaseOutcome::Sold, Some(before), Some(after))
}

/// Answers that the lock was taken.
pub(crate) fn busy() -> Purchase {
    Purchase {
        contended: true,
        ..answer(PurchaseOutcome::Busy, None, None)
    }
}

fn answer(outcome: PurchaseOutcome, before: Option<i64>, after: Option<i64>) -> Purchase {
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
            assert_eq!(strategy.argument(), strategy.name);
            assert!(!strategy.is_external());
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

//! Stores products and orders in an SQLite file.
//!
//! One thread writes and one reads, each with its own connection; several processes of one machine may share the file. Requests are
//! answered only after their commit is on disk (`synchronous=FULL`).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost::resource::{Credential, FencedError, SqliteGate};
use rusqlite::{ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{
    Decision, Ending, Guarding, Key, Placed, Placement, Replay, Settled, Storage, StorageError,
    StorageFuture, sql, stored_id,
};
use crate::id::Id;
use crate::locks::names::{SWEEP, lock_name};
use crate::order::{Basket, Order, PricedBasket};
use crate::product::{Balance, NewProduct, Product};

mod file;
mod rows;
#[cfg(test)]
mod tests;
mod thread;

use file::OpenedFile;
use rows::{balance_of, order, product, product_of, products_of, replay};
use thread::DatabaseThread;

/// What can go wrong inside a transaction.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<Fault> for StorageError {
    fn from(fault: Fault) -> Self {
        let error = match fault {
            Fault::Sqlite(error) => error,
            Fault::Storage(error) => return error,
        };
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen,
            ) => Self::Unavailable(error.to_string()),
            _ => Self::Broken(error.to_string()),
        }
    }
}

/// A database in a file.
#[derive(Clone)]
pub struct SqliteStorage {
    /// The thread that runs everything that writes.
    writes: DatabaseThread,
    /// The thread that runs everything that only reads.
    reads: DatabaseThread,
    file: Arc<OpenedFile>,
}

impl SqliteStorage {
    /// Opens the file, and creates it and its tables if they are missing. Blocks until that is done.
    ///
    /// # Errors
    /// Returns SQLite's error as text.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let writing = file::connect(path).map_err(Fault::from)?;
        let file = Arc::new(OpenedFile::at(path));
        file::prepare(&writing)?;
        let reading = file::connect(path).map_err(Fault::from)?;
        let pragma = reading.pragma_update(None, "query_only", true);
        pragma.map_err(Fault::from)?;
        let start = |connection, behaviour, name| {
            DatabaseThread::start(connection, behaviour, name)
                .map_err(|error| StorageError::Unavailable(error.to_string()))
        };
        Ok(Self {
            writes: start(writing, TransactionBehavior::Immediate, "checkout-writer")?,
            reads: start(reading, TransactionBehavior::Deferred, "checkout-reader")?,
            file,
        })
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<Decision<T>, Fault> + Send + 'static,
    ) -> StorageFuture<'_, T> {
        let file = Arc::clone(&self.file);
        Box::pin(self.writes.run(move |transaction| {
            file.check_in_place()?;
            work(transaction)
        }))
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> StorageFuture<'_, T> {
        Box::pin(
            self.reads
                .run(|transaction| work(transaction).map(Decision::RollBack)),
        )
    }
}

/// Milliseconds since 1970 by the clock of this machine, which all processes that share the file use.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

impl Storage for SqliteStorage {
    fn add_product(&self, new: NewProduct, id: Id) -> StorageFuture<'_, Option<Product>> {
        self.write(move |transaction| {
            let added = transaction
                .prepare_cached(sql::ADD_PRODUCT)?
                .execute(params![
                    id.as_str(),
                    new.shop_id.as_str(),
                    new.name.as_str(),
                    new.price_cents.get(),
                    new.stock.get()
                ])?;
            Ok(match added {
                0 => Decision::RollBack(None),
                _ => Decision::Commit(product(transaction, &id)?),
            })
        })
    }

    fn product<'a>(&'a self, id: &'a Id) -> StorageFuture<'a, Option<Product>> {
        let id = id.clone();
        self.read(move |transaction| product(transaction, &id))
    }

    fn products(&self, after: Option<Id>, limit: i64) -> StorageFuture<'_, Vec<Product>> {
        self.read(move |transaction| {
            let after = after.as_ref().map_or("", Id::as_str);
            let mut statement = transaction.prepare_cached(sql::PRODUCTS)?;
            let mut rows = statement.query(params![after, limit])?;
            let mut products = Vec::new();
            while let Some(row) = rows.next()? {
                products.push(product_of(row)?);
            }
            Ok(products)
        })
    }

    fn products_of<'a>(&'a self, basket: &'a Basket) -> StorageFuture<'a, Vec<Product>> {
        let basket = basket.clone();
        self.read(move |transaction| products_of(transaction, &basket))
    }

    fn place(&self, placement: Placement) -> StorageFuture<'_, Placed> {
        self.write(move |transaction| place(transaction, placement))
    }

    fn replay<'a>(&'a self, key: &'a Key) -> StorageFuture<'a, Replay> {
        let key = key.clone();
        self.read(move |transaction| replay(transaction, &key))
    }

    fn order<'a>(&'a self, id: &'a Id) -> StorageFuture<'a, Option<Order>> {
        let id = id.clone();
        self.read(move |transaction| order(transaction, &id))
    }

    fn settle(&self, id: Id, ending: Ending) -> StorageFuture<'_, Settled> {
        self.write(move |transaction| settle(transaction, &id, ending))
    }

    fn overdue(&self, limit: i64) -> StorageFuture<'_, Vec<Id>> {
        self.read(move |transaction| {
            let mut statement = transaction.prepare_cached(sql::OVERDUE)?;
            let rows = statement.query_map(params![now_ms(), limit], |row| row.get(0))?;
            rows.map(|id| Ok(stored_id(id?)?)).collect()
        })
    }

    fn forget_keys(
        &self,
        older_than: Duration,
        limit: i64,
        credential: Credential,
    ) -> StorageFuture<'_, Option<u64>> {
        self.write(move |transaction| {
            if !admit(transaction, SWEEP, credential)? {
                return Ok(Decision::RollBack(None));
            }
            let mut statement = transaction.prepare_cached(sql::FORGET_KEYS)?;
            let by_then = super::earlier(now_ms(), older_than);
            Ok(match statement.execute(params![by_then, limit])? {
                0 => Decision::RollBack(Some(0)),
                count => Decision::Commit(Some(count as u64)),
            })
        })
    }

    fn balances(&self) -> StorageFuture<'_, Vec<Balance>> {
        self.read(|transaction| {
            let mut statement = transaction.prepare_cached(sql::BALANCES)?;
            let mut rows = statement.query([])?;
            let mut balances = Vec::new();
            while let Some(row) = rows.next()? {
                balances.push(balance_of(row)?);
            }
            Ok(balances)
        })
    }

    fn counts(&self) -> StorageFuture<'_, (i64, i64)> {
        self.read(|transaction| {
            let mut statement = transaction.prepare_cached(sql::COUNTS)?;
            Ok(statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?)
        })
    }

    fn ping(&self) -> StorageFuture<'_, ()> {
        let file = Arc::clone(&self.file);
        self.read(move |transaction| {
            file.check_in_place()?;
            // Query a table, because the file may have been emptied.
            let sql = "SELECT 1 FROM checkout_keys LIMIT 1";
            let mut statement = transaction.prepare_cached(sql)?;
            statement.query_row([], |_| Ok(())).optional()?;
            Ok(())
        })
    }

    fn checkpoint(&self) -> StorageFuture<'_, bool> {
        Box::pin(
            self.writes
                .run_alone(|connection| Ok(file::checkpoint(connection)?)),
        )
    }
}

fn place(transaction: &Transaction<'_>, placement: Placement) -> Result<Decision<Placed>, Fault> {
    let Placement {
        order_id,
        key,
        basket,
        reserve_for,
        guarding,
    } = placement;
    // Raise the gates first: from here on, no order with an older fence can read or write these products.
    if let Some(stale) = admit_all(transaction, &basket, &guarding)? {
        return Ok(Decision::RollBack(Placed::StaleFence(stale)));
    }
    if let Some(key) = &key {
        match replay(transaction, key)? {
            Replay::New => {}
            Replay::Made(order) => return Ok(Decision::Commit(Placed::Replayed(*order))),
            Replay::Reused => return Ok(Decision::Commit(Placed::KeyReused)),
        }
    }
    let products = products_of(transaction, &basket)?;
    let checkout = match PricedBasket::price(&basket, &products) {
        Ok(checkout) => checkout,
        Err(reason) => return Ok(Decision::RollBack(reason.into())),
    };
    let short = basket.short_of(&products);
    if !short.is_empty() {
        // Commit even without an order, so that the gates remember the fences: this was a read under the locks, too.
        return Ok(Decision::Commit(Placed::OutOfStock(short)));
    }
    if !reserve(transaction, &basket, &guarding)? {
        return Ok(Decision::RollBack(Placed::Conflict));
    }
    let created_ms = now_ms();
    let expires_ms = super::later(created_ms, reserve_for);
    let order = super::pending_order(order_id, checkout, created_ms, expires_ms);
    let times = (created_ms, expires_ms);
    if !record_order(transaction, &order, times, &basket, key)? {
        return Ok(Decision::RollBack(Placed::Conflict));
    }
    Ok(Decision::Commit(Placed::Created(order)))
}

/// Reserves the units. Returns whether everything could be reserved.
fn reserve(
    transaction: &Transaction<'_>,
    basket: &Basket,
    guarding: &Guarding,
) -> Result<bool, Fault> {
    for (index, line) in basket.lines().iter().enumerate() {
        let id = line.product_id.as_str();
        let reserved = match guarding {
            Guarding::Versions(versions) => transaction
                .prepare_cached(sql::RESERVE_VERSION)?
                .execute(params![line.quantity, id, versions.get(index)])?,
            Guarding::Fenced(_) | Guarding::Rows => transaction
                .prepare_cached(sql::RESERVE)?
                .execute(params![line.quantity, id])?,
        };
        if reserved == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the order, its reservations and its key. Returns `false` if the key belongs to another order, which must be missing: without its
/// key, this order could be made twice.
fn record_order(
    transaction: &Transaction<'_>,
    order: &Order,
    (created_ms, expires_ms): (i64, i64),
    basket: &Basket,
    key: Option<Key>,
) -> Result<bool, Fault> {
    let id = order.order_id.as_str();
    let document = super::document(&order.order_checkout)?;
    transaction
        .prepare_cached(sql::ADD_ORDER)?
        .execute(params![id, document, created_ms, expires_ms])?;
    let mut add = transaction.prepare_cached(sql::ADD_RESERVATION)?;
    for line in basket.lines() {
        let (product, cart) = (&line.product_id, &basket.request().cart_id);
        add.execute(params![
            id,
            product.as_str(),
            cart.as_str(),
            line.quantity,
            created_ms
        ])?;
    }
    let Some(key) = key else { return Ok(true) };
    let mut add = transaction.prepare_cached(sql::ADD_KEY)?;
    Ok(add.execute(params![key.key, key.fingerprint, id, created_ms])? == 1)
}

/// Shows the fences to the gates. Returns the product whose lock is stale, if any.
fn admit_all(
    transaction: &Transaction<'_>,
    basket: &Basket,
    guarding: &Guarding,
) -> Result<Option<Id>, Fault> {
    guarding.covers(basket)?;
    let Guarding::Fenced(credentials) = guarding else {
        return Ok(None);
    };
    for (line, credential) in basket.lines().iter().zip(credentials) {
        if !admit(transaction, &lock_name(&line.product_id), *credential)? {
            return Ok(Some(line.product_id.clone()));
        }
    }
    Ok(None)
}

fn admit(transaction: &Transaction<'_>, gate: &str, credential: Credential) -> Result<bool, Fault> {
    match SqliteGate::admit(transaction, gate, credential) {
        Ok(()) => Ok(true),
        Err(FencedError::Refused(_)) => Ok(false),
        Err(error) => Err(StorageError::Unavailable(error.to_string()).into()),
    }
}

fn settle(
    transaction: &Transaction<'_>,
    id: &Id,
    ending: Ending,
) -> Result<Decision<Settled>, Fault> {
    if let Ending::Expire(credential) = ending
        && !admit(transaction, SWEEP, credential)?
    {
        return Ok(Decision::RollBack(Settled::StaleFence));
    }
    let status = ending.status().as_str();
    let changed = match ending {
        Ending::Confirm | Ending::Cancel => transaction
            .prepare_cached(sql::SETTLE)?
            .execute(params![status, id.as_str()])?,
        Ending::Expire(_) => transaction
            .prepare_cached(sql::SETTLE_OVERDUE)?
            .execute(params![status, id.as_str(), now_ms()])?,
    };
    if changed == 1 {
        move_units(transaction, id, ending)?;
    }
    let order = match order(transaction, id) {
        Err(Fault::Storage(_)) if changed == 1 && matches!(ending, Ending::Expire(_)) => {
            return Ok(Decision::Commit(Settled::Unread));
        }
        order => order?,
    };
    let Some(order) = order else {
        return Ok(Decision::RollBack(Settled::Unknown));
    };
    Ok(Decision::Commit(Settled::of(order, changed == 1)))
}

fn move_units(transaction: &Transaction<'_>, id: &Id, ending: Ending) -> Result<(), Fault> {
    let (change, state) = super::unit_movement(ending);
    let mut statement = transaction.prepare_cached(sql::LINES)?;
    let lines = statement.query_map([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let lines: Vec<(String, i64)> = lines.collect::<rusqlite::Result<_>>()?;
    for (product, quantity) in lines {
        transaction
            .prepare_cached(change)?
            .execute(params![quantity, product])?;
    }
    transaction
        .prepare_cached(sql::CLOSE_RESERVATIONS)?
        .execute(params![state, id.as_str()])?;
    Ok(())
}

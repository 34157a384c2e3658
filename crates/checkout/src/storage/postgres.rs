//! Stores products and orders in Postgres, shared by any number of instances.
//!
//! Uses conditional updates under `READ COMMITTED`. All transactions lock rows in the order of the products, so they cannot deadlock. Times
//! come from the server's clock.

use std::time::Duration;

use fencepost::resource::{ADMIT, Credential};
use tokio_postgres::types::ToSql;

use super::{
    Decision, Ending, Guarding, Key, Placed, Placement, Replay, Settled, Storage, StorageError,
    StorageFuture, sql, stored_id,
};
use crate::id::Id;
use crate::locks::names::{SWEEP, lock_name};
use crate::order::{Basket, Order, PricedBasket};
use crate::product::{Balance, NewProduct, Product};

mod connection;
mod pool;
mod rows;
mod tables;

use connection::{Connection, DatabaseAddress};
use pool::{Fault, Pool, Work};
use rows::{all, balance_of, now_ms, order, product, product_of, products_of, replay};

/// Whether transactions are read-only. A standby answers queries, too, but accepts no writes.
const IS_READ_ONLY: &str = "SELECT current_setting('transaction_read_only') = 'on'";
const PRODUCTS_OF: &str = "\
SELECT id, shop, name, price, stock, reserved, sold, put_in, version FROM checkout_products
WHERE id = ANY($1) ORDER BY id";
const PRODUCTS_OF_LOCKED: &str = "\
SELECT id, shop, name, price, stock, reserved, sold, put_in, version FROM checkout_products
WHERE id = ANY($1) ORDER BY id COLLATE \"C\" FOR UPDATE";

/// A database on a server.
#[derive(Clone)]
pub struct PostgresStorage {
    pool: Pool,
}

impl PostgresStorage {
    /// Checks an address without connecting to it.
    ///
    /// # Errors
    /// Returns an error if the address is invalid, or one of its certificates. The message does not quote the address, which may have a
    /// password.
    pub fn check_address(address: &str) -> fencepost::Result<()> {
        DatabaseAddress::parse(address).map(|_| ())
    }

    /// Connects to `postgres://…` and creates the tables if they are missing.
    ///
    /// # Errors
    /// Returns the server's error as text. It never contains the address, which may have a password.
    ///
    /// # Cancel safety
    /// If the future is dropped, the tables may have been created.
    pub async fn open(address: &str) -> Result<Self, StorageError> {
        let parsed = DatabaseAddress::parse(address);
        let address = parsed.map_err(|error| StorageError::Unavailable(error.to_string()))?;
        let pool = Pool::new(address);
        pool.run(|connection| Box::pin(tables::make(connection)))
            .await?;
        Ok(Self { pool })
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Connection) -> Work<'a, T> + Send + 'static,
    ) -> StorageFuture<'_, T> {
        Box::pin(self.pool.run(work))
    }
}

impl Storage for PostgresStorage {
    fn add_product(&self, new: NewProduct, id: Id) -> StorageFuture<'_, Option<Product>> {
        self.run(move |connection| {
            Box::pin(async move {
                let (price, stock) = (new.price_cents.get(), new.stock.get());
                let (shop, name) = (new.shop_id.as_str(), new.name.as_str());
                let values: [&(dyn ToSql + Sync); 5] = [&id.as_str(), &shop, &name, &price, &stock];
                Ok(match connection.execute(sql::ADD_PRODUCT, &values).await? {
                    0 => Decision::RollBack(None),
                    _ => Decision::Commit(product(connection, &id).await?),
                })
            })
        })
    }

    fn product<'a>(&'a self, id: &'a Id) -> StorageFuture<'a, Option<Product>> {
        let id = id.clone();
        self.run(move |connection| {
            Box::pin(async move { Ok(Decision::RollBack(product(connection, &id).await?)) })
        })
    }

    fn products(&self, after: Option<Id>, limit: i64) -> StorageFuture<'_, Vec<Product>> {
        self.run(move |connection| {
            Box::pin(async move {
                let after = after.as_ref().map_or("", Id::as_str);
                let rows = connection.query(sql::PRODUCTS, &[&after, &limit]).await?;
                Ok(Decision::RollBack(all(&rows, product_of)?))
            })
        })
    }

    fn products_of<'a>(&'a self, basket: &'a Basket) -> StorageFuture<'a, Vec<Product>> {
        let basket = basket.clone();
        self.run(move |connection| {
            Box::pin(async move {
                let products = products_of(connection, &basket, PRODUCTS_OF).await?;
                Ok(Decision::RollBack(products))
            })
        })
    }

    fn place(&self, placement: Placement) -> StorageFuture<'_, Placed> {
        Box::pin(async move {
            let key = placement.key.clone();
            let placed = self
                .pool
                .run(move |connection| Box::pin(place_or_collide(connection, placement)));
            match (placed.await?, key) {
                // Another request with the same key has committed first.
                (Placed::Conflict, Some(key)) => Ok(match self.replay(&key).await? {
                    Replay::New => Placed::Conflict,
                    Replay::Made(order) => Placed::Replayed(*order),
                    Replay::Reused => Placed::KeyReused,
                }),
                (placed, _) => Ok(placed),
            }
        })
    }

    fn replay<'a>(&'a self, key: &'a Key) -> StorageFuture<'a, Replay> {
        let key = key.clone();
        self.run(move |connection| {
            Box::pin(async move { Ok(Decision::RollBack(replay(connection, &key).await?)) })
        })
    }

    fn order<'a>(&'a self, id: &'a Id) -> StorageFuture<'a, Option<Order>> {
        let id = id.clone();
        self.run(move |connection| {
            Box::pin(async move { Ok(Decision::RollBack(order(connection, &id).await?)) })
        })
    }

    fn settle(&self, id: Id, ending: Ending) -> StorageFuture<'_, Settled> {
        self.run(move |connection| Box::pin(async move { settle(connection, &id, ending).await }))
    }

    fn overdue(&self, limit: i64) -> StorageFuture<'_, Vec<Id>> {
        self.run(move |connection| {
            Box::pin(async move {
                let now = now_ms(connection).await?;
                let rows = connection.query(sql::OVERDUE, &[&now, &limit]).await?;
                Ok(Decision::RollBack(all(&rows, |row| stored_id(row.get(0)))?))
            })
        })
    }

    fn forget_keys(
        &self,
        older_than: Duration,
        limit: i64,
        credential: Credential,
    ) -> StorageFuture<'_, Option<u64>> {
        self.run(move |connection| {
            Box::pin(async move {
                if !admit(connection, SWEEP, credential).await? {
                    return Ok(Decision::RollBack(None));
                }
                let by_then = super::earlier(now_ms(connection).await?, older_than);
                Ok(
                    match connection
                        .execute(sql::FORGET_KEYS, &[&by_then, &limit])
                        .await?
                    {
                        0 => Decision::RollBack(Some(0)),
                        count => Decision::Commit(Some(count)),
                    },
                )
            })
        })
    }

    fn balances(&self) -> StorageFuture<'_, Vec<Balance>> {
        self.run(|connection| {
            Box::pin(async move {
                let rows = connection.query(sql::BALANCES, &[]).await?;
                Ok(Decision::RollBack(all(&rows, balance_of)?))
            })
        })
    }

    fn counts(&self) -> StorageFuture<'_, (i64, i64)> {
        self.run(|connection| {
            Box::pin(async move {
                let rows = connection.query(sql::COUNTS, &[]).await?;
                let counts = rows.first().map(|row| (row.get(0), row.get(1)));
                Ok(Decision::RollBack(counts.unwrap_or_default()))
            })
        })
    }

    fn ping(&self) -> StorageFuture<'_, ()> {
        self.run(|connection| {
            Box::pin(async move {
                connection
                    .query("SELECT 1 FROM checkout_keys LIMIT 1", &[])
                    .await?;
                if connection.query_bool(IS_READ_ONLY).await? {
                    let words = "the database accepts no writes".into();
                    return Err(StorageError::Unavailable(words).into());
                }
                Ok(Decision::RollBack(()))
            })
        })
    }
}

/// Turns a conflict with another transaction into an outcome, since nothing was changed.
async fn place_or_collide(
    connection: &mut Connection,
    placement: Placement,
) -> Result<Decision<Placed>, Fault> {
    match place(connection, placement).await {
        Err(fault) if fault.is_collision() => Ok(Decision::RollBack(Placed::Conflict)),
        placed => placed,
    }
}

async fn place(
    connection: &mut Connection,
    placement: Placement,
) -> Result<Decision<Placed>, Fault> {
    let Placement {
        order_id,
        key,
        basket,
        reserve_for,
        guarding,
    } = placement;
    // Raise the gates first: from here on, no order with an older fence can read or write these products.
    if let Some(stale) = admit_all(connection, &basket, &guarding).await? {
        return Ok(Decision::RollBack(Placed::StaleFence(stale)));
    }
    if let Some(key) = &key {
        match replay(connection, key).await? {
            Replay::New => {}
            Replay::Made(order) => return Ok(Decision::Commit(Placed::Replayed(*order))),
            Replay::Reused => return Ok(Decision::Commit(Placed::KeyReused)),
        }
    }
    let read = match guarding {
        Guarding::Rows => PRODUCTS_OF_LOCKED,
        Guarding::Fenced(_) | Guarding::Versions(_) => PRODUCTS_OF,
    };
    let products = products_of(connection, &basket, read).await?;
    let checkout = match PricedBasket::price(&basket, &products) {
        Ok(checkout) => checkout,
        Err(reason) => return Ok(Decision::RollBack(reason.into())),
    };
    let short = basket.short_of(&products);
    if !short.is_empty() {
        // Commit even without an order, so that the gates remember the fences: this was a read under the locks, too.
        return Ok(Decision::Commit(Placed::OutOfStock(short)));
    }
    if !reserve(connection, &basket, &guarding).await? {
        return Ok(Decision::RollBack(Placed::Conflict));
    }
    let created_ms = now_ms(connection).await?;
    let expires_ms = super::later(created_ms, reserve_for);
    let order = super::pending_order(order_id, checkout, created_ms, expires_ms);
    let times = (created_ms, expires_ms);
    if !record_order(connection, &order, times, &basket, key).await? {
        return Ok(Decision::RollBack(Placed::Conflict));
    }
    Ok(Decision::Commit(Placed::Created(order)))
}

/// Reserves the units. Returns whether everything could be reserved.
async fn reserve(
    connection: &mut Connection,
    basket: &Basket,
    guarding: &Guarding,
) -> Result<bool, Fault> {
    let lines = basket.lines();
    let ids: Vec<&str> = lines.iter().map(|line| line.product_id.as_str()).collect();
    let mut each: Vec<Vec<&(dyn ToSql + Sync)>> = Vec::with_capacity(lines.len());
    for (id, line) in ids.iter().zip(lines) {
        each.push(vec![&line.quantity, id]);
    }
    let statement = match guarding {
        Guarding::Versions(versions) => {
            for (values, version) in each.iter_mut().zip(versions) {
                values.push(version);
            }
            sql::RESERVE_VERSION
        }
        Guarding::Fenced(_) | Guarding::Rows => sql::RESERVE,
    };
    let changed = connection.execute_each(statement, &each).await?;
    Ok(changed.iter().all(|rows| *rows == 1))
}

/// Writes the order, its reservations and its key. Returns `false` if another order has the key.
async fn record_order(
    connection: &mut Connection,
    order: &Order,
    (created_ms, expires_ms): (i64, i64),
    basket: &Basket,
    key: Option<Key>,
) -> Result<bool, Fault> {
    let (id, cart) = (order.order_id.as_str(), basket.request().cart_id.as_str());
    let document = super::document(&order.order_checkout)?;
    connection
        .execute(sql::ADD_ORDER, &[&id, &document, &created_ms, &expires_ms])
        .await?;
    let lines = basket.lines();
    let products: Vec<&str> = lines.iter().map(|line| line.product_id.as_str()).collect();
    let mut each: Vec<Vec<&(dyn ToSql + Sync)>> = Vec::with_capacity(lines.len());
    for (product, line) in products.iter().zip(lines) {
        each.push(vec![&id, product, &cart, &line.quantity, &created_ms]);
    }
    connection.execute_each(sql::ADD_RESERVATION, &each).await?;
    let Some(key) = key else { return Ok(true) };
    let values: [&(dyn ToSql + Sync); 4] = [&key.key, &key.fingerprint, &id, &created_ms];
    Ok(connection.execute(sql::ADD_KEY, &values).await? == 1)
}

/// Shows the fences to the gates. Returns the product whose lock is stale, if any.
async fn admit_all(
    connection: &mut Connection,
    basket: &Basket,
    guarding: &Guarding,
) -> Result<Option<Id>, Fault> {
    guarding.covers(basket)?;
    let Guarding::Fenced(credentials) = guarding else {
        return Ok(None);
    };
    let gates = basket
        .lines()
        .iter()
        .map(|line| lock_name(&line.product_id));
    let gates: Vec<(String, i64, String)> = gates
        .zip(credentials)
        .map(|(gate, credential)| {
            (
                gate,
                credential.fence.as_i64(),
                credential.owner.to_string(),
            )
        })
        .collect();
    let mut each: Vec<Vec<&(dyn ToSql + Sync)>> = Vec::with_capacity(gates.len());
    for (gate, fence, owner) in &gates {
        each.push(vec![gate, fence, owner]);
    }
    let admitted = connection.execute_each(ADMIT, &each).await?;
    let stale = admitted.iter().position(|rows| *rows == 0);
    Ok(stale.map(|index| basket.lines()[index].product_id.clone()))
}

async fn admit(
    connection: &mut Connection,
    gate: &str,
    credential: Credential,
) -> Result<bool, Fault> {
    let (fence, owner) = (credential.fence.as_i64(), credential.owner.to_string());
    Ok(connection.execute(ADMIT, &[&gate, &fence, &owner]).await? == 1)
}

async fn settle(
    connection: &mut Connection,
    id: &Id,
    ending: Ending,
) -> Result<Decision<Settled>, Fault> {
    if let Ending::Expire(credential) = ending
        && !admit(connection, SWEEP, credential).await?
    {
        return Ok(Decision::RollBack(Settled::StaleFence));
    }
    let status = ending.status().as_str();
    let changed = match ending {
        Ending::Confirm | Ending::Cancel => {
            connection
                .execute(sql::SETTLE, &[&status, &id.as_str()])
                .await?
        }
        Ending::Expire(_) => {
            let now = now_ms(connection).await?;
            connection
                .execute(sql::SETTLE_OVERDUE, &[&status, &id.as_str(), &now])
                .await?
        }
    };
    if changed == 1 {
        move_units(connection, id, ending).await?;
    }
    let order = match order(connection, id).await {
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

async fn move_units(connection: &mut Connection, id: &Id, ending: Ending) -> Result<(), Fault> {
    let (change, state) = super::unit_movement(ending);
    let rows = connection.query(sql::LINES, &[&id.as_str()]).await?;
    let mut lines: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    // Lock in the same order as orders do, whatever the collation of the database is.
    lines.sort();
    let mut each: Vec<Vec<&(dyn ToSql + Sync)>> = Vec::with_capacity(lines.len());
    for (product, quantity) in &lines {
        each.push(vec![quantity, product]);
    }
    connection.execute_each(change, &each).await?;
    connection
        .execute(sql::CLOSE_RESERVATIONS, &[&state, &id.as_str()])
        .await?;
    Ok(())
}

//! Reads rows: products, orders, balances and the server's clock.

use tokio_postgres::Row;

use super::connection::Connection;
use super::pool::Fault;
use crate::id::Id;
use crate::order::{Basket, Order};
use crate::product::{Balance, Product};
use crate::storage::{Key, OrderRow, Replay, StorageError, replay_of, sql, stored_id};

const NOW: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) async fn now_ms(connection: &mut Connection) -> Result<i64, Fault> {
    let rows = connection.query(NOW, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

pub(super) async fn product(
    connection: &mut Connection,
    id: &Id,
) -> Result<Option<Product>, Fault> {
    let rows = connection.query(sql::PRODUCT, &[&id.as_str()]).await?;
    Ok(rows.first().map(product_of).transpose()?)
}

/// Sorts the rows like the basket, whatever the collation of the database is.
pub(super) async fn products_of(
    connection: &mut Connection,
    basket: &Basket,
    statement: &'static str,
) -> Result<Vec<Product>, Fault> {
    let ids = basket.lines().iter().map(|line| line.product_id.as_str());
    let ids: Vec<&str> = ids.collect();
    let rows = connection.query(statement, &[&ids]).await?;
    let mut products = all(&rows, product_of)?;
    products.sort_by(|a, b| a.product_id.cmp(&b.product_id));
    Ok(products)
}

pub(super) async fn order(connection: &mut Connection, id: &Id) -> Result<Option<Order>, Fault> {
    let rows = connection.query(sql::ORDER, &[&id.as_str()]).await?;
    let row = rows.first().map(order_row);
    Ok(row.map(OrderRow::order).transpose()?)
}

pub(super) async fn replay(connection: &mut Connection, key: &Key) -> Result<Replay, Fault> {
    let rows = connection.query(sql::BY_KEY, &[&key.key]).await?;
    let Some(row) = rows.first() else {
        return Ok(Replay::New);
    };
    let fingerprint: String = row.get(5);
    Ok(replay_of(order_row(row), &fingerprint, key)?)
}

pub(super) fn all<T>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StorageError>,
) -> Result<Vec<T>, StorageError> {
    rows.iter().map(read).collect()
}

pub(super) fn order_row(row: &Row) -> OrderRow {
    OrderRow {
        id: row.get(0),
        status: row.get(1),
        document: row.get(2),
        created_ms: row.get(3),
        expires_ms: row.get(4),
    }
}

pub(super) fn product_of(row: &Row) -> Result<Product, StorageError> {
    Ok(Product {
        product_id: stored_id(row.get(0))?,
        shop_id: stored_id(row.get(1))?,
        name: row.get(2),
        price_cents: row.get(3),
        stock: row.get(4),
        reserved: row.get(5),
        sold: row.get(6),
        put_in: row.get(7),
        version: row.get(8),
    })
}

pub(super) fn balance_of(row: &Row) -> Result<Balance, StorageError> {
    Ok(Balance {
        product_id: stored_id(row.get(0))?,
        put_in: row.get(1),
        stock: row.get(2),
        reserved: row.get(3),
        sold: row.get(4),
        reserved_by_orders: row.get(5),
        sold_by_orders: row.get(6),
    })
}

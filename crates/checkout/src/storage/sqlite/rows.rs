//! Reads rows: products, orders and balances.

use rusqlite::types::FromSql;
use rusqlite::{Row, Transaction};

use super::Fault;
use crate::id::Id;
use crate::order::{Basket, Order};
use crate::product::{Balance, Product};
use crate::storage::{Key, OrderRow, Replay, replay_of, sql, stored_id};

pub(super) fn product(transaction: &Transaction<'_>, id: &Id) -> Result<Option<Product>, Fault> {
    let mut statement = transaction.prepare_cached(sql::PRODUCT)?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(product_of).transpose()
}

pub(super) fn products_of(
    transaction: &Transaction<'_>,
    basket: &Basket,
) -> Result<Vec<Product>, Fault> {
    let mut products = Vec::with_capacity(basket.lines().len());
    for line in basket.lines() {
        products.extend(product(transaction, &line.product_id)?);
    }
    Ok(products)
}

pub(super) fn order(transaction: &Transaction<'_>, id: &Id) -> Result<Option<Order>, Fault> {
    let mut statement = transaction.prepare_cached(sql::ORDER)?;
    let mut rows = statement.query([id.as_str()])?;
    match rows.next()? {
        Some(row) => Ok(Some(order_row(row)?.order()?)),
        None => Ok(None),
    }
}

pub(super) fn replay(transaction: &Transaction<'_>, key: &Key) -> Result<Replay, Fault> {
    let mut statement = transaction.prepare_cached(sql::BY_KEY)?;
    let mut rows = statement.query([&key.key])?;
    let Some(row) = rows.next()? else {
        return Ok(Replay::New);
    };
    let fingerprint: String = row.get(5)?;
    Ok(replay_of(order_row(row)?, &fingerprint, key)?)
}

fn order_row(row: &Row<'_>) -> rusqlite::Result<OrderRow> {
    Ok(OrderRow {
        id: row.get(0)?,
        status: row.get(1)?,
        document: row.get(2)?,
        created_ms: row.get(3)?,
        expires_ms: row.get(4)?,
    })
}

pub(super) fn product_of(row: &Row<'_>) -> Result<Product, Fault> {
    Ok(Product {
        product_id: stored_id(get(row, 0)?)?,
        shop_id: stored_id(get(row, 1)?)?,
        name: get(row, 2)?,
        price_cents: get(row, 3)?,
        stock: get(row, 4)?,
        reserved: get(row, 5)?,
        sold: get(row, 6)?,
        put_in: get(row, 7)?,
        version: get(row, 8)?,
    })
}

pub(super) fn balance_of(row: &Row<'_>) -> Result<Balance, Fault> {
    Ok(Balance {
        product_id: stored_id(get(row, 0)?)?,
        put_in: get(row, 1)?,
        stock: get(row, 2)?,
        reserved: get(row, 3)?,
        sold: get(row, 4)?,
        reserved_by_orders: get(row, 5)?,
        sold_by_orders: get(row, 6)?,
    })
}

fn get<T: FromSql>(row: &Row<'_>, index: usize) -> Result<T, Fault> {
    Ok(row.get(index)?)
}

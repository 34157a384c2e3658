//! Products, and the balance of their units.

use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::ToSchema;

use crate::id::Id;
use crate::json::whole;
use crate::text::Name;

/// The largest stock and the highest price in cents, so that sums stay exact in all number formats.
pub const MAX_NUMBER: i64 = 1_000_000_000;

/// A number of units or cents, 0 to 10⁹.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Number", into = "i64")]
#[schema(value_type = i64, minimum = 0, maximum = 1_000_000_000, example = 12)]
pub struct Amount(i64);

/// The error for an invalid amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of units or cents is a whole number from 0 to 1,000,000,000")]
pub struct NotAnAmount;

impl Amount {
    /// Returns the number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Amount {
    type Error = NotAnAmount;

    fn try_from(number: i64) -> Result<Self, NotAnAmount> {
        if (0..=MAX_NUMBER).contains(&number) {
            Ok(Self(number))
        } else {
            Err(NotAnAmount)
        }
    }
}

impl TryFrom<Number> for Amount {
    type Error = NotAnAmount;

    fn try_from(number: Number) -> Result<Self, NotAnAmount> {
        whole(&number).ok_or(NotAnAmount)?.try_into()
    }
}

impl From<Amount> for i64 {
    fn from(amount: Amount) -> Self {
        amount.0
    }
}

/// A product to put up for sale.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProduct {
    /// Its id; generated if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<Id>,
    /// Who sells it.
    pub shop_id: Id,
    /// Its name for people: not only white space, no control characters, and none that change the direction of text.
    pub name: Name,
    /// The price of a unit, in cents.
    pub price_cents: Amount,
    /// How many units there are to sell.
    pub stock: Amount,
}

/// A product, and where its units are: `stock + reserved + sold = put_in`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Product {
    /// Its id.
    pub product_id: Id,
    /// Who sells it.
    pub shop_id: Id,
    /// Its name for people.
    pub name: String,
    /// The price of a unit, in cents.
    pub price_cents: i64,
    /// Units that can be ordered.
    pub stock: i64,
    /// Units in orders that are not confirmed yet.
    pub reserved: i64,
    /// Units in confirmed orders.
    pub sold: i64,
    /// All units that were ever put in.
    pub put_in: i64,
    /// How often the product was changed; `--order-path optimistic` compares it.
    #[serde(skip)]
    pub version: i64,
}

/// The units of a product, counted twice: by the product's own row and by the reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Balance {
    /// The product.
    pub product_id: Id,
    /// Units that were ever put in.
    pub put_in: i64,
    /// Units that can be ordered.
    pub stock: i64,
    /// Units reserved, by the product's row.
    pub reserved: i64,
    /// Units sold, by the product's row.
    pub sold: i64,
    /// Units reserved, by the reservations themselves.
    pub reserved_by_orders: i64,
    /// Units sold, by the reservations of confirmed orders.
    pub sold_by_orders: i64,
}

impl Balance {
    /// Returns whether no unit appeared or vanished: `stock + reserved + sold = put_in` by both counts.
    pub fn holds(&self) -> bool {
        self.stock >= 0
            && self.stock + self.reserved_by_orders + self.sold_by_orders == self.put_in
            && self.reserved == self.reserved_by_orders
            && self.sold == self.sold_by_orders
    }
}

//! Orders: the request of a customer, its check and its price, and the order that results.

use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::ToSchema;

use crate::id::Id;
use crate::json::{self, whole};
use crate::product::Product;
use crate::text::Text;

/// The most different products of one order.
pub const MAX_LINES: usize = 100;
/// The most units of one product in one order.
pub const MAX_QUANTITY: i64 = 1_000;

/// How many units, 1 to 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Number", into = "i64")]
#[schema(value_type = i64, minimum = 1, maximum = 1000, example = 2)]
pub struct Quantity(i64);

/// The error for an invalid quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a quantity is a whole number from 1 to 1,000")]
pub struct NotAQuantity;

impl Quantity {
    /// A single unit.
    pub const ONE: Self = Self(1);

    /// Returns the number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Quantity {
    type Error = NotAQuantity;

    fn try_from(number: i64) -> Result<Self, NotAQuantity> {
        if (1..=MAX_QUANTITY).contains(&number) {
            Ok(Self(number))
        } else {
            Err(NotAQuantity)
        }
    }
}

impl TryFrom<Number> for Quantity {
    type Error = NotAQuantity;

    fn try_from(number: Number) -> Result<Self, NotAQuantity> {
        whole(&number).ok_or(NotAQuantity)?.try_into()
    }
}

impl From<Quantity> for i64 {
    fn from(quantity: Quantity) -> Self {
        quantity.0
    }
}

/// A delivery address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Address {
    /// Whom to send it to.
    pub name: Text,
    /// Street and number.
    pub street: Text,
    /// City.
    pub city: Text,
    /// Postal code.
    pub postal_code: Text,
    /// Country.
    pub country: Text,
}

/// How the order will be paid. There is no field for a card number, so none can be stored by mistake.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Payment {
    /// Such as `card` or `invoice`.
    pub method: Text,
    /// The payment service's reference for this payment.
    pub reference: Text,
}

/// Units of one product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Which product.
    pub product_id: Id,
    /// How many.
    pub quantity: Quantity,
}

/// The part of an order that one shop delivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShopOrder {
    /// The shop.
    pub shop_id: Id,
    /// What is ordered there.
    #[serde(deserialize_with = "json::objects")]
    #[schema(min_items = 1, max_items = 100)]
    pub item_products: Vec<Item>,
}

/// What a customer wants to buy: the body of a review and of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderRequest {
    /// The cart it comes from.
    pub cart_id: Id,
    /// Who buys.
    pub user_id: Id,
    /// The items, grouped by shop. At most 100 in all, each product once.
    #[serde(alias = "shop_order_ids", deserialize_with = "json::objects")]
    #[schema(min_items = 1, max_items = 100)]
    pub shop_orders: Vec<ShopOrder>,
    /// Where to send it.
    #[serde(default, deserialize_with = "json::object")]
    pub user_address: Address,
    /// How it will be paid.
    #[serde(default, deserialize_with = "json::object")]
    pub user_payment: Payment,
}

/// One product of an order, with the shop that should sell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderLine {
    /// Which product.
    pub product_id: Id,
    /// The shop that the customer expects to sell it.
    pub shop_id: Id,
    /// How many units.
    pub quantity: i64,
}

/// A valid order request: at least one line, each product once, **sorted by product**. All orders take locks and rows in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basket {
    request: OrderRequest,
    lines: Vec<OrderLine>,
}

/// Why an order request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotABasket {
    /// The order, or one shop in it, has no items.
    #[error("an order and each shop in it must have at least one item")]
    Empty,
    /// The order has too many items.
    #[error("an order can have at most {MAX_LINES} items")]
    TooLong,
    /// A product occurs twice.
    #[error("product {0} occurs twice: add up its quantities")]
    Twice(Id),
}

impl Basket {
    /// Checks a request.
    ///
    /// # Errors
    /// Returns a [`NotABasket`] that says what is wrong.
    pub fn new(request: OrderRequest) -> Result<Self, NotABasket> {
        let shops = &request.shop_orders;
        if shops.is_empty() || shops.iter().any(|shop| shop.item_products.is_empty()) {
            return Err(NotABasket::Empty);
        }
        let count: usize = shops.iter().map(|shop| shop.item_products.len()).sum();
        if count > MAX_LINES {
            return Err(NotABasket::TooLong);
        }
        let mut lines: Vec<OrderLine> = Vec::with_capacity(count);
        for shop in shops {
            lines.extend(shop.item_products.iter().map(|item| OrderLine {
                product_id: item.product_id.clone(),
                shop_id: shop.shop_id.clone(),
                quantity: item.quantity.get(),
            }));
        }
        lines.sort_by(|a, b| a.product_id.cmp(&b.product_id));
        let twice = lines
            .windows(2)
            .find(|pair| pair[0].product_id == pair[1].product_id);
        if let Some(pair) = twice {
            return Err(NotABasket::Twice(pair[0].product_id.clone()));
        }
        Ok(Self { request, lines })
    }

    /// Returns the lines, sorted by product.
    pub fn lines(&self) -> &[OrderLine] {
        &self.lines
    }

    /// Returns the products that have fewer units than the basket wants. `products` are all products of the basket, in its order.
    pub fn short_of(&self, products: &[Product]) -> Vec<Id> {
        let lines = self.lines.iter().zip(products);
        let short = lines.filter(|(line, product)| product.stock < line.quantity);
        short.map(|(line, _)| line.product_id.clone()).collect()
    }

    /// Returns the request as it was received.
    pub fn request(&self) -> &OrderRequest {
        &self.request
    }
}

/// An item with its price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PricedItem {
    /// Which product.
    pub product_id: Id,
    /// Its name for people.
    pub name: String,
    /// How many.
    pub quantity: i64,
    /// The price of a unit, in cents.
    pub price_cents: i64,
    /// The price of all of them.
    pub total_cents: i64,
}

/// The priced items of one shop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PricedShop {
    /// The shop.
    pub shop_id: Id,
    /// Its items.
    pub item_products: Vec<PricedItem>,
    /// The price of all of them.
    pub total_cents: i64,
}

/// A priced basket, which a review shows and an order stores. The API documentation calls it `Checkout`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Checkout)]
pub struct PricedBasket {
    /// The cart it comes from.
    pub cart_id: Id,
    /// Who buys.
    pub user_id: Id,
    /// The priced items, grouped by shop, in the order they were asked for.
    // Orders that an earlier build stored have the other name.
    #[serde(alias = "shop_order_ids")]
    pub shop_orders: Vec<PricedShop>,
    /// How many units in all.
    pub total_items: i64,
    /// The price of everything, in cents.
    pub total_cents: i64,
    /// Where to send it.
    pub user_address: Address,
    /// How it will be paid.
    pub user_payment: Payment,
}

/// Why an order cannot be priced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotPriced {
    /// These products do not exist.
    Unknown(Vec<Id>),
    /// These products belong to another shop.
    OtherShop(Vec<Id>),
}

impl PricedBasket {
    /// Prices a basket. `products` are the existing products of the basket, in its order.
    ///
    /// # Errors
    /// Returns [`NotPriced`] if a product does not exist or belongs to another shop.
    pub fn price(basket: &Basket, products: &[Product]) -> Result<Self, NotPriced> {
        let found = |id: &Id| products.iter().find(|product| product.product_id == *id);
        let ids = |wrong: &dyn Fn(&OrderLine) -> bool| -> Vec<Id> {
            let lines = basket.lines().iter().filter(|line| wrong(line));
            lines.map(|line| line.product_id.clone()).collect()
        };
        let unknown = ids(&|line| found(&line.product_id).is_none());
        if !unknown.is_empty() {
            return Err(NotPriced::Unknown(unknown));
        }
        let elsewhere =
            ids(&|line| found(&line.product_id).is_some_and(|p| p.shop_id != line.shop_id));
        if !elsewhere.is_empty() {
            return Err(NotPriced::OtherShop(elsewhere));
        }
        let request = basket.request();
        let shops = request.shop_orders.iter().map(|shop| {
            let items = shop.item_products.iter().filter_map(|item| {
                let product = found(&item.product_id)?;
                Some(PricedItem {
                    product_id: item.product_id.clone(),
                    name: product.name.clone(),
                    quantity: item.quantity.get(),
                    price_cents: product.price_cents,
                    total_cents: product.price_cents * item.quantity.get(),
                })
            });
            let item_products: Vec<PricedItem> = items.collect();
            PricedShop {
                shop_id: shop.shop_id.clone(),
                total_cents: item_products.iter().map(|item| item.total_cents).sum(),
                item_products,
            }
        });
        let shop_orders: Vec<PricedShop> = shops.collect();
        Ok(Self {
            cart_id: request.cart_id.clone(),
            user_id: request.user_id.clone(),
            total_items: basket.lines().iter().map(|line| line.quantity).sum(),
            total_cents: shop_orders.iter().map(|shop| shop.total_cents).sum(),
            shop_orders,
            user_address: request.user_address.clone(),
            user_payment: request.user_payment.clone(),
        })
    }
}

/// The status of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Its units are reserved until it is confirmed, cancelled or expired.
    Pending,
    /// Its units are sold.
    Confirmed,
    /// It was cancelled, and its units are back in stock.
    Cancelled,
    /// It was not confirmed in time, and its units are back in stock.
    Expired,
}

impl OrderStatus {
    /// Returns the name of this status in the database and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Parses a status.
    pub fn of(word: &str) -> Option<Self> {
        let all = [
            Self::Pending,
            Self::Confirmed,
            Self::Cancelled,
            Self::Expired,
        ];
        all.into_iter().find(|status| status.as_str() == word)
    }
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Order {
    /// Its id.
    pub order_id: Id,
    /// Its status.
    pub order_status: OrderStatus,
    /// What was ordered, at which prices.
    pub order_checkout: PricedBasket,
    /// When it was made, RFC 3339.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Until when its units are reserved unless it is confirmed, RFC 3339.
    #[schema(format = DateTime)]
    pub reserved_until: String,
}

/// Formats milliseconds since 1970 as RFC 3339.
pub(crate) fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |at| at.to_string())
}

#[cfg(test)]
#[path = "order/tests.rs"]
mod tests;

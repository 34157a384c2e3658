//! The tables and statements, in SQL that SQLite and Postgres both understand.
//!
//! SQLite numbers `$1`, `$2` … by their first occurrence, so in each statement they first occur in that order.

/// The second barrier: constraints refuse a negative stock, and units that appear or vanish.
pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS checkout_products (
    id TEXT PRIMARY KEY,
    shop TEXT NOT NULL,
    name TEXT NOT NULL,
    price BIGINT NOT NULL CHECK (price >= 0),
    stock BIGINT NOT NULL CHECK (stock >= 0),
    reserved BIGINT NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    sold BIGINT NOT NULL DEFAULT 0 CHECK (sold >= 0),
    put_in BIGINT NOT NULL,
    version BIGINT NOT NULL DEFAULT 0,
    CHECK (stock + reserved + sold = put_in)
);
CREATE TABLE IF NOT EXISTS checkout_orders (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('pending', 'confirmed', 'cancelled', 'expired')),
    document TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS checkout_orders_open ON checkout_orders (expires_ms) WHERE status = 'pending';
CREATE TABLE IF NOT EXISTS checkout_reservations (
    order_id TEXT NOT NULL REFERENCES checkout_orders (id),
    product_id TEXT NOT NULL REFERENCES checkout_products (id),
    cart TEXT NOT NULL,
    quantity BIGINT NOT NULL CHECK (quantity > 0),
    state TEXT NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'sold', 'returned')),
    reserved_ms BIGINT NOT NULL,
    PRIMARY KEY (order_id, product_id)
);
CREATE INDEX IF NOT EXISTS checkout_reservations_by_product
    ON checkout_reservations (product_id, state, quantity);
CREATE TABLE IF NOT EXISTS checkout_keys (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    order_id TEXT NOT NULL,
    made_ms BIGINT NOT NULL DEFAULT 0
);
";

/// Adds the column that tables of an earlier version lack. Keys of that version count as being as old as their orders.
pub(super) const ADD_KEY_TIME: &str =
    "ALTER TABLE checkout_keys ADD COLUMN made_ms BIGINT NOT NULL DEFAULT 0";

/// Created last, so if it exists, all tables exist.
pub(super) const KEYS_BY_TIME: &str =
    "CREATE INDEX IF NOT EXISTS checkout_keys_by_time ON checkout_keys (made_ms)";

pub(super) const ADD_PRODUCT: &str = "\
INSERT INTO checkout_products (id, shop, name, price, stock, put_in) VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (id) DO NOTHING";

pub(super) const PRODUCT: &str = "\
SELECT id, shop, name, price, stock, reserved, sold, put_in, version FROM checkout_products WHERE id = $1";

pub(super) const PRODUCTS: &str = "\
SELECT id, shop, name, price, stock, reserved, sold, put_in, version FROM checkout_products
WHERE id > $1 ORDER BY id LIMIT $2";

/// Changes one row if the units were reserved, and none if too few are left.
pub(super) const RESERVE: &str = "\
UPDATE checkout_products SET stock = stock - $1, reserved = reserved + $1, version = version + 1
WHERE id = $2 AND stock >= $1";

/// Changes one row if the units were reserved, and none if the product has changed since this version was read.
pub(super) const RESERVE_VERSION: &str = "\
UPDATE checkout_products SET stock = stock - $1, reserved = reserved + $1, version = version + 1
WHERE id = $2 AND stock >= $1 AND version = $3";

pub(super) const ADD_ORDER: &str = "\
INSERT INTO checkout_orders (id, status, document, created_ms, expires_ms) VALUES ($1, 'pending', $2, $3, $4)";

pub(super) const ADD_RESERVATION: &str = "\
INSERT INTO checkout_reservations (order_id, product_id, cart, quantity, reserved_ms) VALUES ($1, $2, $3, $4, $5)";

/// Changes one row if the key now belongs to this order, and none if it belongs to another.
pub(super) const ADD_KEY: &str = "\
INSERT INTO checkout_keys (key, fingerprint, order_id, made_ms) VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO NOTHING";

/// Deletes keys that are old enough and whose order has ended.
pub(super) const FORGET_KEYS: &str = "\
DELETE FROM checkout_keys WHERE key IN (
    SELECT k.key FROM checkout_keys k JOIN checkout_orders o ON o.id = k.order_id
    WHERE k.made_ms <= $1 AND o.created_ms <= $1 AND o.status <> 'pending'
    ORDER BY k.made_ms LIMIT $2)";

pub(super) const BY_KEY: &str = "\
SELECT o.id, o.status, o.document, o.created_ms, o.expires_ms, k.fingerprint
FROM checkout_keys k JOIN checkout_orders o ON o.id = k.order_id WHERE k.key = $1";

pub(super) const ORDER: &str =
    "SELECT id, status, document, created_ms, expires_ms FROM checkout_orders WHERE id = $1";

/// Changes one row if this statement ended the order.
pub(super) const SETTLE: &str = "\
UPDATE checkout_orders SET status = $1 WHERE id = $2 AND status = 'pending'";

/// Ends an order only if it is past its time.
pub(super) const SETTLE_OVERDUE: &str = "\
UPDATE checkout_orders SET status = $1 WHERE id = $2 AND status = 'pending' AND expires_ms <= $3";

pub(super) const LINES: &str = "\
SELECT product_id, quantity FROM checkout_reservations WHERE order_id = $1 AND state = 'held' ORDER BY product_id";

pub(super) const SELL: &str = "\
UPDATE checkout_products SET reserved = reserved - $1, sold = sold + $1, version = version + 1 WHERE id = $2";

pub(super) const RETURN: &str = "\
UPDATE checkout_products SET reserved = reserved - $1, stock = stock + $1, version = version + 1 WHERE id = $2";

pub(super) const CLOSE_RESERVATIONS: &str =
    "UPDATE checkout_reservations SET state = $1 WHERE order_id = $2 AND state = 'held'";

pub(super) const OVERDUE: &str = "\
SELECT id FROM checkout_orders WHERE status = 'pending' AND expires_ms <= $1 ORDER BY expires_ms LIMIT $2";

pub(super) const BALANCES: &str = "\
SELECT p.id, p.put_in, p.stock, p.reserved, p.sold,
    CAST(COALESCE(SUM(CASE WHEN r.state = 'held' THEN r.quantity END), 0) AS BIGINT),
    CAST(COALESCE(SUM(CASE WHEN r.state = 'sold' THEN r.quantity END), 0) AS BIGINT)
FROM checkout_products p LEFT JOIN checkout_reservations r ON r.product_id = p.id
GROUP BY p.id, p.put_in, p.stock, p.reserved, p.sold ORDER BY p.id";

pub(super) const COUNTS: &str = "\
SELECT (SELECT COUNT(*) FROM checkout_products),
    (SELECT COUNT(*) FROM checkout_orders WHERE status = 'pending')";

//! The names of the locks, which are also the names of their gates in the database.

use crate::id::Id;

/// The lock of the sweeper.
pub(crate) const SWEEP: &str = "checkout:sweep";

/// The prefix of the names of product locks.
pub(crate) const PRODUCT_LOCK: &str = "lock:product:";

/// Returns the pattern that matches the locks of products and nothing else.
pub(crate) fn all_product_locks() -> String {
    format!("{PRODUCT_LOCK}*")
}

/// Returns the name of the lock of a product.
pub(crate) fn lock_name(product: &Id) -> String {
    format!("{PRODUCT_LOCK}{product}")
}

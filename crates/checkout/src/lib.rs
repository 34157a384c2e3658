//! A checkout service that never oversells, built on the library's locks.
//!
//! ```text
//! HTTP ─ layers ─ checkout ─ locks (breaker, line) ─ Locker
//!                     └─ storage (one transaction: fences, conditional update, order)
//! ```
//!
//! The layers, from the outside in: request id and log, panics, shedding, access, deadline, limit of the body.
//!
//! An order takes the locks of all its products in sorted order and reserves the units in one database transaction, which first checks the
//! fences of the locks. It commits before it releases the locks. Constraints of the database also refuse a negative stock, or units that
//! appear or vanish.
//!
//! Tests: `tests/storage` for both databases; the service as a whole, over HTTP, in `crates/cli/tests/serve`.

mod audit;
pub mod breaker;
pub mod checkout;
pub mod events;
pub mod http;
pub mod id;
pub mod json;
pub mod live;
pub mod locks;
pub mod logging;
pub mod order;
mod page;
pub mod product;
pub mod server;
pub mod service;
pub mod storage;
mod sweep;
pub mod telemetry;
mod text;

//! A checkout that never oversells: the library's locks in the shape its users have.
//!
//! ```text
//! HTTP ─ layers (id, deadline, shedding, access) ─ checkout ─ locks (breaker, line) ─ Locker
//!                                                     └─ storage (one transaction: fences, conditional update, order)
//! ```
//!
//! An order takes the locks of all its products, sorted, and reserves them in one database transaction that begins with the locks'
//! fences; it commits before it unlocks. The database itself refuses a negative stock, and units that come from nowhere.

pub mod board;
pub mod breaker;
pub mod checkout;
pub mod events;
pub mod http;
pub mod id;
pub mod live;
mod lock_view;
pub mod locking;
pub mod logging;
pub mod number;
mod object;
pub mod order;
mod page;
pub mod product;
pub mod server;
pub mod service;
pub mod storage;
pub mod sweep;
pub mod telemetry;
pub mod text;

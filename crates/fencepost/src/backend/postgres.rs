//! Locks in Postgres (14 or later): advisory locks of a session.

pub(crate) mod connect;
pub(crate) mod failure;
#[cfg(feature = "postgres-tls")]
mod tls;

//! Exhibits: ways of buying that are broken on purpose. Each file says what is wrong and where it occurs in practice.

pub mod blind_delete;
pub mod decrement;
pub mod early_unlock;
pub mod get_then_delete;
pub mod late_expiry;
pub mod late_watch;
pub mod mutex;
pub mod naive;
pub mod none;
pub mod reentrant;

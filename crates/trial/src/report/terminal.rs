//! Reports on the terminal.

pub mod check;
pub mod grounds;
pub mod holds;
pub mod matrix;
pub mod retry;
pub mod sale;
pub mod table;

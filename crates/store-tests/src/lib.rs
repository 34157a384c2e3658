//! What the tests of all stores share.
//!
//! The tests themselves are in `tests/`, a folder for each store. They are not in the library's own package, because they need the rig:
//! private servers, child processes, networks that fail.

pub mod database;

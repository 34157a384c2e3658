//! The in-process store.

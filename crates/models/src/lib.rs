//! Models of the store protocols: what the servers store, what the clients know, and every move that either can make.
//!
//! Each model is a test target in `tests/`; this library is empty. The tests search every reachable state for one that breaks a
//! promise. They form a separate package because they are compute-intensive: the workspace compiles this package, and no other,
//! with optimisation.

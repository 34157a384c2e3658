//! The protocols of the stores as models: what the servers hold, what the clients know, and every move that either can make.
//!
//! A model is a test target in `tests/`, and this library is empty. The tests search every state that can be reached, for one that breaks a
//! promise. They are a package of their own because they compute a lot: the workspace has it compiled with optimisation, and nothing
//! else.

//! Kinds of lock beside the mutex: each is a few rules on top of a [`Locker`](crate::Locker).
//!
//! | kind | at most one … | module |
//! |---|---|---|
//! | election | leader at a time, with a value that everybody can see | [`election`] |

pub mod election;

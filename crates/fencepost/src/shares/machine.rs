//! The rules of semaphores and read-write locks, as a state machine without tasks, store or clock.
//!
//! A [`Roster`] is what the record of one name contains: a capacity, the shares that are held, and a line. A client reads the record, lets
//! the roster [`settle`](Roster::settle) until the time of the store, asks it for something, and replaces the record if that has changed it.
//! The rules:
//!
//! - Nobody gets a share unless there is room for it beside everything that is held. A writer is alone; permits are numbered, and a holder
//!   gets the lowest free numbers.
//! - The line is in order of arrival, and nobody overtakes a waiter for whom there is no room yet. So neither readers nor writers starve,
//!   and whoever wants many permits gets its turn.
//! - When there is room for a waiter, it is *called*: for the length of the turn window, nobody else gets what it waits for. If it does not
//!   come, it is passed over, because it may be dead. It keeps its ticket, so that it gets its old place if it comes back.
//! - The epoch of a share is larger than all before it, and at least the floor that the store names.
//! - A lease that is over is over: nothing revives it, and a renewal never shortens one.
//! - A lower number of permits takes nothing away. Numbers beyond it are not granted again.

mod requests;
mod roster;
mod slots;
mod text;
mod turns;

pub use requests::{Asking, Claimed, Impossible};
pub use roster::{Capacity, Need, Place, Roster, Share, Waiting};
pub use slots::Slots;
pub use text::Unreadable;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

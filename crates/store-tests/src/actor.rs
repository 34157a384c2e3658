//! A child process with a locker of its own, which does what a test says.
//!
//! It is the program of the test itself: [`Part::start`] starts it once more, with its part in the environment. It says what happens
//! in one line of JSON each ([`Report`]).

mod child;
mod part;
mod report;

pub use child::{kill, stop, wake, writes_too_late};
pub use part::{NoVerb, Opener, Order, Part, Task, Wrote, say, until_told};
pub use report::{Report, Served, hear, report, served};

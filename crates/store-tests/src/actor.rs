//! Child processes with their own locker, which do what a test tells them to.
//!
//! A child runs the test program itself: [`Part::start`] starts it again, with its part in the environment. The child reports
//! what happens as one line of JSON per event ([`Report`]).

mod child;
mod part;
mod report;

pub use child::{kill, stop, wake, writes_too_late};
pub use part::{Instruction, NoVerb, Opener, Part, Task, Wrote, say, until_told};
pub use report::{Report, Served, hear, report, served};

//! Hand-over of a lock between the tasks of one process, against `tokio::sync::Mutex`; and a crowd of waiters.
//!
//! Both are used in the same way: the mutex guards nothing, a counter beside it is incremented under it. What ours does
//! in addition (a fence, a validity, a lease that others respect) is the reason for the difference.

mod allocation;
mod convoy;
mod crowd;
mod lock;
#[path = "../measure/mod.rs"]
mod measure;

use measure::Effort;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

fn main() {
    let effort = Effort::from_arguments();
    print!("{}", convoy::compare(effort));
    print!("{}", crowd::weigh(effort));
    print!("{}", crowd::serve_and_leave(effort));
}

//! Hand-over of a lock between the tasks of one process, compared with `tokio::sync::Mutex`, and a crowd of waiters.
//!
//! Both are used in the same way: the mutex protects nothing, and the holder increments a separate counter. The difference pays for
//! what our lock does in addition: a fence, a validity, and a lease that others respect.

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

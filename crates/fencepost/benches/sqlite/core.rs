//! Pins the benchmark to one processor core.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps this thread, and every thread that it starts from now on, on one core: the last one that it may use.
pub(crate) fn stay_on_one() {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread).expect("Linux tells the cores of a thread");
    let last = (0..CpuSet::count())
        .rev()
        .find(|core| allowed.is_set(*core).unwrap_or(false))
        .expect("a thread has a core");
    let mut one = CpuSet::new();
    one.set(last).expect("a number that Linux gave");
    sched_setaffinity(this_thread, &one).expect("a core that is allowed");
}

//! What a test does to a child.

use fencepost_rig::{Child, Feed, Signal};

use super::part::Order;
use super::report::{Report, report};
use crate::LONG;

/// Kills it, and returns when it is no more. It may have ended by itself.
pub fn kill(child: &mut Child) {
    let _ = child.signal(Signal::SIGKILL);
    child.wait(LONG).expect("SIGKILL ends every process");
}

/// Stops it, and returns when it stands still.
pub fn stop(child: &Child) {
    child.signal(Signal::SIGSTOP).expect("a living child");
    assert!(child.wait_stopped(LONG), "SIGSTOP stops every process");
}

/// Lets a stopped one go on.
pub fn wake(child: &Child) {
    child.signal(Signal::SIGCONT).expect("a living child");
}

/// Wakes a holder that was stopped for too long, and has it write at once: the resource refuses, and the holder knows why.
pub fn writes_too_late(child: &mut Child, feed: &Feed) {
    child.send(&Order::Write).expect("a living child");
    wake(child);
    assert_eq!(report(feed), Report::Refused);
    assert_eq!(report(feed), Report::Lost);
}

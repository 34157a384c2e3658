//! Signals that a test sends to a child: kill, stop and continue.

use fencepost_rig::{Child, Feed, Signal};

use super::part::Instruction;
use super::report::{Report, report};
use crate::LONG;

/// Kills the child and waits until it is gone. It may already have exited.
pub fn kill(child: &mut Child) {
    let _ = child.signal(Signal::SIGKILL);
    child.wait(LONG).expect("SIGKILL ends every process");
}

/// Stops the child and waits until it is stopped.
pub fn stop(child: &Child) {
    child.signal(Signal::SIGSTOP).expect("a living child");
    assert!(child.wait_stopped(LONG), "SIGSTOP stops every process");
}

/// Continues a stopped child.
pub fn wake(child: &Child) {
    child.signal(Signal::SIGCONT).expect("a living child");
}

/// Continues a holder that was stopped for too long, and makes it write at once. The resource refuses the write, and the holder
/// knows why.
pub fn writes_too_late(child: &mut Child, feed: &Feed) {
    child.send(&Instruction::Write).expect("a living child");
    wake(child);
    assert_eq!(report(feed), Report::Refused);
    assert_eq!(report(feed), Report::Lost);
}

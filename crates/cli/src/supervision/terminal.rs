//! Gives the controlling terminal to the command and takes it back.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, raise, sigprocmask};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Returns whether the command may have the terminal: this program is in the foreground and does not share it with others through a pipe.
pub(crate) fn is_ours_alone() -> bool {
    let all_there =
        io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    all_there && is_ours()
}

/// Returns whether this program's group is the foreground group of the terminal.
pub(super) fn is_ours() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Makes a group the foreground group, so that it can read the terminal and receives Ctrl-C. If this process is in the background, SIGTTOU
/// must be blocked.
pub(super) fn give_to(group: Pid) {
    // Fails only if the terminal was closed in the meantime.
    let _ = tcsetpgrp(io::stdin(), group);
}

/// Takes the terminal back from the command.
pub(super) fn take_back() {
    let mut touching = SigSet::empty();
    touching.add(Signal::SIGTTOU);
    let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&touching), None);
    give_to(getpgrp());
}

/// Pauses the whole job, as Ctrl-Z does with a foreground job; returns when it is continued.
pub(super) fn pause_job() {
    let _ = killpg(getpgrp(), Signal::SIGSTOP);
}

/// Pauses this process; returns when it is continued.
pub(super) fn pause_self() {
    let _ = raise(Signal::SIGSTOP);
}

//! The terminal: whose keys and signals it gives to whom.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, raise, sigprocmask};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Whether the command may have the terminal: this program has it, and shares it with nobody through a pipe.
pub(super) fn is_ours_alone() -> bool {
    let all_there =
        io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    all_there && is_ours()
}

/// Whether this program's group is the one that the terminal listens to.
pub(super) fn is_ours() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Lets a group read the terminal and get its Ctrl-C. Needs SIGTTOU blocked when it is not ours to give.
pub(super) fn give_to(group: Pid) {
    // Fails when the terminal was closed meanwhile; then nobody has it.
    let _ = tcsetpgrp(io::stdin(), group);
}

/// Takes the terminal back from the command.
pub(super) fn take_back() {
    let mut touching = SigSet::empty();
    touching.add(Signal::SIGTTOU);
    let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&touching), None);
    give_to(getpgrp());
}

/// Pauses the whole job, as Ctrl-Z does to one that has the terminal; returns when it goes on.
pub(super) fn pause_job() {
    let _ = killpg(getpgrp(), Signal::SIGSTOP);
}

/// Pauses this process; returns when it goes on.
pub(super) fn pause_self() {
    let _ = raise(Signal::SIGSTOP);
}

//! What a program finds its signals set to when it starts.
//!
//! A process hands on which signals it ignores and which it blocks: `nohup` relies on that, and so do shells that start something in the
//! background. A test that sends signals must not depend on how the test itself was started.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};

/// Starts the command as a terminal does: it ignores no signal and blocks none, whatever this process was started with.
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only `sigaction` and `sigprocmask` are called, which are async-signal-safe.
    unsafe { command.pre_exec(|| Ok(reset()?)) }
}

fn reset() -> Result<(), Errno> {
    for number in Signal::iterator() {
        if !matches!(number, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: no handler is installed.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_ignores_is_not_handed_on() {
        // SAFETY: no handler is installed. Nothing else in this program cares for the signal.
        unsafe { signal(Signal::SIGUSR2, SigHandler::SigIgn) }.unwrap();
        let ignored = |command: &mut Command| {
            let output = command.arg("SigIgn").arg("/proc/self/status").output();
            let text = String::from_utf8(output.unwrap().stdout).unwrap();
            let mask = text.split_whitespace().last().unwrap().to_owned();
            u64::from_str_radix(&mask, 16).unwrap() & (1 << (Signal::SIGUSR2 as i32 - 1)) != 0
        };
        assert!(ignored(&mut Command::new("grep")));
        assert!(!ignored(with_default_signals(&mut Command::new("grep"))));
    }
}

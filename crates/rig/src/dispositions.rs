//! Resets the signal dispositions of a child process.
//!
//! A process inherits which signals are ignored and blocked; `nohup` and shells with background jobs rely on that. A test that sends
//! signals must not depend on how the test itself was started.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};

/// Makes the command start as from a terminal: with no signal ignored or blocked, whatever this process inherited.
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
        // SAFETY: no handler is installed, and nothing else in this program uses the signal.
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

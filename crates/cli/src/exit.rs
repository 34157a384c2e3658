//! The exit codes that do not come from a verdict. They follow `sysexits.h` where it has a matching code.

/// The command line is invalid.
pub(crate) const USAGE: u8 = 64;
/// A file is not a history.
pub(crate) const NOT_A_HISTORY: u8 = 65;
/// The store cannot be used.
pub(crate) const STORE: u8 = 69;
/// The lab itself failed, for instance because a process could not be started.
pub(crate) const INTERNAL: u8 = 70;
/// The system refused something, for instance a port, or a trial lacks what it needs: a C compiler, or the right to make a PID namespace.
pub(crate) const SYSTEM: u8 = 71;
/// An output file cannot be opened.
pub(crate) const CANNOT_CREATE: u8 = 73;
/// Writing the output failed.
pub(crate) const WRITE_FAILED: u8 = 74;
/// Another process holds the lock.
pub(crate) const BUSY: u8 = 75;
/// The program on trial does not speak the protocol.
pub(crate) const SUBJECT: u8 = 76;
/// The lock did not become free within the waiting time.
pub(crate) const TIMED_OUT: u8 = 124;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 125;
/// The command cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist.
pub(crate) const NOT_FOUND: u8 = 127;

/// Returns the exit code of a program that a signal stopped: 130 for Ctrl-C.
pub(crate) fn interrupted(signal: fencepost_rig::Signal) -> u8 {
    128 + signal as u8
}

/// The legend of exit codes in the help text.
pub(crate) const LEGEND: &str =
    "  0 HELD   1 BROKEN   2 INCONCLUSIVE   3 STUCK      run-all, --all: 0 as expected, 1 not
  64 usage   65 not a history   69 store unreachable   70 lab failed   71 system (cc, port)
  73, 74 output   76 the lock on trial does not speak the protocol   130 interrupted
  exec, elect, once, locks, doctor and serve have codes of their own: see their --help
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_names_both_uses_of_the_code_for_the_system() {
        let system = format!("{SYSTEM} system (cc, port)");
        assert!(LEGEND.contains(&system), "{LEGEND}");
    }
}

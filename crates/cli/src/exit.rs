//! Exit codes beside those of a verdict; the numbers of `sysexits.h` where it has one.

/// The command line makes no sense.
pub(crate) const USAGE: u8 = 64;
/// A file is not a history.
pub(crate) const NOT_A_HISTORY: u8 = 65;
/// The store cannot be used.
pub(crate) const STORE: u8 = 69;
/// The lab itself failed: a process could not be started, or did not get ready.
pub(crate) const INTERNAL: u8 = 70;
/// The system refuses, say, a port.
pub(crate) const SYSTEM: u8 = 71;
/// A file for the results cannot be opened.
pub(crate) const CANNOT_CREATE: u8 = 73;
/// Somebody else holds the lock.
pub(crate) const BUSY: u8 = 75;
/// The lock was not free within the time to wait for it.
pub(crate) const TIMED_OUT: u8 = 124;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 125;
/// A command that cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// A command that is not there.
pub(crate) const NOT_FOUND: u8 = 127;
/// Writing failed midway.
pub(crate) const WRITE_FAILED: u8 = 74;

/// Stopped by a signal: 130 for Ctrl-C.
pub(crate) fn interrupted(signal: fencepost_rig::Signal) -> u8 {
    128 + signal as u8
}

/// Every code and its meaning, for help: one line each.
pub(crate) const LEGEND: &str =
    "  0 HELD   1 BROKEN   2 INCONCLUSIVE   3 STUCK      run-all, --all: 0 as expected, 1 not
  64 usage   65 not a history   69 store unreachable   70 the lab failed   73, 74 output
  130 interrupted      exec, locks, doctor, serve: own help
";

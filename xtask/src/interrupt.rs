//! Handles Ctrl-C and SIGTERM: ends the running command, and then this program.
//!
//! Each command runs in its own process group, so that one signal also reaches the tests that cargo started.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The exit code that shells expect of a program that was ended by Ctrl-C.
pub(crate) const EXIT_CODE: u8 = 130;

/// How long the command may take to end. Longer than nextest gives its tests (10 s); if nextest were killed earlier, it would leave them behind.
const GRACE: Duration = Duration::from_secs(15);

const NO_GROUP: i32 = 0;
static GROUP: AtomicI32 = AtomicI32::new(NO_GROUP);
static HAPPENED: AtomicBool = AtomicBool::new(false);
static HAS_TO_TIDY_UP: AtomicBool = AtomicBool::new(false);

/// Whether a signal asked this program to stop.
pub(crate) fn happened() -> bool {
    HAPPENED.load(Ordering::SeqCst)
}

/// Watches for SIGINT, SIGTERM and SIGHUP from now on.
pub(crate) fn watch() -> Result<()> {
    ctrlc::set_handler(on_signal).context("the handler for Ctrl-C")
}

fn on_signal() {
    let first = !HAPPENED.swap(true, Ordering::SeqCst);
    let nothing_runs = GROUP.load(Ordering::SeqCst) == NO_GROUP;
    if nothing_runs && !HAS_TO_TIDY_UP.load(Ordering::SeqCst) {
        std::process::exit(EXIT_CODE.into());
    }
    signal_group(Signal::SIGTERM);
    if first {
        thread::spawn(|| {
            thread::sleep(GRACE);
            signal_group(Signal::SIGKILL);
            std::process::exit(EXIT_CODE.into());
        });
    }
}

fn signal_group(signal: Signal) {
    let group = GROUP.load(Ordering::SeqCst);
    if group != NO_GROUP {
        // Fails only if the group is gone already.
        let _ = killpg(Pid::from_raw(group), signal);
    }
}

/// While this value lives, an interruption does not end the program at once, so that every `Drop` runs. Long work must check [`happened`].
pub(crate) struct TidyUp(());

impl TidyUp {
    pub(crate) fn afterwards() -> Self {
        HAS_TO_TIDY_UP.store(true, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for TidyUp {
    fn drop(&mut self) {
        HAS_TO_TIDY_UP.store(false, Ordering::SeqCst);
    }
}

/// A child process that dies with this program. After an interruption, the rest of its group is killed when it ends.
pub(crate) struct Interruptible {
    pub(crate) child: Child,
}

impl Interruptible {
    /// Starts `command` in its own process group.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        GROUP.store(i32::try_from(child.id())?, Ordering::SeqCst);
        if happened() {
            // The signal arrived before the group was known.
            signal_group(Signal::SIGTERM);
        }
        Ok(Self { child })
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        if happened() {
            signal_group(Signal::SIGKILL);
        }
        GROUP.store(NO_GROUP, Ordering::SeqCst);
    }
}
